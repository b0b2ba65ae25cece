"""U'U factorisation of small matrices by rows, and the same backwards.

Matrices are ``padded(n)`` wide. What happens to entries below the diagonal, or behind the n-th
column, is never read. Every entry sees the same operations in the same order whatever the size of
the matrix, so that a prefix of the points yields the same factor, to the last bit, as they alone.
"""

import math

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.elementary import fma
from kem_pymc.lanes import LANES, add_multiple, load, multiple, store

#: Rows that are brought up to date together.
BLOCK = 4


@compiled
def cholesky(a, n, start):
    """Factor the upper triangle of `a` in place as U'U.

    Parameters
    ----------
    a : (n, padded(n)) float64
    n : int
    start : int
        Number of rows that are done: none at first. After a failure the rest of the diagonal may be
        enlarged before the rest is tried again.

    Returns
    -------
    int
        Number of rows done. Fewer than `n` rows mean that the leading block of the next size isn't
        positive definite; the rows before that one have been subtracted from it.
    """
    for i in range(start // BLOCK * BLOCK, n, BLOCK):
        last = min(i + BLOCK, n)
        if i > start:  # where an earlier call failed it has done so
            _subtract_factor(a, i, last)
        for k in range(max(i, start), last):
            pivot = a[k, k]
            if not (pivot > 0.0 and pivot < math.inf):
                return k
            root = math.sqrt(pivot)
            inverse = 1.0 / root
            for j in range(i // LANES * LANES, a.shape[1], LANES):
                row = multiple(inverse, load(a, k, j))
                store(a, k, j, row)
                for r in range(k + 1, last):
                    store(a, r, j, add_multiple(load(a, r, j), -a[k, r], row))
            a[k, k] = root
    return n


@compiled
def _subtract_factor(a, i, last):
    """Subtract what the factor's rows before `i` contribute to rows i to last - 1."""
    for j in range(i // LANES * LANES, a.shape[1], LANES):
        if last - i == BLOCK:
            r0, r1, r2, r3 = load(a, i, j), load(a, i + 1, j), load(a, i + 2, j), load(a, i + 3, j)
            for k in range(i):
                row = load(a, k, j)
                r0 = add_multiple(r0, -a[k, i], row)
                r1 = add_multiple(r1, -a[k, i + 1], row)
                r2 = add_multiple(r2, -a[k, i + 2], row)
                r3 = add_multiple(r3, -a[k, i + 3], row)
            store(a, i, j, r0)
            store(a, i + 1, j, r1)
            store(a, i + 2, j, r2)
            store(a, i + 3, j, r3)
        else:
            for r in range(i, last):
                own = load(a, r, j)
                for k in range(i):
                    own = add_multiple(own, -a[k, r], load(a, k, j))
                store(a, r, j, own)


@compiled
def forward_substitution(u, y, n, v):
    """Solve U'v = y for the first `n` points."""
    for i in range(n):
        v[i] = y[i]
    for k in range(n):
        value = v[k] / u[k, k]
        v[k] = value
        for d in range(n - k - 1):
            v[k + 1 + d] = fma(-value, u[k, k + 1 + d], v[k + 1 + d])


@compiled
def _dot(a, b, k, first, n):
    """Return the sum of ``a[0, i] b[k, i]`` from `first` to n - 1, in four sums."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    i = first
    while i + 4 <= n:
        s0 = fma(a[0, i], b[k, i], s0)
        s1 = fma(a[0, i + 1], b[k, i + 1], s1)
        s2 = fma(a[0, i + 2], b[k, i + 2], s2)
        s3 = fma(a[0, i + 3], b[k, i + 3], s3)
        i += 4
    while i < n:
        s0 = fma(a[0, i], b[k, i], s0)
        i += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def reverse_cholesky(u, v, n, weights, adjoint):
    """Write d total / d A[i, j], i <= j, of the weighted log likelihood to `adjoint`.

    Runs `cholesky` and `forward_substitution` backwards: row k of the factor, then what it
    subtracted from the rows below. Meanwhile `adjoint` is symmetric, with twice its diagonal, so
    that its product with row k is a sum of rows.

    Parameters
    ----------
    u, adjoint : (n, padded(n)) float64
    v, weights : (n,) float64
    """
    width = u.shape[1]
    row = np.empty((1, width))  # adjoint of row k of the factor
    y = np.zeros((1, width))  # adjoint of the targets
    adjoint[:] = 0.0
    for k in range(n - 1, -1, -1):
        for j in range((k + 1) // LANES * LANES, width, LANES):
            even, odd = multiple(-v[k], load(y, 0, j)), multiple(0.0, load(y, 0, j))
            i = k + 1
            while i + 2 <= n:
                even = add_multiple(even, -u[k, i], load(adjoint, i, j))
                odd = add_multiple(odd, -u[k, i + 1], load(adjoint, i + 1, j))
                i += 2
            if i < n:
                even = add_multiple(even, -u[k, i], load(adjoint, i, j))
            store(row, 0, j, add_multiple(even, 1.0, odd))
        inverse = 1.0 / u[k, k]
        y_adjoint = (-weights[k] * v[k] - _dot(y, u, k, k + 1, n)) * inverse
        diagonal = (-weights[k] - _dot(row, u, k, k + 1, n)) * inverse - y_adjoint * v[k]
        y[0, k] = y_adjoint
        adjoint[k, k] = diagonal * inverse
        for i in range(k + 1, n):
            adjoint[k, i] = row[0, i] * inverse
            adjoint[i, k] = adjoint[k, i]
    for i in range(n):
        adjoint[i, i] *= 0.5
