"""The objective of fits: a metric of one data set under a tree, with its gradient."""

from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc.search.evocov.interpreter import (
    FINE,
    INDEFINITE,
    OVERFLOW,
    covariance,
    cross_covariance,
    natural,
    pullback,
)
from kem_pymc.search.evocov.metrics import METRICS, Metric, MetricName
from kem_pymc.search.evocov.tape import Tape, lower
from kem_pymc.search.evocov.tree import Tree


class MetricValue(NamedTuple):
    """Value of an objective at a point.

    Attributes
    ----------
    height : float
        Value of the metric; minus infinity if there is none.
    gradient : ndarray, shape (k + 1,)
        Zero if there is none.
    outcome : int
        `FINE`, or why there is no value (:data:`kem_pymc.search.evocov.interpreter.OUTCOMES`).
    """

    height: float
    gradient: np.ndarray
    outcome: int


class TreeObjective:
    """A metric of one data set under a kernel with white noise, and a mean of zero.

    It is a function of k + 1 coordinates: the logs of the positive hyperparameters and the values
    of the others, in the order of :attr:`Tree.hyperparameters`, then the log of the noise variance.

    Parameters
    ----------
    tree : Tree
    x : ndarray, shape (n, D)
        Inputs.
    y : ndarray, shape (n,)
        Targets.
    metric : {"lml", "loocv"} or callable
    """

    def __init__(
        self, tree: Tree, x: np.ndarray, y: np.ndarray, metric: MetricName | Metric = "lml"
    ) -> None:
        self.tape = lower(tree)
        self.x = np.array(x.T, dtype=np.float64, order="C")
        self.y = np.array(y, dtype=np.float64)
        self.metric = METRICS[metric] if isinstance(metric, str) else metric
        self._waves = np.empty((2, len(self.tape.frequencies), *self.x.shape))
        self._natural = np.empty(len(self.tape.positive))
        # New matrices of this size in every evaluation would take a twentieth of its time.
        self._matrices = np.zeros((2, len(y), padded(len(y))))

    @property
    def size(self) -> int:
        """Number of coordinates k + 1."""
        return len(self.tape.positive) + 1

    def evaluate(self, values: np.ndarray) -> MetricValue:
        """Return the metric and its gradient at coordinates (k + 1,)."""
        gradient = np.zeros(len(values))
        sines, cosines = self._waves
        c, adjoint = self._matrices
        outcome = noisy_covariance(self.tape, values, self.x, self._natural, sines, cosines, c)
        if outcome != FINE:
            return MetricValue(-np.inf, gradient, outcome)
        height = self.metric(c, self.y, adjoint)
        if height == -np.inf:
            return MetricValue(height, gradient, INDEFINITE)
        finite = noisy_pullback(
            self.tape, values, self.x, self._natural, sines, cosines, adjoint, gradient
        )
        if not (finite and np.isfinite(height)):
            return MetricValue(-np.inf, np.zeros(len(values)), OVERFLOW)
        return MetricValue(height, gradient, FINE)

    def cross_covariances(self, values: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, int]:
        """Return covariances of other points with themselves and with the data, without noise.

        Parameters
        ----------
        values : ndarray, shape (k + 1,)
            Coordinates.
        z : ndarray, shape (m, D)
            Other points.

        Returns
        -------
        covariances : ndarray, shape (m, 1 + n)
            Variances, then covariances with the data.
        outcome : int
            `FINE`, or why they aren't finite.
        """
        out = np.zeros((len(z), 1 + len(self.y)))
        natural(self.tape, values, self._natural)
        others = np.array(z.T, dtype=np.float64, order="C")
        return out, cross_covariance(self.tape, self._natural, self.x, others, out)


@compiled
def noisy_covariance(tape, values, x, h, sines, cosines, out):
    """Write covariance plus noise at coordinates to `out`; see :func:`covariance`."""
    natural(tape, values, h)
    outcome = covariance(tape, h, x, sines, cosines, out)
    noise = np.exp(values[h.shape[0]])
    for i in range(x.shape[1]):
        out[i, i] += noise
    return outcome


@compiled
def noisy_pullback(tape, values, x, h, sines, cosines, adjoint, gradient):
    """Write the gradient in all coordinates; return whether it is finite; see :func:`pullback`."""
    k = h.shape[0]
    pullback(tape, h, x, sines, cosines, adjoint, gradient)
    trace = 0.0
    for i in range(x.shape[1]):
        trace += adjoint[i, i]
    gradient[k] = trace * np.exp(values[k])
    finite = True
    for i in range(k + 1):
        finite = finite and np.isfinite(gradient[i])
    return finite


def covariances(tree: Tree, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the covariance of a kernel, without noise, and the outcome.

    Parameters
    ----------
    tree : Tree
    x : ndarray, shape (n, D)
        Inputs.
    values : ndarray, shape (at least k,)
        Coordinates of the hyperparameters, see :class:`TreeObjective`.

    Returns
    -------
    covariance : ndarray, shape (n, n)
    outcome : int
        `FINE`, or why the covariance isn't finite.
    """
    return tape_covariances(lower(tree), np.array(x.T, dtype=np.float64, order="C"), values)


def tape_covariances(tape: Tape, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the covariance of a tape at points (D, n); see :func:`covariances`."""
    sines, cosines = np.empty((2, len(tape.frequencies), *x.shape))
    h = np.empty(len(tape.positive))
    out = np.zeros((x.shape[1], x.shape[1]))
    natural(tape, values, h)
    outcome = covariance(tape, h, x, sines, cosines, out)
    return np.triu(out) + np.triu(out, 1).T, outcome
