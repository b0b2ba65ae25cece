"""exp, log, log1p, sin and cos in plain arithmetic, so that loops over them can be vectorised.

The functions of the C library process one number at a time, and took most of the time to compute a
covariance matrix. Each function here reduces its argument, evaluates a Taylor polynomial, and
applies the reduction to the exponent or the sign of the result, without branches. Errors are below
1 unit in the last place for exp, log and log1p, and below 2.5 for sin and cos. Because of fused
multiplications and additions, results are the same on all machines.

Functions lowered by :mod:`kem_pymc._system.jit.decorators` use them instead of PyTensor's
scalar operations.
"""

import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytensor.scalar as ps
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

#: A float rounds to an integer if this is added and subtracted again. The last bits of the sum are
#: those of the integer.
ROUND = 1.5 * 2.0**52

# log 2 and pi as sums of floats, so that multiples of them are subtracted without loss.
LOG_2 = float.fromhex("0x1.62e42fefa39efp-1")
LOG_2_REST = float.fromhex("0x1.abc9e3b39803fp-56")
PI = float.fromhex("0x1.921fb54442d18p+1")
PI_REST = float.fromhex("0x1.1a62633145c07p-53")
PI_LAST = float.fromhex("-0x1.f1976b7ed8fbcp-109")
PER_LOG_2, PER_PI = 1 / LOG_2, 1 / PI

# Bits of floats, for log1p: those of the square root of 1/2, their difference from those of 1,
# those of `ROUND`, and a mask of the mantissa.
ROOT_BITS = 0x3FE6A09E667F3BCD
HALF_TO_ONE = 0x3FF0000000000000 - ROOT_BITS
ROUND_BITS = 0x4338000000000000
MANTISSA = 0x000FFFFFFFFFFFFF

#: Smallest normal number.
SMALLEST = 2.0**-1022

#: Absolute value of arguments from which on sin and cos are those of zero: the spacing of floats is
#: a quarter of a radian there, or more.
LARGEST_ANGLE = 2.0**50

E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13 = (1 / math.factorial(k) for k in range(2, 14))
L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11 = (2 / (2 * k + 1) for k in range(1, 12))
S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11 = (
    (-1) ** k / math.factorial(2 * k + 1) for k in range(1, 12)
)


@intrinsic
def fma(_typing_context: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """Return a b + c, rounded once."""
    return types.float64(*[types.float64] * 3), lambda _, builder, __, args: builder.fma(*args)


@intrinsic
def _bits(_typing_context: Any, _x: Any) -> Any:
    """Return the bits of a float as an integer."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def _float(_typing_context: Any, _n: Any) -> Any:
    """Return the float with the bits of an integer."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), code


@numba_njit(fastmath=False)
def exp(x):
    """Return e^x; zero if it is below the smallest normal number."""
    y = 710.0 if x > 710.0 else x
    y = -708.5 if y < -708.5 else y
    rounded = fma(y, PER_LOG_2, ROUND)
    n = rounded - ROUND
    r = fma(n, -LOG_2_REST, fma(n, -LOG_2, y))
    r2 = r * r
    r4 = r2 * r2
    low = fma(fma(E5, r, E4), r2, fma(E3, r, E2))
    middle = fma(fma(E9, r, E8), r2, fma(E7, r, E6))
    high = fma(fma(E13, r, E12), r2, fma(E11, r, E10))
    p = 1.0 + fma(fma(high, r4 * r4, fma(middle, r4, low)), r2, r)
    # 2^n in two factors, because a float can't represent the largest power, 2^1024.
    return p * _float((_bits(rounded) + 1022) << 52) * 2.0


@numba_njit(fastmath=False)
def _log(u, lost):
    """Return log u + lost for a positive normal number u and a small number `lost`."""
    # u = 2^n (1 + f) with 1 + f between the square roots of 1/2 and 2.
    shifted = _bits(u) + HALF_TO_ONE
    n = _float(((shifted >> 52) & 4095) + ROUND_BITS) - ROUND - 1023.0
    f = _float((shifted & MANTISSA) + ROOT_BITS) - 1.0
    s = f / (2.0 + f)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = fma(fma(L4, z, L3), z2, fma(L2, z, L1))
    middle = fma(fma(L8, z, L7), z2, fma(L6, z, L5))
    high = fma(L11, z2, fma(L10, z, L9))
    series = fma(fma(high, z4, middle), z4, low) * z
    half = 0.5 * f * f
    rest = fma(s, half + series, fma(n, LOG_2_REST, lost))
    return fma(n, LOG_2, f - (half - rest))


@numba_njit(fastmath=False)
def log(x):
    """Return the logarithm of x; minus infinity below the smallest normal number, NaN below 0."""
    y = _log(x, 0.0)
    y = y if x < math.inf else x
    return y if x >= SMALLEST else (-math.inf if x >= 0.0 else math.nan)


@numba_njit(fastmath=False)
def log1p(x):
    """Return the logarithm of 1 + x; minus infinity at -1, and NaN below."""
    u = 1.0 + x
    lost = 1.0 - (u - x) if x > 1.0 else x - (u - 1.0)  # rounding error of 1 + x
    y = _log(u, lost / u)
    y = y if x < math.inf else x
    return y if x > -1.0 else (-math.inf if x == -1.0 else math.nan)


@numba_njit(fastmath=False)
def _sine(r, turns):
    """Return sin r for abs(r) <= pi / 2, with the opposite sign for an odd number of half turns."""
    z = r * r
    z2 = z * z
    z4 = z2 * z2
    low = fma(fma(S4, z, S3), z2, fma(S2, z, S1))
    middle = fma(fma(S8, z, S7), z2, fma(S6, z, S5))
    high = fma(S11, z2, fma(S10, z, S9))
    p = fma(high, z4 * z4, fma(middle, z4, low))
    return _float(_bits(fma(p, z * r, r)) ^ (turns << 63))


@numba_njit(fastmath=False)
def _reduced(x, n):
    """Return x - n pi, with one rounding."""
    return fma(n, -PI_LAST, fma(n, -PI_REST, fma(n, -PI, x)))


@numba_njit(fastmath=False)
def sin(x):
    """Return the sine of x; that of 0 if abs(x) is `LARGEST_ANGLE` or more."""
    y = x if abs(x) < LARGEST_ANGLE else 0.0 * x
    rounded = fma(y, PER_PI, ROUND)
    return _sine(_reduced(y, rounded - ROUND), _bits(rounded))


@numba_njit(fastmath=False)
def cos(x):
    """Return the cosine of x; that of 0 if abs(x) is `LARGEST_ANGLE` or more."""
    y = x if abs(x) < LARGEST_ANGLE else 0.0 * x
    rounded = fma(y, PER_PI, -0.5) + ROUND
    return _sine(_reduced(y, rounded - ROUND + 0.5), _bits(rounded) + 1)


class Vectorised(ps.UnaryScalarOp):
    """PyTensor's scalar operation of a name, computed by the function of that name."""

    __props__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(ps.basic.upgrade_to_float, name=name)


_FUNCTIONS = {"exp": exp, "log1p": log1p, "sin": sin, "cos": cos}
_REPLACED = {getattr(ps, name): Vectorised(name) for name in _FUNCTIONS}
_SOURCE = Path(__file__).read_text(encoding="utf-8")


def vectorisable(operation: ps.ScalarOp) -> ps.ScalarOp:
    """Return the replacement of a PyTensor scalar operation, or the operation if it has none."""
    return _REPLACED.get(operation, operation)


@register_funcify_and_cache_key(Vectorised)
def _lowered(operation: Vectorised, **_: Any) -> tuple[Any, str]:
    return _FUNCTIONS[operation.name], sha256(f"{operation.name} {_SOURCE}".encode()).hexdigest()
