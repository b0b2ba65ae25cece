"""The search for optima on quadratic objectives, whose optima and curvatures are known."""

import math

import numpy as np
import pytest

from kem_pymc.gp import maximise as search
from kem_pymc.gp.maximise import (
    ENOUGH,
    REACH,
    climb,
    maximise,
    newton_step,
)
from kem_pymc.gp.problem import normal_prior
from tests.gp.objectives import objective

CENTRE, SPREAD = np.array([0.5, -2.0, 1.5]), np.array([0.3, 2.0, 1.0])
WIDE = np.full(3, 20.0)

#: No guess of the curvature, and no least height.
FREE = np.empty((0, 0)), -math.inf


@pytest.fixture
def quadratic():
    """A problem whose points don't count: what is left is a normal prior."""
    made = objective("LIN0").with_prior(normal_prior(CENTRE, SPREAD)).problem
    return made._replace(weights=np.zeros(20))


def density(values):
    """Return the log density of the normal prior."""
    z = (values - CENTRE) / SPREAD
    return -0.5 * z @ z - np.log(SPREAD).sum() - 1.5 * math.log(2 * math.pi)


def positive_definite(seed):
    root = np.random.default_rng(seed).normal(size=(3, 3))
    return root @ root.T + np.eye(3)


def test_a_quadratic_objective_has_its_centre_as_optimum(quadratic):
    starts = np.array([[0.0, 0.0, 0.0], [4.0, 4.0, 4.0], [1.0, -1.0, 0.0]])
    found = maximise(quadratic, starts, 3, -WIDE, WIDE, *FREE)
    values, likelihood, height, evaluations, converged, _ = found
    assert converged
    assert likelihood == 0.0
    assert height == pytest.approx(density(values), abs=1e-12)
    assert density(CENTRE) - 2 * ENOUGH < height <= density(CENTRE) + 1e-12
    assert evaluations < 40


def test_coordinates_stop_at_their_bounds_and_the_others_go_on(quadratic):
    low, high = -WIDE.copy(), WIDE.copy()
    low[0], high[1] = 1.0, -3.0
    start = np.array([[2.0, -6.0, 0.0]])
    values, _, height, _, converged = maximise(quadratic, start, 1, low, high, *FREE)[:5]
    assert converged
    assert values[:2].tolist() == [1.0, -3.0]
    assert height == pytest.approx(density(np.array([1.0, -3.0, 1.5])), abs=2 * ENOUGH)


def test_a_climb_moves_the_values_that_it_is_given(quadratic):
    values = np.array([3.0, 3.0, -3.0])
    height, evaluations, converged = climb(quadratic, values, -WIDE, WIDE, 1e-12)
    assert converged
    np.testing.assert_allclose(values, CENTRE, rtol=0, atol=1e-3)
    assert height == pytest.approx(density(values), abs=1e-12)
    assert 1 < evaluations < search.ITERATIONS
    again = climb(quadratic, values, -WIDE, WIDE, 1e-12)
    assert again == (height, 1, True)  # the evaluation at the start, where there is no slope left


def test_a_guess_of_the_curvature_saves_evaluations_and_the_curvature_is_learned(quadratic):
    start, exact = np.array([[4.0, 4.0, 4.0]]), np.diag(SPREAD**-2.0)
    _, _, _, used, _, learned = maximise(quadratic, start, 1, -WIDE, WIDE, *FREE)
    *_, few, converged, kept = maximise(quadratic, start, 1, -WIDE, WIDE, exact, -math.inf)
    assert converged
    assert few <= 5 < used
    np.testing.assert_allclose(kept, exact, rtol=1e-6, atol=1e-6)
    assert np.linalg.slogdet(learned)[1] == pytest.approx(np.linalg.slogdet(exact)[1], abs=1.0)


def test_a_search_ends_where_it_will_not_be_high_enough(quadratic):
    """Catches a search that goes on, and one that ends although it would be high enough."""
    start, top = np.array([[15.0, 15.0, 15.0]]), density(CENTRE)
    for least, reached in ((top + 1e6, False), (top - 1e-3, True)):
        guess = np.diag(SPREAD**-2.0 + 10.0)
        values, *_, used, converged, _ = maximise(quadratic, start, 1, -WIDE, WIDE, guess, least)
        assert converged == reached
        assert (density(values) > top - 1e-3) == reached
        assert reached or used <= 2 + search.PATIENCE


def test_the_highest_of_several_optima_is_kept():
    """Catches the optimum of the last search instead of the highest one."""
    problem = objective("PER0").problem
    starts = np.random.default_rng(2).normal(size=(6, 4))
    low, high = np.append(-WIDE, -4.0), np.append(WIDE, 20.0)
    single = [maximise(problem, start[None], 1, low, high, *FREE) for start in starts]
    heights = [likelihood + prior for _, likelihood, prior, *_ in single]
    assert np.ptp(heights) > 1
    _, likelihood, prior, *_ = maximise(problem, starts, 6, low, high, *FREE)
    assert likelihood + prior == pytest.approx(max(heights), abs=1e-4)


def test_steps_solve_the_model_of_the_coordinates_that_are_free():
    curvature, slope = positive_definite(2), np.array([0.5, -0.4, 0.3])
    step = np.empty(3)
    values, low, high = np.array([0.0, -1.0, 1.0]), np.full(3, -1.0), np.full(3, 9.0)
    newton_step(curvature, values, slope, low, high, step)  # the second is held at its bound
    free = [0, 2]
    expected = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
    np.testing.assert_allclose(step, [expected[0], 0.0, expected[1]], rtol=0, atol=1e-12)
    far = np.array([500.0, 50.0, -100.0])
    newton_step(curvature, values, far, low, high, step)
    whole = np.linalg.solve(curvature, far)
    assert np.max(np.abs(step) / (REACH + np.abs(values))) == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(step / step[0], whole / whole[0], rtol=1e-10)


@pytest.mark.parametrize(("slope", "expected"), [([6.0, -3.0], [1.0, -0.5]), ([0.5, -0.2],) * 2])
def test_without_a_positive_curvature_a_step_of_at_most_one_follows_the_slope(slope, expected):
    step = np.empty(2)
    curvature, bounds = np.array([[1.0, 2.0], [2.0, 1.0]]), np.full(2, 9.0)
    newton_step(curvature, np.zeros(2), np.array(slope), -bounds, bounds, step)
    np.testing.assert_allclose(step, expected, rtol=1e-15)
