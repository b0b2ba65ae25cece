"""Fits reach the optima that SciPy reaches, and criteria agree with their definitions."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core import types
from scipy.optimize import approx_fprime, minimize
from scipy.stats import multivariate_normal, norm

from kem_pymc._jit.decorators import pointer
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.fit import (
    aic,
    bic,
    bounds,
    fit,
    leave_one_out,
)
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import flat_prior, normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.priors import study_prior

POOL = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=2, interactions=True)
COMPOSITIONS = ["WHITE", "LIN0", "SE0", "LIN0 + PER0", "LIN0 x SE1 + PER1", "ARD"]


def coordinates(text):
    return Coordinates(POOL, Composition.parse(text, 2))


def data(seed, n=20):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, (n, 2))
    return x, x[:, 0] + np.sin(4 * x[:, 1]) + 0.4 * rng.normal(size=n)


def objective(text, prior=False, seed=0, n=20):
    where = coordinates(text)
    rng = np.random.default_rng(seed)
    pilot = normal_prior(rng.normal(size=len(where)), rng.uniform(0.3, 1.5, len(where)))
    return Objective(where, *data(seed, n), pilot if prior else None)


def scattered(problem, count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, len(problem.coordinates)))


def gradient(problem, values):
    return problem.evaluate(values[None])[1][0]


def scipy_height(problem, start):
    low, high = bounds(problem.coordinates, NOISE_FLOOR)
    result = minimize(
        lambda v: -sum(problem.terms(v)),
        np.clip(start, low, high),
        jac=lambda v: -gradient(problem, v),
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-13, "gtol": 1e-7, "maxiter": 5000, "maxfun": 50000},
    )
    return -result.fun


def stand_in_priors():
    """Return what looks like the study's compiled priors.

    Coordinate i is Normal(i modulo 3, 1) without its constant, cut off at 3; the log noise is
    Normal(size of the parent, 1).
    """
    values = types.float64[::1]
    entry = types.float64(types.int64, types.float64, values)
    noise = types.float64(types.boolean[::1], types.float64, values)

    def made(body, argument, signature):
        source = f"def f({argument}, v, population):\n    return {body}"
        return pointer(source, "f", signature, {"np": np}, "stand-in")

    return SimpleNamespace(
        log_density=made("-0.5 * (v - e) ** 2 if v < 3.0 else -np.inf", "e", entry),
        gradient=made("e - v", "e", entry),
        noise_log_density=made("-0.5 * (v - p.sum()) ** 2", "p", noise),
        noise_gradient=made("p.sum() - v", "p", noise),
        entry=np.arange(len(POOL.hyperparameters)) % 3,
        population=np.empty(0),
    )


def test_coordinates_are_in_the_pools_order_and_read_back():
    pool = CandidatePool(["SE0", "LIN0"])  # not the composition's own order
    where = Coordinates(pool, Composition.parse("LIN0 + SE0"))
    expected = ("log SE0.amplitude", "log SE0.lengthscale", "log LIN0.amplitude", "LIN0.shift")
    assert where.names == (*expected, "log noise")
    values = np.array([0.1, -0.2, 0.3, -0.4, 0.5])
    named, noise = where.named(values)
    assert named["LIN0.shift"] == -0.4
    assert named["SE0.lengthscale"] == pytest.approx(math.exp(-0.2))
    np.testing.assert_allclose(where.from_named(named, noise), values, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("named", "noise"),
    [
        ({"LIN0.amplitude": 1.0}, 1.0),
        ({"LIN0.amplitude": -1.0, "LIN0.shift": 0.0}, 1.0),
        ({"LIN0.amplitude": 1.0, "LIN0.shift": math.inf}, 1.0),
        ({"LIN0.amplitude": 1.0, "LIN0.shift": 0.0}, 0.0),
    ],
)
def test_unusable_values_are_refused(named, noise):
    with pytest.raises(InputError, match=r"LIN0.*\. Give"):
        coordinates("LIN0").from_named(named, noise)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("text", COMPOSITIONS)
def test_gradient_equals_finite_differences(text, prior):
    problem = objective(text, prior)
    for values in scattered(problem, 3):
        numeric = approx_fprime(values, lambda v: sum(problem.terms(v)), 1e-6)
        np.testing.assert_allclose(gradient(problem, values), numeric, rtol=1e-3, atol=1e-3)


def test_terms_equal_scipys_densities():
    problem = objective("WHITE", prior=True)
    likelihood, density = problem.terms(np.array([0.3]))
    y = problem.problem.y
    assert likelihood == pytest.approx(
        multivariate_normal(None, np.exp(0.3) * np.eye(20)).logpdf(y)
    )
    prior = problem.problem.prior
    assert density == pytest.approx(norm(prior.centre, prior.precision**-0.5).logpdf(0.3).sum())


def test_study_prior_uses_entries_and_parent():
    where, parent = coordinates("LIN0 + PER0"), Composition.parse("LIN0 + SE1", 2)
    problem = Objective(where, *data(0), study_prior(stand_in_priors(), where, parent))
    values = scattered(problem, 1)[0]
    entries = where.places % 3
    by_hand = -0.5 * ((values[:-1] - entries) ** 2).sum() - 0.5 * (values[-1] - 2) ** 2
    assert problem.terms(values)[1] == pytest.approx(by_hand)
    numeric = approx_fprime(values, lambda v: sum(problem.terms(v)), 1e-6)
    np.testing.assert_allclose(gradient(problem, values), numeric, rtol=1e-3, atol=1e-3)


def test_search_stays_where_the_prior_has_support():
    where = coordinates("LIN0")
    prior = study_prior(stand_in_priors(), where, Composition())
    x, y = data(0)
    found = fit(Objective(where, x, 1e3 * y, prior), [np.zeros(3)])
    assert found.values[0] < 3.0
    assert math.isfinite(found.height)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("text", COMPOSITIONS)
def test_fit_is_as_high_as_scipys_from_the_same_starts(text, prior):
    problem = objective(text, prior)
    starts = scattered(problem, 12)
    found = fit(problem, starts)
    assert found.converged
    assert found.height == pytest.approx(sum(problem.terms(found.values)), abs=1e-12)
    assert found.height >= max(scipy_height(problem, s) for s in starts) - 1e-4


def test_fit_from_one_start_reaches_the_single_optimum():
    problem = objective("LIN0", prior=True)
    heights = [fit(problem, [start]).height for start in scattered(problem, 20)]
    assert np.ptp(heights) < 1e-5
    assert heights[0] == pytest.approx(scipy_height(problem, np.zeros(3)), abs=1e-5)


def test_white_noise_is_fitted_in_closed_form():
    problem = objective("WHITE")
    found = fit(problem, [np.zeros(1)])
    assert found.values[0] == pytest.approx(np.log(np.mean(problem.problem.y**2)), abs=1e-4)


def test_noise_stops_at_its_floor():
    where = coordinates("LIN0")
    x, _ = data(0)
    found = fit(Objective(where, x, 2 * x[:, 0]), [np.zeros(3)])
    assert found.values[-1] == pytest.approx(math.log(NOISE_FLOOR), abs=1e-12)
    assert found.converged


def test_the_floor_is_a_setting():
    """Catches a bound that is read elsewhere."""
    where = coordinates("LIN0")
    x, _ = data(0)
    found = fit(Objective(where, x, 2 * x[:, 0], noise_floor=1e-4), [np.zeros(3)])
    assert found.values[-1] == pytest.approx(math.log(1e-4), abs=1e-12)


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
    assert math.isfinite(found.height)


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


def test_flat_prior_is_density_one():
    problem = objective("SE0")
    assert problem.terms(np.zeros(3))[1] == 0.0
    assert Objective(problem.coordinates, *data(0), flat_prior(3)).terms(np.zeros(3))[1] == 0.0
