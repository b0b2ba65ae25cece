"""LAPACK's routines for large positive definite matrices, for compiled functions.

They are those of SciPy, which exports their addresses. Matrices are row-major, of which the upper
triangle is read and written: LAPACK, which is column-major, takes it for the lower one. Callers in
Python decide how many threads it uses, see :mod:`kem_pymc._system.resources`.
"""

import llvmlite.binding as llvm
import numpy as np
from numba.core import types
from numba.extending import get_cython_function_address

from kem_pymc._system.jit.decorators import compiled


def _routine(name: str, arguments: int) -> types.ExternalFunction:
    """Return a routine, whose arguments are addresses, under a name that cached code keeps."""
    symbol = f"kem_{name}"
    llvm.add_symbol(symbol, get_cython_function_address("scipy.linalg.cython_lapack", name))
    return types.ExternalFunction(symbol, types.void(*[types.uintp] * arguments))


_dpotrf, _dpotrs, _dpotri = _routine("dpotrf", 5), _routine("dpotrs", 8), _routine("dpotri", 5)


@compiled
def factor(a, n):
    """Replace a matrix `a` (n, at least n) by its factor, and return whether there is one."""
    given = _given(a, n)
    place = given.ctypes.data
    _dpotrf(place, place + 4, a.ctypes.data, place + 8, place + 16)
    return given[4] == 0  # arrays are freed after their last use, which has to be after the call


@compiled
def solve(a, y):
    """Return the solution (n,) of a linear system, whose matrix has the factor `a`."""
    given, solution = _given(a, y.shape[0]), y.copy()
    place, out = given.ctypes.data, solution.ctypes.data
    _dpotrs(place, place + 4, place + 12, a.ctypes.data, place + 8, out, place + 4, place + 16)
    assert given[4] == 0
    return solution


@compiled
def invert(a, n):
    """Replace the factor `a` (n, at least n) by the inverse of the matrix."""
    given = _given(a, n)
    place = given.ctypes.data
    _dpotri(place, place + 4, a.ctypes.data, place + 8, place + 16)
    assert given[4] == 0


@compiled
def _given(a, n):
    """Return what all routines are given: L for the triangle, sizes, and a place for an error."""
    return np.array([ord("L"), n, a.shape[1], 1, 0], dtype=np.int32)
