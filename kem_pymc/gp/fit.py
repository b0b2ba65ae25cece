"""Fit the hyperparameters and the noise of one composition to one data set, and judge the fit."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.maximise import maximise
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Coordinates, Curvature, Objective
from kem_pymc.gp.predict import covariance_factor, solve_lower
from kem_pymc.machine import one_blas_thread

#: From so many points on, starts are followed on a few of them, and the best optimum on all.
MANY = 400

#: A few are so many, or this share of all.
FEW, SHARE = 250, 0.25

#: With many points, the objective is computed at most so often on all of them by one fit.
EVALUATIONS = 40

#: What a line search takes for the negative objective where it isn't finite.
WALL = 1e100

#: The golden section: its multiples, modulo one, are evenly spread and never periodic.
GOLDEN = (math.sqrt(5) - 1) / 2

#: Step of finite differences of the gradient.
STEP = 1e-4

#: No direction is taken to be wider than a standard deviation of 10: without a prior one may be
#: flat.
LEAST_CURVATURE = 0.01

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
    with a log likelihood of minus infinity. With many points the best optimum of an evenly spread
    few of them is followed on all.

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
    # NumPy's unique takes as long as a short fit.
    points = np.array(sorted({tuple(p) for p in np.clip(np.array(list(starts)), low, high)}))
    followed = len(points) if runs is None else min(runs, len(points))
    if objective.n_points < MANY:
        return Fit(*maximise(objective.problem, points, followed, low, high))
    few = thinned(objective)
    near = Fit(*maximise(few.problem, points, followed, low, high))
    if not objective.is_large:
        return Fit(*maximise(objective.problem, near.values[None], 1, low, high))
    return _fit_large(objective, few, near.values, low, high)


def _fit_large(
    objective: Objective, few: Objective, start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Fit:
    """Follow the optimum of a few points on all, in units that the few points' curvature gives."""
    sd = np.maximum(np.diag(curvature_at(few, start)[2]), LEAST_CURVATURE) ** -0.5
    sd *= math.sqrt(few.n_points / objective.n_points)

    def downhill(steps: np.ndarray) -> tuple[float, np.ndarray]:
        (height,), (gradient,) = objective.evaluate((start + steps * sd)[None])
        return (-height, -gradient * sd) if math.isfinite(height) else (WALL, gradient)

    found = minimize(
        downhill,
        np.zeros(len(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip((low - start) / sd, (high - start) / sd, strict=True)),
        # A thousandth of a nat is enough, of a sum of so many terms.
        options={"maxfun": EVALUATIONS, "ftol": 1e-3 / objective.n_points, "gtol": 1e-2},
    )
    values = np.clip(start + found.x * sd, low, high)
    likelihood, density = objective.terms(values)
    return Fit(values, likelihood, density, found.nfev + 1, bool(found.success))


def thinned(objective: Objective) -> Objective:
    """Return the objective of a few of the points, evenly spread over their order."""
    problem, places = objective.problem, spread_places(objective.n_points)
    x, y, shared = problem.x.T[places], objective.targets[places], objective.shared
    if shared is not None:
        shared = MeanAtPoints(shared.function, x)
    return Objective(objective.coordinates, x, y, problem.prior, objective.noise_floor, shared)


def spread_places(n: int) -> np.ndarray:
    """Return a few of `n` places in their order, evenly spread but for no period."""
    count = max(FEW, int(SHARE * n))
    return np.sort(np.argsort(np.arange(n) * GOLDEN % 1.0, kind="stable")[:count])


def curvature_at(objective: Objective, values: np.ndarray) -> Curvature:
    """Return height, gradient (d,) and curvature (d, d): minus the Hessian, by differences."""
    place = values.tobytes()
    if place not in objective.curvatures:
        points = values + np.vstack([np.zeros(len(values)), STEP * np.eye(len(values))])
        heights, gradients = objective.evaluate(points)
        curvature = (gradients[0] - gradients[1:]) / STEP
        known = float(heights[0]), gradients[0], (curvature + curvature.T) / 2
        objective.curvatures[place] = known
    return objective.curvatures[place]


def bounds(coordinates: Coordinates, noise_floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest coordinates (k + 1,) that a fit may reach."""
    high = np.where(coordinates.positive, WIDEST_LOG, WIDEST_VALUE)
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
