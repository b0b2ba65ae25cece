"""Compiled interpreter of tapes: covariances, and their vector-Jacobian products.

Nothing is compiled for a tree. The pairs (i, j) with i <= j are numbered row by row, and the tape
is run on blocks of `WIDTH` of them, so that all intermediate values of a block stay in the CPU
cache, and the time to decode an operation is small beside its loop. The reverse pass computes a
block's values again, so that nothing is kept for all pairs.

Features of the points are rows of one array: the D inputs, then the sine and the cosine of each
input for every frequency. Distances and products are sums over some of these rows.

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
    MULTIPLY,
    POWER,
    PRODUCT,
    ROOT,
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
def write_features(tape, h, x, features):
    """Write the features of inputs x (D, n), and their derivatives by frequencies, to (2, F, n)."""
    dimension = x.shape[0]
    features[0, :dimension] = x
    for s in range(tape.frequencies.shape[0]):
        frequency = h[tape.frequencies[s]]
        for d in range(dimension):
            row = dimension * (2 * s + 1) + 2 * d
            sines, cosines = features[0, row], features[0, row + 1]
            for i in range(x.shape[1]):
                sines[i] = sin(frequency * x[d, i])
                cosines[i] = cos(frequency * x[d, i])
                features[1, row, i] = x[d, i] * cosines[i]
                features[1, row + 1, i] = -x[d, i] * sines[i]


@compiled
def spread(features, i, j, size, pairs):
    """Write the features (2, F, n) of `size` pairs of points, from (i, j) on, to `pairs`.

    Parameters
    ----------
    pairs : (1 or 2, 2, F, WIDTH) float64
        Features, and their derivatives if there is room for them, of both points.

    Returns
    -------
    i, j : int
        The pair after these.
    """
    n, done = features.shape[2], 0
    while done < size:
        count = min(n - j, size - done)
        for s in range(pairs.shape[0]):
            for f in range(features.shape[1]):
                point, others = features[s, f, i], features[s, f, j:]
                left, right = pairs[s, 0, f, done:], pairs[s, 1, f, done:]
                for q in range(count):
                    left[q] = point
                    right[q] = others[q]
        done += count
        j += count
        if j == n:
            i += 1
            j = i
    return i, j


@compiled
def _rows(tape, r, pairs):
    """Return where the rows of the features of an operation on points begin and end."""
    wave = tape.code[r, 5]
    dimension = pairs.shape[2] // (2 * tape.frequencies.shape[0] + 1)
    return dimension * max(2 * wave - 1, 0), dimension * (2 * wave + 1)


@compiled
def forward(tape, h, pairs, first, last, size, values):
    """Run operations `first` to `last` - 1 on `size` pairs.

    Parameters
    ----------
    tape : Tape
    h : (k,) float64
        Natural hyperparameters.
    pairs : (1 or 2, 2, F, WIDTH) float64
        Features of both points, from :func:`spread`.
    values : (m, WIDTH) float64
        Values of all operations; rows `first` to `last` - 1 are written.
    """
    for r in range(first, last):
        kind = tape.code[r, 0]
        out, a, b = values[r], values[tape.code[r, 1]], values[tape.code[r, 2]]
        if kind == ADD:
            for q in range(size):
                out[q] = a[q] + b[q]
        elif kind == MULTIPLY:
            for q in range(size):
                out[q] = a[q] * b[q]
        elif kind == POWER:
            exponent = h[tape.code[r, 3]]
            for q in range(size):
                out[q] = exp(exponent * log(a[q]))
        elif kind == INVERSE:
            for q in range(size):
                out[q] = 1.0 / a[q]
        elif kind == EXP:
            for q in range(size):
                out[q] = exp(a[q])
        elif kind == ROOT:
            for q in range(size):
                out[q] = math.sqrt(a[q])
        elif kind == SQUARE:
            for q in range(size):
                out[q] = a[q] * a[q]
        elif kind == CONSTANT:
            for q in range(size):
                out[q] = tape.constants[r]
        elif kind == HYPERPARAMETER:
            for q in range(size):
                out[q] = h[tape.code[r, 3]]
        else:
            length, shift = h[tape.code[r, 3]], h[tape.code[r, 4]]
            for q in range(size):
                out[q] = 0.0
            low, high = _rows(tape, r, pairs)
            for f in range(low, high):
                one, other = pairs[0, 0, f], pairs[0, 1, f]
                if kind == DISTANCE:
                    for q in range(size):
                        out[q] += (one[q] - other[q]) * (one[q] - other[q])
                else:
                    for q in range(size):
                        out[q] += (one[q] - shift) * (other[q] - shift)
            scale = 1.0 / (length * length) if kind == DISTANCE else 1.0 / length
            for q in range(size):
                out[q] *= scale


@compiled
def reverse(tape, h, pairs, first, last, size, values, adjoints, sums):
    """Propagate adjoints of operations `last` - 1 down to `first` to operands and hyperparameters.

    Parameters
    ----------
    tape, h, pairs, first, last, size, values
        As for :func:`forward`, which has computed `values`; `pairs` with derivatives.
    adjoints : (m, WIDTH) float64
        Derivatives in the values; those of the operands are added to.
    sums : (k, WIDTH) float64
        Derivatives in the natural hyperparameters, per place in a block; they are added to.

    Notes
    -----
    An adjoint of zero stays zero where it is multiplied by an infinite value: the inverse of an
    overflow, for example, is zero, and so are its derivatives.
    """
    for r in range(last - 1, first - 1, -1):
        kind = tape.code[r, 0]
        out, adjoint = values[r], adjoints[r]
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
            exponent, to_h = h[tape.code[r, 3]], sums[tape.code[r, 3]]
            for q in range(size):
                ratio = exponent * out[q] / a[q]
                to_a[q] += adjoint[q] * ratio if (adjoint[q] != 0.0) & (a[q] != 0.0) else 0.0
            for q in range(size):
                change = adjoint[q] * (out[q] * log(a[q]))
                to_h[q] += change if (adjoint[q] != 0.0) & (out[q] != 0.0) else 0.0
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
            to_h = sums[tape.code[r, 3]]
            for q in range(size):
                to_h[q] += adjoint[q]
        elif kind != CONSTANT:
            length, to_h = h[tape.code[r, 3]], sums[tape.code[r, 3]]
            power = -2.0 / length if kind == DISTANCE else -1.0 / length
            for q in range(size):
                to_h[q] += adjoint[q] * (out[q] * power)
            _reverse_features(tape, r, h, pairs, size, adjoint, sums)


@compiled
def _reverse_features(tape, r, h, pairs, size, adjoint, sums):
    """Add derivatives in the shift and the frequency of an operation on points."""
    length, shift, wave = h[tape.code[r, 3]], h[tape.code[r, 4]], tape.code[r, 5]
    to_shift = sums[tape.code[r, 4]]
    low, high = _rows(tape, r, pairs)
    for f in range(low, high):
        one, other = pairs[0, 0, f], pairs[0, 1, f]
        if tape.code[r, 0] == PRODUCT:
            scale = 1.0 / length
            for q in range(size):
                to_shift[q] += adjoint[q] * ((2.0 * shift - one[q] - other[q]) * scale)
        if wave > 0:
            to_frequency = sums[tape.frequencies[wave - 1]]
            of_one, of_other = pairs[1, 0, f], pairs[1, 1, f]
            if tape.code[r, 0] == DISTANCE:
                scale = 2.0 / (length * length)
                for q in range(size):
                    change = (one[q] - other[q]) * (of_one[q] - of_other[q])
                    to_frequency[q] += adjoint[q] * (change * scale)
            else:
                scale = 1.0 / length
                for q in range(size):
                    change = of_one[q] * (other[q] - shift) + (one[q] - shift) * of_other[q]
                    to_frequency[q] += adjoint[q] * (change * scale)


@compiled
def outcome(tape, values, size):
    """Return why the first `size` values of a block aren't finite; `FINE` if they are."""
    wrong = 0
    for q in range(size):
        wrong += not abs(values[-1, q]) < math.inf
    if wrong == 0:
        return FINE
    for r in range(values.shape[0]):
        for q in range(size):
            if math.isnan(values[r, q]):
                return UNDEFINED
            if math.isinf(values[r, q]):
                by_zero = tape.code[r, 0] == INVERSE and values[tape.code[r, 1], q] == 0.0
                return DIVISION if by_zero else OVERFLOW
    return UNDEFINED


@compiled
def covariance(tape, h, x, features, out):
    """Write the upper triangle of the covariance of points x (D, n) to `out` (n, at least n).

    The features and their derivatives (2, F, n) are written, too.

    Returns
    -------
    int
        `FINE`, or why the covariance isn't finite; it is then incomplete.
    """
    n, rows = x.shape[1], tape.code.shape[0]
    values, packed = np.empty((rows, WIDTH)), np.empty(n * (n + 1) // 2)
    pairs = np.empty((1, 2, features.shape[1], WIDTH))
    write_features(tape, h, x, features)
    forward(tape, h, pairs, 0, tape.uniform, WIDTH, values)
    i, j = 0, 0
    for p in range(0, packed.shape[0], WIDTH):
        size = min(WIDTH, packed.shape[0] - p)
        i, j = spread(features, i, j, size, pairs)
        forward(tape, h, pairs, tape.uniform, rows, size, values)
        status = outcome(tape, values, size)
        if status != FINE:
            return status
        for q in range(size):
            packed[p + q] = values[-1, q]
    p = 0
    for i in range(n):
        for j in range(i, n):
            out[i, j] = packed[p + j - i]
        p += n - i
    return FINE


@compiled
def pullback(tape, h, features, adjoint, gradient):
    """Write the gradient of a function of the covariance to `gradient` (at least k,).

    Parameters
    ----------
    tape, h, features
        As after the call of :func:`covariance` before.
    adjoint : (n, at least n) float64
        Derivatives of the function in the entries (i, j), i <= j, of the covariance.
    gradient : (at least k,) float64
        Derivatives in the coordinates: in the logs of positive hyperparameters.
    """
    n, rows, k = features.shape[2], tape.code.shape[0], h.shape[0]
    values, adjoints = np.empty((rows, WIDTH)), np.zeros((rows, WIDTH))
    sums, packed = np.zeros((k, WIDTH)), np.empty(n * (n + 1) // 2)
    pairs = np.empty((1 + min(1, tape.frequencies.shape[0]), 2, features.shape[1], WIDTH))
    p = 0
    for i in range(n):
        for j in range(i, n):
            packed[p + j - i] = adjoint[i, j]
        p += n - i
    forward(tape, h, pairs, 0, tape.uniform, WIDTH, values)
    i, j = 0, 0
    for p in range(0, packed.shape[0], WIDTH):
        size = min(WIDTH, packed.shape[0] - p)
        i, j = spread(features, i, j, size, pairs)
        forward(tape, h, pairs, tape.uniform, rows, size, values)
        adjoints[tape.uniform :] = 0.0
        for q in range(size):
            adjoints[-1, q] += packed[p + q]
        reverse(tape, h, pairs, tape.uniform, rows, size, values, adjoints, sums)
    reverse(tape, h, pairs, 0, tape.uniform, WIDTH, values, adjoints, sums)
    for q in range(k):
        total = np.sum(sums[q])
        gradient[q] = total * h[q] if tape.positive[q] else total
