"""Fit the hyperparameters and the noise of one composition to one data set, and judge the fit."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.maximise import maximise
from kem_pymc.gp.objective import Coordinates, Objective
from kem_pymc.gp.predict import covariance_factor, solve_lower
from kem_pymc.machine import one_blas_thread

#: Logs stay within plus or minus this,
WIDEST_LOG = 20.0

#: and other hyperparameters within plus or minus this.
WIDEST_VALUE = 1e4


@dataclass(frozen=True, eq=False)
class Fit:
    """Where an objective is largest.

    Attributes
    ----------
    values : ndarray, shape (k + 1,)
        Coordinates of the optimum (:mod:`kem_pymc.gp.objective`).
    log_likelihood, log_prior : float
        The objective's terms there.
    evaluations : int
        How often the likelihood and its gradient were computed.
    converged : bool
        Whether the search arrived at an optimum.
    """

    values: np.ndarray
    log_likelihood: float
    log_prior: float
    evaluations: int
    converged: bool

    @property
    def height(self) -> float:
        """Log likelihood plus log prior."""
        return self.log_likelihood + self.log_prior


def fit(
    objective: Objective,
    starts: Iterable[np.ndarray],
    runs: int | None = None,
    log_noise: float | None = None,
) -> Fit:
    """Maximise log likelihood plus log prior, by BFGS with analytic gradients and bounds.

    Nothing is random and nothing raises. Where the covariance isn't positive definite the search
    steps back; if no start has a finite objective, the first one is returned as not converged,
    with a log likelihood of minus infinity.

    The optimum is that of the density above the floor of the noise. Where the prior has mass below
    the floor, that counts in the evidence (:mod:`kem_pymc.gp.evidence`), which compositions are
    compared by; within one composition a point mass and a density have no common height.

    Parameters
    ----------
    objective : Objective
    starts : iterable of ndarray, shape (k + 1,)
        Coordinates to start from, at least one; they are moved within the bounds.
    runs : int, optional
        How many of the starts are followed, those with the largest objective; all by default.
    log_noise : float, optional
        Where to hold the log noise.

    Returns
    -------
    Fit
        The best optimum found; its noise variance is at least the objective's floor.
    """
    low, high = bounds(objective.coordinates, objective.noise_floor)
    if log_noise is not None:
        low[-1] = high[-1] = log_noise
    points = np.unique(np.clip(np.array(list(starts)), low, high), axis=0)
    followed = len(points) if runs is None else min(runs, len(points))
    return Fit(*maximise(objective.problem, points, followed, low, high))


def bounds(coordinates: Coordinates, noise_floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest coordinates (k + 1,) that a fit may reach."""
    positive = [h.positive for h in coordinates.hyperparameters]
    high = np.append(np.where(positive, WIDEST_LOG, WIDEST_VALUE), WIDEST_LOG)
    low = -high
    low[-1] = math.log(noise_floor)
    return low, high


class Criterion(NamedTuple):
    """How a fit is judged.

    Attributes
    ----------
    value : float
        By convention; of BIC and AIC the smaller is better.
    score : float
        Larger is better, on the scale of a log probability.
    """

    value: float
    score: float


def bic(log_likelihood: float, n_parameters: int, n_points: int) -> Criterion:
    """Return the Bayesian information criterion |theta| ln n - 2 ln L (paper, section 5.4).

    Parameters
    ----------
    log_likelihood : float
    n_parameters : int
        |theta|: hyperparameters of the kernel, and the noise.
    n_points : int
        n.
    """
    value = n_parameters * math.log(n_points) - 2 * log_likelihood
    return Criterion(value, -value / 2)


def aic(log_likelihood: float, n_parameters: int) -> Criterion:
    """Return Akaike's information criterion 2 |theta| - 2 ln L."""
    value = 2 * n_parameters - 2 * log_likelihood
    return Criterion(value, -value / 2)


@one_blas_thread()
def leave_one_out(objective: Objective, values: np.ndarray) -> Criterion:
    """Return the sum of the log predictive densities of each point given the others.

    In closed form (Rasmussen & Williams 2006, eqs. 5.10 to 5.12): with A the covariance of the
    targets, point i has predictive variance 1 / [A^-1]_ii and residual [A^-1 y]_i / [A^-1]_ii.

    Parameters
    ----------
    objective : Objective
    values : ndarray, shape (k + 1,)
        Coordinates of the fit.
    """
    u = covariance_factor(objective, values)
    if u is None:
        return Criterion(-math.inf, -math.inf)
    inverse = solve_lower(u, np.eye(len(u)))  # of U', so that A^-1 is inverse' inverse
    precision = (inverse**2).sum(axis=0)
    residual = inverse.T @ (inverse @ objective.problem.y) / precision
    densities = 0.5 * np.log(precision) - HALF_LOG_2PI - 0.5 * residual**2 * precision
    total = float(densities.sum())
    return Criterion(total, total)
