"""Compiled Cholesky factorisation A = U'U of small matrices, and its reverse-mode derivative.

Matrices have ``padded(n)`` columns. Entries below the diagonal, or after the n-th column, may be
overwritten and never affect results. Every entry undergoes the same operations in the same order
whatever the size of the matrix, so that the leading block of a factor is bitwise identical to the
factor of the leading block.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import LANES, add_multiple, load, multiple, padded, store
from kem_pymc._system.jit.vector_math import fma

#: Number of rows that are updated together.
BLOCK = 4

#: Number of rows after which all later ones are updated. More wouldn't stay in the CPU caches.
PANEL = 64


@compiled
def cholesky(a, n, start):
    """Factor the upper triangle of `a` in place as U'U.

    Parameters
    ----------
    a : (n, padded(n)) float64
    n : int
    start : int
        Number of rows that are factored already: 0 in a first call. After a failure the caller may
        enlarge the rest of the diagonal and resume.

    Returns
    -------
    int
        Number of rows factored. If it is less than `n`, the leading block with one more row isn't
        positive definite; contributions of the factored rows have been subtracted from that row.
    """
    for first in range(start // PANEL * PANEL, n, PANEL):
        stop = min(first + PANEL, n)
        for i in range(max(start // BLOCK * BLOCK, first), stop, BLOCK):
            last = min(i + BLOCK, n)
            if i > start:  # a call that failed at `start` has already done this
                _subtract_factor(a, i, last, first, i)
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
        for i in range(stop, n, BLOCK):
            _subtract_factor(a, i, min(i + BLOCK, n), first, stop)
    return n


@compiled
def _subtract_factor(a, i, last, first, stop):
    """Subtract the contributions of factor rows first to stop - 1 from rows i to last - 1."""
    for j in range(i // LANES * LANES, a.shape[1], LANES):
        if last - i == BLOCK:
            r0, r1, r2, r3 = load(a, i, j), load(a, i + 1, j), load(a, i + 2, j), load(a, i + 3, j)
            for k in range(first, stop):
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
                row = load(a, r, j)
                for k in range(first, stop):
                    row = add_multiple(row, -a[k, r], load(a, k, j))
                store(a, r, j, row)


@compiled
def forward_substitution(u, y, n, v):
    """Write the solution of U'v = y for the first `n` points to `v`."""
    for i in range(n):
        v[i] = y[i]
    for k in range(n):
        value = v[k] / u[k, k]
        v[k] = value
        for d in range(n - k - 1):
            v[k + 1 + d] = fma(-value, u[k, k + 1 + d], v[k + 1 + d])


@compiled
def _dot(a, i, b, k, first, n):
    """Return the sum of ``a[i, j] b[k, j]`` over j from `first` to n - 1, as four partial sums."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    j = first
    while j + 4 <= n:
        s0 = fma(a[i, j], b[k, j], s0)
        s1 = fma(a[i, j + 1], b[k, j + 1], s1)
        s2 = fma(a[i, j + 2], b[k, j + 2], s2)
        s3 = fma(a[i, j + 3], b[k, j + 3], s3)
        j += 4
    while j < n:
        s0 = fma(a[i, j], b[k, j], s0)
        j += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def reverse_cholesky(u, v, n, weights, adjoint):
    """Write the derivatives of the weighted log likelihood in A[i, j], i <= j, to `adjoint`.

    This is reverse-mode differentiation of `cholesky` and `forward_substitution`: from the last row
    of the factor to the first, row k itself, then its contributions to the rows below. During the
    computation `adjoint` is symmetric with a doubled diagonal, so that its product with row k is a
    sum of rows.

    Parameters
    ----------
    u, adjoint : (n, padded(n)) float64
        Factor U, and the output.
    v, weights : (n,) float64
        Solution of U'v = y, and the weight of each point's conditional log density.
    """
    width = u.shape[1]
    rows = np.empty((BLOCK, width))  # adjoints of rows of the factor
    y = np.zeros((1, width))  # adjoint of the targets
    adjoint[:] = 0.0
    stop = n
    while stop > 0:
        start = (stop - 1) // BLOCK * BLOCK
        head = padded(stop)
        _begin_rows(u, v, y, adjoint, start, stop, n, rows)
        for k in range(stop - 1, start - 1, -1):
            r = k - start
            for j in range((k + 1) // LANES * LANES, head, LANES):
                even, odd = multiple(-v[k], load(y, 0, j)), multiple(0.0, load(y, 0, j))
                i = k + 1
                while i + 2 <= n:
                    even = add_multiple(even, -u[k, i], load(adjoint, i, j))
                    odd = add_multiple(odd, -u[k, i + 1], load(adjoint, i + 1, j))
                    i += 2
                if i < n:
                    even = add_multiple(even, -u[k, i], load(adjoint, i, j))
                store(rows, r, j, add_multiple(even, 1.0, odd))
            for j in range(head, width, LANES):
                row = load(rows, r, j)
                for i in range(k + 1, stop):
                    row = add_multiple(row, -u[k, i], load(adjoint, i, j))
                store(rows, r, j, row)
            inverse = 1.0 / u[k, k]
            y_adjoint = (-weights[k] * v[k] - _dot(y, 0, u, k, k + 1, n)) * inverse
            diagonal = (-weights[k] - _dot(rows, r, u, k, k + 1, n)) * inverse - y_adjoint * v[k]
            y[0, k] = y_adjoint
            adjoint[k, k] = diagonal * inverse
            for i in range(k + 1, n):
                adjoint[k, i] = rows[r, i] * inverse
                adjoint[i, k] = adjoint[k, i]
        stop = start
    for i in range(n):
        adjoint[i, i] *= 0.5


@compiled
def _begin_rows(u, v, y, adjoint, start, stop, n, rows):
    """Write the contributions of `adjoint` from row `stop` on to columns ``padded(stop)`` on.

    They are written to `rows`. Only the last block may have fewer than `BLOCK` rows, and there are
    no columns after it.
    """
    head = padded(stop)
    for j in range(head, u.shape[1], LANES):
        for k in range(start, stop):
            store(rows, k - start, j, multiple(-v[k], load(y, 0, j)))
    for first in range(stop, n, PANEL):
        last = min(first + PANEL, n)
        for j in range(head, u.shape[1], LANES):
            r0, r1, r2, r3 = load(rows, 0, j), load(rows, 1, j), load(rows, 2, j), load(rows, 3, j)
            for i in range(first, last):
                row = load(adjoint, i, j)
                r0 = add_multiple(r0, -u[start, i], row)
                r1 = add_multiple(r1, -u[start + 1, i], row)
                r2 = add_multiple(r2, -u[start + 2, i], row)
                r3 = add_multiple(r3, -u[start + 3, i], row)
            store(rows, 0, j, r0)
            store(rows, 1, j, r1)
            store(rows, 2, j, r2)
            store(rows, 3, j, r3)
