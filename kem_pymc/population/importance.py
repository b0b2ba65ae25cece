"""Adaptive importance sampling around Laplace's approximation, with Pareto-smoothed weights.

A t distribution with the mode and 1.2 times the inverse curvature of the log density gives the
first draws; the weighted mean and covariance of all draws give the distribution of the next ones.
The weight of each draw is the ratio of its density to the mixture of all these distributions
(Cornuet, Marin, Mira and Robert 2012). There are at least two rounds, and more until the shape of
the largest weights' distribution, k-hat, is at most 0.7 (Vehtari, Simpson, Gelman, Yao and Gabry
2024), and the weights are worth enough independent draws.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import optimize, special, stats

#: Degrees of freedom, and the factor of the covariance, of the proposals.
FREEDOM, WIDER = 7.0, 1.2

#: Smallest and largest number of rounds, and the largest k-hat of reliable weights.
LEAST_ROUNDS, MOST_ROUNDS, RELIABLE = 2, 30, 0.7

#: Effective number of draws, as a share of those asked for, with which there is no other round.
ENOUGH = 0.5

#: Number of draws from which the share of a proposal above the lower ends is estimated.
SHARE_DRAWS = 4000

#: Steps of finite differences, for slopes and for curvatures, and the smallest distance of the
#: mode from an end, at which curvatures are taken.
SLOPE_STEP, STEP, INSIDE = 1e-5, 0.03, 0.02

#: Largest sd of a coordinate in the first proposal.
WIDEST = 2.5


class ImportanceDraws(NamedTuple):
    """Draws of a posterior, with weights.

    Attributes
    ----------
    draws : ndarray, shape (S, d)
    weights : ndarray, shape (S,)
        Pareto-smoothed weights, which add up to one.
    log_evidence : float
        Log of the mean raw weight: the log marginal likelihood.
    pareto_k : float
        k-hat of the weights.
    effective : float
        Effective number of independent draws.
    """

    draws: np.ndarray
    weights: np.ndarray
    log_evidence: float
    pareto_k: float
    effective: float


def sample(
    log_density: Callable[[np.ndarray], np.ndarray],
    starts: np.ndarray,
    low: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> ImportanceDraws:
    """Draw from a density by importance sampling.

    Parameters
    ----------
    log_density : callable
        Function from points (S, d) to unnormalised log densities (S,), minus infinity below `low`.
    starts : ndarray, shape (r, m, d)
        Points in r regions. The mode is searched for from the highest of each region.
    low : ndarray, shape (d,)
        Lower end of each coordinate; minus infinity where there is none.
    count : int
        Number of draws S, of which each round has a half. After more than two rounds they are drawn
        from all draws, in proportion to their weights, and then have equal weights.
    rng : Generator

    Returns
    -------
    ImportanceDraws
    """
    mode = _mode(log_density, starts, low)
    values, vectors = np.linalg.eigh(_curvature(log_density, mode, low))
    covariance = (vectors / np.maximum(values, WIDEST**-2)) @ vectors.T
    proposals = [_Proposal.around(mode, covariance, low, rng)]
    draws, heights = np.zeros((0, len(mode))), np.zeros(0)
    while True:
        new = proposals[-1].draw(count // LEAST_ROUNDS)
        draws, heights = np.vstack([draws, new]), np.append(heights, log_density(new))
        every = [proposal.log_density(draws) for proposal in proposals]
        ratios = heights - special.logsumexp(every, axis=0) + np.log(len(proposals))
        log_weights, pareto_k = smoothed(ratios)
        weights = np.exp(log_weights)
        effective = float(1 / np.sum(weights**2))
        if len(proposals) == MOST_ROUNDS or (
            len(proposals) >= LEAST_ROUNDS and pareto_k <= RELIABLE and effective >= ENOUGH * count
        ):
            break
        centre = weights @ draws
        away = draws - centre
        covariance = (weights * away.T) @ away + 1e-4 * np.eye(len(mode))
        proposals.append(_Proposal.around(centre, covariance, low, rng))
    evidence = float(special.logsumexp(ratios) - np.log(len(draws)))
    if len(proposals) > LEAST_ROUNDS:
        places = (rng.random() + np.arange(count)) / count  # systematic resampling
        ends = np.cumsum(weights)
        draws = draws[np.searchsorted(ends, places * ends[-1])]
        weights = np.full(count, 1 / count)
    return ImportanceDraws(draws, weights, evidence, pareto_k, effective)


def smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Return Pareto-smoothed log weights, whose exponentials add up to one, and k-hat."""
    from arviz_stats.base import array_stats

    finite = np.where(np.isfinite(log_ratios), log_ratios, -1e4)
    try:
        # ArviZ takes log likelihoods, whose negative values are the log weights.
        log_weights, pareto_k = array_stats.psislw(-finite)
    except ValueError:  # the largest ratios are equal, as those of a few draws that are repeated
        log_weights, pareto_k = finite, np.inf
    return log_weights - special.logsumexp(log_weights), float(pareto_k)


def _mode(
    log_density: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, low: np.ndarray
) -> np.ndarray:
    """Return the highest mode found from the highest of several starts in each region."""

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        height, slope = differences(log_density, x)
        return -height, -slope

    bounds = [(end if np.isfinite(end) else -8.0, 4.0) for end in low]
    options = {"maxiter": 200, "ftol": 1e-7, "gtol": 1e-3}
    how: Any = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options}
    highest = [region[np.argmax(log_density(region))] for region in starts]
    found = [optimize.minimize(negative, start, **how) for start in highest]
    return min(found, key=lambda result: result.fun).x


def differences(
    log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return a log density at a point (d,), and its slope by finite differences."""
    height = log_density(np.vstack([x, x + SLOPE_STEP * np.eye(len(x))]))
    height = np.where(np.isfinite(height), height, -1e10)
    return float(height[0]), (height[1:] - height[0]) / SLOPE_STEP


def _curvature(
    log_density: Callable[[np.ndarray], np.ndarray], mode: np.ndarray, low: np.ndarray
) -> np.ndarray:
    """Return the negative matrix of second derivatives at a mode, by central differences."""
    step = np.where(np.isfinite(low), INSIDE, STEP)
    x = np.maximum(mode, low + 1.01 * step)
    i, j = np.tril_indices(len(x))
    one, other = np.diag(step)[i], np.diag(step)[j]
    corners = [x + one + other, x + one - other, x - one + other, x - one - other]
    up, across, back, down = log_density(np.vstack(corners)).reshape(4, -1)
    second = np.zeros((len(x), len(x)))
    second[i, j] = second[j, i] = -(up - across - back + down) / (4 * step[i] * step[j])
    return np.nan_to_num(second, nan=0.0, posinf=1e6, neginf=0.0)


class _Proposal(NamedTuple):
    """A t distribution of points above lower ends, which have the probability exp(log_share)."""

    t: Any
    low: np.ndarray
    log_share: float

    @classmethod
    def around(
        cls, centre: np.ndarray, covariance: np.ndarray, low: np.ndarray, rng: np.random.Generator
    ) -> Self:
        t = stats.multivariate_t(centre, WIDER * covariance, df=FREEDOM, seed=rng)
        share = float((t.rvs(SHARE_DRAWS).reshape(SHARE_DRAWS, -1) > low).all(axis=1).mean())
        return cls(t, low, np.log(max(share, 1 / SHARE_DRAWS)))

    def draw(self, count: int) -> np.ndarray:
        kept = np.zeros((0, len(self.low)))
        while len(kept) < count:
            new = self.t.rvs(count).reshape(count, -1)
            kept = np.vstack([kept, new[(new > self.low).all(axis=1)]])
        return kept[:count]

    def log_density(self, draws: np.ndarray) -> np.ndarray:
        return self.t.logpdf(draws) - self.log_share
