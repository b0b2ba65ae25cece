"""Transforms against closed forms: round trips, densities, quantiles and moments."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm, norm, yeojohnson

from kem_pymc.data.transforms import NAMES, Transform, advice
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture

POSITIVE = np.array([0.2, 0.5, 1.0, 3.0, 4.0, 40.0])
SIGNED = np.append(POSITIVE, [0.0, -0.3, -5.0])


def learned(name):
    return Transform.learn(name, SIGNED if name == "yeo-johnson" else POSITIVE)


@pytest.mark.parametrize("name", NAMES)
def test_values_come_back_and_slopes_are_derivatives(name):
    transform = learned(name)
    y = SIGNED if name == "yeo-johnson" else POSITIVE
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-10, atol=1e-12)
    y, step = y[y != 0], 1e-6
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_slope(y), np.log(slope), atol=1e-6)


def test_lambda_is_scipys():
    transform = learned("yeo-johnson")
    expected, best = yeojohnson(SIGNED)
    assert transform.parameter == pytest.approx(best, abs=1e-4)
    np.testing.assert_allclose(transform.forward(SIGNED), expected, rtol=1e-3, atol=1e-4)


def test_a_root_of_zeros_is_a_started_one():
    transform = Transform.learn("sqrt", [0.0, 3.0, 8.0])
    assert transform.parameter == 1.5
    assert np.isfinite(transform.log_slope(np.zeros(1))).all()
    assert transform.inverse(np.array([-2.0])) == pytest.approx(-1.5)


def test_of_a_logarithm_all_is_lognormal():
    mean, sd = np.array([0.3, 1.0]), np.array([0.5, 0.2])
    found = Mixture(np.ones(1), mean[None], sd[None], Transform("log"))
    expected = lognorm(sd, scale=np.exp(mean))
    y = np.array([1.2, 2.5])
    np.testing.assert_allclose(found.log_density(y), expected.logpdf(y), atol=1e-10)
    np.testing.assert_allclose(found.cdf(y), expected.cdf(y), atol=1e-10)
    np.testing.assert_allclose(found.quantile(0.9), expected.ppf(0.9), rtol=1e-9)
    np.testing.assert_allclose(found.moments(), (expected.mean(), expected.std()), rtol=1e-8)
    t = np.linspace(0, 60, 400_001)[:, None]
    score = np.trapezoid((expected.cdf(t) - (y <= t)) ** 2, t[:, 0], axis=0)
    np.testing.assert_allclose(found.crps(y), score, rtol=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_densities_integrate_to_one(name):
    transform = learned(name)
    centre = transform.forward(np.array([2.0]))
    means = np.array([centre, centre + 0.2])
    found = Mixture(np.array([0.3, 0.7]), means, np.full((2, 1), 0.15), transform)
    low, high = found.quantile(1e-9)[0], found.quantile(1 - 1e-9)[0]
    total, _ = quad(lambda y: np.exp(found.log_density(np.array([y])))[0], low, high, limit=200)
    assert total == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "targets", "message"),
    [
        ("log", [0.0, 2.0], "above 0"),
        ("log1p", [-1.0, 2.0], "above -1"),
        ("sqrt", [-0.1, 2.0], "at least 0"),
        ("cube", [1.0, 2.0], "no transform 'cube'"),
    ],
)
def test_what_has_no_value_is_refused(name, targets, message):
    with pytest.raises(InputError, match=message):
        Transform.learn(name, targets).forward(targets)


def test_targets_that_a_transform_may_help_are_named():
    rng = np.random.default_rng(0)
    assert advice(norm.rvs(size=200, random_state=rng)) is None
    assert "log or sqrt" in advice(lognorm.rvs(1.2, size=200, random_state=rng))
    assert "yeo-johnson" in advice(-lognorm.rvs(1.2, size=200, random_state=rng))
