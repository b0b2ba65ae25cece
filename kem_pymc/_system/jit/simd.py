"""Vectors of `LANES` floats, to vectorise loops that Numba compiles to scalar code.

Rows of a matrix whose width is a multiple of `LANES` are loaded, combined and stored as such
vectors. LLVM maps them to the registers of the processor. Indices aren't checked.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_jitable, register_model

#: Number of floats in one vector.
LANES = 8


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = _Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@register_jitable
def padded(n):
    """Return `n` rounded up to a multiple of `LANES`: the width of a matrix with n columns."""
    return (n + LANES - 1) // LANES * LANES


def _place(context: Any, builder: Any, kind: Any, array: Any, i: Any, j: Any) -> Any:
    """Return a pointer to entries j to j + LANES - 1 of row i of a matrix."""
    struct = context.make_array(kind)(context, builder, array)
    width = builder.extract_value(struct.shape, 1)
    offset = builder.add(builder.mul(i, width), j)
    return builder.bitcast(builder.gep(struct.data, [offset]), _VECTOR.as_pointer())


def _matrix(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.ndim == 2 and kind.layout == "C"


@intrinsic
def load(_typing_context: Any, array: Any, _i: Any, _j: Any) -> Any:
    """Return entries j to j + LANES - 1 of row i of a C-contiguous matrix."""
    if not _matrix(array):
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *args), align=8)

    return _lanes(array, types.intp, types.intp), code


@intrinsic
def store(_typing_context: Any, array: Any, _i: Any, _j: Any, _value: Any) -> Any:
    """Set entries j to j + LANES - 1 of row i of a C-contiguous matrix."""
    if not _matrix(array):
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[3], _place(context, builder, signature.args[0], *args[:3]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, _lanes), code


def _spread(builder: Any, number: Any) -> Any:
    """Return a vector of LANES copies of a number."""
    one = builder.insert_element(
        ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
    )
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), None)
    return builder.shuffle_vector(one, one, zeros)


@intrinsic
def multiple(_typing_context: Any, _factor: Any, _value: Any) -> Any:
    """Return factor * value for a float `factor` and a vector `value`."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return builder.fmul(_spread(builder, args[0]), args[1])

    return _lanes(types.float64, _lanes), code


def _fma(builder: Any, one: Any, other: Any, value: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f64")
    return builder.call(function, [one, other, value])


@intrinsic
def add_multiple(_typing_context: Any, _value: Any, _factor: Any, _other: Any) -> Any:
    """Return value + factor * other, rounded once, for a float `factor` and two vectors."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        value, factor, other = args
        return _fma(builder, _spread(builder, factor), other, value)

    return _lanes(_lanes, types.float64, _lanes), code


@intrinsic
def add_product(_typing_context: Any, _value: Any, _one: Any, _other: Any) -> Any:
    """Return value + one * other, rounded once, for three vectors."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        value, one, other = args
        return _fma(builder, one, other, value)

    return _lanes(_lanes, _lanes, _lanes), code
