"""Evaluate the objective of a fit with many points by LAPACK instead of compiled loops.

Compiled loops are faster while a matrix fits the CPU caches. For larger matrices LAPACK's blocked
factorisation and inverse are faster; since all points have weight one, the gradient needs nothing
else. LAPACK uses one thread: with more, results would depend on the number of cores, and on shared
cores it would be slower.
"""

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from kem_pymc._system.jit.simd import padded
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import HALF_LOG_2PI, add_kernel_gradient, add_upper, representable
from kem_pymc.gp.problem import Problem, evaluate, log_prior


def log_likelihood(a: np.ndarray, y: np.ndarray, adjoint: np.ndarray) -> float | None:
    """Return the log density of normal targets, and write its derivatives to `adjoint`.

    With A = L L' and w = A^-1 y the derivative in A is (w w' - A^-1) / 2.

    Parameters
    ----------
    a : ndarray, shape (n, at least n)
        Covariance A, of which the upper triangle is read.
    y : ndarray, shape (n,)
        Targets.
    adjoint : ndarray, shape (n, at least n)
        Derivatives in the entries A[i, j], i <= j: one above the diagonal represents that below
        it, too. What is below the diagonal has no meaning.

    Returns
    -------
    float or None
        None if the covariance isn't positive definite.
    """
    n = len(y)
    # LAPACK is column-major: its lower triangle is the upper one of a row-major array.
    lower, failed = dpotrf(a.T[:n], lower=1, clean=0)
    if failed:
        return None
    weighted = dpotrs(lower, y, lower=1)[0]
    half_log_determinant = float(np.log(np.diag(lower)).sum())
    np.multiply.outer(weighted, weighted, out=adjoint[:, :n])
    adjoint[:, :n] -= dpotri(lower, lower=1, overwrite_c=1)[0].T
    adjoint[np.diag_indices(n)] *= 0.5
    return -0.5 * float(y @ weighted) - half_log_determinant - n * HALF_LOG_2PI


@one_blas_thread()
def evaluate_large(problem: Problem, values: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Return log likelihood, log prior and the gradient of their sum, like `evaluate`.

    Where A isn't positive definite, the compiled loops and their jitter are used.

    Parameters
    ----------
    problem : Problem
        Problem with one data set, in which all weights are one.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.coordinates`).

    Returns
    -------
    log_likelihood, log_prior : float
        Minus infinity and zero where the sum or its gradient isn't finite.
    gradient : ndarray, shape (k + 1,)
        Zero there.
    """
    n, k = len(problem.y), len(values) - 1
    h = np.zeros(len(problem.layout.positive))
    h[problem.places] = values[:k]
    gradient = np.empty(k + 1)
    if not representable(problem.layout, problem.active, h, values[k]):
        return *evaluate(problem, values, gradient), gradient
    # Entries below the diagonal don't affect results but enter computations: they must be finite.
    a, adjoint = np.zeros((n, padded(n))), np.zeros((n, padded(n)))
    covariance(problem.kernels, problem.layout, problem.active, h, problem.x, a, adjoint)
    if len(problem.shared):
        add_upper(a, problem.shared)
    a[np.diag_indices(n)] += math.exp(values[k])
    likelihood = log_likelihood(a, problem.y, adjoint)
    if likelihood is None:
        return *evaluate(problem, values, gradient), gradient
    slope = np.zeros(len(h) + 1)
    add_kernel_gradient(
        problem.kernels, problem.layout, problem.active, h, problem.x, adjoint, slope
    )
    gradient[:k] = slope[problem.places]
    gradient[k] = np.trace(adjoint[:, :n]) * math.exp(values[k])
    density = log_prior(problem.prior, values, gradient)
    if not (math.isfinite(likelihood + density) and np.isfinite(gradient).all()):
        return -math.inf, 0.0, np.zeros(k + 1)
    return likelihood, density, gradient
