"""Samplers with which lifelong Bayesian optimisation is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from experiments.lifelong.empirical import EmpiricalProcess, typical_kernel
from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong import networks
from kem_pymc.lifelong.lbo import FIRST_LOG_PRECISIONS, LBO, NetworkProcess
from kem_pymc.lifelong.matern import JITTER, correlation, fitted
from kem_pymc.lifelong.maximise import Model
from kem_pymc.lifelong.residual import MOST, TaskModel
from kem_pymc.lifelong.sampler import LifelongSampler, StudySampler
from kem_pymc.lifelong.tasks import Normalisation, Task
from kem_pymc.lifelong.training import LOG_PRECISIONS, Adam, log_likelihoods


class RandomSampler(StudySampler):
    """Random search."""

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> None:
        """Return nothing; see :class:`StudySampler`."""


# --- Gaussian processes ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TaskProcess:
    """A Gaussian process of several tasks (Swersky et al. 2013).

    Points have one more column, the place of the task. The covariance is that of the tasks times
    a Matern 5/2 correlation of the points.

    Attributes
    ----------
    lengthscales : ndarray, shape (D,)
    of_tasks : ndarray, shape (T, T)
        Covariance of tasks.
    noise : float
        Noise variance.
    """

    lengthscales: np.ndarray
    of_tasks: np.ndarray
    noise: float

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
        return correlation(x[:, :-1], z[:, :-1], self.lengthscales) * self.of_tasks[places]

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances (n,) at points (n, D + 1)."""
        return np.diag(self.of_tasks)[x[:, -1].astype(int)]

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,)."""
        return np.full(len(x), self.noise + JITTER)


class MultiTaskGP(StudySampler):
    """A Gaussian process of all tasks, with a covariance of tasks without structure."""

    several = True

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Model:
        """Fit all hyperparameters; see :class:`StudySampler`."""
        used = tasks if self.several else tasks[-1:]
        rows = np.concatenate([task.rows for task in used])
        y = np.concatenate([task.y for task in used])
        places = np.repeat(np.arange(len(used)), [len(task.y) for task in used])
        process = TaskProcess(*fitted(rows, y, rng, tasks=places))
        return TaskModel(Posterior.of(process, np.column_stack([rows, places]), y), len(used) - 1)


class SingleTaskGP(MultiTaskGP):
    """A Gaussian process of the last task."""

    several = False


class EmpiricalGP(SingleTaskGP):
    """A Gaussian process with the prior mean and covariance of earlier tasks (Lin et al. 2026)."""

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Model:
        """Learn the prior; see :class:`StudySampler`."""
        *earlier, task = tasks
        if not earlier:
            return super().fit(tasks, rng)
        kept = [one.spread(max(1, MOST // len(earlier))) for one in earlier]
        worst = float(np.nanmax(np.concatenate([one.values for one in tasks])))
        normalised = Normalisation.learn(np.concatenate([one.filled(worst) for one in kept]))
        pairs = [(one.rows, normalised(one.filled(worst))) for one in kept]
        process = EmpiricalProcess.learn(pairs, typical_kernel(pairs, rng))
        return Posterior.of(process, task.rows, normalised(task.filled(worst)))


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

    Training goes on from point to point, so that a sampler can't be replaced by another one. It
    begins anew where points have other columns, as they do once a choice with parameters of its own
    was tried for the first time.

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
        self.columns, self.weights, self.log_precisions = 0, np.empty((0, 0)), np.empty((0, 2))

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Posterior:
        """Train on the evaluations; see :class:`StudySampler`."""
        *_, last = tasks
        columns = last.rows.shape[1]
        if columns != self.columns:
            self.columns, self.weights = columns, networks.draw(1, columns, self.units, rng)
            self.log_precisions = self.log_precisions[:0]
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


def sampler(method: str, seed: int, *, warm_start: bool = False, **options: Any) -> StudySampler:
    """Return a sampler by name.

    Parameters
    ----------
    method : str
        See :data:`experiments.settings.MethodName`.
    seed : int
    warm_start : bool
        See :class:`kem_pymc.lifelong.sampler.StudySampler`. In figures of Zhang et al. (2019) all
        methods begin with the same random points.
    **options
        Of :class:`kem_pymc.lifelong.LifelongSampler`, for "lbo".
    """
    own: dict[str, Any] = {"seed": seed, "warm_start": warm_start}
    if method in ("lbo", "residual"):
        return LifelongSampler(model="lbo" if method == "lbo" else "residual", **own, **options)
    if method == "ablr_100":
        return ABLR(units=100, **own)
    samplers: dict[str, type[StudySampler]] = {
        "random": RandomSampler,
        "gp": SingleTaskGP,
        "multitask_gp": MultiTaskGP,
        "empirical_gp": EmpiricalGP,
        "dngo": DNGO,
        "ablr": ABLR,
    }
    return samplers[method](**own)
