"""Training of networks on the acquisitions of one task, by Adam on the evidence lower bound."""

from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt

from kem_pymc.lifelong import ibp
from kem_pymc.lifelong.adam import Adam
from kem_pymc.lifelong.linear import LOG_PRECISIONS, dual, primal
from kem_pymc.lifelong.networks import features_in_pytensor, sizes

#: Number of samples of the networks that are used, in every iteration.
SAMPLES = 8

#: How many times faster log odds and log precisions move than weights. Both may have to move far
#: within a training: the precision of the noise, for example, by several orders of magnitude.
FASTER = 10.0


class TaskState(NamedTuple):
    """What is learned about one task.

    Attributes
    ----------
    weights : ndarray, shape (M, P)
        Weights of the networks.
    log_odds : ndarray, shape (M,)
        Logs of gamma, the variational odds that the task uses a network.
    log_precisions : ndarray, shape (2,)
        Logs of lambda and beta, the precisions of output weights and noise.
    """

    weights: np.ndarray
    log_odds: np.ndarray
    log_precisions: np.ndarray

    @property
    def active(self) -> np.ndarray:
        """Which networks (M,) the task uses: those with odds above one, at least the likeliest."""
        active = self.log_odds > 0.0
        active[np.argmax(self.log_odds)] = True
        return active


class Neighbours(NamedTuple):
    """Sums over earlier tasks that used a network, for the regulariser (eq. 9).

    Attributes
    ----------
    counts : ndarray, shape (M,)
        Number of tasks.
    weights : ndarray, shape (M, P)
        Sums of their weights.
    squares : ndarray, shape (M,)
        Sums of the squared norms of their weights.
    """

    counts: np.ndarray
    weights: np.ndarray
    squares: np.ndarray

    @classmethod
    def none(cls, networks: int, size: int) -> "Neighbours":
        """Return the sums without earlier tasks."""
        return cls(np.zeros(networks), np.zeros((networks, size)), np.zeros(networks))

    def plus(self, state: TaskState) -> "Neighbours":
        """Return the sums with another task."""
        used = state.active.astype(float)
        return Neighbours(
            self.counts + used,
            self.weights + used[:, None] * state.weights,
            self.squares + used * (state.weights**2).sum(axis=1),
        )


class NetworkTraining:
    """Compiled training of M networks on points with D columns; there is one for each shape.

    Parameters
    ----------
    networks, columns, units : int
        M, D and the number of units of a layer.
    alpha : float
        Expected number of networks that a task uses.
    """

    def __init__(self, networks: int, columns: int, units: int, alpha: float) -> None:
        self.networks, self.columns, self.units, self.alpha = networks, columns, units, alpha
        self.size = sum(rows * out for rows, out in sizes(columns, units))
        shapes = (networks, self.size), (networks,), (2,)
        self._state: Any = TaskState(*(pytensor.shared(np.zeros(shape)) for shape in shapes))
        none = Neighbours.none(networks, self.size)
        self._before: Any = Neighbours(*(pytensor.shared(value) for value in none))
        self._rows = pytensor.shared(np.zeros((1, columns)))
        self._y = pytensor.shared(np.zeros(1))
        self._strength = pytensor.shared(0.0)
        self._steps: dict[bool, Adam] = {}
        self._lock = Lock()

    def elbo(self, uniform: Any, sticks: Any, in_dual: bool = True) -> tuple[Any, Any]:
        """Return samples' mean of the evidence lower bound (eq. 8) and of the regulariser (eq. 9).

        Parameters
        ----------
        uniform, sticks : tensor variables, shape (S, M)
            Uniform variates for the networks that are used, and for their prior probabilities.
        in_dual : bool
            Form of the log marginal likelihood.
        """
        state, before = self._state, self._before
        maps = features_in_pytensor(state.weights, self._rows, self.columns, self.units)
        log_odds = FASTER * state.log_odds
        logit = ibp.logit_sample(log_odds, uniform)
        # A task uses one network at least (TaskState.active). Samples without any would make noise
        # of all values, and the precision of the noise could never be large.
        likeliest = pt.eq(pt.arange(self.networks), pt.argmax(log_odds))
        z = pt.where(likeliest, 1.0, pt.sigmoid(logit))
        logs = pt.clip(FASTER * state.log_precisions, *LOG_PRECISIONS)
        precisions = logs[0], logs[1]
        # Products of features are computed once, and weighted for every sample.
        if in_dual:
            n = self._y.shape[0]
            products = pt.matmul(maps, maps.transpose(0, 2, 1)).reshape((self.networks, n * n))
            gram = pt.dot(pt.sqr(z), products).reshape((z.shape[0], n, n))
            likelihood = dual(gram, self._y, *precisions)
        else:
            phi = maps.transpose(1, 0, 2).reshape((self._y.shape[0], self.networks * self.units))
            scale = pt.repeat(z, self.units, axis=1)
            cross = pt.dot(phi.T, phi) * scale[:, :, None] * scale[:, None, :]
            likelihood = primal(cross, pt.dot(phi.T, self._y) * scale, self._y, *precisions)
        prior = ibp.log_density(logit, ibp.prior_log_odds(sticks, self.alpha))
        divergence = (ibp.log_density(logit, log_odds) - prior).sum(axis=1)
        squares = before.counts * pt.sqr(state.weights).sum(axis=1)
        squares += before.squares - 2.0 * (state.weights * before.weights).sum(axis=1)
        return (likelihood - divergence).mean(), pt.dot(z, squares).mean()

    def _step(self, in_dual: bool) -> Adam:
        """Return the compiled step for a form of the marginal likelihood."""
        if in_dual not in self._steps:
            inputs = [pt.matrix("uniform"), pt.matrix("sticks")]
            bound, distance = self.elbo(inputs[0], inputs[1], in_dual)
            loss = self._strength * distance - bound
            self._steps[in_dual] = Adam(loss, self._state, inputs, bound)
        return self._steps[in_dual]

    def train(
        self,
        state: TaskState,
        before: Neighbours,
        rows: np.ndarray,
        y: np.ndarray,
        *,
        strength: float,
        rate: float,
        iterations: int,
        rng: np.random.Generator,
    ) -> tuple[TaskState, float]:
        """Train from a state.

        Parameters
        ----------
        state : TaskState
        before : Neighbours
            Earlier tasks.
        rows : ndarray, shape (n, D)
        y : ndarray, shape (n,)
            Standardised values.
        strength : float
            Coefficient of the regulariser.
        rate : float
            Learning rate.
        iterations : int
        rng : numpy.random.Generator

        Returns
        -------
        state : TaskState
        elbo : float
            Mean evidence lower bound of the second half of the iterations.
        """
        variates = np.clip(rng.random((iterations, 2, SAMPLES, self.networks)), 1e-12, 1 - 1e-12)
        with self._lock:  # compiled functions share their values between threads
            for variable, value in zip(self._before, before, strict=True):
                variable.set_value(value)
            self._rows.set_value(rows)
            self._y.set_value(y)
            self._strength.set_value(strength)
            adam = self._step(in_dual=len(y) <= self.networks * self.units)
            adam.begin(_scaled(state, 1 / FASTER), rate)
            bounds = [float(adam.step(*pair)) for pair in variates]
            trained = _scaled(TaskState(*adam.values()), FASTER)
        precisions = np.clip(trained.log_precisions, *LOG_PRECISIONS)
        trained = trained._replace(log_precisions=precisions)
        return trained, float(np.mean(bounds[iterations // 2 :]))


def _scaled(state: TaskState, factor: float) -> TaskState:
    """Return a state with log odds and log precisions times a factor."""
    return TaskState(state.weights, factor * state.log_odds, factor * state.log_precisions)


@cache
def training(networks: int, columns: int, units: int, alpha: float) -> NetworkTraining:
    """Return the training of a shape, which is compiled once."""
    return NetworkTraining(networks, columns, units, alpha)
