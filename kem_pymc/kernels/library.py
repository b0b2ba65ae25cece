"""Compiled code of the base kernels, generated from their PyTensor expressions.

The compiled functions work on whole matrices, factor by factor. Their loops over pairs of points
make the cost of a call through a pointer negligible.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt

from kem_pymc._system.jit.decorators import FunctionPointer, pointer, scalar_function, types
from kem_pymc._system.jit.simd import LANES, padded
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.kernels.base import BaseKernel, base_kernels

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]


#: Operations of `fill` on a matrix.
SET, ADD, MULTIPLY = 0, 1, 2


@by_reference
class KernelPointers(NamedTuple):
    """Pointers to the compiled base kernels; ``code`` is a kernel's index in the registry.

    Attributes
    ----------
    fill : pointer
        ``fill(code, x, h, scale, how, out)`` sets the upper triangle of `out` (n, n) to scale times
        k(x_i, x_j; h), adds that to it, or multiplies it by that: `how` is `SET`, `ADD` or
        `MULTIPLY`.
    cross : pointer
        ``cross(code, x, z, h, out)`` multiplies `out` (n, m) by k(x_i, z_j; h).
    gradient : pointer
        ``gradient(code, x, h, weights, out)`` adds to ``out[p]`` the sum over i <= j of
        ``weights[i, j]`` times the derivative of k(x_i, x_j; h) with respect to ``h[p]``, and
        the sum of ``weights[i, j]`` times k itself to the entry after the last hyperparameter's.
    """

    fill: FunctionPointer
    cross: FunctionPointer
    gradient: FunctionPointer


#: Base kernels for which there was compiled code last, and that code.
_last: list[Any] = [None, None]


def kernels() -> KernelPointers:
    """Return the compiled code of all base kernels registered so far."""
    registered = base_kernels()
    if registered != _last[0]:  # to look them up by their hashes takes much longer
        _last[:] = registered, compile_kernels(registered)
    return _last[1]


def _lowered(kernel: BaseKernel, derivatives: bool) -> tuple[Callable, str]:
    """Return a function of the value or of a tuple, the value and its derivatives, and its key."""
    names = ["x", "z", *kernel.hyperparameters]
    arguments = [pt.dscalar(f"{name}_{i}") for i, name in enumerate(names)]
    # Cast to float, because constants and indicators of other types have no derivative.
    results = [pt.cast(kernel.expression(*arguments), "float64")]
    if derivatives:
        results += pytensor.grad(results[0], arguments[2:], disconnected_inputs="ignore")
    return scalar_function(arguments, results, kernel.name)


# Kernels are evaluated at a multiple of LANES points, so that loops have no scalar remainder.
_HEAD = """
    n, full = {points}.shape[0], {points}.shape[0] + LANES
    points = np.empty(full)
    points[:n] = {points}
    points[n:] = {points}[n - 1] if n > 0 else 0.0
"""
_FILL = """
        values = np.empty(full)
        for i in range(n):
            own = x[i]
            for d in range(padded(n - i)):
                values[d] = scale * k{code}(own, points[i + d]{h})
            if how == SET:
                for d in range(n - i):
                    out[i, i + d] = values[d]
            elif how == ADD:
                for d in range(n - i):
                    out[i, i + d] += values[d]
            else:
                for d in range(n - i):
                    out[i, i + d] *= values[d]
"""
_CROSS = """
        values = np.empty(full)
        for i in range(x.shape[0]):
            own = x[i]
            for d in range(padded(n)):
                values[d] = k{code}(own, points[d]{h})
            for d in range(n):
                out[i, d] *= values[d]
"""
# Summing by column, then over columns, fixes the order of additions and lets columns be vectorised.
_GRADIENT = """
        values, sums = np.empty(({count} + 1, full)), np.zeros(({count} + 1, n))
        for i in range(n):
            own = x[i]
            for d in range(padded(n - i)):
                {names} = k{code}(own, points[i + d]{h})
                {keep}
            for p in range({count} + 1):
                for d in range(n - i):
                    sums[p, i + d] += weights[i, i + d] * values[p, d]
        for p in range({count} + 1):
            for j in range(n):
                out[p] += sums[p, j]
"""


def _source(
    name: str, arguments: str, points: str, body: str, kernels: tuple[BaseKernel, ...]
) -> str:
    lines = [f"def {name}({arguments}):", _HEAD.format(points=points)]
    for code, kernel in enumerate(kernels):
        count = len(kernel.hyperparameters)
        lines.append(f"    {'if' if code == 0 else 'elif'} code == {code}:")
        lines += [f"        h{p} = h[{p}]" for p in range(count)]
        # The function returns the value first; `values` has it last.
        names = [f"v{count}", *(f"v{p}" for p in range(count))]
        lines.append(
            body.format(
                code=code,
                h="".join(f", h{p}" for p in range(count)),
                count=count,
                names=", ".join(names),
                keep="; ".join(f"values[{p}, d] = v{p}" for p in range(count + 1)),
            )
        )
    return "\n".join(lines)


@cache
def compile_kernels(kernels: tuple[BaseKernel, ...]) -> KernelPointers:
    """Return the compiled code of base kernels; ``code`` is the index of a kernel among them."""
    values, derivatives = ([_lowered(k, also) for k in kernels] for also in (False, True))

    def made(name, arguments, points, body, signature, functions):
        environment = {f"k{code}": function for code, (function, _) in enumerate(functions)}
        environment |= {"np": np, "LANES": LANES, "padded": padded, "SET": SET, "ADD": ADD}
        keys = [key for _, key in functions]
        key = " ".join(keys) if all(keys) else ""
        source = _source(name, arguments, points, body, kernels)
        return pointer(source, name, signature, environment, key)

    code = types.int64
    fill_signature = types.void(code, VECTOR, VECTOR, types.float64, types.int64, MATRIX)
    cross_signature = types.void(code, VECTOR, VECTOR, VECTOR, MATRIX)
    gradient_signature = types.void(code, VECTOR, VECTOR, MATRIX, VECTOR)
    return KernelPointers(
        fill=made("fill", "code, x, h, scale, how, out", "x", _FILL, fill_signature, values),
        cross=made("cross", "code, x, z, h, out", "z", _CROSS, cross_signature, values),
        gradient=made(
            "gradient", "code, x, h, weights, out", "x", _GRADIENT, gradient_signature, derivatives
        ),
    )
