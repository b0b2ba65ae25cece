"""Compilation of functions that only compiled functions call.

Numba optimises every function that it compiles, and again inside every caller, as it links the
code of a function into that of its callers. The engine has functions within functions within
functions, so this took most of the time that compiling takes. Here, a function that only compiled
functions call is inlined and cleaned up at the least cost, which Numba does anyway before it
optimises. Those that Python calls are optimised, with all that is inside them.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _InnerLibrary(JITCodeLibrary):
    """Code of one function and of those that it calls, inlined but not optimised."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        passes.run(self._final_module, builder)


class InnerCompiler(Compiler):
    """Numba's compiler for functions whose callers are compiled and optimise them."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()
