"""Wide tuples that compiled code gets by reference."""

import gc
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from kem_pymc._system.jit.decorators import pointer, types
from kem_pymc._system.jit.structs import Reference, by_reference, reference


@by_reference
class Inner(NamedTuple):
    matrix: np.ndarray
    flag: bool
    twice: object


@by_reference
class Outer(NamedTuple):
    numbers: np.ndarray
    size: int
    share: float
    inner: Inner


class Loose(NamedTuple):
    numbers: np.ndarray
    inner: Inner


def twice():
    source = "def f(v):\n    return 2.0 * v"
    return pointer(source, "f", types.float64(types.float64), {}, "tests.twice")


@pytest.fixture
def outer():
    return Outer(np.arange(3.0), 5, 0.25, Inner(np.ones((2, 2)), True, twice()))


@numba.njit
def change(outer):
    outer.numbers[0] += 7.0
    if outer.inner.flag:
        outer.inner.matrix[1, 0] = outer.inner.twice(outer.size * outer.share)


@numba.njit
def change_from_inside(outer, times):
    for _ in range(times):
        change(outer)


def test_fields_are_those_of_the_tuple(outer):
    change(outer)
    assert outer.numbers.tolist() == [7.0, 1.0, 2.0]
    assert outer.inner.matrix.tolist() == [[1.0, 1.0], [2.5, 1.0]]


def test_compiled_callers_pass_it_on(outer):
    change_from_inside(outer, 3)
    assert outer.numbers[0] == 21.0


def test_fields_of_another_tuple_of_the_same_class(outer):
    # The types of the one before are remembered.
    change(outer)
    other = outer._replace(numbers=np.zeros(4), size=-1, inner=outer.inner._replace(flag=False))
    change(other)
    assert other.numbers.tolist() == [7.0, 0.0, 0.0, 0.0]
    assert outer.numbers[0] == 7.0
    whole = outer._replace(numbers=np.zeros(3, dtype=np.int64))
    change(whole)
    assert whole.numbers.tolist() == [7, 0, 0]


def test_nothing_is_kept_alive_by_calls_or_freed_too_early(outer):
    before = sys.getrefcount(outer.numbers), sys.getrefcount(outer.inner.matrix)
    for _ in range(50):
        change_from_inside(outer, 2)
    gc.collect()
    assert (sys.getrefcount(outer.numbers), sys.getrefcount(outer.inner.matrix)) == before


def test_a_local_copy_of_a_field_outlives_the_tuple_that_had_it(outer):
    @numba.njit
    def kept(outer):
        numbers = outer.numbers
        total = 0.0
        for k in range(numbers.shape[0]):
            outer.numbers[k] = k + 1.0
            total += numbers[k]  # one array, seen twice
        return total

    assert kept(outer) == 6.0


def test_within_a_tuple_passed_by_value(outer):
    @numba.njit
    def inside(loose):
        loose.numbers[0] = loose.inner.matrix.sum()

    loose = Loose(np.zeros(2), outer.inner)
    inside(loose)
    assert loose.numbers.tolist() == [4.0, 0.0]


def test_tuples_made_by_compiled_code():
    @numba.njit
    def total(outer):
        outer = reference(outer)
        return outer.numbers.sum() + outer.size + outer.inner.matrix[0, 0]

    @numba.njit
    def made(n, inner):
        outer = Outer(np.arange(n) * 1.0, 2, 0.5, inner)
        return total(outer) + outer.numbers[1]

    inner = Inner(np.full((1, 1), 100.0), True, twice())
    assert made(4, inner) == 6.0 + 2.0 + 100.0 + 1.0
    assert total(Outer(np.ones(3), 1, 0.0, inner)) == 104.0  # one that is a reference stays it


def test_a_field_that_does_not_exist_is_a_typing_error(outer):
    @numba.njit
    def wrong(outer):
        return outer.numbres

    with pytest.raises(TypingError, match="numbres"):
        wrong(outer)


def test_other_tuples_have_no_reference():
    @numba.njit
    def wrong(pair):
        return reference(pair)

    with pytest.raises(TypingError):
        wrong((1, 2.0))


def test_none_gets_out_to_python(outer):
    @numba.njit
    def back(outer):
        return outer.size, Loose(np.ones(1), outer.inner)

    size, loose = back(outer)
    assert size == 5
    assert loose.numbers.tolist() == [1.0]
    assert loose.inner is None


def test_types_tell_classes_and_fields_apart(outer):
    kind = numba.typeof(outer)
    assert isinstance(kind, Reference)
    assert kind == numba.typeof(outer._replace(size=9))
    assert kind != numba.typeof(outer._replace(size=9.0))
    assert kind != numba.typeof(outer.inner)
