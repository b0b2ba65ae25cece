"""Lifelong Bayesian optimisation: networks that tasks share as far as it helps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from kem_pymc.gp.posterior import Posterior
from kem_pymc.lifelong import ibp, networks
from kem_pymc.lifelong.tasks import Task
from kem_pymc.lifelong.training import Neighbours, NetworkTraining, TaskState, training

#: Coefficients of the regulariser that are compared (section 2.4).
STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)

#: Numbers of evaluations of a task at which the coefficient is chosen anew.
CHOSEN_AT = (5, 10, 20, 40)

#: Number of folds of this choice.
FOLDS = 3

#: Logs of the precisions of output weights and noise with which the first task begins.
FIRST_LOG_PRECISIONS = (0.0, 4.0)


@dataclass(frozen=True, eq=False)
class NetworkProcess:
    """The Gaussian process of a sum of networks with normally distributed output weights.

    With features Phi of all networks its covariance is ``Phi Phi' / lambda``. Zhang et al. (2019)
    print the posterior covariance of output weights with a further factor lambda.

    Attributes
    ----------
    weights : ndarray, shape (K, P)
        Weights of the networks.
    units, dimension : int
        Number of units of a layer, and of the columns D of a point.
    precision, noise_precision : float
        lambda and beta.
    """

    weights: np.ndarray
    units: int
    dimension: int
    precision: float
    noise_precision: float

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return the features (K, n, units) of points (n, D)."""
        return networks.features(self.weights, x, self.units)

    def covariances(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the covariances (K, n, m) of each network's output."""
        return self.features(x) @ self.features(z).transpose(0, 2, 1) / self.precision

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means, which are zero; see :class:`kem_pymc.gp.posterior.Process`."""
        return np.zeros(len(x))

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances; see :class:`kem_pymc.gp.posterior.Process`."""
        return self.covariances(x, z).sum(axis=0)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances; see :class:`kem_pymc.gp.posterior.Process`."""
        return (self.features(x) ** 2).sum(axis=(0, 2)) / self.precision

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`kem_pymc.gp.posterior.Process`."""
        return np.full(len(x), 1 / self.noise_precision)


class Beginning(NamedTuple):
    """Where the training on a task begins.

    Attributes
    ----------
    state : TaskState
    before : Neighbours
        Earlier tasks.
    strength : float
        Coefficient of the regulariser, until it is chosen.
    number : int
        Number of earlier tasks.
    """

    state: TaskState
    before: Neighbours
    strength: float
    number: int


class Learned(NamedTuple):
    """What was learned from a task.

    Attributes
    ----------
    state : TaskState
    elbo : float
        Evidence lower bound.
    strength : float
        Coefficient of the regulariser.
    """

    state: TaskState
    elbo: float
    strength: float


class LBO:
    """Lifelong Bayesian optimisation (Zhang et al. 2019, algorithm 1).

    Every function is a sum of networks, each followed by Bayesian linear regression. Which networks
    a task uses is inferred under an Indian buffet process; those that earlier tasks used are kept
    close to what they were there.

    What is learned is a function of the tasks and the seed. What was learned from earlier tasks is
    remembered as long as these are the same objects.

    Parameters
    ----------
    alpha : float
        Expected number of networks that a task uses.
    max_networks : int
        Number of networks M.
    units : int
        Number of units of each of the three layers.
    rate : float
        Learning rate of Adam.
    iterations : int
        Number of its iterations for each proposal.
    seed : int
    """

    def __init__(
        self,
        *,
        alpha: float = 2.0,
        max_networks: int = 10,
        units: int = 50,
        rate: float = 0.01,
        iterations: int = 100,
        seed: int = 0,
    ) -> None:
        self.alpha, self.max_networks, self.units = alpha, max_networks, units
        self.rate, self.iterations, self.seed = rate, iterations, seed
        self._earlier: list[tuple[Task, Learned]] = []
        self._strengths: dict[tuple[int, bytes, bytes], float] = {}

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Posterior:
        """Return the posterior of the last task's function, trained on its evaluations.

        Parameters
        ----------
        tasks : sequence of Task
            All tasks so far. The earlier ones have values that differ.
        rng : numpy.random.Generator
        """
        task = tasks[-1]
        learned = self._learn(self._beginning(tasks), task, rng)
        return self._posterior(learned.state, task.rows, task.y)

    def networks(self, tasks: Sequence[Task]) -> dict[str, np.ndarray]:
        """Return what was learned from each task, by name.

        See :meth:`kem_pymc.lifelong.sampler.LifelongSampler.networks`.
        """
        self._beginning([*tasks, tasks[-1]])
        results = [learned for _, learned in self._earlier[: len(tasks)]]
        weight, correlation = np.zeros((2, len(tasks), self.max_networks))
        for place, (task, result) in enumerate(zip(tasks, results, strict=True)):
            outputs = self._outputs(result.state, task)
            varying = outputs.std(axis=1) > 0
            used = np.flatnonzero(result.state.active)[varying]
            weight[place, used] = outputs[varying].std(axis=1)
            correlation[place, used] = [np.corrcoef(one, task.y)[0, 1] for one in outputs[varying]]
        return {
            "n_values": np.array([len(task.values) for task in tasks]),
            "elbo": np.array([result.elbo for result in results]),
            "strength": np.array([result.strength for result in results]),
            "probability": expit([result.state.log_odds for result in results]),
            "weight": weight,
            "correlation": correlation,
        }

    def _process(self, state: TaskState, columns: int) -> NetworkProcess:
        weights, precisions = state.weights[state.active], np.exp(state.log_precisions)
        return NetworkProcess(weights, self.units, columns, *precisions)

    def _posterior(self, state: TaskState, rows: np.ndarray, y: np.ndarray) -> Posterior:
        """Return the posterior of a state, given values (n,) at points (n, D)."""
        return Posterior.of(self._process(state, rows.shape[1]), rows, y)

    def _outputs(self, state: TaskState, task: Task) -> np.ndarray:
        """Return the outputs (K, n) of networks at the data, whose sum is the function's mean."""
        parts = self._process(state, task.rows.shape[1]).covariances(task.rows, task.rows)
        conditional = self._posterior(state, task.rows, task.y).conditional
        return np.array([conditional.moments(part)[0] for part in parts])

    def _training(self, columns: int) -> NetworkTraining:
        return training(self.max_networks, columns, self.units, self.alpha)

    def _beginning(self, tasks: Sequence[Task]) -> Beginning:
        """Return where the training on the last task begins, from what the earlier ones taught.

        Every training on a task begins there. If it went on from the last one, networks would fit
        the few values of a task ever more closely, and be certain of the rest of the function.
        """
        columns = tasks[-1].rows.shape[1]
        for number, task in enumerate(tasks[:-1]):
            if number == len(self._earlier) or self._earlier[number][0] is not task:
                del self._earlier[number:]
                self._strengths.clear()
                rng = np.random.default_rng([self.seed, number + 1, len(task.values)])
                learned = self._learn(self._begin(number, columns), task, rng)
                self._earlier.append((task, learned))
        return self._begin(len(tasks) - 1, columns)

    def _begin(self, number: int, columns: int) -> Beginning:
        """Return where the training begins after a number of earlier tasks."""
        earlier = [learned for _, learned in self._earlier[:number]]
        before = Neighbours.of([one.state for one in earlier], self._training(columns).shape)
        odds = ibp.expected_log_odds(self.max_networks, self.alpha)
        if earlier:
            state, strength = earlier[-1].state._replace(log_odds=odds), earlier[-1].strength
            return Beginning(state, before, strength, number)
        rng = np.random.default_rng([self.seed])
        weights = networks.draw(self.max_networks, columns, self.units, rng)
        state = TaskState(weights, odds, np.array(FIRST_LOG_PRECISIONS))
        return Beginning(state, before, STRENGTHS[-1], number)

    def _learn(self, begun: Beginning, task: Task, rng: np.random.Generator) -> Learned:
        """Train on a task."""
        strength = self._strength(begun, task)
        return Learned(*self._train(begun, task.rows, task.y, strength, rng), strength)

    def _train(
        self,
        begun: Beginning,
        rows: np.ndarray,
        y: np.ndarray,
        strength: float,
        rng: np.random.Generator,
    ) -> tuple[TaskState, float]:
        return self._training(rows.shape[1]).train(
            begun.state,
            begun.before,
            rows,
            y,
            strength=strength,
            rate=self.rate,
            iterations=self.iterations,
            rng=rng,
        )

    def _strength(self, begun: Beginning, task: Task) -> float:
        """Return the coefficient of the regulariser, chosen on the task's first evaluations."""
        if not begun.before.counts.any():
            return begun.strength
        for count in reversed(CHOSEN_AT):
            first = task.first(count)
            if len(first.values) == count and first.varies:
                key = begun.number, first.rows.tobytes(), first.values.tobytes()
                if key not in self._strengths:
                    rng = np.random.default_rng([self.seed, begun.number + 1, count, 1])
                    self._strengths[key] = self._chosen(begun, first.rows, first.y, rng)
                return self._strengths[key]
        return begun.strength

    def _chosen(
        self, begun: Beginning, rows: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> float:
        """Return the coefficient with the smallest error of cross-validation."""
        fold = rng.permutation(len(y)) % FOLDS
        seed = int(rng.integers(2**63))
        errors = np.zeros(len(STRENGTHS))
        for i, strength in enumerate(STRENGTHS):
            for left_out in range(FOLDS):
                kept, left = fold != left_out, fold == left_out
                same = np.random.default_rng(seed)  # the same variates for every coefficient
                state, _ = self._train(begun, rows[kept], y[kept], strength, same)
                predicted = self._posterior(state, rows[kept], y[kept]).mean(rows[left])
                errors[i] += ((predicted - y[left]) ** 2).sum()
        return STRENGTHS[int(np.argmin(errors))]
