"""The log evidence agrees with brute force over the censored noise, and has no jumps."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from kem_pymc._system.jit.decorators import pointer, types
from kem_pymc.gp import objective as objectives
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.evidence import _log_integral, draw_values, laplace
from kem_pymc.gp.fit import fit
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import flat_prior, normal_prior
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scorer import study_prior

POOL = CandidatePool(["LIN0", "SE0"])
FLOOR = math.log(0.01)

#: Centres and spreads of normal priors of the other coordinates.
OTHERS = {"WHITE": ([], []), "LIN0": ([-1.2, 0.0], [0.8, 0.1]), "SE0": ([0.3, 0.3], [0.5, 0.4])}


def data(text, noise, n=12, seed=3):
    """Return points of a function that the composition has, with noise of this sd."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, (n, 1)), axis=0)
    clean = {"WHITE": 0 * x, "LIN0": 0.5 * x, "SE0": 1.5 * np.sin(x)}[text][:, 0]
    return x, clean + noise * rng.normal(size=n)


def problem(text, noise, centre, spread, log_floor=FLOOR, n=12):
    others = OTHERS[text]
    prior = normal_prior(np.append(others[0], centre), np.append(others[1], spread))
    where = Coordinates(POOL, Composition.parse(text))
    return Objective(where, *data(text, noise, n), prior, math.exp(log_floor))


def evidence(objective):
    middle = np.zeros(len(objective.coordinates))
    starts = [np.append(middle[:-1], v) for v in (-5.0, -2.0, 0.0)]
    return laplace(objective, fit(objective, starts))[1].value


def brute_force(objective, others, noise, points=25, reach=4.5):
    """Integrate on a grid: F(l) g(l) plus the integral above l.

    `others` are normals (centres, spreads) that are the prior of the other coordinates, or
    distributions wider than the posterior; `noise` is the normal prior of the log noise.
    """
    floor = math.log(objective.noise_floor)
    t, weights = np.polynomial.legendre.leggauss(64)
    top = max(floor, min(noise[0], 3.0)) + 9.0
    log_noises = np.append(floor, floor + (top - floor) * (t + 1) / 2)
    axes = [np.linspace(c - reach * s, c + reach * s, points) for c, s in zip(*others, strict=True)]
    grid = np.array(np.meshgrid(*axes, log_noises, indexing="ij")).reshape(len(axes) + 1, -1).T
    flat = objective.with_prior(flat_prior(len(axes) + 1))
    heights = flat.evaluate(grid)[0]
    for place, (axis, c, s) in enumerate(zip(axes, *others, strict=True)):
        heights += norm(c, s).logpdf(grid[:, place]) + math.log(axis[1] - axis[0])
    g = logsumexp(heights.reshape(-1, len(log_noises)), axis=0)
    above = g[1:] + norm(*noise).logpdf(log_noises[1:]) + np.log(weights * (top - floor) / 2)
    return np.logaddexp(logsumexp(above), log_ndtr((floor - noise[0]) / noise[1]) + g[0])


#: Prior centres above the floor and spreads: far below, at and above it.
PRIORS = [(-5.0, 0.1), (-5.0, 1.0), (-1.0, 0.5), (0.0, 0.1), (0.5, 0.4), (2.0, 1.0), (4.6, 1.0)]


@pytest.mark.parametrize(("above", "spread"), PRIORS)
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("n", [3, 30])
def test_white_noise_by_quadrature(above, spread, noise, n):
    """Catches a floor that counts as a density: 1,248 nats off at a spread of 0.1."""
    objective = problem("WHITE", noise, FLOOR + above, spread, n=n)
    expected = brute_force(objective, ([], []), (FLOOR + above, spread))
    assert evidence(objective) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("above", "spread"), [(-5.0, 0.1), (-1.0, 0.5), (0.5, 0.4), (4.6, 1.0)])
@pytest.mark.parametrize(("text", "noise"), [("LIN0", 0.4), ("SE0", 0.05)])
def test_other_coordinates_by_quadrature(text, noise, above, spread):
    """Catches coordinates that don't follow the noise, or whose curvature doesn't."""
    objective = problem(text, noise, FLOOR + above, spread)
    expected = brute_force(objective, OTHERS[text], (FLOOR + above, spread))
    assert evidence(objective) == pytest.approx(expected, abs=0.05)


def table(noise):
    """Return the paper's priors of coordinates, and a normal one of the log noise, as pointers."""
    values = types.float64[::1]
    entry = types.float64(types.int64, types.float64, values)
    below = types.float64(types.boolean[::1], types.float64, values)

    def made(argument, slope, sd, centre, signature):
        density = f"-0.5 * ((v - {centre}) / {sd}) ** 2 - {0.5 * math.log(2 * math.pi)} - log({sd})"
        body = f"-(v - {centre}) / {sd} ** 2" if slope else density
        source = f"def f({argument}, v, population):\n    return {body}"
        return pointer(source, "f", signature, {"log": math.log}, f"test {argument} {slope}")

    sd = "(0.1 if e == 1 else 2.0)"  # the shift of LIN0
    return SimpleNamespace(
        log_density=made("e", False, sd, 0.0, entry),
        gradient=made("e", True, sd, 0.0, entry),
        noise_log_density=made("p", False, noise[1], noise[0], below),
        noise_gradient=made("p", True, noise[1], noise[0], below),
        entry=np.arange(len(POOL.hyperparameters)),
        population=np.empty(0),
    )


@pytest.mark.parametrize("noise", [(2.0, 0.5), (0.0, 2.0), (-5.0, 1.0)])
@pytest.mark.parametrize(("text", "sd"), [("WHITE", 0.1), ("LIN0", 0.4)])
def test_the_studys_priors_by_quadrature(text, sd, noise):
    """Catches a mass below the floor that is wrong where only the density is known."""
    where = Coordinates(POOL, Composition.parse(text))
    objective = Objective(where, *data(text, sd), study_prior(table(noise), where, Composition()))
    others = ([0.0, 0.0], [2.0, 0.1]) if text == "LIN0" else ([], [])
    expected = brute_force(objective, others, noise, points=41, reach=4.0)
    assert evidence(objective) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("others", [([], []), ([-7.0, 0.0], [0.15, 0.1])])
def test_mass_far_below_the_floor_counts_where_the_optimum_is_above_it(others):
    """Catches an integral around the optimum alone: of this evidence it holds next to nothing.

    Beside noise alone there is a line, of whose values the most probable are others at the floor.
    """
    where = Coordinates(POOL, Composition.parse("LIN0" if others[0] else "WHITE"))
    prior = FLOOR - 4.0, 0.5
    normal = normal_prior(np.append(others[0], prior[0]), np.append(others[1], prior[1]))
    objective = Objective(where, np.ones((1, 1)), np.ones(1), normal)
    fitted = fit(objective, [np.append(others[0], 0.0)])
    assert fitted.values[-1] > FLOOR + 0.5
    expected = brute_force(objective, others, prior)
    error = 0.05 if others[0] else 0.02
    assert laplace(objective, fitted)[1].value == pytest.approx(expected, abs=error)


def test_many_points_have_the_same_evidence_by_lapack(monkeypatch):
    """And draws of values; fails where threads, weights or a factor aren't as the loops have them.

    The reference are the compiled loops, which the tests above compare with quadrature.
    """
    small = problem("SE0", 0.3, 0.0, 1.0, n=60)
    monkeypatch.setattr(objectives, "LARGE", 60)
    large = problem("SE0", 0.3, 0.0, 1.0, n=60)
    assert (small.problem.blocked, large.problem.blocked) == (False, True)
    fitted = fit(small, [np.array([0.3, 0.3, -2.0])])
    expected, found = (laplace(one, fitted)[1].value for one in (small, large))
    assert found == pytest.approx(expected, abs=1e-6)
    for one, other in zip(
        draw_values(small, fitted)[:2], draw_values(large, fitted)[:2], strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize(("slope", "expected"), [(-0.5, 1 - math.log(0.5)), (0.5, -math.inf)])
def test_an_optimum_without_neighbours(slope, expected):
    """Catches an error where no covariance beside the optimum can be factorised."""
    assert _log_integral(*np.array([[-2.0], [1.0], [slope]])) == pytest.approx(expected)


def bends(values):
    """Return the largest second difference: neighbours of a jump have one as large."""
    return np.abs(np.diff(values, 2)).max()


@pytest.mark.parametrize(("text", "noise"), [("WHITE", 0.09), ("LIN0", 0.1), ("SE0", 0.05)])
def test_no_jump_as_the_priors_centre_moves_through_the_floor(text, noise):
    """Catches two formulas that don't meet: they were up to 2 nats apart at the boundary."""
    centres = FLOOR + np.arange(-1.0, 1.0, 0.05)
    assert bends([evidence(problem(text, noise, c, 0.4)) for c in centres]) < 0.02


def test_the_evidence_is_exact_for_a_normal_posterior():
    # With next to no weight in the data the posterior is the prior, whose integral is known.
    where = Coordinates(POOL, Composition.parse("LIN0"))
    x, y = data("LIN0", 0.4, n=1)
    centre, spread = np.array([-12.0, 0.0, 0.0]), np.array([0.3, 0.5, 1e-3])
    objective = Objective(where, x, y, normal_prior(centre, spread))
    _, found = laplace(objective, fit(objective, [centre]))
    assert found.value == found.score == pytest.approx(norm(0, 1).logpdf(y[0]), abs=1e-3)


def test_flat_priors_have_no_mass_below_the_floor():
    """Catches a flat density that is continued below the floor, where it has no end."""
    where = Coordinates(POOL, Composition())
    x, y = data("WHITE", 0.1)
    objective = Objective(where, x, y)
    log_noises = np.linspace(FLOOR, 3.0, 4001)
    heights = objective.evaluate(log_noises[:, None])[0]
    expected = np.log(np.trapezoid(np.exp(heights - heights.max()), log_noises)) + heights.max()
    assert evidence(objective) == pytest.approx(expected, abs=0.02)


def test_where_nothing_is_finite_there_is_no_evidence():
    where = Coordinates(POOL, Composition.parse("SE0"))
    x, y = data("SE0", 0.1)
    objective = Objective(where, x, y + 1e200)  # its square overflows
    assert laplace(objective, fit(objective, [np.zeros(3)]))[1].value == -math.inf


@pytest.mark.parametrize("seed", [276, 373, 755, 1105, 1692, 3145])
def test_a_wrong_slope_far_out_does_not_outweigh_the_rest(seed):
    """The other coordinates can't follow the noise to its last node here, where slopes are wild.

    A cubic through them was 10 to 120 nats above the evidence, of one fit in 400. The reference is
    the mean likelihood over draws from the prior; modes that weren't fitted have up to a nat of it.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    x = np.arange(n)[:, None] / 9
    y = 2 * rng.normal() * x[:, 0] + np.sin(rng.uniform(1, 6) * x[:, 0] + rng.normal())
    y += rng.uniform(0.1, 0.5) * rng.normal(size=n)
    where = Coordinates(CandidatePool(["PER0", "SE0"]), Composition.parse("PER0 + SE0"))
    centre = np.array([-2.5, -0.8, -1.6, -0.2, -0.8, -2.5])
    spread = np.array([1.6, 0.75, 0.13, 0.65, 0.45, 1.2])
    objective = Objective(where, x, y, normal_prior(centre, spread), 1e-3)
    draws = centre + spread * rng.normal(size=(20_000, 6))
    draws[:, -1] = np.maximum(draws[:, -1], math.log(1e-3))
    heights, _ = objective.with_prior(flat_prior(6)).evaluate(draws)
    expected = logsumexp(heights) - math.log(len(draws))
    assert laplace(objective, fit(objective, [centre]))[1].value == pytest.approx(expected, abs=1.5)


@pytest.mark.parametrize("seed", [9, 22, 114, 444])
def test_a_fit_that_took_a_function_for_noise_is_made_again(seed):
    """Starts with long lengthscales end at much noise, 9 to 13 nats below the other optimum."""
    rng = np.random.default_rng(seed)
    x = np.arange(10)[:, None] / 9
    y = rng.normal() * x[:, 0] + np.sin(rng.uniform(4, 12) * x[:, 0] + rng.normal())
    y += 0.05 * rng.normal(size=10)
    where = Coordinates(POOL, Composition.parse("SE0"))
    prior = normal_prior(np.array([0.0, 1.0, -1.0]), np.array([1.0, 1.5, 2.0]))
    objective = Objective(where, x, y, prior, 1e-4)
    low = fit(objective, [np.array([0.0, 3.0, 0.0])])
    best = fit(objective, [np.array([0.0, v, -5.0]) for v in (-2.0, -1.0, 0.0)])
    assert best.height > low.height + 9
    found, evidence = laplace(objective, low)
    assert found.height == pytest.approx(best.height, abs=0.01)
    assert evidence.value == pytest.approx(laplace(objective, best)[1].value, abs=0.02)
