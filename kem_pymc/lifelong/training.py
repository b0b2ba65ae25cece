"""Training of networks on the acquisitions of one task, by Adam on the evidence lower bound.

A function is a sum of networks, each followed by Bayesian linear regression (Zhang et al. 2019,
section 2.1): output weights are ``h ~ N(0, I / lambda)``, and values ``y ~ N(Phi h, I / beta)``.
"""

from collections.abc import Sequence
from functools import cache, cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.variational.updates import adam
from pytensor.gradient import disconnected_grad

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.lifelong import ibp
from kem_pymc.lifelong.networks import features_in_pytensor, sizes

#: Number of samples of the networks that are used, in every iteration.
SAMPLES = 8

#: How many times faster log odds and log precisions move than weights. Both may have to move far
#: within a training: the precision of the noise, for example, by several orders of magnitude.
FASTER = 10.0

#: Range of the logs of both precisions, in which covariance matrices can be factorised.
LOG_PRECISIONS = (-8.0, 12.0)


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
    def of(cls, states: Sequence[TaskState], shape: tuple[int, int]) -> "Neighbours":
        """Return the sums over the states of tasks, whose weights have a shape (M, P)."""
        weights, squares, counts = np.zeros(shape), np.zeros(shape[0]), np.zeros(shape[0])
        for state in states:
            used = state.active.astype(float)
            counts += used
            weights += used[:, None] * state.weights
            squares += used * (state.weights**2).sum(axis=1)
        return cls(counts, weights, squares)


def log_likelihoods(gram: Any, y: Any, log_lambda: Any, log_beta: Any) -> Any:
    """Return log marginal likelihoods (S,) of values, as a PyTensor expression.

    With a = K^-1 y, the derivative by a covariance K is written out, ``(a a' - K^-1) / 2``; that
    through the factorisation takes several times as many operations. `y` has no derivative.

    Parameters
    ----------
    gram : tensor variable, shape (S, n, n)
        Products ``Phi Phi'`` of S matrices of features.
    y : tensor variable, shape (n,), or (S, n)
        Values.
    log_lambda, log_beta : tensor variables that broadcast with `gram`
        Logs of the precisions of weights and of noise.
    """
    n = y.shape[-1]
    covariance = pt.exp(-log_lambda) * gram + pt.exp(-log_beta) * pt.eye(n)
    factor = pt.linalg.cholesky(covariance)
    inverse = pt.linalg.solve_triangular(
        factor, pt.broadcast_to(pt.eye(n), covariance.shape), lower=True, b_ndim=2
    )
    white = (inverse * y[..., None, :]).sum(axis=2)
    along = (inverse * white[:, :, None]).sum(axis=1)
    slope = along[:, :, None] * along[:, None, :] - pt.matmul(inverse.transpose(0, 2, 1), inverse)
    slope = disconnected_grad(0.5 * slope)
    determinant = 2.0 * pt.log(pt.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    value = -0.5 * (pt.sqr(white).sum(axis=1) + determinant + n * np.log(2 * np.pi))
    linear = (slope * covariance).sum(axis=(1, 2))
    return linear + disconnected_grad(value - linear)


class Adam:
    """A compiled step of Adam (Kingma and Ba 2015), begun anew for every training.

    Parameters
    ----------
    loss : scalar tensor variable
    parameters : sequence of shared variables
    inputs : sequence of tensor variables
        Inputs of a step.
    shown : tensor variable, optional
        What a step returns, before the update; by default the loss.
    """

    def __init__(
        self, loss: Any, parameters: Sequence[Any], inputs: Sequence[Any] = (), shown: Any = None
    ) -> None:
        self.parameters, self._rate = list(parameters), pytensor.shared(0.0)
        updates = adam(loss, self.parameters, learning_rate=self._rate)
        # Two moments of each parameter, in their order, then the number of steps.
        *self._moments, self._count = [v for v in updates if v not in self.parameters]
        # With fastmath, code that was loaded from a cache differs in bits from compiled code.
        with pytensor.config.change_flags(numba__fastmath=False):
            self.step = pytensor.function(
                list(inputs), loss if shown is None else shown, updates=updates
            )

    def begin(self, values: Sequence[np.ndarray], rate: float) -> None:
        """Set the parameters and the learning rate, and forget earlier steps."""
        for place, (parameter, value) in enumerate(zip(self.parameters, values, strict=True)):
            parameter.set_value(value)
            for moment in self._moments[2 * place : 2 * place + 2]:
                moment.set_value(np.zeros_like(value))
        self._count.set_value(np.zeros_like(self._count.get_value()))
        self._rate.set_value(rate)

    def values(self) -> list[np.ndarray]:
        """Return the parameters."""
        return [parameter.get_value() for parameter in self.parameters]


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
        #: Shape (M, P) of the weights.
        self.shape = networks, sum(rows * out for rows, out in sizes(columns, units))
        shapes = self.shape, (networks,), (2,)
        self._state: Any = TaskState(*(pytensor.shared(np.zeros(shape)) for shape in shapes))
        none = Neighbours.of([], self.shape)
        self._before: Any = Neighbours(*(pytensor.shared(value) for value in none))
        self._rows = pytensor.shared(np.zeros((1, columns)))
        self._y = pytensor.shared(np.zeros(1))
        self._strength = pytensor.shared(0.0)
        self._lock = Lock()

    def elbo(self, uniform: Any, sticks: Any) -> tuple[Any, Any]:
        """Return samples' mean of the evidence lower bound (eq. 8) and of the regulariser (eq. 9).

        Parameters
        ----------
        uniform, sticks : tensor variables, shape (S, M)
            Uniform variates for the networks that are used, and for their prior probabilities.
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
        # Products of features are computed once, and weighted for every sample.
        n = self._y.shape[0]
        products = pt.matmul(maps, maps.transpose(0, 2, 1)).reshape((self.networks, n * n))
        gram = pt.dot(pt.sqr(z), products).reshape((z.shape[0], n, n))
        likelihood = log_likelihoods(gram, self._y, logs[0], logs[1])
        prior = ibp.log_density(logit, ibp.prior_log_odds(sticks, self.alpha))
        divergence = (ibp.log_density(logit, log_odds) - prior).sum(axis=1)
        squares = before.counts * pt.sqr(state.weights).sum(axis=1)
        squares += before.squares - 2.0 * (state.weights * before.weights).sum(axis=1)
        return (likelihood - divergence).mean(), pt.dot(z, squares).mean()

    @cached_property
    def _adam(self) -> Adam:
        """The compiled step."""
        inputs = [pt.matrix("uniform"), pt.matrix("sticks")]
        bound, distance = self.elbo(*inputs)
        return Adam(self._strength * distance - bound, self._state, inputs, bound)

    @one_blas_thread()  # matrices are small
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
            self._adam.begin(_scaled(state, 1 / FASTER), rate)
            bounds = [float(self._adam.step(*pair)) for pair in variates]
            trained = _scaled(TaskState(*self._adam.values()), FASTER)
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
