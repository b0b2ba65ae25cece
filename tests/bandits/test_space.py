"""Spaces: the largest score, constraints, and spaces that are refused."""

import numpy as np
import pytest

from kem_pymc.bandits import Box, Points
from kem_pymc.errors import InputError

BUDGET = Box([0, 0, 0], [1, 1, 1], ([[1.0, 2.0, 0.5]], [1.2]))


def test_the_largest_score_of_points():
    points = Points([0.1, 0.5, 0.9])
    assert points.best(lambda x: -((x[:, 0] - 0.6) ** 2), np.random.default_rng(0)) == 0.5
    with pytest.raises(InputError, match="isn't one of the points"):
        points.check(np.array([0.2]))


@pytest.mark.parametrize("towards", [[1, 1, 1], [1, 0.2, 0.1], [-1, -1, 3], [0.1, 2, 0.3]])
def test_a_linear_score_is_that_of_a_linear_program(towards):
    from scipy.optimize import linprog

    exact = linprog(-np.array(towards), A_ub=BUDGET.a, b_ub=BUDGET.b, bounds=[(0, 1)] * 3)
    found = BUDGET.best(lambda x: x @ towards, np.random.default_rng(0))
    BUDGET.check(found)
    assert found @ towards == pytest.approx(-exact.fun, abs=1e-6)


def test_a_score_with_several_maxima():
    """Against a grid of the points that meet the constraint."""

    def score(x):
        return np.sin(9 * x[:, 0]) + np.cos(7 * x[:, 1]) * x[:, 2] + x[:, 1]

    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 61)] * 3), -1).reshape(-1, 3)
    grid = grid[grid @ BUDGET.a[0] <= BUDGET.b[0]]
    found = BUDGET.best(score, np.random.default_rng(1))
    BUDGET.check(found)
    assert score(found[None])[0] >= score(grid).max() - 1e-3


def test_random_points_meet_the_constraints():
    rng = np.random.default_rng(2)
    drawn = np.array([BUDGET.draw(rng) for _ in range(200)])
    for x in drawn:
        BUDGET.check(x)
    assert drawn.std(axis=0).min() > 0.1


def test_what_is_refused():
    with pytest.raises(InputError, match="No point of the box meets"):
        Box([0, 0], [1, 1], ([[1, 1]], [-0.5]))
    with pytest.raises(InputError, match="is empty"):
        Box([0, 1], [1, 1])
    with pytest.raises(InputError, match="a row of 2 coefficients"):
        Box([0, 0], [1, 1], ([[1, 1, 1]], [1]))
    with pytest.raises(InputError, match="Give coefficients and limits"):
        Box([0, 0], [1, 1], [[1, 1]])
    with pytest.raises(InputError, match="points have rows of unequal length"):
        Points([[1.0], [1.0, 2.0]])
    with pytest.raises(InputError, match="points have shape"):
        Points([])
    with pytest.raises(InputError, match="isn't in the box"):
        BUDGET.check(np.array([2.0, 0, 0]))
    with pytest.raises(InputError, match=r"violates a constraint by 0\.3"):
        BUDGET.check(np.array([1.0, 0.25, 0]))
