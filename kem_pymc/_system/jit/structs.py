"""Named tuples with many fields that are passed to compiled code by reference.

Numba passes a tuple by value: all its arrays, seven machine words each, are passed to every
function that is called with it, and the reference count of each is incremented atomically. The
sampler's study and state have some 50 arrays, so this took almost half of its time. Instances of a
class decorated with :func:`by_reference` are passed to compiled code as a pointer to their fields
instead; fields are accessed with the same syntax.

The fields are on the stack of the call from Python (or of the compiled function that called
:func:`reference`). Only this call keeps them alive, and references to arrays among them aren't
counted. Therefore compiled code may not return such a tuple to Python, which would get None, nor
any of its fields.
"""

from hashlib import sha256
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    box,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from kem_pymc._system.jit.decorators import FunctionPointer

#: Classes whose instances are passed by reference.
_known: set[type] = set()


class Reference(types.Type):
    """Numba type of a named tuple that is passed by reference.

    Parameters
    ----------
    cls : type
        Class of the tuple.
    kinds : tuple of numba types
        Types of its fields.
    """

    def __init__(self, cls: Any, kinds: tuple[types.Type, ...]) -> None:
        self.cls = cls
        self.fields: tuple[str, ...] = cls._fields
        self.kinds = kinds
        # A short name: it is part of the name of every function that takes such an argument.
        digest = sha256(repr(kinds).encode()).hexdigest()[:12]
        super().__init__(name=f"Reference({cls.__module__}.{cls.__qualname__}, {digest})")

    @property
    def by_value(self) -> BaseTuple:
        """Numba type of the same tuple passed by value."""
        return BaseTuple.from_types(self.kinds, self.cls)

    def place(self, field: str) -> int:
        """Return the index of a field."""
        return self.fields.index(field)


def _kind(value: Any, context: Any) -> Any:
    """Return a key for the Numba type of a value; for arrays this is faster than the type.

    Other types are compared by their places in memory, because hashing them takes long. They are
    kept there by the references that are made of them.
    """
    cls = type(value)
    if cls is np.ndarray:
        return value.dtype, value.ndim, value.flags.num
    if cls is bool:
        return cls
    return id(value.type if cls is FunctionPointer else typeof_impl(value, context))


def by_reference[T: type](cls: T) -> T:
    """Pass instances of a named tuple to compiled code by reference, as a class decorator.

    The last instance that was passed is kept in memory, with its type.
    """
    recent: tuple[Any, Reference | None] = (None, None)
    made: dict[tuple[Any, ...], Reference] = {}

    def reference_to(value: Any, context: Any) -> Reference | None:
        # Determining the types of 50 fields takes as long as a short move of the sampler, and
        # consecutive calls often have the same instance.
        nonlocal recent
        last, kind = recent  # read once: another thread may replace it
        if last is not value:
            key = tuple(_kind(v, context) for v in value)
            if key not in made:
                kinds = tuple(typeof_impl(v, context) for v in value)
                if None in kinds:
                    return None
                made[key] = Reference(cls, kinds)
            kind = made[key]
            recent = value, kind
        return kind

    typeof_impl.register(cls)(reference_to)
    _known.add(cls)
    return cls


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Reference) -> None:
        fields = [manager[k].get_data_type() for k in kind.kinds]
        super().__init__(manager, kind, ir.LiteralStructType(fields).as_pointer())


def _uncounted(context: Any, builder: Any, kind: types.Type, value: Any) -> Any:
    """Return a value without the fields by which references to it are counted."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    return value


def _store(context: Any, builder: Any, kind: Reference, values: Any) -> Any:
    """Store a tuple's fields on the stack and return a pointer to them."""
    pointer_type = context.get_value_type(kind)
    place = cgutils.alloca_once(builder, pointer_type.pointee)
    for i, field in enumerate(kind.kinds):
        value = _uncounted(context, builder, field, values[i])
        stored = context.data_model_manager[field].as_data(builder, value)
        builder.store(stored, cgutils.gep_inbounds(builder, place, 0, i))
    # Loads of fields are marked as invariant, because otherwise they would be repeated after every
    # store to any array. They may not be moved before the stores above, wherever this code is
    # inlined: this empty assembly code returns the pointer as one of unknown origin to LLVM.
    kind_of_barrier = ir.FunctionType(pointer_type, [pointer_type])
    return builder.asm(kind_of_barrier, "", "=r,0,~{memory}", [place], True)


@unbox(Reference)
def _unbox(kind: Reference, value: Any, c: Any) -> NativeValue:
    native = c.unbox(kind.by_value, value)
    pointer = _store(c.context, c.builder, kind, cgutils.unpack_tuple(c.builder, native.value))

    def cleanup() -> None:
        if native.cleanup is not None:
            native.cleanup()
        c.context.nrt.decref(c.builder, kind.by_value, native.value)

    return NativeValue(pointer, is_error=native.is_error, cleanup=cleanup)


@box(Reference)
def _box(_kind: Reference, _value: Any, c: Any) -> Any:
    # This can't be an error: every compiled function gets an entry point for Python, which needs
    # boxing even if it is never called.
    return c.pyapi.make_none()


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, kind: Reference, field: str) -> types.Type | None:
        return kind.kinds[kind.place(field)] if field in kind.fields else None


@lower_getattr_generic(Reference)
def _load(context: Any, builder: Any, kind: Reference, value: Any, field: str) -> Any:
    i = kind.place(field)
    data = builder.load(cgutils.gep_inbounds(builder, value, 0, i))
    data.set_metadata("invariant.load", builder.module.add_metadata([]))
    loaded = context.data_model_manager[kind.kinds[i]].from_data(builder, data)
    loaded = _uncounted(context, builder, kind.kinds[i], loaded)
    return impl_ret_borrowed(context, builder, kind.kinds[i], loaded)


@intrinsic
def reference(_typing_context: Any, value: Any) -> Any:
    """Return a reference to a named tuple that compiled code made by value.

    Its class has to be decorated with :func:`by_reference`. References are returned unchanged. Call
    this on an argument, at the beginning of a function: the arrays of a tuple in a local variable
    are freed after the variable's last use.
    """
    if isinstance(value, Reference):
        return value(value), lambda _context, _builder, _signature, arguments: arguments[0]
    if not (isinstance(value, BaseNamedTuple) and value.instance_class in _known):
        return None
    kind = Reference(value.instance_class, tuple(value))

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _store(context, builder, kind, cgutils.unpack_tuple(builder, arguments[0]))

    return kind(value), code
