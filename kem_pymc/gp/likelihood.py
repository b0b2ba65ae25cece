"""Log likelihood of every prefix of a user's data from one Cholesky factor.

With K + sigma^2 I = U' U (U upper triangular) and v = U'^-1 y, the first n entries of v and of the
diagonal of U depend only on the first n points, so

    log p(y_1..n) = sum_{i <= n} ( -v_i^2 / 2 - log U_ii - log(2 pi) / 2 )

and one factorisation serves all time steps of a user. Under the sequential likelihood a dataset
contributes only the terms of its last batch. The functions here are compiled, work on plain arrays
and take compositions as data.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit import lapack
from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import LANES, padded
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.gp.cholesky import cholesky, forward_substitution, reverse_cholesky
from kem_pymc.gp.covariance import covariance, natural_values
from kem_pymc.kernels.library import MULTIPLY

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

#: Jitter added to the diagonal if a factorisation fails, relative to the failing point's variance.
JITTER = 1e-8

#: Bound of the absolute value of logs; beyond it the likelihood is zero: exp would over- or
#: underflow.
LARGEST_LOG = 100.0


@by_reference
class Data(NamedTuple):
    """Users' data, in arrays for the compiled functions.

    Attributes
    ----------
    x : (U, D, n) float64
        Inputs, dimension before point.
    y : (U, T, n) float64
        Targets; those of dataset (u, t) are ``y[u, t, :ends[u, t]]``.
    ends : (U, T) int64
        Number of points of each dataset, increasing in t.
    n_steps : (U,) int64
        Number of time steps of each user.
    nested : bool
        Whether every dataset of a user begins with the targets of the one before. True for real
        data; False for targets drawn independently for each time step, as the cumulative likelihood
        assumes.
    sequential : bool
        Whether the likelihood of dataset (u, t) is that of its last batch given the user's earlier
        points, so that every point counts once. If False, it is that of all its points
        (cumulative).
    known : (U, n, n) float64
        Covariance at each user's points that is added to that of every composition: of the mean
        process that users share, whose mean has been subtracted from the targets, and of known
        noise. Its upper triangle is read. Shape (0, 0, 0) if there is none.
    factors : (U, n) float64
        Factors of the noise variance at each user's points; shape (0, 0) if all are one.
    """

    x: np.ndarray
    y: np.ndarray
    ends: np.ndarray
    n_steps: np.ndarray
    nested: bool
    sequential: bool = False
    known: np.ndarray = np.empty((0, 0, 0))
    factors: np.ndarray = np.empty((0, 0))


@compiled
def first_point(data, user, step):
    """Return the index of the first point that counts in the likelihood of a dataset."""
    return data.ends[user, step - 1] if data.sequential and step > 0 else 0


@compiled
def representable(layout, active, h, log_noise):
    """Return whether active logs lie within `LARGEST_LOG`, and other active values within 1e12."""
    if not abs(log_noise) <= LARGEST_LOG:
        return False
    for c in active:
        for p in range(layout.hyper_start[c], layout.hyper_start[c + 1]):
            bound = LARGEST_LOG if layout.positive[p] else 1e12
            if not abs(h[p]) <= bound:
                return False
    return True


@compiled
def add_upper(out, known):
    """Add the leading upper triangle of `known` to that of `out` (n, at least n)."""
    n = out.shape[0]
    for i in range(n):
        out[i, i:n] += known[i, i:n]


@compiled
def factorise(out, log_noise, factors, counts):
    """Factor a covariance plus noise in place, and return the number of rows factored.

    `out` must have shape (n, padded(n)), because a narrower array would be overrun; its upper
    triangle is read. `factors` are those of the noise variance (at least n,), or (0,) if all are
    one.

    After a failure the factorisation is resumed once, with `JITTER` times the failing point's
    variance added to the rest of the diagonal, so that the result for a prefix never depends on
    later points. ``counts[0]`` counts factorisations, resumed ones twice, and ``counts[1]`` those
    that failed after resuming, too.
    """
    n = out.shape[0]
    noise = math.exp(log_noise)
    for i in range(n):
        out[i, i] += noise * factors[i] if factors.shape[0] > 0 else noise
        # These entries don't affect results but enter computations: they might be denormal.
        for j in range(i // LANES * LANES, i):
            out[i, j] = 0.0
        for j in range(n, out.shape[1]):
            out[i, j] = 0.0
    counts[0] += 1
    done = cholesky(out, n, 0)
    if done < n:
        variance = out[done, done]
        for k in range(done):
            variance += out[k, done] * out[k, done]
        for i in range(done, n):
            out[i, i] += JITTER * variance
        counts[0] += 1
        done = cholesky(out, n, done)
        counts[1] += done < n
    return done


@compiled
def prefix_log_likelihood(kernels, layout, active, h, log_noise, data, user, upto, out, counts):
    """Write the log likelihood of a user's datasets of time steps 0 to upto - 1 to `out`.

    It is log p(y_1..n), or if `data.sequential` log p(y_m+1..n | y_1..m), with m the number of
    points of the dataset before.

    Parameters
    ----------
    kernels, layout, data : KernelPointers, PoolLayout, Data
    active : (k,) int64
        Indices of the composition's candidates in the pool.
    h : (H,) float64
        Hyperparameters: logs of positive ones, values of others.
    log_noise : float
        Log of the noise variance.
    user, upto : int
        Index of the user, and number of time steps.
    out : (T,) float64
        Log likelihoods; minus infinity from the first dataset whose covariance isn't positive
        definite even with the jitter, and for all datasets if the values aren't `representable`.
    counts : (2,) int64
        Running counts of factorisations and of failures.
    """
    if not representable(layout, active, h, log_noise):
        counts[1] += 1
        for t in range(upto):
            out[t] = -math.inf
        return
    n = data.ends[user, upto - 1]
    u, scratch = np.empty((n, padded(n))), np.empty((n, padded(n)))
    v = np.empty(n)
    x = np.ascontiguousarray(data.x[user, :, :n])
    covariance(kernels, layout, active, h, x, u, scratch)
    if data.known.shape[0] > 0:
        add_upper(u, data.known[user])
    factors = data.factors[user] if data.factors.shape[0] > 0 else np.empty(0)
    done = factorise(u, log_noise, factors, counts)
    if data.nested:
        forward_substitution(u, data.y[user, upto - 1], done, v)
    total = 0.0
    start = 0
    for t in range(upto):
        end = data.ends[user, t]
        if end > done:
            out[t] = -math.inf
            continue
        if not data.nested:
            forward_substitution(u, data.y[user, t], end, v)
            start = first_point(data, user, t)
        if data.sequential or not data.nested:
            total = 0.0
        for i in range(start, end):
            total -= 0.5 * v[i] * v[i] + math.log(u[i, i]) + HALF_LOG_2PI
        start = end
        out[t] = total if math.isfinite(total) else -math.inf


@compiled
def weighted_gradient(
    kernels, layout, active, h, log_noise, x, y, weights, known, factors, out, counts
):
    """Return a weighted sum of prefix log likelihoods of one user; add its gradient to `out`.

    Parameters
    ----------
    x : (D, n) float64
    y : (n,) float64
    weights : (n,) float64
        Weight of each point's conditional log density log p(y_i | y_1..i-1): the number of summed
        datasets that contain the point. With all ones the sum is the log likelihood of all points.
    known : (n, at least n) float64
        Known covariance, of which the upper triangle is read; shape (0, 0) if there is none.
    factors : (n,) float64
        Factors of the noise variance; shape (0,) if all are one.
    out : (H + 1,) float64
        Gradient with respect to active entries of `h`, and to the log noise variance (last entry).
        With shape (0,) none is computed.
    counts : (2,) int64
        Running counts of factorisations and of failures.

    Returns
    -------
    float
        The weighted sum; minus infinity, with `out` unchanged, where the covariance isn't positive
        definite.
    """
    n = x.shape[1]
    if not representable(layout, active, h, log_noise):
        counts[1] += 1
        return -math.inf
    u, scratch = np.empty((n, padded(n))), np.empty((n, padded(n)))
    x = np.ascontiguousarray(x)
    covariance(kernels, layout, active, h, x, u, scratch)
    if known.shape[0] > 0:
        add_upper(u, known)
    if factorise(u, log_noise, factors, counts) < n:
        return -math.inf
    v = np.empty(n)
    forward_substitution(u, y, n, v)
    total = 0.0
    for i in range(n):
        total -= weights[i] * (0.5 * v[i] * v[i] + math.log(u[i, i]) + HALF_LOG_2PI)
    if not math.isfinite(total):
        return -math.inf
    if out.shape[0] == 0:
        return total
    adjoint = np.empty((n, padded(n)))
    reverse_cholesky(u, v, n, weights, adjoint)
    _add_gradient(kernels, layout, active, h, log_noise, x, factors, adjoint, out)
    return total


@compiled
def blocked_gradient(kernels, layout, active, h, log_noise, x, y, known, factors, out, counts):
    """Return what :func:`weighted_gradient` does where all weights are one, by LAPACK.

    Where the covariance isn't positive definite, the compiled loops and their jitter are used.
    """
    n = x.shape[1]
    if representable(layout, active, h, log_noise):
        a, adjoint = np.empty((n, padded(n))), np.empty((n, padded(n)))
        covariance(kernels, layout, active, h, x, a, adjoint)
        if known.shape[0] > 0:
            add_upper(a, known)
        for i in range(n):
            a[i, i] += math.exp(log_noise) * (factors[i] if factors.shape[0] > 0 else 1.0)
        total = blocked_log_density(a, y, adjoint if out.shape[0] > 0 else np.empty((0, 0)))
        if math.isfinite(total):
            if out.shape[0] > 0:
                _add_gradient(kernels, layout, active, h, log_noise, x, factors, adjoint, out)
            return total
    return weighted_gradient(
        kernels, layout, active, h, log_noise, x, y, np.ones(n), known, factors, out, counts
    )


@compiled
def blocked_log_density(a, y, adjoint):
    """Return the log density of normal targets by LAPACK, and write its derivatives to `adjoint`.

    With A = U'U and w = A^-1 y the derivative in A is (w w' - A^-1) / 2.

    Parameters
    ----------
    a : (n, at least n) float64
        Covariance A, of which the upper triangle is read. It is overwritten.
    y : (n,) float64
        Targets.
    adjoint : (n, at least n) float64
        Derivatives in the entries A[i, j], i <= j: one above the diagonal represents that below
        it, too. What is below the diagonal isn't written. With shape (0, 0) none are computed.

    Returns
    -------
    float
        Minus infinity if the covariance isn't positive definite.
    """
    n = y.shape[0]
    if not lapack.factor(a, n):
        return -math.inf
    weighted = lapack.solve(a, y)
    total = 0.0
    for i in range(n):
        total -= 0.5 * y[i] * weighted[i] + math.log(a[i, i]) + HALF_LOG_2PI
    if adjoint.shape[0] > 0:
        lapack.invert(a, n)
        for i in range(n):
            for j in range(i, n):
                adjoint[i, j] = weighted[i] * weighted[j] - a[i, j]
            adjoint[i, i] *= 0.5
    return total


@compiled
def _add_gradient(kernels, layout, active, h, log_noise, x, factors, adjoint, out):
    """Add the gradient in hyperparameters and log noise to `out` (H + 1,), given that in A."""
    add_kernel_gradient(kernels, layout, active, h, x, adjoint, out)
    trace = 0.0
    for i in range(x.shape[1]):
        trace += adjoint[i, i] * factors[i] if factors.shape[0] > 0 else adjoint[i, i]
    out[-1] += trace * math.exp(log_noise)


@compiled
def add_kernel_gradient(kernels, layout, active, h, x, adjoint, out):
    """Add the sum over i <= j of adjoint[i, j] times dK[i, j]/dh to `out` (H + 1,)."""
    values = np.empty(8)
    slopes = np.empty(8)
    product = np.empty_like(adjoint)
    for c in active:
        first, last = layout.factor_start[c], layout.factor_start[c + 1]
        amplitude = math.exp(h[layout.hyper_start[c]])
        if first == last:  # CONST
            for i in range(x.shape[1]):
                for j in range(i, x.shape[1]):
                    out[layout.hyper_start[c]] += amplitude * adjoint[i, j]
        for f in range(first, last):
            weights = adjoint
            if last - first > 1:
                weights = product
                weights[:] = adjoint
            for other in range(first, last):
                if other != f:
                    natural_values(layout, other, h, values)
                    d = layout.factor_dimension[other]
                    base = layout.factor_base[other]
                    kernels.fill(base, x[d], values, 1.0, MULTIPLY, weights)
            natural_values(layout, f, h, values)
            slopes[:] = 0.0
            xd = x[layout.factor_dimension[f]]
            kernels.gradient(layout.factor_base[f], xd, values, weights, slopes)
            size = layout.factor_size[f]
            for p in range(size):
                place = layout.factor_hyper[f] + p
                chain = values[p] if layout.positive[place] else 1.0
                out[place] += amplitude * slopes[p] * chain
            if f == last - 1:
                out[layout.hyper_start[c]] += amplitude * slopes[size]


def as_active(inclusion: np.ndarray) -> np.ndarray:
    """Return the indices of included candidates, (k,) int64, given inclusion indicators (C,)."""
    return np.flatnonzero(inclusion).astype(np.int64)
