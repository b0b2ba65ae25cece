"""Compilation of functions that only compiled functions call.

Numba optimises every function that it compiles, and again inside every caller, as it links the
code of a function into that of its callers. The engine has functions within functions within
functions, so this took most of the time that compiling takes. Here, a function that only compiled
functions call is inlined and cleaned up at the least cost, which Numba does anyway before it
optimises, and becomes machine code only inside its callers. Those that Python calls are optimised,
with all that is inside them.
"""

from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, compile_result


class _InnerLibrary(JITCodeLibrary):
    """Code of one function and of those that it calls, inlined but not optimised.

    It is never given to LLVM's execution engine: if it were, calls that aren't inlined would run
    this code instead of the copy in the caller's module, which is optimised.
    """

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # there is no machine code

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Leave the environment unset: only Python's entry points and ``print`` use it."""


class InnerCompiler(Compiler):
    """Numba's compiler for functions whose callers are compiled and optimise them."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


class _InnerCacheImpl(CompileResultCacheImpl):
    """Form of a function in the cache: LLVM's bitcode, which callers link."""

    def reduce(self, cres: CompileResult) -> tuple:
        descriptor = cres.fndesc
        descriptor.typemap = descriptor.calltypes = None  # as Numba does: they can't be pickled
        bitcode = cres.library._final_module.as_bitcode()
        return cres.library.name, bitcode, descriptor, cres.environment, cres.signature

    def rebuild(self, target_context: Any, payload: tuple) -> CompileResult:
        name, bitcode, descriptor, environment, signature = payload
        library = _InnerLibrary(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return compile_result(
            typing_context=target_context.typing_context,
            target_context=target_context,
            entry_point=target_context.get_executable(library, descriptor, environment),
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=descriptor,
            library=library,
            environment=environment,
            reload_init=[],
            referenced_envs=[],
        )


class InnerCache(FunctionCache):
    """Numba's cache of compiled functions, for those that :class:`InnerCompiler` made."""

    _impl_class = _InnerCacheImpl
