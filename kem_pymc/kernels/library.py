"""Compiled code of the base kernels, made from their PyTensor expressions.

Works on matrices, factor by factor, so that the call through a pointer costs nothing: the loops
over pairs of points lie inside the compiled code.
"""

from functools import cache
from typing import NamedTuple

import pytensor
import pytensor.tensor as pt

from kem_pymc.compiled import FunctionPointer, pointer, scalar_function, types
from kem_pymc.kernels.base import BaseKernel, base_kernels

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]


class Kernels(NamedTuple):
    """Pointers to the compiled base kernels; ``code`` is a kernel's place in the registry.

    Attributes
    ----------
    fill : pointer
        ``fill(code, x, h, out)`` multiplies the upper triangle of `out` (n, n) by k(x_i, x_j; h).
    cross : pointer
        ``cross(code, x, z, h, out)`` multiplies `out` (n, m) by k(x_i, z_j; h).
    gradient : pointer
        ``gradient(code, x, h, weights, out)`` adds to ``out[p]`` the sum over i <= j of
        ``weights[i, j]`` times the derivative of k(x_i, x_j; h) with respect to ``h[p]``.
    """

    fill: FunctionPointer
    cross: FunctionPointer
    gradient: FunctionPointer


def kernels() -> Kernels:
    """Return the compiled code of all base kernels registered so far."""
    return _compile(base_kernels())


def _scalar_variables(kernel: BaseKernel) -> list:
    names = ["x", "z", *kernel.hyperparameters]
    return [pt.dscalar(f"{name}_{i}") for i, name in enumerate(names)]


def _expression(kernel: BaseKernel, arguments: list):
    # A number, or an indicator, is a float from here on: others have no derivative.
    return pt.cast(kernel.expression(*arguments), "float64")


def _value(kernel: BaseKernel):
    arguments = _scalar_variables(kernel)
    return scalar_function(arguments, [_expression(kernel, arguments)], kernel.name)


def _derivatives(kernel: BaseKernel):
    arguments = _scalar_variables(kernel)
    value = _expression(kernel, arguments)
    derivatives = pytensor.grad(value, arguments[2:], disconnected_inputs="ignore")
    # The value comes along so that the function returns a tuple whatever the number.
    return scalar_function(arguments, [value, *derivatives], kernel.name)


_FILL = """
        for i in range(x.shape[0]):
            for j in range(i, x.shape[0]):
                out[i, j] *= k{code}(x[i], x[j]{h})
"""
_CROSS = """
        for i in range(x.shape[0]):
            for j in range(z.shape[0]):
                out[i, j] *= k{code}(x[i], z[j]{h})
"""
_GRADIENT = """
        for i in range(x.shape[0]):
            for j in range(i, x.shape[0]):
                d = k{code}(x[i], x[j]{h})
                {accumulate}
"""


def _source(name: str, arguments: str, body: str, kernels: tuple[BaseKernel, ...]) -> str:
    lines = [f"def {name}({arguments}):"]
    for code, kernel in enumerate(kernels):
        count = len(kernel.hyperparameters)
        lines.append(f"    {'if' if code == 0 else 'elif'} code == {code}:")
        lines += [f"        h{p} = h[{p}]" for p in range(count)]
        accumulate = [f"out[{p}] += weights[i, j] * d[{p + 1}]" for p in range(count)] or ["pass"]
        lines.append(
            body.format(
                code=code,
                h="".join(f", h{p}" for p in range(count)),
                accumulate="; ".join(accumulate),
            )
        )
    return "\n".join(lines)


@cache
def _compile(kernels: tuple[BaseKernel, ...]) -> Kernels:
    values = [_value(k) for k in kernels]
    derivatives = [_derivatives(k) for k in kernels]

    def made(name, arguments, body, signature, functions):
        environment = {f"k{code}": function for code, (function, _) in enumerate(functions)}
        keys = [key for _, key in functions]
        key = " ".join(keys) if all(keys) else ""
        source = _source(name, arguments, body, kernels)
        return pointer(source, name, signature, environment, key)

    code = types.int64
    return Kernels(
        fill=made(
            "fill", "code, x, h, out", _FILL, types.void(code, VECTOR, VECTOR, MATRIX), values
        ),
        cross=made(
            "cross",
            "code, x, z, h, out",
            _CROSS,
            types.void(code, VECTOR, VECTOR, VECTOR, MATRIX),
            values,
        ),
        gradient=made(
            "gradient",
            "code, x, h, weights, out",
            _GRADIENT,
            types.void(code, VECTOR, VECTOR, MATRIX, VECTOR),
            derivatives,
        ),
    )
