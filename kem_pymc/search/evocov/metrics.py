"""Metrics that hyperparameters are fitted to (Roman et al. 2019, section 6.3), with derivatives.

Each is a function of the covariance C of the targets, noise included, in closed form, and larger
where the fit is better. With a = C^-1 y:

- lml: log p(y), the log marginal likelihood,
- loocv: sum_i log p(y_i | all others), in which y_i has the mean y_i - a_i / (C^-1)_ii and the
  variance 1 / (C^-1)_ii.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.cholesky import cholesky, forward_substitution, reverse_cholesky
from kem_pymc.gp.lapack import log_likelihood
from kem_pymc.gp.likelihood import HALF_LOG_2PI
from kem_pymc.gp.objective import LARGE

#: The value of a metric for a covariance (n, padded(n)) and targets (n,); see :func:`lml`.
type Metric = Callable[[np.ndarray, np.ndarray, np.ndarray], float]

MetricName = Literal["lml", "loocv"]


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
    n = len(y)
    if n < LARGE:
        return conditionals(c, y, np.ones(n), adjoint)
    value = log_likelihood(c, y, adjoint)
    return -math.inf if value is None else value


def loocv(c: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float:
    """Return the log likelihood of leave-one-out predictions (eq. 9); see :func:`lml`."""
    n = len(y)
    lower, failed = dpotrf(c.T[:n], lower=1, clean=0)
    if failed:
        return -math.inf
    half = np.tril(dpotri(lower, lower=1)[0])
    inverse = half + np.tril(half, -1).T
    a, precision = inverse @ y, np.diag(inverse)
    value = (0.5 * np.log(precision) - 0.5 * a**2 / precision).sum() - n * HALF_LOG_2PI
    to_a = -a / precision
    to_precision = 0.5 * (a / precision) ** 2 + 0.5 / precision
    # dC^-1 = -C^-1 dC C^-1
    every = -np.outer(inverse @ to_a, a) - (inverse * to_precision) @ inverse
    adjoint[:, :n] = upper(0.5 * (every + every.T))
    return float(value)


#: The metrics by name.
METRICS: dict[MetricName, Metric] = {"lml": lml, "loocv": loocv}


def upper(adjoint: np.ndarray) -> np.ndarray:
    """Return derivatives in the upper triangle from symmetric ones in all entries."""
    doubled = 2.0 * adjoint
    np.fill_diagonal(doubled, np.diag(adjoint))
    return doubled
