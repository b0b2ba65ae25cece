"""Fits reach the optima that SciPy reaches, and criteria agree with their definitions."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from kem_pymc.gp.coordinates import NOISE_FLOOR
from kem_pymc.gp.fit import (
    aic,
    bic,
    bounds,
    fit,
    leave_one_out,
)
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.scorer import study_prior
from tests.gp.objectives import (
    COMPOSITIONS,
    coordinates,
    data,
    objective,
    scattered,
    stand_in_priors,
)


def scipy_height(problem, start):
    low, high = bounds(problem.coordinates, NOISE_FLOOR)

    def negative(v):
        (height,), (slope,) = problem.evaluate(v[None])
        return -height, -slope

    result = minimize(
        negative,
        np.clip(start, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-13, "gtol": 1e-7, "maxiter": 5000, "maxfun": 50000},
    )
    return -result.fun


def test_search_stays_where_the_prior_has_support():
    where = coordinates("LIN0")
    prior = study_prior(stand_in_priors(), where, Composition())
    x, y = data(0)
    problem = Objective(where, x, 1e3 * y, prior)
    found = fit(problem, [np.zeros(3)])
    assert (found.values[:2] < 3.0).all()
    assert found.height == pytest.approx(sum(problem.terms(found.values)), abs=1e-9)
    assert found.height > sum(problem.terms(np.zeros(3))) + 1e6


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("text", COMPOSITIONS)
def test_fit_is_as_high_as_scipys_from_the_same_starts(text, prior):
    problem = objective(text, prior)
    starts = scattered(problem, 6)
    found = fit(problem, starts)
    assert found.converged
    assert found.height == pytest.approx(sum(problem.terms(found.values)), abs=1e-12)
    assert found.height >= max(scipy_height(problem, s) for s in starts) - 1e-4


def test_white_noise_is_fitted_in_closed_form():
    problem = objective("WHITE")
    found = fit(problem, [np.zeros(1)])
    assert found.values[0] == pytest.approx(np.log(np.mean(problem.problem.y**2)), abs=1e-4)


@pytest.mark.parametrize("floor", [NOISE_FLOOR, 1e-4])
def test_noise_stops_at_its_floor(floor):
    where = coordinates("LIN0")
    x, _ = data(0)
    found = fit(Objective(where, x, 2 * x[:, 0], noise_floor=floor), [np.zeros(3)])
    assert found.values[-1] == pytest.approx(math.log(floor), abs=1e-12)
    assert found.converged


def test_noise_can_be_held():
    problem = objective("LIN0", prior=True)
    held = fit(problem, scattered(problem, 3), log_noise=-1.0)
    assert held.values[-1] == -1.0
    assert held.converged
    assert held.height < fit(problem, scattered(problem, 3)).height


def test_only_the_highest_starts_are_followed():
    problem = objective("LIN0 + PER0")
    starts = scattered(problem, 10)
    highest = max(
        starts,
        key=lambda v: sum(
            problem.terms(np.maximum(v, bounds(coordinates("WHITE"), NOISE_FLOOR)[0]))
        ),
    )
    one, all_of_them = fit(problem, starts, runs=1), fit(problem, starts)
    assert one.height == pytest.approx(fit(problem, [highest]).height, abs=1e-9)
    assert all_of_them.height >= one.height
    assert one.evaluations < all_of_them.evaluations / 3


def test_order_of_starts_does_not_matter():
    problem = objective("LIN0 + PER0")
    starts = scattered(problem, 6)
    there, back = fit(problem, starts, runs=2), fit(problem, starts[::-1], runs=2)
    np.testing.assert_array_equal(there.values, back.values)


def test_hopeless_starts_end_in_minus_infinity_not_in_an_exception():
    x, _ = data(0)
    y = np.full(20, 1e200)  # its square overflows
    found = fit(Objective(coordinates("SE0"), x, y), [np.zeros(3)])
    assert found.log_likelihood == -math.inf
    assert not found.converged


def test_search_steps_back_from_singular_covariances():
    where = coordinates("SE0")
    x = np.repeat(data(0)[0], 2, axis=0)
    start = np.array([19.0, 19.0, math.log(NOISE_FLOOR)])
    y = x[:, 0] * 1e3
    found = fit(Objective(where, x, y), [start])
    # The function is a level, to which all else is noise.
    assert found.values[-1] == pytest.approx(math.log(np.var(y, ddof=1)), abs=1e-4)
    level = np.full((40, 40), math.exp(found.values[0])) + np.exp(found.values[-1]) * np.eye(40)
    expected = multivariate_normal(None, level).logpdf(y)
    assert found.height == pytest.approx(expected, abs=1e-3)


def test_bic_and_aic_by_hand():
    assert bic(-10.0, 3, 20) == (3 * math.log(20) + 20, -1.5 * math.log(20) - 10)
    assert aic(-10.0, 3) == (26.0, -13.0)


def test_leave_one_out_equals_leaving_out_one_by_one():
    where = coordinates("LIN0 x SE1 + PER1")
    x, y = data(3, n=8)
    values = scattered(objective("LIN0 x SE1 + PER1"), 1)[0]
    whole = Objective(where, x, y).terms(values)[0]
    by_hand = sum(
        whole - Objective(where, np.delete(x, i, 0), np.delete(y, i)).terms(values)[0]
        for i in range(8)
    )
    assert leave_one_out(Objective(where, x, y), values).value == pytest.approx(by_hand, abs=1e-9)
