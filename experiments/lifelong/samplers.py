"""Samplers with which lifelong Bayesian optimisation is compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.optimize import minimize

from kem_pymc.gp.posterior import Posterior
from kem_pymc.kernels.base import MATERN52
from kem_pymc.lifelong import networks
from kem_pymc.lifelong.lbo import FIRST_LOG_PRECISIONS, LBO, NetworkProcess
from kem_pymc.lifelong.sampler import LifelongSampler, StudySampler, new_point
from kem_pymc.lifelong.space import Space
from kem_pymc.lifelong.tasks import Task
from kem_pymc.lifelong.training import LOG_PRECISIONS, Adam, log_likelihoods

#: Means and standard deviations of the normal priors of log lengthscales and of the log noise
#: variance. Values are standardised, and columns are in [0, 1].
LOG_LENGTHSCALES, LOG_NOISES = (-0.7, 1.0), (-7.0, 2.0)

#: Bounds of all coordinates of a Gaussian process.
BOUNDS = (-12.0, 5.0)

#: Number of starting points of the fit of a Gaussian process, and of the iterations of each.
STARTS, ITERATIONS = 3, 100

#: Variance that is added to the noise of a Gaussian process.
JITTER = 1e-8


class RandomSampler(StudySampler):
    """Random search."""

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> None:
        """Return nothing; see :class:`StudySampler`."""


# --- Gaussian processes ---------------------------------------------------------------------------


def correlation(x: Any, z: Any, lengthscales: Any) -> Any:
    """Return Matern 5/2 correlations (n, m) with a lengthscale for each column, as expressions."""
    x, z = x / lengthscales, z / lengthscales
    squares = pt.sqr(x[:, None, :] - z[None, :, :]).sum(axis=-1)
    return MATERN52.expression(pt.sqrt(squares + 2e-13), 0.0, 1.0)  # the root has a derivative


@cache
def _correlation() -> Any:
    """Return the compiled correlation."""
    inputs = [pt.matrix("x"), pt.matrix("z"), pt.vector("lengthscales")]
    return pytensor.function(inputs, correlation(*inputs))


@cache
def _objective() -> Any:
    """Return the compiled negative log posterior with its gradient, for any shape."""
    rows, y, tasks = pt.matrix("rows"), pt.vector("y"), pt.lvector("tasks")
    log_lengthscales, log_noise = pt.vector("log_lengthscales"), pt.scalar("log_noise")
    factor = pt.matrix("factor")
    of_tasks = pt.dot(factor, factor.T)
    covariance = correlation(rows, rows, pt.exp(log_lengthscales)) * of_tasks[tasks][:, tasks]
    covariance += (pt.exp(log_noise) + JITTER) * pt.eye(y.shape[0])
    root = pt.linalg.cholesky(covariance)
    white = pt.linalg.solve_triangular(root, y, lower=True)
    loss = 0.5 * pt.sqr(white).sum() + pt.log(pt.diagonal(root)).sum()
    loss += 0.5 * pt.sqr((log_lengthscales - LOG_LENGTHSCALES[0]) / LOG_LENGTHSCALES[1]).sum()
    loss += 0.5 * pt.sqr((log_noise - LOG_NOISES[0]) / LOG_NOISES[1])
    loss += 0.5 * (pt.sqr(factor).sum())
    slopes = pt.grad(loss, [log_lengthscales, log_noise, factor])
    return pytensor.function([rows, y, tasks, log_lengthscales, log_noise, factor], [loss, *slopes])


@dataclass(frozen=True, eq=False)
class TaskProcess:
    """A Gaussian process of several tasks (Swersky et al. 2013).

    Points have one more column, the place of the task. The covariance is that of the tasks times
    a Matern 5/2 correlation of the points.

    Attributes
    ----------
    lengthscales : ndarray, shape (D,)
    noise : float
        Noise variance.
    of_tasks : ndarray, shape (T, T)
        Covariance of tasks.
    """

    lengthscales: np.ndarray
    noise: float
    of_tasks: np.ndarray

    @property
    def dimension(self) -> int:
        """Number of columns, with that of the task."""
        return len(self.lengthscales) + 1

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means (n,): zero."""
        return np.zeros(len(x))

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances (n, m) of points (n, D + 1) and (m, D + 1)."""
        places = np.ix_(x[:, -1].astype(int), z[:, -1].astype(int))
        return _correlation()(x[:, :-1], z[:, :-1], self.lengthscales) * self.of_tasks[places]

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances (n,) at points (n, D + 1)."""
        return np.diag(self.of_tasks)[x[:, -1].astype(int)]

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,)."""
        return np.full(len(x), self.noise + JITTER)


@dataclass(frozen=True, eq=False)
class TaskModel:
    """The posterior of the last task's function.

    Attributes
    ----------
    posterior : Posterior
        That of a :class:`TaskProcess`, given the evaluations of all tasks.
    place : int
        Place of the last task.
    """

    posterior: Posterior
    place: int

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the function at points (m, D)."""
        return self.posterior.predict(np.column_stack([rows, np.full(len(rows), self.place)]))

    def observe(self, x: np.ndarray, y: float) -> "TaskModel":
        """Return the model with one more evaluation of the last task, at a point (D,)."""
        return replace(self, posterior=self.posterior.observe(np.append(x, self.place), y))


class MultiTaskGP(StudySampler):
    """A Gaussian process of all tasks, with a covariance of tasks without structure."""

    several = True

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> TaskModel:
        """Fit all hyperparameters; see :class:`StudySampler`."""
        used = tasks if self.several else tasks[-1:]
        rows = np.concatenate([task.rows for task in used])
        y = np.concatenate([task.y for task in used])
        places = np.repeat(np.arange(len(used)), [len(task.y) for task in used])
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
        optima = []
        for _ in range(STARTS):
            lengthscales = rng.normal(*LOG_LENGTHSCALES, columns)
            drawn = np.concatenate([lengthscales, [rng.normal(*LOG_NOISES)], alike])
            optima.append(
                minimize(
                    loss,
                    np.clip(drawn, *BOUNDS),
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[BOUNDS] * len(drawn),
                    options={"maxiter": ITERATIONS},
                )
            )
        best = min(optima, key=lambda optimum: optimum.fun)
        log_lengthscales, log_noise, factor = unpacked(best.x)
        process = TaskProcess(np.exp(log_lengthscales), np.exp(log_noise), factor @ factor.T)
        return TaskModel(Posterior.of(process, np.column_stack([rows, places]), y), count - 1)


class SingleTaskGP(MultiTaskGP):
    """A Gaussian process of the last task."""

    several = False


class WarmStartGP(SingleTaskGP):
    """A Gaussian process of the last task, which begins with the best points of earlier ones."""

    def startup(
        self, tasks: Sequence[Task], space: Space, seen: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray | None:
        """Return the best point of an earlier task, the last one first."""
        tried = {row.tobytes() for row in seen}
        for task in reversed(tasks[:-1]):
            row = task.rows[np.nanargmin(task.values)]
            if row.tobytes() not in tried:
                return row
        return new_point(space, seen, rng)


# --- One network ----------------------------------------------------------------------------------


class SharedTraining:
    """Compiled training of one network on the sum of tasks' log marginal likelihoods.

    Tasks have rows without features, whose likelihood is known, up to the length of the longest.
    """

    def __init__(self, columns: int, units: int) -> None:
        self.units, size = units, sum(a * b for a, b in networks.sizes(columns, units))
        self.weights = pytensor.shared(np.zeros((1, size)))
        self.log_precisions = pytensor.shared(np.zeros((1, 2)))
        self._rows = pytensor.shared(np.zeros((1, 1, columns)))
        self._y, self._used = pytensor.shared(np.zeros((1, 1))), pytensor.shared(np.zeros((1, 1)))
        self._columns = columns

    @property
    def log_likelihoods(self) -> Any:
        """Log marginal likelihoods (T,) as an expression."""
        count, n = self._y.shape[0], self._y.shape[1]
        rows = self._rows.reshape((count * n, self._columns))
        maps = networks.features_in_pytensor(self.weights, rows, self._columns, self.units)
        phi = maps[0].reshape((count, n, self.units)) * self._used[:, :, None]
        logs = pt.clip(self.log_precisions, *LOG_PRECISIONS)
        gram = pt.matmul(phi, phi.transpose(0, 2, 1))
        likelihood = log_likelihoods(gram, self._y, *(logs[:, i, None, None] for i in range(2)))
        missing = (1.0 - self._used).sum(axis=1)
        return likelihood + 0.5 * missing * (np.log(2 * np.pi) - logs[:, 1])

    def give(self, tasks: Sequence[Task]) -> None:
        """Give the evaluations of all tasks."""
        n = max(len(task.y) for task in tasks)
        fill = [(0, n - len(task.y)) for task in tasks]
        pairs = list(zip(tasks, fill, strict=True))
        self._rows.set_value(np.stack([np.pad(task.rows, (end, (0, 0))) for task, end in pairs]))
        self._y.set_value(np.stack([np.pad(task.y, end) for task, end in pairs]))
        self._used.set_value(np.stack([np.arange(n) < len(task.y) for task in tasks]).astype(float))

    @cached_property
    def adam(self) -> Adam:
        """The compiled step."""
        return Adam(-self.log_likelihoods.sum(), [self.weights, self.log_precisions])


@cache
def _training(columns: int, units: int) -> SharedTraining:
    return SharedTraining(columns, units)


class ABLR(StudySampler):
    """One network for all tasks, each with a linear regression (Perrone et al. 2018).

    Training goes on from point to point, so that a sampler can't be replaced by another one.

    Parameters
    ----------
    units : int
        Number of units of each layer.
    **options
        See :class:`StudySampler`.
    """

    rate, iterations = 0.01, 100

    def __init__(self, storage: Any = None, *, units: int = 50, **options: Any) -> None:
        super().__init__(storage, **options)
        self.units = units
        self.weights, self.log_precisions = np.empty((0, 0)), np.empty((0, 2))

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Posterior:
        """Train on the evaluations; see :class:`StudySampler`."""
        *_, last = tasks
        columns = last.rows.shape[1]
        if not self.weights.size:
            self.weights = networks.draw(1, columns, self.units, rng)
        new = len(tasks) - len(self.log_precisions)
        first = np.tile(FIRST_LOG_PRECISIONS, (max(new, 0), 1))
        self.log_precisions = np.vstack([self.log_precisions, first])
        training, count = _training(columns, self.units), len(tasks)
        training.give(tasks)
        training.adam.begin([self.weights, self.log_precisions[-count:]], self.rate)
        for _ in range(self.iterations):
            training.adam.step()
        self.weights, log_precisions = training.adam.values()
        self.log_precisions[-count:] = np.clip(log_precisions, *LOG_PRECISIONS)
        precisions = np.exp(self.log_precisions[-1])
        process = NetworkProcess(self.weights, self.units, columns, *precisions)
        return Posterior.of(process, last.rows, last.y)


class DNGO(StudySampler):
    """A network for each task (Snoek et al. 2015): LBO with one network and one task."""

    def __init__(self, storage: Any = None, **options: Any) -> None:
        super().__init__(storage, **options)
        self.lbo = LBO(max_networks=1, seed=self.seed)

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Posterior:
        """Train on the evaluations of the last task; see :class:`StudySampler`."""
        return self.lbo.fit(tasks[-1:], rng)


def sampler(method: str, seed: int, **options: Any) -> StudySampler:
    """Return a sampler by name.

    Parameters
    ----------
    method : str
        See :data:`experiments.settings.MethodName`.
    seed : int
    **options
        Of :class:`kem_pymc.lifelong.LifelongSampler`, for "lbo".
    """
    if method == "lbo":
        return LifelongSampler(seed=seed, **options)
    if method == "ablr_100":
        return ABLR(seed=seed, units=100)
    samplers: dict[str, type[StudySampler]] = {
        "random": RandomSampler,
        "gp": SingleTaskGP,
        "multitask_gp": MultiTaskGP,
        "warm_start_gp": WarmStartGP,
        "dngo": DNGO,
        "ablr": ABLR,
    }
    return samplers[method](seed=seed)
