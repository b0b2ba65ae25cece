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
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri
from scipy.stats import qmc

from kem_pymc.gp.fit import Criterion, Fit, bounds, fit
from kem_pymc.gp.laplace import LEAST_CURVATURE, Laplace, curvature_at
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.problem import Prior, noise_log_prior

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
#: them errors of quantiles are halved (docs/evidence.md), and so are they by exact covariances. Up
#: to as many points draws have observations of their own, for which matrices are factorised anew.
DRAWS, MIRRORED = 8, 100

#: Factor by which draws of the log noise reach further than Laplace's approximation: few rows leave
#: a tail of large noise, on which the quantiles of 99 % intervals depend.
STRETCH = 1.2

#: Most points for which values are drawn: with 1,000 it takes 1 to 5 s. A trend is one trend, and a
#: long lengthscale has few turns, however many points there are, so the number alone says little.
LARGEST = 1000

#: Largest log weight of a draw relative to Laplace's approximation, in nats.
MOST = 3.0


class _Node(NamedTuple):
    """Maximum of likelihood times prior at one log noise, over the other coordinates (k,).

    Height and slope are those of the logarithm of the maximum, as a function of the log noise.
    """

    log_noise: float
    height: float
    slope: float
    others: np.ndarray


class _Ridge:
    """Most probable values of the other coordinates as a function of the log noise.

    Parameters
    ----------
    objective : Objective
    values : ndarray, shape (k + 1,)
        Coordinates of an optimum, near which the function is approximated.

    Attributes
    ----------
    first : _Node
        Node at the log noise of the optimum.
    log_integral : float
        Log of the integral of likelihood times prior over the other coordinates, at the optimum's
        log noise and relative to the height there. Computed by Laplace's approximation, corrected
        along each principal axis by the Gauss-Hermite rule with three nodes.
    bend : float
        Slope of `log_integral` in the log noise.
    """

    def __init__(self, objective: Objective, values: np.ndarray) -> None:
        self.objective = objective
        k = len(values) - 1
        height, gradient, curvature = curvature_at(objective, values)
        others = Laplace(curvature[:k, :k])
        self.inverse = others.covariance
        self.direction = -self.inverse @ curvature[:k, k]
        width = max(curvature[k, k] + curvature[k, :k] @ self.direction, LEAST_CURVATURE)
        #: Distance over which the integrand falls by about one nat: the sd, or 1 / slope at a
        #: floor.
        self.scale = 1 / math.hypot(math.sqrt(width), gradient[k])
        self.first = self._corrected(values, height, gradient)[0]
        self.log_integral = others.log_volume
        self.bend = 0.0
        if k:
            away = np.zeros((2 * k, k + 1))
            away[:, :k] = others.scaled(AXIS_NODE * np.vstack([np.eye(k), -np.eye(k)]))
            heights, slopes = objective.evaluate(values + away)
            rises = np.exp(np.minimum(heights - height + AXIS_NODE**2 / 2, MAX_EXCESS_NATS))
            totals = 4 + rises[:k] + rises[k:]
            self.log_integral += float(np.log(totals / 6).sum())
            turns = (slopes - gradient) @ np.append(self.direction, 1.0)
            self.bend = float((rises / np.tile(totals, 2)) @ turns)

    def node(self, others: np.ndarray, log_noise: float) -> _Node:
        """Return the node at a log noise, by Newton's method started at other coordinates (k,)."""
        best = _Node(log_noise, -math.inf, 0.0, others)
        for _ in range(3):
            values = np.append(others, log_noise)
            (height,), (gradient,) = self.objective.evaluate(values[None])
            if height <= best.height:
                break  # the curvature at the first optimum is too inaccurate here
            predicted, gain = self._corrected(values, height, gradient)
            if gain < MIN_GAIN_NATS:
                return predicted
            best, others = _Node(log_noise, height, predicted.slope, others), predicted.others
        return best

    def _corrected(
        self, values: np.ndarray, height: float, gradient: np.ndarray
    ) -> tuple[_Node, float]:
        """Return the node that one step of Newton's method predicts, and the predicted gain."""
        move = self.inverse @ gradient[:-1]
        gain = 0.5 * float(gradient[:-1] @ move)
        slope = float(gradient[-1] + self.direction @ gradient[:-1])
        return _Node(float(values[-1]), float(height) + gain, slope, values[:-1] + move), gain

    def nodes(self, floor: float) -> list[_Node]:
        """Return nodes ordered by log noise, over the range where the integrand matters."""
        return [*self._side(-1.0, floor)[::-1], self.first, *self._side(1.0, math.inf)]

    def _side(self, sign: float, end: float) -> list[_Node]:
        nodes: list[_Node] = []
        last, length = self.first, SPACING * self.scale
        lowest = last.height - MAX_DROP_NATS
        while len(nodes) < MAX_NODES and last.height > lowest and last.log_noise != end:
            place = last.log_noise + sign * length
            place = max(place, end) if sign < 0 else place
            last = self.node(last.others + self.direction * (place - last.log_noise), place)
            if not math.isfinite(last.height):
                break
            nodes.append(last)
            lowest = max(lowest, last.height - MAX_DROP_NATS)
            length *= GROWTH
        return nodes


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
    ridge = _Ridge(objective, fitted.values)
    nodes = ridge.nodes(math.log(objective.noise_floor))
    highest = max(nodes, key=lambda node: node.height)
    if highest.height > ridge.first.height + MIN_CLIMB_NATS:
        higher = fit(objective, [np.append(highest.others, highest.log_noise)])
        if higher.height > fitted.height + MIN_CLIMB_NATS:
            return laplace(objective, higher)
    evidence = _log_evidence(objective, ridge, nodes)
    return fitted, Criterion(evidence, evidence)


def _log_evidence(objective: Objective, ridge: _Ridge, nodes: list[_Node]) -> float:
    floor = math.log(objective.noise_floor)
    places = np.array([node.log_noise for node in nodes])
    offsets = ridge.log_integral + ridge.bend * (places - ridge.first.log_noise)
    heights = np.array([node.height for node in nodes]) + offsets
    slopes = np.array([node.slope for node in nodes]) + ridge.bend
    above = _log_integral(places, heights, slopes)
    mass, density = _below(objective.problem.prior, floor)
    if places[0] <= floor:
        at_floor = heights[0]
    elif mass - density > math.log(MIN_MASS_RATIO * ridge.scale):
        held = fit(objective, [np.append(nodes[0].others, floor)], log_noise=floor)
        there = _Ridge(objective, held.values)
        at_floor = there.first.height + there.log_integral
    else:
        return above
    return float(np.logaddexp(above, mass - density + at_floor))


def _log_integral(places: np.ndarray, heights: np.ndarray, slopes: np.ndarray) -> float:
    """Return the log of the integral of exp of a monotone cubic, given heights and slopes (m,).

    After the last place the integrand falls exponentially.
    """
    lengths, rises = np.diff(places), np.diff(heights)
    # The optimum is a node, so the integrand is monotone between neighbouring nodes.
    steepest = MAX_SLOPE_RATIO * rises
    low, high = np.minimum(0.0, steepest), np.maximum(0.0, steepest)
    first, second = (np.clip(lengths * s, low, high) for s in (slopes[:-1], slopes[1:]))
    t = (_WHERE[:, None] + 1) / 2
    cubic = heights[:-1] * (1 + 2 * t) * (1 - t) ** 2 + heights[1:] * t**2 * (3 - 2 * t)
    cubic += first * t * (1 - t) ** 2 - second * t**2 * (1 - t)
    terms = cubic + np.log(lengths * _WEIGHTS[:, None] / 2)
    tail = heights[-1] - math.log(-slopes[-1]) if slopes[-1] < 0 else -math.inf
    return _log_sum(np.append(terms, tail))


def _log_sum(terms: np.ndarray) -> float:
    """Return the log of the sum of exp of the terms (m,). SciPy's takes ten times as long."""
    largest = terms.max()
    return float(largest + np.log(np.exp(terms - largest).sum())) if largest > -np.inf else -np.inf


def _below(prior: Prior, floor: float) -> tuple[float, float]:
    """Return the log of the prior's mass below a log noise `floor`, and its log density there."""
    density = np.empty(1)
    noise_log_prior(prior, np.array([floor]), density)
    if prior.from_study:
        heights = np.empty(_STEPS + 1)
        noise_log_prior(prior, floor - _LENGTH * np.arange(_STEPS + 1), heights)
        simpson = np.where(np.arange(_STEPS + 1) % 2, 4.0, 2.0)
        simpson[[0, -1]] = 1.0
        mass = _log_sum(heights + np.log(simpson * _LENGTH / 3))
    elif prior.precision[-1] > 0:
        mass = float(log_ndtr((floor - prior.centre[-1]) * math.sqrt(prior.precision[-1])))
    else:
        mass = -math.inf
    return mass, float(density[0])


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
