"""Numba's compiler for two kinds of kernels, with the steps they have no use for left out.

Inner kernels become part of their callers, and nobody calls them otherwise. Numba would yet optimise each by itself
and make machine code of it; here they are kept as they are written until a caller takes them in.

Lean kernels make no arrays, define no functions and have nothing that is inlined as source: no step has to look for
it. They are lowered in fewer words (`_lowering`). Those that Python calls are only tidied up before what they call is
linked: all is optimised then. Inner ones, where the time is spent, are optimised by themselves as well: with less of
it, sums came out in another order, and learning seemed to take longer.

Meanwhile nobody looks for garbage: what a compiler makes it keeps.
"""

from __future__ import annotations

import gc
from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from mtlstruct._numba.lowering import LeanLower

_NOT_LEAN = {
    "DumpParforDiagnostics", "FindLiterallyCalls", "InlineClosureLikes", "InlineInlinables", "InlineOverloads",
    "LiteralPropagationSubPipelinePass", "LiteralUnroll", "MakeFunctionToJitFunction", "NopythonRewrites",
    "RewriteDynamicRaises", "RewriteSemanticConstants", "WithLifting",
}  # fmt: skip
"""Steps of numba's that find nothing in such kernels."""


class NoEngine:
    """The code generator as a library shows it: there is no code yet that could be told of its environment."""

    def set_env(self, name: str, env: Any) -> None:
        pass


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """Code for others to take in."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # what numba says of a function that Python cannot call

    @property
    def codegen(self) -> NoEngine:
        return NoEngine()


class LeanLibrary(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """Code that is tidied up before it is linked, and no more."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes = llvm.create_new_function_pass_manager()
                passes.add_sroa_pass()
                passes.add_simplify_cfg_pass()
                passes.run(function, builder)


class _Lowering(NativeLowering):  # type: ignore[misc, unused-ignore]
    """Lowering into a library of this kind."""

    kind: type

    def run_pass(self, state: Any) -> bool:
        state.library = self.kind(state.targetctx.codegen(), state.func_id.func_qualname)
        if not issubclass(self.kind, InnerLibrary):
            state.library.enable_object_caching()
        return bool(super().run_pass(state))


class _LeanLowering(_Lowering):
    lowering_class = LeanLower


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(_Lowering):
    """Numba's own, for others to take in."""

    _name, kind = "mtlstruct_inner_lowering", InnerLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanLowering(_LeanLowering):
    """Few words."""

    _name, kind = "mtlstruct_lean_lowering", LeanLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanInnerLowering(_LeanLowering):
    """Few words, for others to take in."""

    _name, kind = "mtlstruct_lean_inner_lowering", InnerLibrary


class _Compiler(CompilerBase):  # type: ignore[misc, unused-ignore]
    """Numba's own pipeline with another lowering."""

    lowering: type

    def compile_extra(self, func: Any) -> Any:
        """What numba calls; it holds its lock, so no other thread compiles."""
        looking = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if looking:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (self.lowering if step is NativeLowering else step, told)
            for step, told in self.steps(passes.passes)
        ]
        passes.finalize()
        return [passes]

    def steps(self, passes: list[Any]) -> list[Any]:
        """All of them."""
        return passes


class InnerCompiler(_Compiler):
    """For inner kernels."""

    lowering = InnerLowering


class LeanCompiler(_Compiler):
    """For lean kernels."""

    lowering = LeanLowering

    def steps(self, passes: list[Any]) -> list[Any]:
        """Those that may find something, each once: branches are dead when the types are known, not only later."""
        wanted = [entry for entry in passes if entry[0].__name__ not in _NOT_LEAN]
        return list(dict(wanted).items())


class LeanInnerCompiler(LeanCompiler):
    """For lean inner kernels."""

    lowering = LeanInnerLowering
