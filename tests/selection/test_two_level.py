"""Selectors that predict with a two-level model, beside dense algebra on all users' rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kem_pymc as kem
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.population import PopulationPosterior
from kem_pymc.selection.two_level import TwoLevelSelector
from tests.gp.problems import composition_covariance

#: Sds of level, line, curve and noise, the curve's lengthscale and the correlation of level and
#: line, in units of the targets' sd and half of the days' range.
LEVEL, LINE, CURVE, NOISE, SCALE, CORRELATION = 0.8, 0.3, 0.5, 0.25, 0.9, -0.5


@pytest.fixture(scope="module")
def cohort():
    """Five users with two features, of which only the day is changing smoothly."""
    rng = np.random.default_rng(4)
    inputs = [
        np.column_stack([rng.uniform(0, 10, n), rng.uniform(0, 3, n)]) for n in (7, 5, 9, 6, 8)
    ]
    targets = [20 + 2 * rng.normal() + np.sin(x[:, 0]) + rng.normal(size=len(x)) for x in inputs]
    ends = tuple(np.array([len(x)]) for x in inputs)
    return Cohort(tuple("abcde"), tuple(inputs), tuple(targets), ends, ("day", "dose"), time="day")


@pytest.fixture(scope="module", params=[False, True], ids=["lines", "curves"])
def given(request, cohort):
    """A posterior of a single draw, with and without smooth functions of each user's own."""
    personal = ["level", "day"] + ["s(day)"] * request.param
    model = kem.PopulationModel(cohort, ["day", "dose"], personal)
    draws = {
        "personal level.sd": LEVEL,
        "personal day.sd": LINE,
        "personal day.correlation": CORRELATION,
        "noise.sd": NOISE,
    }
    if request.param:
        draws |= {"personal s(day).sd": CURVE, "personal s(day).lengthscale": SCALE}
    draws = {name: np.array([value]) for name, value in draws.items()}
    return PopulationPosterior(model, draws, np.ones(1), -np.inf, np.nan)


def own(model, one, other, curves):
    """Return covariances of a user's function, by the formulas of random effects."""
    day = [
        (x[:, 0] - model.shared.feature("day").mean) / model.shared.feature("day").sd
        for x in (one, other)
    ]
    total = LEVEL**2 + LINE**2 * np.outer(*day)
    total += CORRELATION * LEVEL * LINE * (day[0][:, None] + day[1])
    if curves:
        days = np.concatenate(model.cohort.inputs)[:, 0]
        apart = (one[:, None, 0] - other[:, 0]) / (SCALE * np.ptp(days) / 2)
        total += CURVE**2 * np.exp(-(apart**2) / 2)
    return total


def test_predictions_are_those_given_all_users_rows(given, cohort):
    """Catches a shared mean that is lost, or certain, and values of the personal kernel.

    Without smooth functions all is exact but for the prior variances of the lines; with them the
    pilot users' own functions are those of twenty basis functions.
    """
    curves = len(given.draws) > 4
    rng = np.random.default_rng(8)
    x, new = (np.column_stack([rng.uniform(1, 9, n), rng.uniform(0, 3, n)]) for n in (5, 6))
    y = 21 + np.sin(x[:, 0]) + rng.normal(size=5)
    model, unit = given.model, given.model.target_sd
    rows = np.concatenate([*cohort.inputs, x])
    user = np.repeat(range(6), [*(len(part) for part in cohort.inputs), 5])
    total = own(model, rows, rows, curves) * (user[:, None] == user) + NOISE**2 * np.eye(len(rows))
    onto = own(model, new, rows, curves) * (user == 5)
    lines, at = (np.column_stack([np.ones(len(p)), p]) for p in (rows, new))
    total, onto = total + 1e6 * lines @ lines.T, onto + 1e6 * at @ lines.T
    targets = (np.concatenate([*cohort.targets, y]) - model.target_mean) / unit
    gain = np.linalg.solve(total, onto.T).T
    mean = gain @ targets * unit + model.target_mean
    covariance = own(model, new, new, curves) + 1e6 * at @ at.T - gain @ onto.T
    sd = np.sqrt(np.diag(covariance)) * unit
    selector = TwoLevelSelector(given, Scaling.identity(2))
    selection = selector.select(x, y)
    prediction = selection.predict(new)
    close = 0.02 if curves else 1e-4
    np.testing.assert_allclose(prediction.mean, mean, atol=close * unit)
    np.testing.assert_allclose(prediction.sd, sd, rtol=2 * close)
    assert selection.noise == pytest.approx((NOISE * unit) ** 2)
    assert [row.status for row in selection.considered] == ["fixed"]
    values = selection.hyperparameters
    gram = composition_covariance(selection.composition, values, x, x)
    np.testing.assert_allclose(gram, own(model, x, x, curves) * unit**2, rtol=1e-8)
    gram += selector.shared.covariance(x, x) + selection.noise * np.eye(5)
    law = multivariate_normal(selector.shared.mean(x), gram)
    assert selection.considered[0].log_likelihood == pytest.approx(law.logpdf(y), abs=1e-6)


def test_data_are_scaled_and_predictions_scaled_back(given):
    x, y, new = np.array([[2.0, 1], [5, 2]]), np.array([20.0, 22]), np.array([[7.0, 0.5]])
    scaling = Scaling(np.array([1.0, 0.0]), np.array([8.0, 2.0]), 100.0, 50.0)
    plain = TwoLevelSelector(given, Scaling.identity(2)).select(x, y).predict(new)
    raw = x * [7, 2] + [1, 0], 100 + 50 * y
    other = TwoLevelSelector(given, scaling).select(*raw).predict(new * [7, 2] + [1, 0])
    np.testing.assert_allclose(other.mean, 100 + 50 * plain.mean, rtol=1e-9)
    np.testing.assert_allclose(other.sd, 50 * plain.sd, rtol=1e-7)


@pytest.fixture(scope="module")
def pilot():
    """Users with a common slope of 3 per unit of 10 days and levels of their own, around 200."""
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(0, 10, (10, 1)) for _ in range(12)]
    levels = rng.normal(0, 7, 12)
    targets = [
        200 + level + 3 * x[:, 0] + rng.normal(size=10)
        for level, x in zip(levels, inputs, strict=True)
    ]
    ends = (np.array([10]),) * 12
    return Cohort(tuple(range(12)), tuple(inputs), tuple(targets), ends, ("day",))


@pytest.mark.parametrize(
    ("kind", "shared", "personal"),
    [("linear", "level, day", "CONST + LIN0"), ("pooled", "level, day, s(day)", "WHITE")],
)
def test_what_is_learned_from_pilot_users(pilot, kind, shared, personal):
    """A linear mixed model keeps the user's level, one GP for all rows doesn't."""
    selector = TwoLevelSelector.learn(pilot, kind)
    assert repr(selector) == f"TwoLevelSelector(shared={shared}, personal={personal})"
    prediction = selector.select([1.0, 2.0, 4.0], [223.0, 226.0, 232.0]).predict([9.0])
    expected = 247.0 if kind == "linear" else 227.0
    assert prediction.mean[0] == pytest.approx(expected, abs=5)
    assert (prediction.noise < 4) == (kind == "linear")


def test_noise_of_pilot_users_that_is_known_is_not_learned(pilot):
    """Fails where a scaling or a model doesn't know it, or has it in another unit."""
    known = replace(pilot, noise=tuple(np.full(10, 0.7) for _ in pilot.users))
    learned = [TwoLevelSelector.learn(part, "linear").noise for part in (pilot, known)]
    every, beside = np.concatenate(pilot.targets).var() * np.array(learned)
    assert every - beside == pytest.approx(0.49, abs=0.05)
