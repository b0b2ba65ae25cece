"""Expected improvement, and its largest value."""

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.integrate import quad
from scipy.stats import norm

from kem_pymc.gp.acquisition import (
    _best,
    expected_improvement,
    log_expected_improvement,
    maximise,
)
from kem_pymc.lifelong.space import Space


def test_against_monte_carlo():
    """Catches an improvement on the largest value, and a standard deviation taken as a variance."""
    rng = np.random.default_rng(0)
    mean, sd = np.array([0.3, -0.5, 2.0, 0.0]), np.array([0.7, 0.2, 1.5, 0.05])
    drawn = mean + sd * rng.normal(size=(400_000, 4))
    exact = np.maximum(0.1 - drawn, 0).mean(axis=0)
    np.testing.assert_allclose(expected_improvement(mean, sd, 0.1), exact, rtol=0.02)


@pytest.mark.parametrize("z", [2.0, 0.1, -0.1, -3.0, -10.0, -24.9, -25.1, -60.0])
def test_logarithm_far_from_the_best(z):
    """By quadrature, relative to the density at the best value."""
    exact, _ = quad(lambda u: u * np.exp(z * u - u**2 / 2), 0, np.inf)
    expected = norm.logpdf(z) + np.log(exact)
    found = log_expected_improvement(np.array([-z]), np.array([1.0]), 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4 if z > -25 else 2e-5)


def test_certain_values():
    found = expected_improvement(np.array([-1.0, 1.0]), np.zeros(2), 0.0)
    np.testing.assert_allclose(found, [1.0, 0.0], atol=1e-9)


class Bowl:
    """A known function with a narrow minimum in one category."""

    def predict(self, rows):
        inside = rows[:, 3] > 0.5  # the category "b"
        mean = np.where(inside, 0.0, 0.5) + 40 * (rows[:, 0] - 0.3141) ** 2 + rows[:, 1]
        return mean, np.full(len(rows), 1e-6)


SPACE = Space(
    {
        "x": FloatDistribution(0, 1),
        "n": IntDistribution(0, 4),
        "c": CategoricalDistribution(["a", "b", "c"]),
    }
)


def test_the_largest_improvement_is_found():
    rng = np.random.default_rng(1)
    rows = SPACE.draw(5, rng)
    values, _ = Bowl().predict(rows)
    row = maximise(Bowl(), SPACE, values.min(), rows, values, rng, rows)
    point = SPACE.decode(row)
    assert (point["n"], point["c"]) == (0, "b")
    assert point["x"] == pytest.approx(0.3141, abs=1e-3)
    again = maximise(Bowl(), SPACE, values.min(), rows, values, rng, np.vstack([rows, row]))
    assert not np.array_equal(row, again)


def test_a_space_that_is_exhausted():
    own = Space({"c": CategoricalDistribution(["a", "b"]), "n": IntDistribution(0, 1)})
    rows = own.encode([{"c": c, "n": n} for c in "ab" for n in (0, 1)])

    class Flat:
        def predict(self, rows):
            return np.zeros(len(rows)), np.ones(len(rows))

    rng = np.random.default_rng(0)
    found = maximise(Flat(), own, 0.0, rows[:3], np.arange(3.0), rng, rows[:3])
    np.testing.assert_array_equal(found, rows[3])
    assert maximise(Flat(), own, 0.0, rows, np.arange(4.0), rng, rows) is None


class Agreement:
    """The more a row differs from the best one, the larger the values."""

    def __init__(self, best):
        self.best = best

    def predict(self, rows):
        return (np.abs(rows - self.best) > 0.5).sum(axis=1) / 2, np.full(len(rows), 0.01)


@pytest.mark.parametrize(
    ("dimension", "count"), [(IntDistribution(0, 1), 30), (CategoricalDistribution(range(8)), 5)]
)
def test_where_there_is_no_slope_one_dimension_is_changed_at_a_time(dimension, count):
    """Whole numbers, and more categories than can be combined: the last of 8^5 combinations."""
    names = [f"d{i}" for i in range(count)]
    own = Space(dict.fromkeys(names, dimension))
    last = 1 if isinstance(dimension, IntDistribution) else 7
    best = own.encode([dict.fromkeys(names, last)])[0]
    rng = np.random.default_rng(0)
    rows = own.draw(5, rng)
    values, _ = Agreement(best).predict(rows)
    found = maximise(Agreement(best), own, values.min(), rows, values, rng, rows)
    np.testing.assert_array_equal(found, best)
    tried = np.concatenate([rows[:2], rows, rows])
    assert _best(tried, np.arange(12.0)[::-1]) == [0, 1, 4, 5, 6]  # different ones
