"""Values as models learn from them."""

import numpy as np
import pytest

from kem_pymc.lifelong.tasks import Task, normalised


def test_values_are_not_ruled_by_outliers():
    values = np.array([1e6, 3.0, 1.0, 2.0, 2.5])
    found = normalised(values)
    assert found.mean() == pytest.approx(0, abs=1e-12)
    assert found.std() == pytest.approx(1)
    assert (np.argsort(found) == np.argsort(values)).all()
    assert np.ptp(found[1:]) > 0.5  # were moments those of all values: 1e-5
    penalised = normalised(np.array([*np.arange(0.1, 0.75, 0.1), 1e6, 1e6, 1e6]))
    assert np.ptp(penalised[:7]) > 0.2  # were quartiles those of all values: 1e-6
    for huge in (1e15, 1e30, 1e200, 1e308):
        assert np.ptp(normalised(np.append(np.arange(7.0), huge))[:7]) > 0.2
    np.testing.assert_array_equal(normalised(np.full(4, 2.0)), 0)
    for edge in ([0.0, 1e-320], [5e-324, 0.0, 0.0], [1e308, -1e308], [1.0, 1.0, 1.0 + 1e-15]):
        assert np.isfinite(normalised(np.array(edge))).all()


@pytest.mark.parametrize(
    ("values", "like", "varies"),
    [
        ([3.0, np.nan, 1.0, 2.0], [3.0, 3.0, 1.0, 2.0], True),  # as bad as the worst value
        ([7.0, np.nan, 7.0], [0.0, 1.0, 0.0], True),  # failures are all that can be avoided
        ([np.nan, np.nan], [0.0, 0.0], False),
        ([5.0, 5.0], [0.0, 0.0], False),
        ([5.0], [0.0], False),
        ([], [], False),
    ],
)
def test_failures_and_constant_functions(values, like, varies):
    task = Task(np.empty((len(values), 1)), np.array(values))
    np.testing.assert_array_equal(task.y, normalised(np.array(like)))
    assert task.varies is varies
    assert len(task.first(1).y) == min(1, len(values))
    for value, y in zip(values, task.y, strict=True):
        assert np.isnan(value) or task.value_of(y, task.y) == value


def test_normalised_values_back_in_units():
    """In the order of the values; beyond them nothing is known."""
    task = Task(np.empty((5, 1)), np.array([4.0, 1.0, np.nan, 2.0, 100.0]))
    ends = task.value_of(-99.0, task.y), task.value_of(99.0, task.y)
    assert ends == (1.0, 100.0)
    assert 1.0 < task.value_of(np.mean(task.y[[1, 3]]), task.y) < 2.0
