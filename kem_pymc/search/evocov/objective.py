"""The objective of fits: a metric of one data set under a tree, with its gradient.

A metric is a function of the covariance of the targets, noise included, and larger where the fit is
better. The log marginal likelihood is one; the experiments have those of Roman et al. (2019).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc.gp.cholesky import cholesky, forward_substitution, reverse_cholesky
from kem_pymc.gp.likelihood import HALF_LOG_2PI, blocked_log_density
from kem_pymc.gp.objective import LARGE
from kem_pymc.search.evocov.interpreter import FINE, INDEFINITE, OVERFLOW, covariance, pullback
from kem_pymc.search.evocov.tape import Tape, lower
from kem_pymc.search.evocov.tree import Tree

#: The value of a metric for a covariance (n, padded(n)) and targets (n,); see :func:`lml`.
type Metric = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


@compiled
def conditionals(a, y, weights, adjoint):
    """Return a weighted sum of log p(y_i | y_1, ..., y_i-1); write its derivatives to `adjoint`.

    Parameters
    ----------
    a : (n, padded(n)) float64
        Covariance, of which the upper triangle is read. It is overwritten by its factor.
    y, weights : (n,) float64
    adjoint : (n, padded(n)) float64
        Derivatives in the upper triangle.
    """
    n = y.shape[0]
    if cholesky(a, n, 0) < n:
        return -math.inf
    v = np.empty(n)
    forward_substitution(a, y, n, v)
    total = 0.0
    for i in range(n):
        total -= weights[i] * (0.5 * v[i] * v[i] + math.log(a[i, i]) + HALF_LOG_2PI)
    reverse_cholesky(a, v, n, weights, adjoint)
    return total


def lml(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return the log marginal likelihood (eq. 8).

    Parameters
    ----------
    c : ndarray, shape (n, padded(n))
        Covariance, of which the upper triangle is read. It is overwritten.
    y : ndarray, shape (n,)
        Targets.
    adjoint : ndarray, shape (n, padded(n))
        Derivatives in the entries C[i, j], i <= j, are written here; what is below the diagonal has
        no meaning.

    Returns
    -------
    float
        Minus infinity where the covariance isn't positive definite.
    """
    if len(y) < LARGE:
        return conditionals(c, y, np.ones(len(y)), adjoint)
    return blocked_log_density(c, y, adjoint)


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
    metric : callable
        See :func:`lml`.
    """

    def __init__(self, tree: Tree, x: np.ndarray, y: np.ndarray, metric: Metric = lml) -> None:
        self.tape = lower(tree)
        self.x = np.array(x.T, dtype=np.float64, order="C")
        self.y = np.array(y, dtype=np.float64)
        self.metric = metric
        # New matrices of this size in every evaluation would take a twentieth of its time.
        self._features = _features(self.tape, self.x)
        self._matrices = np.zeros((2, len(y), padded(len(y))))
        self._diagonal = np.einsum("ii->i", self._matrices[0][:, : len(y)])

    @property
    def size(self) -> int:
        """Number of coordinates k + 1."""
        return len(self.tape.positive) + 1

    def evaluate(self, values: np.ndarray) -> MetricValue:
        """Return the metric and its gradient at coordinates (k + 1,)."""
        gradient, noise = np.zeros(len(values)), math.exp(values[-1])
        h = _natural(self.tape, values)
        c, adjoint = self._matrices
        outcome = covariance(self.tape, h, self.x, self._features, c)
        if outcome != FINE:
            return MetricValue(-math.inf, gradient, outcome)
        self._diagonal += noise
        height = self.metric(c, self.y, adjoint)
        if height == -math.inf:
            return MetricValue(height, gradient, INDEFINITE)
        pullback(self.tape, h, self._features, adjoint, gradient)
        gradient[-1] = np.trace(adjoint[:, : len(self.y)]) * noise
        if not (math.isfinite(height) and np.isfinite(gradient).all()):
            return MetricValue(-math.inf, np.zeros(len(values)), OVERFLOW)
        return MetricValue(height, gradient, FINE)


def covariances(tape: Tape, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the covariance of a kernel, without noise, and the outcome.

    Parameters
    ----------
    tape : Tape
        The kernel, from :func:`kem_pymc.search.evocov.tape.lower`.
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
    x = np.array(x.T, dtype=np.float64, order="C")
    out = np.zeros((x.shape[1], x.shape[1]))
    outcome = covariance(tape, _natural(tape, values), x, _features(tape, x), out)
    return np.triu(out) + np.triu(out, 1).T, outcome


def _natural(tape: Tape, values: np.ndarray) -> np.ndarray:
    """Return the natural hyperparameters (k,) of coordinates (at least k,)."""
    h = np.array(values[: len(tape.positive)])
    h[tape.positive] = np.exp(h[tape.positive])
    return h


def _features(tape: Tape, x: np.ndarray) -> np.ndarray:
    """Return an array for the features of points (D, n) and their derivatives (2, F, n)."""
    return np.empty((2, len(x) * (2 * len(tape.frequencies) + 1), x.shape[1]))
