"""Lifelong Bayesian optimisation: networks that tasks share as far as it helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from kem_pymc.lifelong import ibp, networks
from kem_pymc.lifelong.linear import LinearPosterior
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
class NetworkModel:
    """Active networks with a posterior of their output weights.

    Attributes
    ----------
    weights : ndarray, shape (K, P)
        Weights of the active networks.
    units : int
    posterior : LinearPosterior
    """

    weights: np.ndarray
    units: int
    posterior: LinearPosterior

    @classmethod
    def of(cls, state: TaskState, units: int, rows: np.ndarray, y: np.ndarray) -> "NetworkModel":
        """Return the model of a state, given values (n,) at points (n, D)."""
        weights = state.weights[state.active]
        precisions = np.exp(state.log_precisions)
        return cls(weights, units, LinearPosterior(flat(weights, rows, units), y, *precisions))

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (m,) of the function at points (m, D); eq. 4."""
        return self.posterior.predict(flat(self.weights, rows, self.units))

    def conditioned(self, rows: np.ndarray, y: np.ndarray) -> "NetworkModel":
        """Return the model with other evaluations, and the same networks and precisions."""
        posterior = replace(self.posterior, phi=flat(self.weights, rows, self.units), y=y)
        return replace(self, posterior=posterior)

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        """Return the outputs (K, m) of the networks, whose sum is the function's mean."""
        maps = networks.features(self.weights, rows, self.units)
        return np.einsum("knu,ku->kn", maps, self.posterior.coefficients.reshape(-1, self.units))


def flat(weights: np.ndarray, rows: np.ndarray, units: int) -> np.ndarray:
    """Return the features of several networks side by side (n, K units)."""
    maps = networks.features(weights, rows, units)
    return maps.transpose(1, 0, 2).reshape(len(rows), -1)


class Beginning(NamedTuple):
    """Where the training on a task begins.

    Attributes
    ----------
    state : TaskState
    before : Neighbours
        Earlier tasks.
    strength : float
        Coefficient of the regulariser, until it is chosen.
    """

    state: TaskState
    before: Neighbours
    strength: float


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
        self._earlier: list[tuple[Task, Learned, Beginning]] = []
        self._strengths: dict[tuple[int, bytes, bytes], float] = {}

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> NetworkModel:
        """Return the model of the last task's function, trained on its evaluations.

        Parameters
        ----------
        tasks : sequence of Task
            All tasks so far. The earlier ones have values that differ.
        rng : numpy.random.Generator
        """
        learned = self._learned(self._beginning(tasks), len(tasks), tasks[-1], rng)
        return NetworkModel.of(learned.state, self.units, tasks[-1].rows, tasks[-1].y)

    def networks(self, tasks: Sequence[Task]) -> dict[str, np.ndarray]:
        """Return what was learned from each task, by name.

        See :meth:`kem_pymc.lifelong.sampler.LifelongSampler.networks`.
        """
        self._beginning([*tasks, tasks[-1]])
        results = [learned for _, learned, _ in self._earlier[: len(tasks)]]
        weight, correlation = np.zeros((2, len(tasks), self.max_networks))
        for place, (task, result) in enumerate(zip(tasks, results, strict=True)):
            model = NetworkModel.of(result.state, self.units, task.rows, task.y)
            outputs = model.outputs(task.rows)
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

    def _training(self, columns: int) -> NetworkTraining:
        return training(self.max_networks, columns, self.units, self.alpha)

    def _beginning(self, tasks: Sequence[Task]) -> Beginning:
        """Return where the training on the last task begins, from what the earlier ones taught.

        Every training on a task begins there. If it went on from the last one, networks would fit
        the few values of a task ever more closely, and be certain of the rest of the function.
        """
        odds = ibp.expected_log_odds(self.max_networks, self.alpha)
        columns, rng = tasks[-1].rows.shape[1], np.random.default_rng([self.seed])
        begun = Beginning(
            TaskState(
                networks.draw(self.max_networks, columns, self.units, rng),
                odds,
                np.array(FIRST_LOG_PRECISIONS),
            ),
            Neighbours.none(self.max_networks, self._training(columns).size),
            STRENGTHS[-1],
        )
        for number, task in enumerate(tasks[:-1], start=1):
            stored = self._earlier[number - 1][0] if number <= len(self._earlier) else None
            if stored is not task:
                del self._earlier[number - 1 :]
                self._strengths.clear()
                rng = np.random.default_rng([self.seed, number, len(task.values)])
                learned = self._learned(begun, number, task, rng)
                state = learned.state._replace(log_odds=odds)
                after = Beginning(state, begun.before.plus(learned.state), learned.strength)
                self._earlier.append((task, learned, after))
            begun = self._earlier[number - 1][2]
        return begun

    def _learned(
        self, begun: Beginning, number: int, task: Task, rng: np.random.Generator
    ) -> Learned:
        """Train on the task of a number."""
        strength = self._strength(begun, number, task)
        return Learned(*self._trained(begun, task.rows, task.y, strength, rng), strength)

    def _trained(
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

    def _strength(self, begun: Beginning, number: int, task: Task) -> float:
        """Return the coefficient of the regulariser, chosen on the task's first evaluations."""
        if not begun.before.counts.any():
            return begun.strength
        for count in reversed(CHOSEN_AT):
            first = task.first(count)
            if len(first.values) == count and first.varies:
                key = number, first.rows.tobytes(), first.values.tobytes()
                if key not in self._strengths:
                    rng = np.random.default_rng([self.seed, number, count, 1])
                    self._strengths[key] = self._chosen(begun, first.rows, first.y, rng)
                return self._strengths[key]
        return begun.strength

    def _chosen(
        self, begun: Beginning, rows: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> float:
        """Return the coefficient with the smallest error of cross-validation."""
        fold = rng.permutation(len(y)) % FOLDS
        seed = int(rng.integers(2**63))
        errors = []
        for strength in STRENGTHS:
            error = 0.0
            for left_out in range(FOLDS):
                kept, left = fold != left_out, fold == left_out
                same = np.random.default_rng(seed)  # the same variates for every coefficient
                state, _ = self._trained(begun, rows[kept], y[kept], strength, same)
                model = NetworkModel.of(state, self.units, rows[kept], y[kept])
                predicted, _ = model.predict(rows[left])
                error += float(((predicted - y[left]) ** 2).sum())
            errors.append(error)
        return STRENGTHS[int(np.argmin(errors))]
