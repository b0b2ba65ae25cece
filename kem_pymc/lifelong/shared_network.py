"""One network that tasks share, or that one task has for itself: ABLR and DNGO.

ABLR (Perrone et al. 2018) trains a network on all tasks, each of which has a Bayesian linear
regression of its own; DNGO (Snoek et al. 2015) trains one on each task.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from threading import Lock

import numpy as np
import pytensor
import pytensor.tensor as pt

from kem_pymc.lifelong import networks
from kem_pymc.lifelong.adam import Adam
from kem_pymc.lifelong.lbo import FIRST_LOG_PRECISIONS, NetworkSurrogate, flat
from kem_pymc.lifelong.linear import LOG_PRECISIONS, LinearPosterior
from kem_pymc.lifelong.methods import Acquired


class _Training:
    """Compiled training on the sum of the tasks' log marginal likelihoods."""

    def __init__(self, columns: int, units: int) -> None:
        size = sum(rows * out for rows, out in networks.sizes(columns, units))
        weights = pytensor.shared(np.zeros((1, size)))
        log_precisions = pytensor.shared(np.zeros((1, 2)))
        self._rows, self._y = pytensor.shared(np.zeros((1, columns))), pytensor.shared(np.zeros(1))
        self._tasks = pytensor.shared(np.zeros(1, dtype=np.int64))
        maps = networks.features_in_pytensor(weights, self._rows, columns, units)[0]
        variances = pt.exp(-pt.clip(log_precisions, *LOG_PRECISIONS)[self._tasks])
        same = pt.eq(self._tasks[:, None], self._tasks[None, :])
        covariance = pt.switch(same, pt.dot(maps, maps.T) * variances[:, 0][:, None], 0.0)
        root = pt.linalg.cholesky(covariance + pt.diag(variances[:, 1]))
        white = pt.linalg.solve_triangular(root, self._y, lower=True)
        loss = 0.5 * pt.sqr(white).sum() + pt.log(pt.diagonal(root)).sum()
        self._adam = Adam(loss, [weights, log_precisions])
        self._lock = Lock()

    def train(
        self,
        weights: np.ndarray,
        log_precisions: np.ndarray,
        tasks: Sequence[Acquired],
        rate: float,
        iterations: int,
    ) -> list[np.ndarray]:
        """Return the weights (1, P) and the log precisions (T, 2) after training."""
        with self._lock:  # the compiled function shares its values between threads
            self._rows.set_value(np.concatenate([task.rows for task in tasks]))
            self._y.set_value(np.concatenate([task.values for task in tasks]))
            self._tasks.set_value(np.repeat(np.arange(len(tasks)), [len(t.values) for t in tasks]))
            self._adam.begin([weights, log_precisions], rate)
            for _ in range(iterations):
                self._adam.step()
            found, logs = self._adam.values()
        return [found, np.clip(logs, *LOG_PRECISIONS)]


@cache
def _training(columns: int, units: int) -> _Training:
    return _Training(columns, units)


class SharedNetwork:
    """ABLR, or DNGO.

    Parameters
    ----------
    columns : int
        Number of columns D of encoded points.
    units : int
        Number of units of each layer.
    several : bool
        Whether the network is trained on all tasks (ABLR), or begins anew with each (DNGO).
    rate, iterations
        As for :class:`kem_pymc.lifelong.lbo.LBO`.
    """

    def __init__(
        self,
        columns: int,
        units: int,
        *,
        several: bool,
        rate: float = 0.01,
        iterations: int = 100,
    ) -> None:
        self.columns, self.units, self.several = columns, units, several
        self.rate, self.iterations = rate, iterations
        self.weights = np.empty((0, 0))
        self.log_precisions = np.empty((0, 2))

    def fit(self, tasks: Sequence[Acquired], rng: np.random.Generator) -> NetworkSurrogate:
        """Train on the acquisitions; see :class:`kem_pymc.lifelong.methods.Method`."""
        begins = len(tasks) > len(self.log_precisions)
        if begins and (not self.several or not self.weights.size):
            self.weights = networks.draw(1, self.columns, self.units, rng)
        while len(self.log_precisions) < len(tasks):
            self.log_precisions = np.vstack([self.log_precisions, FIRST_LOG_PRECISIONS])
        used = tasks if self.several else tasks[-1:]
        self.weights, found = _training(self.columns, self.units).train(
            self.weights, self.log_precisions[-len(used) :], used, self.rate, self.iterations
        )
        self.log_precisions[-len(used) :] = found
        rows, y = tasks[-1]
        precision, noise_precision = np.exp(self.log_precisions[-1])
        phi = flat(self.weights, rows, self.units)
        posterior = LinearPosterior(phi, y, precision, noise_precision)
        return NetworkSurrogate(self.weights, self.units, posterior)

    def state(self) -> Mapping[str, np.ndarray]:
        """Return weights and precisions; see :class:`kem_pymc.lifelong.methods.Method`."""
        return {"weights": self.weights, "log_precisions": self.log_precisions}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; see :class:`kem_pymc.lifelong.methods.Method`."""
        self.weights, self.log_precisions = state["weights"], state["log_precisions"]
