"""The largest expected improvement over a search space."""

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from kem_pymc.lifelong.maximise import _best, maximise
from kem_pymc.lifelong.space import Space


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
    row = maximise(Bowl(), SPACE, rows, rows, rng)
    point = SPACE.decode(row)
    assert (point["n"], point["c"]) == (0, "b")
    assert point["x"] == pytest.approx(0.3141, abs=1e-3)
    rows = np.vstack([rows, row])
    again = maximise(Bowl(), SPACE, rows, rows, rng)
    assert not np.array_equal(row, again)


def test_a_space_that_is_exhausted():
    own = Space({"c": CategoricalDistribution(["a", "b"]), "n": IntDistribution(0, 1)})
    rows = own.encode([{"c": c, "n": n} for c in "ab" for n in (0, 1)])

    class Flat:
        def predict(self, rows):
            return np.zeros(len(rows)), np.ones(len(rows))

    rng = np.random.default_rng(0)
    found = maximise(Flat(), own, rows[:3], rows[:3], rng)
    np.testing.assert_array_equal(found, rows[3])
    assert maximise(Flat(), own, rows, rows, rng) is None
    assert maximise(Flat(), own, rows, rows[:0], rng) is not None


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
    found = maximise(Agreement(best), own, rows, rows, rng)
    np.testing.assert_array_equal(found, best)
    tried = np.concatenate([rows[:2], rows, rows])
    assert _best(tried, np.arange(12.0)[::-1]) == [0, 1, 4, 5, 6]  # different ones
