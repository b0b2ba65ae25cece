"""Compiled interpreter of tapes: covariances, and their vector-Jacobian products.

Nothing is compiled for a tree. The pairs (i, j) with i <= j are numbered row by row, and the tape
is run on blocks of `WIDTH` of them, so that all intermediate values of a block stay in the CPU
cache, and the time to decode an operation is small beside its loop. The reverse pass computes a
block's values again, so that nothing is kept for all pairs.

Sums over pairs are kept per place in a block, and added up at the end: strict arithmetic doesn't
reorder a sum, so that a loop that adds to one number can't be vectorised.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.vector_math import cos, exp, log, sin
from kem_pymc.search.evocov.tape import (
    ADD,
    CONSTANT,
    DISTANCE,
    EXP,
    HYPERPARAMETER,
    INVERSE,
    LOG,
    MULTIPLY,
    POWER,
    PRODUCT,
    ROOT,
    SPECTRAL_DISTANCE,
    SQUARE,
)

#: Number of pairs in a block.
WIDTH = 256

# Outcomes of an evaluation.
FINE, DIVISION, OVERFLOW, UNDEFINED, INDEFINITE = range(5)

#: What outcomes mean, for counts and messages.
OUTCOMES = (
    "fine",
    "division by zero",
    "overflow",
    "undefined value",
    "not positive definite",
)


@compiled
def natural(tape, values, h):
    """Write the natural values of the coordinates (at least k,) to `h` (k,)."""
    for i in range(h.shape[0]):
        h[i] = math.exp(values[i]) if tape.positive[i] else values[i]


@compiled
def waves(tape, h, x, sines, cosines):
    """Write sin and cos of frequencies times inputs x (D, n) to `sines`, `cosines` (s, D, n)."""
    for s in range(tape.frequencies.shape[0]):
        frequency = h[tape.frequencies[s]]
        for d in range(x.shape[0]):
            for i in range(x.shape[1]):
                sines[s, d, i] = sin(frequency * x[d, i])
                cosines[s, d, i] = cos(frequency * x[d, i])


@compiled
def forward(tape, h, x, sines, cosines, first, last, row, column, size, values):
    """Run operations `first` to `last` - 1 on `size` pairs, from (row, column) on.

    Parameters
    ----------
    tape : Tape
    h : (k,) float64
        Natural hyperparameters.
    x : (D, n) float64
    sines, cosines : (s, D, n) float64
        Features, from :func:`waves`.
    values : (m, WIDTH) float64
        Values of all operations; rows `first` to `last` - 1 are written.
    """
    n = x.shape[1]
    for r in range(first, last):
        kind = tape.code[r, 0]
        out = values[r]
        if kind >= ADD:
            a = values[tape.code[r, 1]]
            b = values[tape.code[r, 2]]
            if kind == ADD:
                for q in range(size):
                    out[q] = a[q] + b[q]
            elif kind == MULTIPLY:
                for q in range(size):
                    out[q] = a[q] * b[q]
            elif kind == LOG:
                for q in range(size):
                    out[q] = log(a[q])
            elif kind == POWER:
                exponent = h[tape.code[r, 3]]
                for q in range(size):
                    out[q] = exp(exponent * b[q])
            elif kind == INVERSE:
                for q in range(size):
                    out[q] = 1.0 / a[q]
            elif kind == EXP:
                for q in range(size):
                    out[q] = exp(a[q])
            elif kind == ROOT:
                for q in range(size):
                    out[q] = math.sqrt(a[q])
            else:
                for q in range(size):
                    out[q] = a[q] * a[q]
        elif kind == CONSTANT:
            for q in range(size):
                out[q] = tape.constants[r]
        elif kind == HYPERPARAMETER:
            for q in range(size):
                out[q] = h[tape.code[r, 3]]
        else:
            length = h[tape.code[r, 3]]
            shift = h[tape.code[r, 4]]
            wave = tape.code[r, 5]
            squared = kind in (DISTANCE, SPECTRAL_DISTANCE)
            scale = 1.0 / (length * length) if squared else 1.0 / length
            for q in range(size):
                out[q] = 0.0
            for d in range(x.shape[0]):
                done, i, j = 0, row, column
                while done < size:
                    count = min(n - j, size - done)
                    if kind == DISTANCE:
                        _add_distances(x[d], i, j, count, out[done:])
                    elif kind == PRODUCT:
                        _add_products(x[d], i, j, count, shift, out[done:])
                    elif kind == SPECTRAL_DISTANCE:
                        _add_distances(sines[wave, d], i, j, count, out[done:])
                        _add_distances(cosines[wave, d], i, j, count, out[done:])
                    else:
                        _add_products(sines[wave, d], i, j, count, shift, out[done:])
                        _add_products(cosines[wave, d], i, j, count, shift, out[done:])
                    done += count
                    i += 1
                    j = i
            for q in range(size):
                out[q] *= scale


@compiled
def _add_distances(x, i, j, count, out):
    """Add the squared distances of point i from points j to j + count - 1 to `out`."""
    point, others = x[i], x[j:]
    for q in range(count):
        out[q] += (point - others[q]) * (point - others[q])


@compiled
def _add_products(x, i, j, count, shift, out):
    """Add the products of shifted point i with points j to j + count - 1 to `out`."""
    point, others = x[i] - shift, x[j:]
    for q in range(count):
        out[q] += point * (others[q] - shift)


@compiled
def reverse(tape, h, x, sines, cosines, first, last, row, column, size, values, adjoints, slopes):
    """Propagate adjoints of operations `last` - 1 down to `first` to operands and hyperparameters.

    Parameters
    ----------
    tape, h, x, sines, cosines, first, last, row, column, size, values
        As for :func:`forward`, which has computed `values`.
    adjoints : (m, WIDTH) float64
        Derivatives in the values; those of the operands are added to.
    slopes : (k, WIDTH) float64
        Derivatives in the natural hyperparameters, per place in a block; they are added to.

    Notes
    -----
    An adjoint of zero stays zero where it is multiplied by an infinite value: the inverse of an
    overflow, for example, is zero, and so are its derivatives.
    """
    for r in range(last - 1, first - 1, -1):
        kind = tape.code[r, 0]
        out, adjoint = values[r], adjoints[r]
        if kind >= ADD:
            a, to_a = values[tape.code[r, 1]], adjoints[tape.code[r, 1]]
            b, to_b = values[tape.code[r, 2]], adjoints[tape.code[r, 2]]
            if kind == ADD:
                for q in range(size):
                    to_a[q] += adjoint[q]
                for q in range(size):  # one after the other: operands may be the same
                    to_b[q] += adjoint[q]
            elif kind == MULTIPLY:
                for q in range(size):
                    to_a[q] += adjoint[q] * b[q] if adjoint[q] != 0.0 else 0.0
                for q in range(size):
                    to_b[q] += adjoint[q] * a[q] if adjoint[q] != 0.0 else 0.0
            elif kind == POWER:
                # At zero the derivatives are zero, although that of the logarithm is infinite.
                exponent = h[tape.code[r, 3]]
                slope = slopes[tape.code[r, 3]]
                for q in range(size):
                    ratio = exponent * out[q] / a[q]
                    to_a[q] += adjoint[q] * ratio if (adjoint[q] != 0.0) & (a[q] != 0.0) else 0.0
                for q in range(size):
                    change = adjoint[q] * (out[q] * b[q])
                    slope[q] += change if (adjoint[q] != 0.0) & (out[q] != 0.0) else 0.0
            elif kind == INVERSE:
                for q in range(size):
                    to_a[q] -= adjoint[q] * (out[q] * out[q]) if adjoint[q] != 0.0 else 0.0
            elif kind == EXP:
                for q in range(size):
                    to_a[q] += adjoint[q] * out[q] if adjoint[q] != 0.0 else 0.0
            elif kind == ROOT:
                for q in range(size):
                    change = 0.5 / out[q]
                    to_a[q] += adjoint[q] * change if out[q] != 0.0 else 0.0
            elif kind == SQUARE:
                for q in range(size):
                    to_a[q] += adjoint[q] * (2.0 * a[q]) if adjoint[q] != 0.0 else 0.0
        elif kind == HYPERPARAMETER:
            slope = slopes[tape.code[r, 3]]
            for q in range(size):
                slope[q] += adjoint[q]
        elif kind != CONSTANT:
            length = h[tape.code[r, 3]]
            squared = kind in (DISTANCE, SPECTRAL_DISTANCE)
            power = -2.0 / length if squared else -1.0 / length
            slope = slopes[tape.code[r, 3]]
            for q in range(size):
                slope[q] += adjoint[q] * (out[q] * power)
            if kind != DISTANCE:
                _reverse_features(tape, r, h, x, sines, cosines, row, column, size, adjoint, slopes)


@compiled
def _reverse_features(tape, r, h, x, sines, cosines, row, column, size, adjoint, slopes):
    """Add derivatives in the shift and the frequency of an operation on points."""
    n = x.shape[1]
    kind, wave = tape.code[r, 0], tape.code[r, 5]
    length, shift = h[tape.code[r, 3]], h[tape.code[r, 4]]
    to_shift = slopes[tape.code[r, 4]]
    for d in range(x.shape[0]):
        done, i, j = 0, row, column
        while done < size:
            count = min(n - j, size - done)
            weights = adjoint[done:]
            if kind == PRODUCT:
                constant, others = 2.0 * shift - x[d, i], x[d, j:]
                slope = to_shift[done:]
                for q in range(count):
                    slope[q] += weights[q] * ((constant - others[q]) / length)
            else:
                others = x[d, j:]
                s, c = sines[wave, d, i], cosines[wave, d, i]
                other_s, other_c = sines[wave, d, j:], cosines[wave, d, j:]
                to_frequency = slopes[tape.frequencies[wave]][done:]
                if kind == SPECTRAL_DISTANCE:
                    scale = 2.0 / (length * length)
                    for q in range(count):
                        turned = s * other_c[q] - c * other_s[q]
                        to_frequency[q] += weights[q] * ((x[d, i] - others[q]) * turned * scale)
                else:
                    slope = to_shift[done:]
                    constant = 4.0 * shift - s - c
                    for q in range(count):
                        slope[q] += weights[q] * ((constant - other_s[q] - other_c[q]) / length)
                    # The derivatives of sin and cos of the frequency times x are x cos and -x sin.
                    left, right = x[d, i] * c, x[d, i] * s
                    for q in range(count):
                        change = left * (other_s[q] - shift) - right * (other_c[q] - shift)
                        change += others[q] * (other_c[q] * (s - shift) - other_s[q] * (c - shift))
                        to_frequency[q] += weights[q] * (change / length)
            done += count
            i += 1
            j = i


@compiled
def outcome(tape, values, size):
    """Return why the first `size` values of a block aren't finite; `FINE` if they are."""
    wrong = 0
    for q in range(size):
        wrong += not abs(values[-1, q]) < math.inf
    if wrong == 0:
        return FINE
    for r in range(values.shape[0]):
        if tape.code[r, 0] == LOG:  # infinite where a power is zero
            continue
        for q in range(size):
            if math.isnan(values[r, q]):
                return UNDEFINED
            if math.isinf(values[r, q]):
                by_zero = tape.code[r, 0] == INVERSE and values[tape.code[r, 1], q] == 0.0
                return DIVISION if by_zero else OVERFLOW
    return UNDEFINED


@compiled
def covariance(tape, h, x, sines, cosines, out):
    """Write the upper triangle of the covariance of points x (D, n) to `out` (n, at least n).

    Returns
    -------
    int
        `FINE`, or why the covariance isn't finite; it is then incomplete.
    """
    n = x.shape[1]
    rows = tape.code.shape[0]
    values = np.empty((rows, WIDTH))
    waves(tape, h, x, sines, cosines)
    forward(tape, h, x, sines, cosines, 0, tape.uniform, 0, 0, WIDTH, values)
    i, j = 0, 0
    while i < n:
        size = block_size(n, i, j)
        forward(tape, h, x, sines, cosines, tape.uniform, rows, i, j, size, values)
        status = outcome(tape, values, size)
        if status != FINE:
            return status
        result = values[-1]
        done = 0
        while done < size:
            count = min(n - j, size - done)
            for q in range(count):
                out[i, j + q] = result[done + q]
            done += count
            j += count
            if j == n:
                i += 1
                j = i
    return FINE


@compiled
def cross_covariance(tape, h, x, z, out):
    """Write covariances of points z (D, m), with themselves and with points x (D, n), to `out`.

    Parameters
    ----------
    tape : Tape
    h : (k,) float64
        Natural hyperparameters.
    x, z : (D, n) and (D, m) float64
    out : (m, 1 + n) float64
        Variances, then covariances with x.

    Returns
    -------
    int
        `FINE`, or why they aren't finite.
    """
    dimension, n = x.shape
    rows = tape.code.shape[0]
    values = np.empty((rows, WIDTH))
    points = np.empty((dimension, 1 + n))
    points[:, 1:] = x
    sines = np.empty((tape.frequencies.shape[0], dimension, 1 + n))
    cosines = np.empty_like(sines)
    forward(tape, h, points, sines, cosines, 0, tape.uniform, 0, 0, WIDTH, values)
    for r in range(z.shape[1]):
        # Pairs of the first point are the first row of the upper triangle.
        points[:, 0] = z[:, r]
        waves(tape, h, points, sines, cosines)
        for j in range(0, 1 + n, WIDTH):
            size = min(WIDTH, 1 + n - j)
            forward(tape, h, points, sines, cosines, tape.uniform, rows, 0, j, size, values)
            status = outcome(tape, values, size)
            if status != FINE:
                return status
            for q in range(size):
                out[r, j + q] = values[-1, q]
    return FINE


@compiled
def block_size(n, i, j):
    """Return the number of pairs in the block that begins with pair (i, j)."""
    return min(WIDTH, (n - j) + (n - i - 1) * (n - i) // 2)


@compiled
def pullback(tape, h, x, sines, cosines, adjoint, gradient):
    """Write the gradient of a function of the covariance to `gradient` (at least k,).

    Parameters
    ----------
    tape, h, x, sines, cosines
        As in the call of :func:`covariance` before.
    adjoint : (n, at least n) float64
        Derivatives of the function in the entries (i, j), i <= j, of the covariance.
    gradient : (at least k,) float64
        Derivatives in the coordinates: in the logs of positive hyperparameters.
    """
    n = x.shape[1]
    rows, k = tape.code.shape[0], h.shape[0]
    values = np.empty((rows, WIDTH))
    adjoints = np.zeros((rows, WIDTH))
    slopes = np.zeros((k, WIDTH))
    forward(tape, h, x, sines, cosines, 0, tape.uniform, 0, 0, WIDTH, values)
    i, j = 0, 0
    while i < n:
        size = block_size(n, i, j)
        row, column = i, j
        forward(tape, h, x, sines, cosines, tape.uniform, rows, row, column, size, values)
        adjoints[tape.uniform :] = 0.0
        result = adjoints[-1]
        done = 0
        while done < size:
            count = min(n - j, size - done)
            for q in range(count):
                result[done + q] += adjoint[i, j + q]
            done += count
            j += count
            if j == n:
                i += 1
                j = i
        reverse(
            tape,
            h,
            x,
            sines,
            cosines,
            tape.uniform,
            rows,
            row,
            column,
            size,
            values,
            adjoints,
            slopes,
        )
    reverse(tape, h, x, sines, cosines, 0, tape.uniform, 0, 0, WIDTH, values, adjoints, slopes)
    for p in range(k):
        total = 0.0
        for q in range(WIDTH):
            total += slopes[p, q]
        gradient[p] = total * h[p] if tape.positive[p] else total
