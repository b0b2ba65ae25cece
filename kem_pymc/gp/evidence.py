"""The log evidence of a composition, and draws of its coordinates from their posterior.

The evidence is likelihood times prior, integrated over all coordinates.

The noise variance of a fit is bounded below by a floor, whose log is l. Noise below the floor
counts as noise at the floor: the prior of the log noise, with distribution function F, is censored
there, and the evidence is

    F(l) g(l)  +  integral from l of g(v) p(v) dv,

with p the prior density of the log noise v and g(v) the integral of the likelihood times the prior
over the other coordinates. The formula holds whether the optimum is at the floor or above it, so
the evidence is continuous as the floor, or the prior's centre, moves through the optimum. (The
density of the prior at the floor can't replace the mass below it: for a prior with a standard
deviation of 0.1 the two easily differ by 100 nats.) A flat prior has no mass below the floor.

Predictions at an optimum ignore the uncertainty of its values, and are overconfident with few
points. They average over draws that reweight Laplace's approximation. The draws are few and evenly
spread: a scrambled Sobol sequence with a fixed seed, so that the result is deterministic, moved and
stretched to have the moments of the normal distribution exactly: means and covariances, and with
their mirror images third moments too.
"""

import functools
import math

import numpy as np
from scipy.special import log_ndtr, ndtri
from scipy.stats import qmc

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.fit import Criterion, Fit, bounds, fit
from kem_pymc.gp.laplace import LEAST_CURVATURE, Laplace, curvature_at, principal_axes
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import Prior, evaluate, noise_log_prior

#: Distance of the first nodes in scales of the log noise, and the factor from one distance to the
#: next.
SPACING, GROWTH = 1.8, 1.3

#: Nodes are added until the integrand has fallen by this many nats, or one side has this many
#: nodes.
MAX_DROP_NATS, MAX_NODES = 8.0, 10

#: At a node, Newton's method ends when another step predicts a gain of less than this many nats.
MIN_GAIN_NATS = 0.02

#: Distance from the optimum along each principal axis, in standard deviations, at which the
#: integrand over the other coordinates is compared with the normal density (the Gauss-Hermite rule
#: with three nodes), and the largest excess over it in nats.
AXIS_NODE, MAX_EXCESS_NATS = math.sqrt(3.0), 3.0

#: Largest slope of the log integrand at a node, relative to the mean slope between two nodes: with
#: a larger one the cubic wouldn't be monotone, and one wrong slope in a tail would dominate the
#: integral (Fritsch & Carlson 1980).
MAX_SLOPE_RATIO = 3.0

#: Prior mass below a distant floor counts if it is more than this many times the mass that a normal
#: prior could have there, given its density at the floor and the integrand's width.
MIN_MASS_RATIO = 10.0

#: A fit is replaced by another optimum, found while integrating, if that is this many nats higher.
MIN_CLIMB_NATS = 0.5

_WHERE, _WEIGHTS = np.polynomial.legendre.leggauss(6)

#: Number and length of the steps of Simpson's rule for a prior's mass below the floor.
_STEPS, _LENGTH = 800, 0.05


#: Number of draws, a power of two, and most points for which there are as many mirror images: with
#: them errors of quantiles are halved (docs/explanation/evidence/families.md), and so are they by
#: exact covariances. Up to as many points draws have observations of their own, for which matrices
#: are factorised anew.
DRAWS, MIRRORED = 8, 100

#: Factor by which draws of the log noise reach further than Laplace's approximation: few rows leave
#: a tail of large noise, on which the quantiles of 99 % intervals depend.
STRETCH = 1.2

#: Most points for which values are drawn: with 1,000 it takes 1 to 5 s. A trend is one trend, and a
#: long lengthscale has few turns, however many points there are, so the number alone says little.
LARGEST = 1000

#: Largest log weight of a draw relative to Laplace's approximation, in nats.
MOST = 3.0


@compiled
def _ridge(problem, values, height, gradient, curvature):
    """Return how likelihood times prior behaves near an optimum, as the log noise changes.

    Parameters
    ----------
    problem : Problem
    values : (k + 1,) float64
        Coordinates of the optimum.
    height, gradient, curvature : float, (k + 1,) and (k + 1, k + 1) float64
        What :func:`~kem_pymc.gp.laplace.curvature_at` returns there.

    Returns
    -------
    inverse : (k, k) float64
        Covariance of the other coordinates, by Laplace's approximation.
    direction : (k,) float64
        Change of their most probable values with the log noise.
    scale : float
        Distance over which the integrand falls by about one nat: the sd, or 1 / slope at a floor.
    log_integral : float
        Log of the integral of likelihood times prior over the other coordinates, at the optimum's
        log noise and relative to the height there. Computed by Laplace's approximation, corrected
        along each principal axis by the Gauss-Hermite rule with three nodes.
    bend : float
        Slope of `log_integral` in the log noise.
    """
    k = values.shape[0] - 1
    curvatures, vectors = principal_axes(curvature[:k, :k])
    inverse, direction = np.zeros((k, k)), np.zeros(k)
    width, log_integral, bend = curvature[k, k], 0.0, 0.0
    for i in range(k):
        log_integral += HALF_LOG_2PI - 0.5 * math.log(curvatures[i])
        for a in range(k):
            for b in range(k):
                inverse[a, b] += vectors[a, i] * vectors[b, i] / curvatures[i]
    for a in range(k):
        direction[a] = -(inverse[a] * curvature[:k, k]).sum()
        width += curvature[k, a] * direction[a]
    scale = 1 / math.hypot(math.sqrt(max(width, LEAST_CURVATURE)), gradient[k])
    there, slopes = values.copy(), np.empty(k + 1)
    for i in range(k):
        total, turned = 4.0, 0.0
        for sign in (1.0, -1.0):
            there[:k] = values[:k] + sign * AXIS_NODE / math.sqrt(curvatures[i]) * vectors[:, i]
            likelihood, density = evaluate(problem, there, slopes)
            excess = likelihood + density - height + AXIS_NODE**2 / 2
            rise = math.exp(min(excess, MAX_EXCESS_NATS))
            total += rise
            turn = slopes[k] - gradient[k]
            turned += rise * (turn + ((slopes[:k] - gradient[:k]) * direction).sum())
        log_integral += math.log(total / 6)
        bend += turned / total
    return inverse, direction, scale, log_integral, bend


@compiled
def _at_one_noise(problem, values, height, gradient, curvature):
    """Return the log of the integral over the coordinates but the log noise; see `_ridge`."""
    inverse, direction, _, log_integral, _ = _ridge(problem, values, height, gradient, curvature)
    gain, _ = _corrected(inverse, direction, values.copy(), gradient)
    return height + gain + log_integral


@compiled
def _corrected(inverse, direction, values, gradient):
    """Move `values` (k + 1,) by a step of Newton's method over the coordinates but the log noise.

    Returns
    -------
    gain, slope : float
        Gain that the step predicts, and slope of the logarithm of the maximum in the log noise.
    """
    k = direction.shape[0]
    gain = 0.0
    for a in range(k):
        move = (inverse[a] * gradient[:k]).sum()
        gain += 0.5 * gradient[a] * move
        values[a] += move
    return gain, gradient[k] + (direction * gradient[:k]).sum()


@compiled
def _node(problem, inverse, direction, values):
    """Move `values` (k + 1,) to the maximum over the coordinates but the last, the log noise.

    Returns
    -------
    height, slope : float
        Logarithm of the maximum and its slope in the log noise; minus infinity, and zero, where the
        objective isn't finite.
    """
    height, slope = -math.inf, 0.0
    there, gradient = values.copy(), np.empty(values.shape[0])
    for _ in range(3):
        likelihood, density = evaluate(problem, there, gradient)
        if likelihood + density <= height:
            break  # the curvature at the first optimum is too inaccurate here
        height = likelihood + density
        values[:] = there
        gain, slope = _corrected(inverse, direction, there, gradient)
        if gain < MIN_GAIN_NATS:
            values[:] = there
            return height + gain, slope
    return height, slope


@compiled
def _side(problem, inverse, direction, length, end, points, heights, slopes, sign):
    """Write nodes after the first, which is in the middle of the arrays, on one side of it.

    Parameters
    ----------
    inverse, direction
        As :func:`_ridge` returns them.
    length : float
        Distance of the next node.
    end : float
        Log noise of the last node, at most.
    points, heights, slopes : (2 `MAX_NODES` + 1, k + 1), (2 `MAX_NODES` + 1,) float64
        Coordinates of the nodes, in the order of the log noise; logarithms of the maxima over the
        other coordinates, and their slopes in the log noise.
    sign : int
        1 for larger log noises, -1 for smaller ones.

    Returns
    -------
    int
        Place of the last node in the arrays.
    """
    k = direction.shape[0]
    last = MAX_NODES
    lowest = heights[last] - MAX_DROP_NATS
    for _ in range(MAX_NODES):
        if not heights[last] > lowest or points[last, k] == end:
            break
        place = points[last, k] + sign * length
        place = max(place, end) if sign < 0 else place
        there = points[last + sign]
        there[:k] = points[last, :k] + direction * (place - points[last, k])
        there[k] = place
        height, slope = _node(problem, inverse, direction, there)
        if not math.isfinite(height):
            break
        last += sign
        heights[last], slopes[last] = height, slope
        lowest = max(lowest, height - MAX_DROP_NATS)
        length *= GROWTH
    return last


@compiled
def _evidence(problem, values, height, gradient, curvature, floor, below):
    """Return the log evidence around an optimum, and what may have to be added to it.

    Parameters
    ----------
    problem, values, height, gradient, curvature
        As for :func:`_ridge`.
    floor : float
        Log of the noise floor.
    below : float
        Log of the prior's mass below the floor, relative to its density there.

    Returns
    -------
    evidence : float
    highest : (k + 1,) float64
        The highest node.
    climb : float
        How many nats it is higher than the optimum.
    lowest : (k + 1,) float64
        The node with the smallest log noise.
    missing : bool
        Whether there is no node at the floor although the mass below it counts: it isn't included.
    """
    k = values.shape[0] - 1
    inverse, direction, scale, log_integral, bend = _ridge(
        problem, values, height, gradient, curvature
    )
    points, first = np.empty((2 * MAX_NODES + 1, k + 1)), MAX_NODES
    heights, slopes = np.empty(2 * MAX_NODES + 1), np.empty(2 * MAX_NODES + 1)
    points[first] = values
    gain, slopes[first] = _corrected(inverse, direction, points[first], gradient)
    heights[first] = height + gain
    # The search of a side needs the first node and what it has written itself.
    given = problem, inverse, direction, SPACING * scale
    low = _side(*given, floor, points, heights, slopes, -1)
    high = _side(*given, math.inf, points, heights, slopes, 1) + 1
    highest = low + np.argmax(heights[low:high])
    climb = heights[highest] - heights[first]
    places = points[low:high, k].copy()
    offsets = log_integral + bend * (places - places[first - low])
    totals = heights[low:high] + offsets
    evidence = _log_integral(places, totals, slopes[low:high] + bend)
    missing = False
    if places[0] <= floor:
        evidence = np.logaddexp(evidence, below + totals[0])
    else:
        missing = below > math.log(MIN_MASS_RATIO * scale)
    return evidence, points[highest].copy(), climb, points[low].copy(), missing


def laplace(objective: Objective, fitted: Fit) -> tuple[Fit, Criterion]:
    """Compute the log evidence around a fit, and return the fit with it.

    The log noise is integrated over numerically: at each node the objective is maximised over the
    other coordinates, starting from an extrapolation of the previous node, and between nodes the
    log integrand is a monotone cubic through heights and slopes. The other coordinates are
    integrated out at the optimum, by Laplace's approximation with a correction along each principal
    axis; the resulting integral is taken to be log-linear in the log noise. Curvatures below
    `LEAST_CURVATURE` are replaced by it, because without a prior a direction may be flat. The cost
    is about 3 k + 6 gradients.

    Where the objective has several optima, a node may be higher than the fit. The objective is then
    maximised again from that node.

    Parameters
    ----------
    objective : Objective
    fitted : Fit
        Optimum of the objective, at or above the noise floor.

    Returns
    -------
    Fit
        The given fit, or a higher one.
    Criterion
        Log evidence, as both value and score; minus infinity where the objective is minus infinity.
    """
    if not math.isfinite(fitted.height):
        return fitted, Criterion(-math.inf, -math.inf)
    floor = math.log(objective.noise_floor)
    below = _below(objective.problem.prior, floor)
    local = curvature_at(objective, fitted.values)
    evidence, highest, climb, lowest, missing = objective.compute(
        _evidence, fitted.values, *local, floor, below
    )
    if climb > MIN_CLIMB_NATS:
        higher = fit(objective, [highest])
        if higher.height > fitted.height + MIN_CLIMB_NATS:
            return laplace(objective, higher)
    if missing:
        held = fit(objective, [np.append(lowest[:-1], floor)], log_noise=floor).values
        at_floor = objective.compute(_at_one_noise, held, *curvature_at(objective, held))
        evidence = float(np.logaddexp(evidence, below + at_floor))
    return fitted, Criterion(evidence, evidence)


@compiled
def _log_integral(places, heights, slopes):
    """Return the log of the integral of exp of a monotone cubic, given heights and slopes (m,).

    After the last place the integrand falls exponentially.
    """
    last = places.shape[0] - 1
    terms = np.empty(last * _WHERE.shape[0] + 1)
    for i in range(last):
        length, rise = places[i + 1] - places[i], heights[i + 1] - heights[i]
        # The optimum is a node, so the integrand is monotone between neighbouring nodes.
        low, high = min(0.0, MAX_SLOPE_RATIO * rise), max(0.0, MAX_SLOPE_RATIO * rise)
        first = min(max(length * slopes[i], low), high)
        second = min(max(length * slopes[i + 1], low), high)
        for j in range(_WHERE.shape[0]):
            t = (_WHERE[j] + 1) / 2
            cubic = heights[i] * (1 + 2 * t) * (1 - t) ** 2 + heights[i + 1] * t**2 * (3 - 2 * t)
            cubic += first * t * (1 - t) ** 2 - second * t**2 * (1 - t)
            terms[i * _WHERE.shape[0] + j] = cubic + math.log(length * _WEIGHTS[j] / 2)
    terms[-1] = heights[last] - math.log(-slopes[last]) if slopes[last] < 0 else -math.inf
    return _log_sum(terms)


@compiled
def _log_sum(terms):
    """Return the log of the sum of exp of the terms (m,)."""
    largest = terms.max()
    return largest + math.log(np.exp(terms - largest).sum()) if largest > -math.inf else -math.inf


def _below(prior: Prior, floor: float) -> float:
    """Return the log of the prior's mass below a log noise, relative to its density there."""
    if prior.from_study:
        heights = np.empty(_STEPS + 1)
        noise_log_prior(prior, floor - _LENGTH * np.arange(_STEPS + 1), heights)
        simpson = np.where(np.arange(_STEPS + 1) % 2, 4.0, 2.0)
        simpson[[0, -1]] = 1.0
        return _log_sum(heights + np.log(simpson * _LENGTH / 3)) - float(heights[0])
    precision = float(prior.precision[-1])
    if not precision > 0:
        return -math.inf
    away = (floor - float(prior.centre[-1])) * math.sqrt(precision)
    return float(log_ndtr(away)) + away**2 / 2 + HALF_LOG_2PI - math.log(precision) / 2


def draw_values(
    objective: Objective, fitted: Fit, own: bool = True
) -> tuple[np.ndarray, np.ndarray, list[Objective]]:
    """Draw coordinates from their posterior, around an optimum.

    Draws from the normal distribution at the optimum (Laplace's approximation with a wider log
    noise, clipped to the bounds of a fit, such as the noise floor) are weighted in proportion to
    the posterior density over the normal density. Only the optimum is returned where the prior is
    flat, because the posterior may be improper; where the objective isn't finite; and of more than
    `LARGEST` points.

    Observations that stand for targets of a family depend on the values: with those of the optimum
    ends of 95 % intervals would be up to twice as far off. With its own, the weight of a draw is
    that of the targets themselves.

    Parameters
    ----------
    objective : Objective
    fitted : Fit
        Optimum of the objective.
    own : bool
        Whether each draw has observations of its own that stand for targets of a family.

    Returns
    -------
    values : ndarray, shape (S, k + 1)
        Draws of coordinates.
    weights : ndarray, shape (S,)
        Weights of the draws, which add up to one.
    objectives : list of Objective, length S
        The objective of each draw.
    """
    prior = objective.problem.prior
    proper = prior.from_study or bool((prior.precision > 0).all())
    alone = fitted.values[None], np.ones(1), [objective]
    if not (proper and np.isfinite(fitted.height)) or objective.n_points > LARGEST:
        return alone
    normal = _normal(len(fitted.values))
    if objective.n_points <= MIRRORED:
        normal = np.concatenate([normal, -normal])
    curvature = curvature_at(objective, fitted.values)[2].copy()
    curvature[-1, -1] -= (1 - STRETCH**-2) / Laplace(curvature).covariance[-1, -1]
    around = Laplace(curvature)
    low, high = bounds(objective.coordinates, objective.noise_floor)
    values = np.clip(fitted.values + around.scaled(normal), low, high)
    if objective.recorded is None or not own or objective.n_points > MIRRORED:
        objectives, heights = [objective] * len(values), objective.heights(values)
    else:
        objectives = objective.around(values, objective.sites)
        terms = [sum(o.terms(v)) + o.log_constant for o, v in zip(objectives, values, strict=True)]
        heights = np.array(terms) - objective.log_constant
    # Values at a bound stand for all beyond it, so what counts is how far the bound is.
    falls = 0.5 * around.squares(values - fitted.values)
    weights = np.exp(np.minimum(heights - fitted.height + falls, MOST))
    if not weights.any():
        return alone
    return values, weights / weights.sum(), objectives


@functools.cache
def _normal(size: int) -> np.ndarray:
    """Return draws (S, size) with sample means 0 and sds 1, uncorrelated if there are enough."""
    uniform = qmc.Sobol(size, rng=np.random.default_rng(0)).random(DRAWS)
    normal = ndtri(uniform)
    left, _, right = np.linalg.svd(normal - normal.mean(axis=0), full_matrices=False)
    rank = min(DRAWS - 1, size)  # the least change that makes all principal components as long
    normal = left[:, :rank] @ right[:rank]
    normal /= normal.std(axis=0)
    normal.flags.writeable = False
    return normal
