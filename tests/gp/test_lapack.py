"""With many points LAPACK and a few of the points lead to the same fit as compiled loops on all."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from threadpoolctl import threadpool_info, threadpool_limits

from kem_pymc.gp import fit as fits
from kem_pymc.gp import objective as objectives
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import bounds, fit, spread_places, thinned
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import evaluate, normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scorer import study_prior
from tests.gp.objectives import coordinates, data, stand_in_priors

POOL = CandidatePool(["LIN0", "PER0", "SE0", "LIN0 x PER0"])
N = 200


def problem(text="LIN0 + SE0", n=N):
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0, 20, (n, 1)), axis=0)
    y = 0.3 * x[:, 0] + 2 * np.sin(x[:, 0]) + 0.5 * rng.normal(size=n)
    where = Coordinates(POOL, Composition.parse(text))
    return Objective(where, x, y, normal_prior(np.zeros(len(where)), np.ones(len(where))))


@pytest.fixture
def many(monkeypatch):
    """Let 200 points be many, and 60 of them a few."""
    monkeypatch.setattr(objectives, "LARGE", N)
    monkeypatch.setattr(fits, "MANY", N)
    monkeypatch.setattr(fits, "FEW", 60)


def blocked(objective, values):
    """Return log likelihood, log prior and gradient by LAPACK."""
    gradient = np.empty(len(values))
    terms = evaluate(objective.problem._replace(blocked=True), values, gradient)
    return *terms, gradient


@pytest.mark.parametrize("text", ["WHITE", "LIN0", "PER0 + SE0", "LIN0 x PER0 + SE0"])
def test_lapack_agrees_with_the_compiled_loops(text):
    """Catches an adjoint that counts the diagonal twice, entries behind it once, or no factors."""
    objective = problem(text)
    objective.problem = objective.problem._replace(factors=np.linspace(0.5, 2.0, N))
    values = np.random.default_rng(1).normal(0, 0.4, len(objective.coordinates))
    gradient = np.empty(len(values))
    expected = evaluate(objective.problem, values, gradient)
    *terms, slope = blocked(objective, values)
    np.testing.assert_allclose(terms, expected, rtol=1e-10)
    np.testing.assert_allclose(slope, gradient, rtol=1e-8, atol=1e-8)
    numeric = approx_fprime(values, lambda v: sum(blocked(objective, v)[:2]), 1e-6)
    np.testing.assert_allclose(slope, numeric, rtol=1e-3, atol=2e-3)
    without = evaluate(objective.problem._replace(blocked=True), values, np.empty(0))
    assert without == tuple(terms)


def test_where_lapack_fails_the_jitter_of_the_loops_decides():
    objective = problem("SE0")
    values = np.array([15.0, 8.0, -19.0])  # all points the same, and next to no noise
    gradient = np.empty(3)
    expected = evaluate(objective.problem, values, gradient)
    *terms, slope = blocked(objective, values)
    assert tuple(terms) == expected
    np.testing.assert_array_equal(slope, gradient)
    beyond = blocked(objective, np.array([1e3, 0.0, 0.0]))
    assert beyond[0] == -math.inf


def test_beyond_the_support_of_a_prior_there_is_no_slope():
    where = coordinates("LIN0")
    prior = study_prior(stand_in_priors(), where, Composition())
    values = np.array([4.0, 0.0, 0.0])  # the stand-in's support ends at 3
    likelihood, density, slope = blocked(Objective(where, *data(0), prior), values)
    assert likelihood == -math.inf
    assert density == 0.0
    assert not slope.any()


@pytest.mark.parametrize(("size", "threads"), [(N, 1), (N - 1, 2)])
def test_lapack_is_used_where_there_are_many_points(monkeypatch, size, threads):
    """By one thread, whatever number is set."""
    monkeypatch.setattr(objectives, "LARGE", N)
    objective = problem(n=size)
    assert objective.problem.blocked == (size == N)
    with threadpool_limits(2, user_api="blas"):
        pools = objective.compute(lambda _: threadpool_info())
    assert {p["num_threads"] for p in pools if p["user_api"] == "blas"} == {threads}


@pytest.mark.usefixtures("many")
def test_both_ways_lead_to_one_optimum():
    """Catches a few points' optimum that isn't followed on all, and evaluations without end."""
    starts = np.random.default_rng(2).normal(0, 0.5, (4, 5))
    objective = problem()
    found = fit(objective, starts, 2)
    assert found.converged
    assert found.evaluations <= 20
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objectives, "LARGE", 10**6)
        patch.setattr(fits, "MANY", 10**6)
        small = Objective(objective.coordinates, *plain(objective), objective.problem.prior)
        alone = fit(small, starts)
    assert found.height == pytest.approx(alone.height, abs=0.01)
    low, high = bounds(objective.coordinates, objective.noise_floor)
    assert np.all((found.values >= low) & (found.values <= high))


def plain(objective):
    return objective.problem.x.T, objective.problem.y


@pytest.mark.usefixtures("many")
def test_bounds_hold_with_many_points():
    """Catches bounds that aren't in the units of the search."""
    x = np.linspace(0, 20, N)[:, None]
    where = Coordinates(POOL, Composition.parse("LIN0"))
    found = fit(Objective(where, x, 0.5 * x[:, 0]), [np.zeros(3)])
    assert found.values[-1] == pytest.approx(math.log(0.01), abs=1e-12)


def test_a_few_places_are_spread_without_a_period():
    places = spread_places(1000)
    gaps = np.diff(places)
    assert len(np.unique(places)) == 250
    assert gaps.max() <= 2 * gaps.min() + 3
    assert len(np.unique(gaps)) > 1  # every fourth point would hide what has that period
    assert thinned(problem(n=500)).n_points == 250
    assert len(spread_places(4000)) == 1000
