"""Gaussian processes of functions that have one in common: a prior mean learned from earlier tasks.

A task's function is ``f_t = h + c_t + g_t``: what all tasks have in common, a constant, and a
residual. h and g_t are Gaussian processes, so that given the evaluations of earlier tasks the last
task's function is one, too. Its prior mean is the posterior mean of h; its prior covariance is that
of h, which says how far h is known, plus that of the residual. How little earlier tasks are trusted
is the variance of the residual, which is estimated with the other hyperparameters by the marginal
likelihood of all tasks' values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong.matern import JITTER, Kernel, fitted, fitted_together, kernels
from kem_pymc.lifelong.tasks import Normalisation, Task

#: Prior variance of the constants, in units of normalised values.
OFFSET = 0.3

#: Smallest standard deviation of residuals, in units of normalised values: few tasks say little
#: about how different the next one is, and where it is thought to be like them its search is local.
LEAST_RESIDUAL = 0.3

#: Largest size of normalised values of functions that are like earlier ones. Far from all that came
#: before, its scale, that of earlier values, is too small, and the search stays around one point.
FURTHEST = 10.0

#: Largest number of evaluations of earlier tasks that are learned from.
MOST = 150


@dataclass(frozen=True, eq=False)
class TaskModel:
    """The posterior of one task's function.

    Attributes
    ----------
    posterior : Posterior
        That of a process of several tasks, whose points have the place of the task as last column.
    place : int
        Place of the task.
    """

    posterior: Posterior
    place: int

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the function at points (m, D)."""
        return self.posterior.predict(placed(rows, self.place))

    def observe(self, x: np.ndarray, y: float) -> "TaskModel":
        """Return the model with one more evaluation of the task, at a point (D,)."""
        return replace(self, posterior=self.posterior.observe(np.append(x, self.place), y))


def placed(rows: np.ndarray, place: int) -> np.ndarray:
    """Return points (n, D + 1) with the place of a task as last column."""
    return np.column_stack([rows, np.full(len(rows), float(place))])


@dataclass(frozen=True, eq=False)
class ResidualProcess:
    """The Gaussian process of tasks that have a function in common.

    Points have one more column, the place of the task.

    Attributes
    ----------
    common : Kernel, optional
        That of the function in common; None if there is a single task, which needs no constant.
    residual : Kernel
        That of residuals, with the noise of values.
    """

    common: Kernel | None
    residual: Kernel

    @property
    def dimension(self) -> int:
        """Number of columns, with that of the task."""
        return len(self.residual.lengthscales) + 1

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means (n,): zero."""
        return np.zeros(len(x))

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances (n, m) of points (n, D + 1) and (m, D + 1)."""
        left, right = x[:, :-1], z[:, :-1]
        own = self.residual.covariance(left, right)
        if self.common is None:
            return own
        same = x[:, -1][:, None] == z[:, -1]
        return self.common.covariance(left, right) + same * (OFFSET + own)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances (n,) at points (n, D + 1)."""
        common = 0.0 if self.common is None else self.common.variance + OFFSET
        return np.full(len(x), self.residual.variance + common)

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances (n,)."""
        return np.full(len(x), self.residual.noise + JITTER)


@dataclass(frozen=True, eq=False)
class Before:
    """What earlier tasks taught.

    Attributes
    ----------
    tasks : sequence of Task
    normalisation : Normalisation
        That of all tasks' values.
    x : ndarray, shape (n, D + 1)
        Evaluations, with the places of their tasks.
    y : ndarray, shape (n,)
        Their normalised values.
    coordinates : ndarray, shape (2 D + 3,)
        Kernels; see :func:`kem_pymc.lifelong.matern.kernels`.
    """

    tasks: Sequence[Task]
    normalisation: Normalisation
    x: np.ndarray
    y: np.ndarray
    coordinates: np.ndarray


class ResidualGP:
    """A Gaussian process whose prior mean is learned from earlier tasks.

    Values of all tasks are normalised together, as of functions with the same units; a task whose
    values are far from those of earlier ones is learned from alone. Of many evaluations of earlier
    tasks some are left out, evenly by the ranks of values in each task.

    What is learned is a function of the tasks and the seed. What was learned from earlier tasks is
    remembered as long as these are the same objects.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self._before: Before | None = None

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> TaskModel:
        """Return the model of the last task's function.

        Parameters
        ----------
        tasks : sequence of Task
            All tasks so far. The earlier ones have values that differ.
        rng : numpy.random.Generator
        """
        *earlier, task = tasks
        y, place = self.y(tasks), len(earlier)
        if not earlier or self._is_unlike(tasks):
            lengthscales, of_tasks, noise = fitted(task.rows, y, rng)
            kernel = Kernel(lengthscales, float(of_tasks[0, 0]), noise)
            process = ResidualProcess(None, kernel)
            return TaskModel(Posterior.of(process, placed(task.rows, place), y), place)
        before = self._learned(earlier)
        x = np.concatenate([before.x, placed(task.rows, place)])
        every = np.append(before.y, y)
        found = fitted_together(x[:, :-1], every, x[:, -1], OFFSET, rng, before.coordinates)
        found[-1] = max(abs(found[-1]), LEAST_RESIDUAL)
        return TaskModel(Posterior.of(ResidualProcess(*kernels(found)), x, every), place)

    def y(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the normalised values (n,) of the last task."""
        if len(tasks) == 1 or self._is_unlike(tasks):
            return tasks[-1].y
        return self._in_common_units(tasks)

    def _is_unlike(self, tasks: Sequence[Task]) -> bool:
        """Whether values are so far from those of earlier tasks that these say nothing of them."""
        return bool((np.abs(self._in_common_units(tasks)) > FURTHEST).any())

    def _in_common_units(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the last task's values (n,), normalised as those of earlier tasks."""
        *earlier, task = tasks
        return self._learned(earlier).normalisation(task.filled(_worst(tasks)))

    def _learned(self, tasks: Sequence[Task]) -> Before:
        """Return what tasks teach, computed once as long as they are the same objects."""
        before = self._before
        if before is None or [id(one) for one in before.tasks] != [id(one) for one in tasks]:
            before = self._before = self._learn(tasks)
        return before

    def _learn(self, tasks: Sequence[Task]) -> Before:
        kept = [task.spread(max(1, MOST // len(tasks))) for task in tasks]
        worst = _worst(tasks)
        values = np.concatenate([task.filled(worst) for task in kept])
        normalisation = Normalisation.learn(values)
        x = np.concatenate([placed(task.rows, place) for place, task in enumerate(kept)])
        y = normalisation(values)
        rng = np.random.default_rng([self.seed, len(tasks), len(y)])
        coordinates = fitted_together(x[:, :-1], y, x[:, -1], OFFSET, rng)
        return Before(list(tasks), normalisation, x, y, coordinates)


def _worst(tasks: Sequence[Task]) -> float:
    """Return the largest value of all tasks, which failures are taken for."""
    return float(np.nanmax(np.concatenate([task.values for task in tasks])))
