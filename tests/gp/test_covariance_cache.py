"""What is remembered of covariances is what would be computed."""

import numpy as np
import pytest

from kem_pymc._system.jit.simd import padded
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.covariance_cache import (
    MEMORY,
    ROOM,
    Covariances,
    no_covariances,
    remembered_covariance,
)
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool(["LIN0", "PER1", "SE0 x PER1", "RQ0", "CONST"], 2)
POINTS = 13


@pytest.fixture
def memory():
    return no_covariances(POOL.layout, POINTS)


class Case:
    """Two users' inputs, and hyperparameters."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.inputs = rng.uniform(-2, 2, (2, 2, POINTS))
        self.h = rng.normal(0, 0.5, len(POOL.hyperparameters))

    def computed(self, active, user, n, memory=None):
        """The covariance (n, n) of a user's first points, from a memory if there is one."""
        x = np.ascontiguousarray(self.inputs[user, :, :n])
        out, scratch = np.full((2, n, padded(n)), np.nan)
        code = kernels(), POOL.layout, np.array(active, dtype=np.int64), self.h
        if memory is None:
            covariance(*code, x, out, scratch)
        else:
            remembered_covariance(memory, *code, user, x, out, scratch)
        return np.triu(out[:, :n])


def in_memory(memory):
    return int((memory.points > 0).sum())


def test_sums_are_the_same_to_the_last_bit(memory):
    case, rng = Case(), np.random.default_rng(1)
    for _ in range(300):
        user, n = int(rng.integers(2)), int(rng.integers(1, POINTS + 1))
        active = np.flatnonzero(rng.random(5) < 0.6)
        if rng.random() < 0.5:
            case.h[rng.integers(len(case.h))] += 0.1
        known, anew = case.computed(active, user, n, memory), case.computed(active, user, n)
        np.testing.assert_array_equal(known, anew)


def test_only_what_has_changed_is_computed_again(memory):
    case = Case()
    case.computed([0, 1, 3], 0, POINTS, memory)
    assert in_memory(memory) == 3
    marked = memory.points > 0
    memory.matrix[marked] += 100.0
    case.h[POOL.layout.hyper_start[1]] += 0.5
    expected = case.computed([0, 1, 3], 0, POINTS) + np.triu(np.full((POINTS, POINTS), 200.0))
    found = case.computed([0, 1, 3], 0, POINTS, memory)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert in_memory(memory) == 4


def test_users_are_distinguished(memory):
    case = Case()
    for user in (0, 1, 0):
        np.testing.assert_array_equal(
            case.computed([2], user, POINTS, memory), case.computed([2], user, POINTS)
        )
    assert in_memory(memory) == 2


def test_more_points_than_are_remembered(memory):
    case = Case()
    for n in (4, POINTS, 7):
        np.testing.assert_array_equal(case.computed([1], 0, n, memory), case.computed([1], 0, n))
    assert memory.points.max() == POINTS


def test_a_single_place_serves_all():
    tiny = Covariances(*(array[:1].copy() for array in no_covariances(POOL.layout, POINTS)))
    case = Case()
    for _ in range(2):
        known = case.computed([0, 1, 2, 3], 1, POINTS, tiny)
        np.testing.assert_array_equal(known, case.computed([0, 1, 2, 3], 1, POINTS))


@pytest.mark.parametrize(("points", "places"), [(0, MEMORY), (30, MEMORY), (400, 16), (5000, 0)])
def test_room_is_bounded(points, places):
    memory = no_covariances(POOL.layout, points)
    assert len(memory.points) == places
    assert memory.matrix.nbytes <= ROOM


def test_no_room_at_all():
    none = Covariances(*(array[:0].copy() for array in no_covariances(POOL.layout, POINTS)))
    case = Case()
    np.testing.assert_array_equal(
        case.computed([0, 1, 2, 3], 1, POINTS, none), case.computed([0, 1, 2, 3], 1, POINTS)
    )
