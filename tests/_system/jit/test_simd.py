from fractions import Fraction

import numba
import numpy as np
import pytest

from kem_pymc._system.jit.simd import (
    LANES,
    add_multiple,
    add_product,
    load,
    multiple,
    padded,
    store,
)


@numba.njit
def combined(a, i, j, factor):
    """Row i + 1 times a factor, plus twice row i, in row i; from column j on."""
    store(a, i, j, add_multiple(multiple(2.0, load(a, i, j)), factor, load(a, i + 1, j)))


@pytest.mark.parametrize("j", [0, 3, 8, 16])
def test_one_value_at_a_time_of_a_row(j):
    a = np.random.default_rng(0).normal(size=(4, 3 * LANES))
    expected = a.copy()
    expected[1, j : j + LANES] = 2 * a[1, j : j + LANES] - 0.7 * a[2, j : j + LANES]
    combined(a, 1, j, -0.7)
    np.testing.assert_allclose(a, expected, rtol=1e-15, atol=1e-15)


def test_rounded_once():
    """1 + 2^-53 is lost where the product is rounded before the sum."""
    a = np.full((2, LANES), 0.5)
    a[1] = 1 + 2.0**-30
    a[0] = -(1 + 2.0**-29) / 2
    combined(a, 0, 0, 1 + 2.0**-30)
    assert (a[0] == 2.0**-60).all()


@numba.njit
def with_product(a):
    """Row 1 times row 2, plus row 0, in row 0."""
    store(a, 0, 0, add_product(load(a, 0, 0), load(a, 1, 0), load(a, 2, 0)))


def test_products_of_rows_are_rounded_once():
    a = np.random.default_rng(1).normal(size=(3, LANES))
    exact = [[Fraction(v) for v in row] for row in a]
    expected = [float(one * other + v) for v, one, other in zip(*exact, strict=True)]
    with_product(a)
    np.testing.assert_array_equal(a[0], expected)


def test_only_rows_without_gaps():
    with pytest.raises(numba.TypingError):
        combined(np.zeros((4, LANES)).T, 0, 0, 1.0)


def test_padded():
    wanted = [0, 8, 8, 8, 16, 400]
    assert [padded(n) for n in (0, 1, 7, 8, 9, 400)] == wanted
    assert numba.njit(lambda n: padded(n))(9) == 16
