"""Compilation of numerical code: Numba with a cache on disk, and PyTensor graphs as C pointers.

Two rules keep start-up short. The engine (likelihood, moves) is ordinary Python that
:func:`compiled` compiles once for all studies. Everything that differs between studies (kernels,
priors) is passed to it as data or as *function pointers* made from PyTensor graphs, so if one of
these is replaced, only this one is compiled.

Arithmetic is strict (no ``fastmath``): a function is compiled alone and again inside its callers,
and which copy a process runs depends on whether its code came from the cache. If additions could be
reordered or fused freely, the copies would differ in their last bits, and runs wouldn't be
reproducible.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import update_wrapper
from hashlib import sha256
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytensor
import pytensor.link.numba.dispatch
import pytensor.scalar as ps
from numba.core import cgutils, types
from numba.core.caching import FunctionCache
from numba.core.types import WrapperAddressProtocol
from numba.experimental.function_type import FunctionModel
from numba.extending import NativeValue, register_model, typeof_impl, unbox
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.type import RandomGeneratorType

from kem_pymc._system.jit.cache import for_processes, package_locators
from kem_pymc._system.jit.compiler import InnerCache, InnerCompiler
from kem_pymc._system.jit.vector_math import vectorisable
from kem_pymc.errors import InputError

GENERATOR = numba.typeof(np.random.default_rng(0))


def _njit(function: Callable, cache: type[FunctionCache] = FunctionCache, **options: Any) -> Any:
    """Return a Numba function with a cache on disk, which several processes may write.

    Raises
    ------
    InputError
        If NUMBA_DISABLE_JIT is set: compiled code calls kernels and priors by their addresses.
    """
    if numba.config.DISABLE_JIT:
        raise InputError("Nothing works without compiled code. Unset NUMBA_DISABLE_JIT.")
    options.update(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
    made = numba.njit(**options)(function)
    with package_locators():
        made._cache = cache(function)
    return for_processes(made)


class Compiled:
    """A function of the engine, which compiled functions call, or Python.

    Numba makes an entry point for Python for every function that it compiles, although most are
    called by compiled functions only. Unpacking named tuples of 50 arrays in each of them took a
    third of the time that the engine took to compile. Here the code for callers of the two kinds is
    compiled separately, when it is needed.

    Parameters
    ----------
    function : callable
        Function of a module, with positional parameters.

    Attributes
    ----------
    py_func : callable
        The Python function.
    inner : numba dispatcher
        Called by compiled functions. If Python called it, the interpreter would crash.
    entry : numba dispatcher
        Called by Python.
    """

    def __init__(self, function: Callable) -> None:
        self.py_func = function
        self.entry = _njit(function)
        inner = FunctionType(function.__code__, function.__globals__, argdefs=function.__defaults__)
        inner.__qualname__ = f"{function.__qualname__}.inner"  # it names files in the cache
        self.inner = _njit(inner, InnerCache, no_cpython_wrapper=True, pipeline_class=InnerCompiler)
        update_wrapper(self, function)

    @property
    def _numba_type_(self) -> types.Type:
        return self.inner._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.entry(*arguments)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]


#: Decorator for all functions of the engine.
compiled: Callable[[Callable], Any] = Compiled


def inlined(function: Callable) -> Any:
    """Compile a large function that is mainly called in one place, into which it is inlined.

    This is a decorator. The function may not take a reference to its arguments: the caller frees
    values that it doesn't use any more.
    """
    return _njit(function, inline="always")


class FunctionPointer(WrapperAddressProtocol):
    """A compiled function that is passed as an argument.

    Callers are compiled for its signature, so they needn't be compiled again for another function.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.address = function.address
        self.type = _Pointer(self.signature())

    def __wrapper_address__(self) -> int:
        return self.address

    def signature(self) -> Any:
        return self._function._sig

    def __call__(self, *args: Any) -> Any:
        return _call(self, *args)


class _Pointer(types.FunctionType):
    """Numba type of a function pointer.

    Numba's own type calls Python twice to get the address, which takes 3 microseconds.
    """


register_model(_Pointer)(FunctionModel)


@typeof_impl.register(FunctionPointer)
def _type_of_pointer(value: FunctionPointer, _context: Any) -> _Pointer:
    return value.type


@unbox(_Pointer)
def _unbox_pointer(kind: _Pointer, value: Any, c: Any) -> NativeValue:
    pointer = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    address = c.pyapi.object_getattr_string(value, "address")
    pointer.c_addr = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    pointer.py_addr = c.builder.ptrtoint(value, c.context.get_value_type(types.voidptr))
    return NativeValue(pointer._getvalue())


@_njit
def _call(function, *args):
    # If Python called functions that PyTensor lowered directly, the interpreter would crash: they
    # are compiled without an entry point for Python.
    return function(*args)


def pointer(source: str, name: str, signature: Any, environment: dict, key: str) -> FunctionPointer:
    """Compile a function from source and return a pointer to it.

    Parameters
    ----------
    source, name : str
        Python source that defines `name`.
    signature : numba signature
        Types of the function's arguments and result.
    environment : dict
        Global names that the source uses.
    key : str
        Identifier of everything that the source depends on; with the same key, code on disk may be
        reused. If it is empty, because there is no such identifier, no code is stored on disk.
    """
    reusable = bool(key)
    parts = (__name__, "strict", "inlined", source, signature, key, numba.__version__)
    key = sha256(" ".join(map(str, parts)).encode()).hexdigest()
    # Numba rebuilds cached code in the module that the function's ``__name__`` refers to.
    environment = {**environment, "__name__": __name__}
    function = compile_numba_function_src(source, name, environment, cache_key=key)
    compile_ = numba.cfunc(signature, cache=reusable, nopython=True, error_model="numpy")
    made = compile_(function)
    return FunctionPointer(made)


def scalar_function(
    inputs: Sequence[Variable], outputs: Sequence[Variable], name: str
) -> tuple[Callable, str]:
    """Lower elementwise expressions of scalars to one Numba function of floats.

    Parameters
    ----------
    inputs, outputs : sequence of 0-dimensional PyTensor variables
    name : str
        Name for error messages.

    Returns
    -------
    function : callable
        Numba function of ``len(inputs)`` floats, which returns a float or a tuple of floats.
    key : str
        Identifier of the expressions; empty if they can't be identified.

    Raises
    ------
    InputError
        If an operation isn't elementwise.
    """
    graph = FunctionGraph(
        list(inputs),
        rewrite_graph(list(outputs), include=("canonicalize", "stabilize", "specialize")),
        clone=False,
    )
    scalars: dict[Variable, Any] = {v: ps.float64(f"a{i}") for i, v in enumerate(inputs)}

    def lowered(variable: Variable) -> Any:
        if variable not in scalars and isinstance(variable, Constant):
            value = np.asarray(variable.data).item()
            scalars[variable] = ps.constant(value, dtype=variable.type.dtype)
        return scalars[variable]

    for node in graph.toposort():
        single = all(all(v.type.broadcastable) for v in node.inputs)
        if not (single and isinstance(node.op, DimShuffle | Elemwise)):
            raise InputError(
                f"{name} is not elementwise, because it uses {node.op}. "
                "Write it with elementwise PyTensor functions of its arguments."
            )
        arguments = [lowered(v) for v in node.inputs]
        if isinstance(node.op, DimShuffle):
            results = arguments
        else:
            results = vectorisable(node.op.scalar_op).make_node(*arguments).outputs
        scalars.update(zip(node.outputs, results, strict=True))
    # Outputs that are constants or inputs have to be separate floats, too.
    results = [ps.identity(ps.cast(lowered(v), "float64")) for v in graph.outputs]
    lowered_graph = FunctionGraph([scalars[v] for v in inputs], results, clone=True)
    with pytensor.config.change_flags(numba__fastmath=False):
        function, key = numba_funcify_and_cache_key(
            lowered_graph, fgraph_name="scalar_expression", squeeze_output=True
        )
    # Otherwise LLVM doesn't inline long expressions, and loops with calls aren't vectorised.
    function.targetoptions["forceinline"] = True
    return function, str(key or "")


def graph_function(
    inputs: Sequence[Variable], outputs: Sequence[Variable], *, impossible: bool = False
) -> tuple[Callable, str]:
    """Lower any PyTensor graph, which may have random generators as inputs, to a Numba function.

    Parameters
    ----------
    inputs, outputs : sequence of PyTensor variables
        A random generator among the inputs is advanced in place.
    impossible : bool
        Whether parameters of distributions may be outside their range, in which case the log
        density is minus infinity. (Otherwise this is an error, which a function pointer can't
        raise.)

    Returns
    -------
    function : callable
        Numba function of arrays (and generators) that returns a tuple of arrays.
    key : str
        Identifier of the graph; empty if it can't be identified.
    """
    arguments = [pytensor.In(v, mutable=isinstance(v.type, RandomGeneratorType)) for v in inputs]
    mode = get_mode("NUMBA")
    if impossible:
        mode = mode.including("local_check_parameter_to_ninf_switch")
    with warnings.catch_warnings(), pytensor.config.change_flags(numba__fastmath=False):
        # Some distributions are sampled by Python code, which is slower, but correct.
        warnings.filterwarnings("ignore", message="Numba will use object mode")
        graph = pytensor.function(
            arguments, list(outputs), mode=mode, on_unused_input="ignore"
        ).maker.fgraph
        function, key = numba_funcify_and_cache_key(graph)
    return function, str(key or "")
