"""Gaussian processes of one or several tasks, with which lifelong optimisation is compared.

The kernel is Matern 5/2 with a lengthscale for each column. For several tasks it is multiplied by a
covariance of tasks without structure (Swersky et al. 2013).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from kem_pymc.lifelong.methods import Acquired, Stateless

#: Means and standard deviations of the normal priors of log lengthscales and of the log noise
#: variance. Values are standardised, and columns are in [0, 1].
LOG_LENGTHSCALES, LOG_NOISES = (-0.7, 1.0), (-7.0, 2.0)

#: Bounds of all coordinates.
BOUNDS = (-12.0, 5.0)

#: Number of starting points of the fit, and of the iterations of each.
STARTS, ITERATIONS = 3, 100

#: Variance that is added to the diagonal.
JITTER = 1e-8


def matern(x: Any, z: Any, lengthscales: Any, numbers: Any = np) -> Any:
    """Return the Matern 5/2 correlations (n, m) of points, in NumPy or PyTensor."""
    x, z = x / lengthscales, z / lengthscales
    squares = ((x[:, None, :] - z[None, :, :]) ** 2).sum(axis=-1)
    distance = numbers.sqrt(5.0 * squares + 1e-12)
    return (1.0 + distance + distance**2 / 3.0) * numbers.exp(-distance)


@cache
def _objective() -> Any:
    """Return the compiled negative log posterior with its gradient, for any shape."""
    rows, y, tasks = pt.matrix("rows"), pt.vector("y"), pt.lvector("tasks")
    log_lengthscales, log_noise = pt.vector("log_lengthscales"), pt.scalar("log_noise")
    factor = pt.matrix("factor")
    of_tasks = pt.dot(factor, factor.T)
    covariance = matern(rows, rows, pt.exp(log_lengthscales), pt) * of_tasks[tasks][:, tasks]
    covariance += (pt.exp(log_noise) + JITTER) * pt.eye(y.shape[0])
    root = pt.linalg.cholesky(covariance)
    white = pt.linalg.solve_triangular(root, y, lower=True)
    loss = 0.5 * pt.sqr(white).sum() + pt.log(pt.diagonal(root)).sum()
    loss += 0.5 * pt.sqr((log_lengthscales - LOG_LENGTHSCALES[0]) / LOG_LENGTHSCALES[1]).sum()
    loss += 0.5 * pt.sqr((log_noise - LOG_NOISES[0]) / LOG_NOISES[1])
    loss += 0.5 * (pt.sqr(factor).sum())
    slopes = pt.grad(loss, [log_lengthscales, log_noise, factor])
    inputs = [rows, y, tasks, log_lengthscales, log_noise, factor]
    return pytensor.function(inputs, [loss, *slopes])


@dataclass(frozen=True, eq=False)
class TaskProcess:
    """A Gaussian process of several tasks, given their acquisitions.

    Attributes
    ----------
    rows : ndarray, shape (n, D)
    y : ndarray, shape (n,)
    tasks : ndarray, shape (n,)
        Place of the task of each acquisition; the last one is predicted.
    lengthscales : ndarray, shape (D,)
    noise : float
        Noise variance.
    of_tasks : ndarray, shape (T, T)
        Covariance of tasks.
    """

    rows: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    lengthscales: np.ndarray
    noise: float
    of_tasks: np.ndarray

    @cached_property
    def _root(self) -> np.ndarray:
        c = matern(self.rows, self.rows, self.lengthscales)
        c = c * self.of_tasks[np.ix_(self.tasks, self.tasks)]
        return cholesky(c + (self.noise + JITTER) * np.eye(len(self.y)), lower=True)

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (m,) of the last task's function at points."""
        cross = matern(rows, self.rows, self.lengthscales) * self.of_tasks[-1][self.tasks]
        mean = cross @ cho_solve((self._root, True), self.y)
        white = solve_triangular(self._root, cross.T, lower=True)
        variance = self.of_tasks[-1, -1] - (white**2).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def conditioned(self, acquired: Acquired) -> "TaskProcess":
        """Return the process with other acquisitions of the last task."""
        last = len(self.of_tasks) - 1
        kept = self.tasks != last
        added = np.full(len(acquired.values), last)
        return replace(
            self,
            rows=np.concatenate([self.rows[kept], acquired.rows]),
            y=np.concatenate([self.y[kept], acquired.values]),
            tasks=np.concatenate([self.tasks[kept], added]),
        )


class GaussianProcesses(Stateless):
    """Gaussian processes as a method.

    Parameters
    ----------
    several : bool
        Whether earlier tasks are in the model.
    """

    def __init__(self, several: bool) -> None:
        self.several = several

    def fit(self, tasks: Sequence[Acquired], rng: np.random.Generator) -> TaskProcess:
        """Fit all hyperparameters; see :class:`kem_pymc.lifelong.methods.Method`."""
        used = tasks if self.several else tasks[-1:]
        rows = np.concatenate([task.rows for task in used])
        y = np.concatenate([task.values for task in used])
        places = np.repeat(np.arange(len(used)), [len(task.values) for task in used])
        columns, count = rows.shape[1], len(used)
        lower = np.tril_indices(count)

        def unpacked(values: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
            factor = np.zeros((count, count))
            factor[lower] = values[columns + 1 :]
            return values[:columns], float(values[columns]), factor

        def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                height, *slopes = _objective()(rows, y, places, *unpacked(values))
            except np.linalg.LinAlgError:
                return 1e10, np.zeros(len(values))
            if not np.isfinite(height):
                return 1e10, np.zeros(len(values))
            return float(height), np.concatenate([slopes[0], [slopes[1]], slopes[2][lower]])

        # All tasks are alike at first.
        alike = np.where(lower[1] == 0, 0.9, np.where(lower[0] == lower[1], 0.45, 0.0))
        found = []
        for _ in range(STARTS):
            lengthscales = rng.normal(*LOG_LENGTHSCALES, columns)
            drawn = np.concatenate([lengthscales, [rng.normal(*LOG_NOISES)], alike])
            found.append(
                minimize(
                    loss,
                    np.clip(drawn, *BOUNDS),
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[BOUNDS] * len(drawn),
                    options={"maxiter": ITERATIONS},
                )
            )
        best = min(found, key=lambda own: own.fun)
        log_lengthscales, log_noise, factor = unpacked(best.x)
        return TaskProcess(
            rows, y, places, np.exp(log_lengthscales), float(np.exp(log_noise)), factor @ factor.T
        )
