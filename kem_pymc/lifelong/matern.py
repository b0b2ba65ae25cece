"""Gaussian processes with a Matern 5/2 kernel: correlations and the fit of hyperparameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.optimize import minimize

from kem_pymc.kernels.base import MATERN52

#: Means and standard deviations of the normal priors of log lengthscales and of the log noise
#: variance. Values are standardised, and columns are in [0, 1].
LOG_LENGTHSCALES, LOG_NOISES = (-0.7, 1.0), (-7.0, 2.0)

#: Bounds of all coordinates of a fit.
BOUNDS = (-12.0, 5.0)

#: Number of starting points of a fit, and of the iterations of each.
STARTS, ITERATIONS = 3, 100

#: Number of iterations from a point near the optimum.
FEW = 15

#: Variance that is added to the noise.
JITTER = 1e-8

#: Value of an objective where it isn't finite.
WALL = 1e10

#: Standard deviations of what tasks have in common and of residuals, where a fit begins.
FACTORS = (0.8, 0.4)

#: Smallest of these where a fit goes on, and log noise variance of a start with noise.
LEAST_FACTOR, LOG_NOISE = 0.2, -2.0


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Matern 5/2 kernel, and the noise of values.

    Attributes
    ----------
    lengthscales : ndarray, shape (D,)
    variance, noise : float
        Variance of the function and of the noise.
    """

    lengthscales: np.ndarray
    variance: float
    noise: float

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return covariances (n, m) of points (n, D) and (m, D), without noise."""
        return self.variance * correlation(x, z, self.lengthscales)


def _correlation(x: Any, z: Any, lengthscales: Any) -> Any:
    """Return correlations (n, m) as expressions."""
    x, z = x / lengthscales, z / lengthscales
    squares = pt.sqr(x[:, None, :] - z[None, :, :]).sum(axis=-1)
    return MATERN52.expression(pt.sqrt(squares + 2e-13), 0.0, 1.0)  # the root has a derivative


@cache
def _compiled_correlation() -> Any:
    inputs = [pt.matrix("x"), pt.matrix("z"), pt.vector("lengthscales")]
    return pytensor.function(inputs, _correlation(*inputs))


def correlation(x: np.ndarray, z: np.ndarray, lengthscales: np.ndarray) -> np.ndarray:
    """Return Matern 5/2 correlations (n, m) of points (n, D) and (m, D).

    Parameters
    ----------
    x, z : ndarray
    lengthscales : ndarray, shape (D,)
    """
    return _compiled_correlation()(x, z, lengthscales)


def _density(covariance: Any, y: Any, prior: Any) -> Any:
    """Return the negative log posterior density as an expression, less a constant.

    Parameters
    ----------
    covariance : tensor variable, shape (n, n)
    y : tensor variable, shape (n,)
    prior : tensor variable, shape (k,)
        Standard normal variables of the prior.
    """
    root = pt.linalg.cholesky(covariance)
    white = pt.linalg.solve_triangular(root, y, lower=True)
    return 0.5 * pt.sqr(white).sum() + pt.log(pt.diagonal(root)).sum() + 0.5 * pt.sqr(prior).sum()


def _standard(log_lengthscales: Any, log_noise: Any) -> list[Any]:
    """Return both as standard normal variables, by their priors."""
    pairs = (log_lengthscales, LOG_LENGTHSCALES), (log_noise, LOG_NOISES)
    return [(values - mean) / sd for values, (mean, sd) in pairs]


@cache
def _objective() -> Any:
    """Return the compiled objective of :func:`fitted` with its gradient, for any shape."""
    rows, y, tasks = pt.matrix("rows"), pt.vector("y"), pt.lvector("tasks")
    factor, logs = pt.matrix("factor"), pt.vector("logs")  # of lengthscales and noise
    of_tasks = pt.dot(factor, factor.T)
    covariance = _correlation(rows, rows, pt.exp(logs[:-1])) * of_tasks[tasks][:, tasks]
    covariance += (pt.exp(logs[-1]) + JITTER) * pt.eye(y.shape[0])
    prior = [*_standard(logs[:-1], logs[-1:]), factor.ravel()]
    loss = _density(covariance, y, pt.concatenate(prior))
    inputs = [rows, y, tasks, logs, factor]
    return pytensor.function(inputs, [loss, *pt.grad(loss, [logs, factor])])


@cache
def _together() -> Any:
    """Return the compiled objective of :func:`fitted_together` with its gradient."""
    rows, y, same, offset = pt.matrix("rows"), pt.vector("y"), pt.matrix("same"), pt.scalar("c")
    values = pt.vector("values")
    columns = rows.shape[1]
    common, own = values[:columns], values[columns : 2 * columns]
    log_noise, factors = values[-3], values[-2:]
    covariance = pt.sqr(factors[0]) * _correlation(rows, rows, pt.exp(common))
    residual = pt.sqr(factors[1]) * _correlation(rows, rows, pt.exp(own))
    covariance += same * (offset + residual) + (pt.exp(log_noise) + JITTER) * pt.eye(y.shape[0])
    prior = [*_standard(values[: 2 * columns], values[-3:-2]), factors]
    loss = _density(covariance, y, pt.concatenate(prior))
    return pytensor.function([rows, y, same, offset, values], [loss, pt.grad(loss, values)])


def _least(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    starts: Sequence[np.ndarray],
    iterations: int = ITERATIONS,
) -> np.ndarray:
    """Return the coordinates (k,) with the smallest loss that searches from starts (k,) find."""

    def bounded(values: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            height, slope = loss(values)
        except np.linalg.LinAlgError:
            return WALL, np.zeros(len(values))
        return (float(height), slope) if np.isfinite(height) else (WALL, np.zeros(len(values)))

    optima = [
        minimize(
            bounded,
            np.clip(start, *BOUNDS),
            jac=True,
            method="L-BFGS-B",
            bounds=[BOUNDS] * len(start),
            options={"maxiter": iterations},
        )
        for start in starts
    ]
    return min(optima, key=lambda optimum: optimum.fun).x


def fitted(
    rows: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    tasks: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the hyperparameters with the largest posterior density, of a process of T tasks.

    The covariance of two evaluations is that of their tasks times the correlation of their points
    (Swersky et al. 2013).

    Parameters
    ----------
    rows : ndarray, shape (n, D)
    y : ndarray, shape (n,)
    rng : numpy.random.Generator
        Draws the starting points.
    tasks : ndarray of int, shape (n,), optional
        Places of the evaluations' tasks; by default there is one task.

    Returns
    -------
    lengthscales : ndarray, shape (D,)
    of_tasks : ndarray, shape (T, T)
        Covariance of tasks.
    noise : float
        Noise variance.
    """
    tasks = np.zeros(len(y), dtype=int) if tasks is None else tasks
    columns, count = rows.shape[1], int(tasks.max()) + 1
    lower = np.tril_indices(count)

    def unpacked(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factor = np.zeros((count, count))
        factor[lower] = values[columns + 1 :]
        return values[: columns + 1], factor

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        height, of_logs, of_factor = _objective()(rows, y, tasks, *unpacked(values))
        return height, np.concatenate([of_logs, of_factor[lower]])

    # All tasks are alike at first.
    alike = np.where(lower[1] == 0, 0.9, np.where(lower[0] == lower[1], 0.45, 0.0))
    starts = [np.append(_drawn(columns, rng), alike) for _ in range(STARTS)]
    logs, factor = unpacked(_least(loss, starts))
    return np.exp(logs[:-1]), factor @ factor.T, float(np.exp(logs[-1]))


def _drawn(columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return logs of lengthscales and of the noise (columns + 1,) drawn from the prior."""
    return np.append(rng.normal(*LOG_LENGTHSCALES, columns), rng.normal(*LOG_NOISES))


def fitted_together(
    rows: np.ndarray,
    y: np.ndarray,
    tasks: np.ndarray,
    offset: float,
    rng: np.random.Generator,
    near: np.ndarray | None = None,
) -> np.ndarray:
    """Return the kernels of what tasks have in common and of residuals, as coordinates.

    They have the largest posterior density. Residuals and noise have the same kernel in all tasks.

    Parameters
    ----------
    rows : ndarray, shape (n, D)
    y : ndarray, shape (n,)
    tasks : ndarray, shape (n,)
        Places of the evaluations' tasks.
    offset : float
        Prior variance of the constants of tasks.
    rng : numpy.random.Generator
        Draws the starting points.
    near : ndarray, shape (2 D + 3,), optional
        Coordinates near the best ones, from which a few iterations are done.

    Returns
    -------
    ndarray, shape (2 D + 3,)
        See :func:`kernels`.
    """
    same = (tasks[:, None] == tasks).astype(float)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        return _together()(rows, y, same, offset, values)

    # Noise, which a function with short lengthscales may be taken for.
    lengthscales = np.full(2 * rows.shape[1], LOG_LENGTHSCALES[0])
    noisy = np.concatenate([lengthscales, [LOG_NOISE], FACTORS])
    if near is not None:
        # Where a standard deviation is zero the objective has no slope along it.
        start = np.append(near[:-2], np.maximum(np.abs(near[-2:]), LEAST_FACTOR))
        return _least(loss, [start, noisy], FEW)
    drawn = [_drawn(2 * rows.shape[1], rng) for _ in range(STARTS - 1)]
    return _least(loss, [noisy, *(np.append(one, FACTORS) for one in drawn)])


def kernels(values: np.ndarray) -> tuple[Kernel, Kernel]:
    """Return the kernels of what tasks have in common and of residuals.

    Parameters
    ----------
    values : ndarray, shape (2 D + 3,)
        Logs of the lengthscales of both and of the noise, and both standard deviations.
    """
    common, residual = np.exp(np.split(values[:-3], 2))
    noise, (first, second) = float(np.exp(values[-3])), (values[-2:] ** 2).tolist()
    return Kernel(common, first, noise), Kernel(residual, second, noise)
