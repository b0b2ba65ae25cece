"""Empirical GPs and unstructured models of visits, by closed forms."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from experiments.lifelong.empirical import PSEUDO, EmpiricalProcess, curve_moments
from experiments.peers.curves import WEIGHTS, Visits, empirical_gp, unstructured
from experiments.peers.forecast import Pilots
from experiments.peers.joint import JointSelector
from kem_pymc.errors import InputError
from kem_pymc.lifelong.matern import JITTER, Kernel
from tests.experiments.peers.conftest import users_at


def test_complete_curves_have_the_moments_of_their_values():
    rng = np.random.default_rng(1)
    values, prior = rng.normal(size=(9, 4)), np.diag([1.0, 2.0, 3.0, 4.0])
    places = [np.arange(4)] * 9
    mean, covariance, noise = curve_moments(places, list(values), 0.0, prior, 3.0)
    np.testing.assert_allclose(mean, values.mean(axis=0), atol=1e-10)
    expected = (9 * np.cov(values.T, bias=True) + 3 * prior) / 12
    np.testing.assert_allclose(covariance, expected, atol=1e-10)
    assert noise == 0.0


def test_an_empirical_gp_of_one_point_in_closed_form():
    """Curves that were all seen at one point: there and elsewhere, by the kernel's regression."""
    base = Kernel(np.array([0.5]), 2.0, 0.0)
    values = np.array([1.0, 2.0, 4.0])
    process = EmpiricalProcess.learn([(np.array([[0.3]]), values[[k]]) for k in range(3)], base)
    height = (3 * values.var() + PSEUDO * (2.0 + JITTER)) / (3 + PSEUDO)
    x = np.array([[0.3], [0.8]])
    share = base.covariance(x, np.array([[0.3]]))[:, 0] / (2.0 + JITTER)
    np.testing.assert_allclose(process.mean(x), share * values.mean(), atol=1e-10)
    expected = base.covariance(x, x) + (height - 2.0 - JITTER) * np.outer(share, share)
    np.testing.assert_allclose(process.covariance(x, x), expected, atol=1e-10)


def test_noise_of_curves_is_found():
    """Of a level for each function: the variance within them."""
    rng = np.random.default_rng(2)
    levels = rng.normal(size=(400, 1))
    values = levels + rng.normal(0, 0.5, (400, 6))
    places = [np.zeros(6, dtype=int)] * 400
    _, covariance, noise = curve_moments(
        places, list(values), 1.0, np.ones((1, 1)), 1e-9, noisy=True
    )
    assert noise == pytest.approx(values.var(axis=1, ddof=1).mean(), rel=1e-3)
    assert covariance[0, 0] == pytest.approx(values.mean(axis=1).var() - noise / 6, rel=1e-3)


def test_unstructured_predictions_are_conditional_normal_ones(pilots, cohort):
    """Of the next two visits given three, against SciPy's densities with the chosen weight."""
    visits = Visits.of(pilots)
    prior = visits.level_and_slope()
    weight = WEIGHTS[int(np.argmax(visits.score(WEIGHTS)))]
    y = np.array([y for _, y in pilots.by_user()])
    covariance = (np.cov(y.T, bias=True) + weight * prior) / (1 + weight) * (1 + 1 / len(y))
    mean = y.mean(axis=0)
    own = pilots.scaling.targets(cohort.targets[0] + 1.0)
    forecast = JointSelector(unstructured(pilots, 0), pilots.scaling).select(
        cohort.inputs[0][:3], cohort.targets[0][:3] + 1.0
    )
    first = multivariate_normal(mean[:3], covariance[:3, :3]).logpdf(own[:3])
    found = forecast.log_predictive_density(cohort.inputs[0][3:5], cohort.targets[0][3:5] + 1.0)
    for place, density in zip((3, 4), found, strict=True):
        rows = [0, 1, 2, place]
        whole = multivariate_normal(mean[rows], covariance[np.ix_(rows, rows)]).logpdf(own[rows])
        expected = whole - first - np.log(pilots.scaling.target_sd)
        assert density == pytest.approx(expected, abs=1e-6)


def test_level_and_slope_have_the_largest_likelihood():
    """Against the parameters that users were drawn with, in scaled units, of many users."""
    drawn = Pilots.of(users_at(range(5), 100, np.random.default_rng(3)))
    found = Visits.of(drawn).level_and_slope()
    t, unit = np.arange(5.0), drawn.scaling.target_sd
    truth = (4 + 0.25 * np.outer(t, t) + 0.25 * np.eye(5)) / unit**2
    np.testing.assert_allclose(found, truth, rtol=0.35)


def test_lines_are_shrunk_towards_lines():
    """Users who are lines take a large weight; those with a covariance of their own a small one."""
    rng = np.random.default_rng(4)
    lines = Visits.of(Pilots.of(users_at(range(8), 10, rng)))
    assert WEIGHTS[int(np.argmax(lines.score(WEIGHTS)))] >= 1.0
    root = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0.95, 0, 0.3, 0], [0, 0.95, 0, 0.3]])
    values = [root @ rng.normal(size=4) for _ in range(20)]
    crossed = Visits(np.linspace(0, 1, 4), [np.arange(4)] * 20, values)
    assert WEIGHTS[int(np.argmax(crossed.score(WEIGHTS)))] <= 0.1


def test_missing_visits_are_allowed_and_other_times_are_not():
    rng = np.random.default_rng(5)
    some = Pilots.of(users_at(range(6), 12, rng, missing=0.2))
    joint = unstructured(some, 0)(some.x[:6])
    assert np.linalg.eigvalsh(joint.covariance)[0] > 0
    apart = some._replace(x=rng.random(some.x.shape))
    with pytest.raises(InputError, match="fixed visits"):
        unstructured(apart, 0)


def test_an_empirical_gp_of_users_predicts_their_lines(pilots, cohort):
    forecast = JointSelector(empirical_gp(pilots, 0), pilots.scaling).select(
        cohort.inputs[0][:5], cohort.targets[0][:5]
    )
    prediction = forecast.predict(cohort.inputs[0][5:], include_noise=True)
    assert abs(prediction.mean - cohort.targets[0][5:]) < 4 * prediction.sd
    assert prediction.sd < 0.5 * pilots.scaling.target_sd
