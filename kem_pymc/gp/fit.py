"""Fit the hyperparameters and noise variance of one composition to one data set; score fits."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.laplace import Laplace, curvature_at
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.maximise import maximise
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned

#: From this many points on, starts are followed on a subset, and the best optimum on all points.
MANY = 400

#: Size of the subset: the larger of this number and this share of all points.
FEW, SHARE = 250, 0.25

#: The golden ratio minus one: its multiples, modulo one, are evenly spread and never periodic.
GOLDEN = (math.sqrt(5) - 1) / 2

#: Bound of the absolute value of logs.
WIDEST_LOG = 20.0

#: Bound of the absolute value of other hyperparameters.
WIDEST_VALUE = 1e4


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of maximising an objective.

    Attributes
    ----------
    values : ndarray, shape (k + 1,)
        Coordinates of the optimum (:mod:`kem_pymc.gp.coordinates`).
    log_likelihood, log_prior : float
        Terms of the objective at the optimum.
    evaluations : int
        Number of evaluations of the likelihood and its gradient.
    converged : bool
        Whether the search converged to an optimum.
    curvature : ndarray, shape (k + 1, k + 1), optional
        Minus the Hessian of the objective at the optimum, as far as the search has learned it.
    """

    values: np.ndarray
    log_likelihood: float
    log_prior: float
    evaluations: int
    converged: bool
    curvature: np.ndarray | None = None

    @property
    def height(self) -> float:
        """Log likelihood plus log prior."""
        return self.log_likelihood + self.log_prior


def fit(
    objective: Objective,
    starts: Iterable[np.ndarray],
    runs: int | None = None,
    log_noise: float | None = None,
    least: float = -math.inf,
) -> Fit:
    """Maximise log likelihood plus log prior, by BFGS with analytic gradients and bounds.

    The result is deterministic, and no error is raised. Where the covariance isn't positive
    definite the line search steps back; if no start has a finite objective, the first in sorted
    order is returned as not converged, with a log likelihood of minus infinity. From `MANY` points
    on, the starts are followed on an evenly spread subset of the points, and the best optimum is
    refined on all points.

    The optimum is that of the density above the noise floor. Prior mass below the floor counts in
    the evidence (:mod:`kem_pymc.gp.evidence`), which is used to compare compositions; within one
    composition a point mass and a density can't be compared.

    Parameters
    ----------
    objective : Objective
    starts : iterable of ndarray, shape (k + 1,)
        Coordinates to start from, at least one; they are clipped to the bounds.
    runs : int, optional
        Number of starts to follow, those with the largest objective; all by default.
    log_noise : float, optional
        Fixed value of the log noise variance. By default it is fitted.
    least : float
        Height below which an optimum doesn't matter. A search ends unfinished where it won't be
        reached.

    Returns
    -------
    Fit
        The best optimum found; its noise variance is at least the objective's floor.
    """
    if objective.n_points >= MANY:
        some = thinned(objective)
        near = fit(some, starts, runs, log_noise)
        curvature = expected_curvature(objective, some, near.values)
        return refined(objective, near.values, curvature, log_noise)
    low, high = bounds(objective.coordinates, objective.noise_floor, log_noise)
    # np.unique would take as long as a short fit.
    points = np.array(sorted({tuple(p) for p in np.clip(np.array(list(starts)), low, high)}))
    followed = len(points) if runs is None else min(runs, len(points))
    nothing = np.empty((0, 0))
    return Fit(*objective.compute(maximise, points, followed, low, high, nothing, least))


def refined(
    objective: Objective, start: np.ndarray, curvature: np.ndarray, log_noise: float | None = None
) -> Fit:
    """Follow a start (k + 1,) near an optimum to it, on all points.

    Parameters
    ----------
    objective : Objective
    start : ndarray, shape (k + 1,)
    curvature : ndarray, shape (k + 1, k + 1)
        Positive definite guess of the curvature at the optimum.
    log_noise : float, optional
        As for :func:`fit`.

    Returns
    -------
    Fit
    """
    low, high = bounds(objective.coordinates, objective.noise_floor, log_noise)
    starts = np.clip(start, low, high)[None]
    return Fit(*objective.compute(maximise, starts, 1, low, high, curvature, -math.inf))


def expected_curvature(objective: Objective, few: Objective, near: np.ndarray) -> np.ndarray:
    """Return the curvature (k + 1, k + 1) of an objective that few of its points imply.

    It is taken to be proportional to the number of points, and made positive definite.
    """
    share = objective.n_points / few.n_points
    return Laplace(share * curvature_at(few, near)[2]).curvature


def thinned(objective: Objective) -> Objective:
    """Return the objective of a subset of the points, evenly spread over their order."""
    problem, places = objective.problem, spread_places(objective.n_points)
    x, y = problem.x.T[places], objective.targets[places]
    known = None if objective.known is None else objective.known.at(places)
    recorded = None if objective.recorded is None else objective.recorded.at(places)
    return Objective(
        objective.coordinates, x, y, problem.prior, objective.noise_floor, known, recorded
    )


def spread_places(n: int) -> np.ndarray:
    """Return the sorted indices of a subset of `n` points, evenly spread without a period."""
    count = max(FEW, int(SHARE * n))
    return np.sort(np.argsort(np.arange(n) * GOLDEN % 1.0, kind="stable")[:count])


def bounds(
    coordinates: Coordinates, noise_floor: float, log_noise: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper bounds (k + 1,) of a fit's coordinates.

    With a log noise the noise is held there.
    """
    high = np.where(coordinates.positive, WIDEST_LOG, WIDEST_VALUE)
    low = -high
    low[-1] = math.log(noise_floor)
    if log_noise is not None:
        low[-1] = high[-1] = log_noise
    return low, high


class Criterion(NamedTuple):
    """Criterion by which a fit is scored.

    Attributes
    ----------
    value : float
        Value in the usual convention; for BIC and AIC smaller is better.
    score : float
        Value on the scale of a log probability; larger is better.
    """

    value: float
    score: float

    def plus(self, log_probability: float) -> "Criterion":
        """Return the log evidence with another log probability added to it."""
        return Criterion(self.value + log_probability, self.score + log_probability)


def bic(log_likelihood: float, n_parameters: int, n_points: int) -> Criterion:
    """Return the Bayesian information criterion |theta| ln n - 2 ln L (paper, section 5.4).

    Parameters
    ----------
    log_likelihood : float
    n_parameters : int
        |theta|: the number of hyperparameters of the kernel, plus one for the noise.
    n_points : int
        Number of points n; without any, there is no penalty.

    Returns
    -------
    Criterion
    """
    value = n_parameters * math.log(max(n_points, 1)) - 2 * log_likelihood
    return Criterion(value, -value / 2)


def aic(log_likelihood: float, n_parameters: int) -> Criterion:
    """Return Akaike's information criterion 2 |theta| - 2 ln L."""
    value = 2 * n_parameters - 2 * log_likelihood
    return Criterion(value, -value / 2)


@one_blas_thread()
def leave_one_out(objective: Objective, values: np.ndarray) -> Criterion:
    """Return the sum of the log predictive densities of each point given all others.

    Parameters
    ----------
    objective : Objective
    values : ndarray, shape (k + 1,)
        Coordinates of the fit.

    Returns
    -------
    Criterion
        Minus infinity if the covariance isn't positive definite.
    """
    try:
        error, variance = Conditioned.of(objective, values).conditional.left_out()
    except InputError:
        return Criterion(-math.inf, -math.inf)
    total = -float((0.5 * np.log(variance) + HALF_LOG_2PI + 0.5 * error**2 / variance).sum())
    return Criterion(total, total)
