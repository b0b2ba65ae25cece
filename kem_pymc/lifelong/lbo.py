"""Lifelong Bayesian optimisation: networks that tasks share as far as it helps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kem_pymc.lifelong import buffet, networks
from kem_pymc.lifelong.linear import LinearPosterior
from kem_pymc.lifelong.methods import Acquired
from kem_pymc.lifelong.training import Neighbours, State, training

#: Coefficients of the regulariser that are compared (section 2.4).
STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)

#: Numbers of acquisitions of a task at which the coefficient is chosen anew.
CHOSEN_AT = (5, 10, 20, 40)

#: Number of folds of this choice.
FOLDS = 3

#: Logs of the precisions of output weights and noise with which the first task begins.
FIRST_LOG_PRECISIONS = (0.0, 4.0)


@dataclass(frozen=True, eq=False)
class NetworkSurrogate:
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

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (m,) of the function at points (m, D); eq. 4."""
        return self.posterior.predict(flat(self.weights, rows, self.units))

    def conditioned(self, acquired: Acquired) -> "NetworkSurrogate":
        """Return the surrogate with other acquisitions, and the same networks and precisions."""
        phi = flat(self.weights, acquired.rows, self.units)
        posterior = replace(self.posterior, phi=phi, y=acquired.values)
        return replace(self, posterior=posterior)


def flat(weights: np.ndarray, rows: np.ndarray, units: int) -> np.ndarray:
    """Return the features of several networks side by side (n, K units)."""
    maps = networks.features(weights, rows, units)
    return maps.transpose(1, 0, 2).reshape(len(rows), -1)


class Traced(NamedTuple):
    """What was learned in one training.

    Attributes
    ----------
    task : int
        Number of the task, from 1 on.
    n : int
        Number of acquisitions of the task that were learned from.
    elbo : float
        Evidence lower bound.
    strength : float
        Coefficient of the regulariser.
    log_odds : ndarray, shape (M,)
        Logs of the odds that the task uses a network.
    weights : ndarray, shape (M,)
        Standard deviation of each network's output at the task's points, zero for those that aren't
        used. The function's is one.
    """

    task: int
    n: int
    elbo: float
    strength: float
    log_odds: np.ndarray
    weights: np.ndarray


class LBO:
    """Lifelong Bayesian optimisation (Zhang et al. 2019, algorithm 1).

    Every function is a sum of networks, each followed by Bayesian linear regression. Which networks
    a task uses is inferred under an Indian buffet process; those that earlier tasks used are kept
    close to what they were there.

    Parameters
    ----------
    columns : int
        Number of columns D of encoded points.
    alpha : float
        Expected number of networks that a task uses.
    max_networks : int
        Number of networks M.
    units : int
        Number of units of each of the three layers.
    rate : float
        Learning rate of Adam.
    iterations : int
        Number of its iterations for each acquisition.
    """

    def __init__(
        self,
        columns: int,
        *,
        alpha: float = 2.0,
        max_networks: int = 10,
        units: int = 50,
        rate: float = 0.01,
        iterations: int = 100,
    ) -> None:
        self._shape = max_networks, columns, units, alpha
        self.training = training(*self._shape)
        self.alpha, self.rate, self.iterations = alpha, rate, iterations
        self.before = Neighbours.none(max_networks, self.training.size)
        self.first: State | None = None
        self.current: State | None = None
        self.strength, self.chosen_at = STRENGTHS[-1], 0
        self.trace: list[Traced] = []

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions are made anew in another process, and shared by copies in this one.
        return {name: value for name, value in self.__dict__.items() if name != "training"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.training = training(*self._shape)

    def fit(self, tasks: Sequence[Acquired], rng: np.random.Generator) -> NetworkSurrogate:
        """Train on the last task's acquisitions; see :class:`kem_pymc.lifelong.methods.Method`.

        If earlier tasks have acquisitions that weren't learned from, such as those of a last batch,
        networks are trained on these tasks first.
        """
        for number, acquired in enumerate(tasks, start=1):
            if not self._learned(number, len(acquired.values)):
                self._learn(number, acquired, rng)
        assert self.current is not None
        return self._surrogate(self.current, *tasks[-1])

    def _learned(self, number: int, count: int) -> bool:
        """Return whether a number of acquisitions of a task were learned from."""
        return bool(self.trace) and self.trace[-1][:2] >= (number, count)

    def _learn(self, number: int, acquired: Acquired, rng: np.random.Generator) -> None:
        state = self._begun(number, rng)
        rows, y = acquired
        reached = max((count for count in CHOSEN_AT if count <= len(y)), default=0)
        if self.before.counts.any() and reached > self.chosen_at:
            self.strength, self.chosen_at = self._chosen(state, rows, y, rng), reached
        self.current, elbo = self._trained(state, rows, y, self.strength, rng)
        surrogate = self._surrogate(self.current, rows, y)
        weights = np.zeros(self.training.networks)
        weights[self.current.active] = self._outputs(surrogate, rows).std(axis=1)
        odds = self.current.log_odds
        self.trace.append(Traced(number, len(y), elbo, self.strength, odds, weights))

    def _begun(self, number: int, rng: np.random.Generator) -> State:
        """Return the state with which the task of a number began.

        Every training begins there. If it went on from the last one, networks would fit the few
        values of a task ever more closely, and be certain of the rest of the function.
        """
        own = self.training
        odds = buffet.expected_log_odds(own.networks, self.alpha)
        if self.current is None or self.first is None:
            weights = networks.draw(own.networks, own.columns, own.units, rng)
            self.first = State(weights, odds, np.array(FIRST_LOG_PRECISIONS))
        elif number > self.trace[-1].task:  # networks go on from the last task that was learned
            self.before = self.before.plus(self.current)
            self.first = self.current._replace(log_odds=odds)
            self.chosen_at = 0
        return self.first

    def _trained(
        self,
        state: State,
        rows: np.ndarray,
        y: np.ndarray,
        strength: float,
        rng: np.random.Generator,
    ) -> tuple[State, float]:
        return self.training.train(
            state,
            self.before,
            rows,
            y,
            strength=strength,
            rate=self.rate,
            iterations=self.iterations,
            rng=rng,
        )

    def _chosen(
        self, state: State, rows: np.ndarray, y: np.ndarray, rng: np.random.Generator
    ) -> float:
        """Return the coefficient with the smallest error of cross-validation."""
        fold = rng.permutation(len(y)) % FOLDS
        seed = int(rng.integers(2**63))
        errors = []
        for strength in STRENGTHS:
            error = 0.0
            for own in range(FOLDS):
                kept, left = fold != own, fold == own
                same = np.random.default_rng(seed)  # the same variates for every coefficient
                found, _ = self._trained(state, rows[kept], y[kept], strength, same)
                predicted, _ = self._surrogate(found, rows[kept], y[kept]).predict(rows[left])
                error += float(((predicted - y[left]) ** 2).sum())
            errors.append(error)
        return STRENGTHS[int(np.argmin(errors))]

    def _surrogate(self, state: State, rows: np.ndarray, y: np.ndarray) -> NetworkSurrogate:
        weights, units = state.weights[state.active], self.training.units
        precision, noise_precision = np.exp(state.log_precisions)
        posterior = LinearPosterior(flat(weights, rows, units), y, precision, noise_precision)
        return NetworkSurrogate(weights, units, posterior)

    def _outputs(self, surrogate: NetworkSurrogate, rows: np.ndarray) -> np.ndarray:
        """Return the outputs (K, n) of the active networks, whose sum is the function's mean."""
        units = self.training.units
        maps = networks.features(surrogate.weights, rows, units)
        own = surrogate.posterior.coefficients.reshape(-1, units)
        return np.einsum("knu,ku->kn", maps, own)

    def correlations(self, acquired: Acquired) -> np.ndarray:
        """Return correlations of networks with values, zero for those that aren't used (eq. 10).

        Parameters
        ----------
        acquired : Acquired
            Acquisitions of the current task.

        Returns
        -------
        ndarray, shape (M,)
        """
        found = np.zeros(self.training.networks)
        if self.current is None:
            return found
        outputs = self._outputs(self._surrogate(self.current, *acquired), acquired.rows)
        varying = outputs.std(axis=1) > 0
        places = np.flatnonzero(self.current.active)[varying]
        found[places] = [np.corrcoef(one, acquired.values)[0, 1] for one in outputs[varying]]
        return found

    def state(self) -> Mapping[str, np.ndarray]:
        """Return weights, odds, precisions, sums over earlier tasks, and the trace."""
        found = {f"before_{name}": value for name, value in self.before._asdict().items()}
        found |= {name: np.array(getattr(self, name)) for name in ("strength", "chosen_at")}
        if self.current is not None and self.first is not None:
            found |= self.current._asdict()
            found |= {f"first_{name}": value for name, value in self.first._asdict().items()}
            columns = zip(*self.trace, strict=True)
            found |= {
                f"trace_{name}": np.array(own)
                for name, own in zip(Traced._fields, columns, strict=True)
            }
        return found

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state; see :class:`kem_pymc.lifelong.methods.Method`."""
        self.before = Neighbours(*(state[f"before_{name}"] for name in Neighbours._fields))
        self.strength, self.chosen_at = float(state["strength"]), int(state["chosen_at"])
        if State._fields[0] in state:
            self.current = State(*(state[name] for name in State._fields))
            self.first = State(*(state[f"first_{name}"] for name in State._fields))
            columns = [state[f"trace_{name}"] for name in Traced._fields]
            self.trace = [
                Traced(int(task), int(n), float(elbo), float(strength), odds, weights)
                for task, n, elbo, strength, odds, weights in zip(*columns, strict=True)
            ]
