"""What numba is spared when it compiles our kernels: work that takes much of a first run and leaves no trace.

Inner kernels become part of their callers, and nobody calls them otherwise. Numba would yet optimise each by itself
and make machine code of it; here they are kept as they are written until a caller takes them in.

Numba asks for all the options of a compilation, as a dict, each time it looks at an overload: tens of thousands of
times for a large kernel. The same dict can be had without asking for options one by one.

Numba counts who holds an array, in each kernel that is given one. One that makes no arrays need not.

All three look inside numba, so they first look whether it is as they know it. Where it is not, it does all its work.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_NEEDED = (
    "_ensure_finalized", "_finalize_dynamic_globals", "_finalize_final_module", "_optimize_final_module",
    "codegen", "get_pointer_to_function",
)  # fmt: skip


@cache
def inner_options() -> dict[str, Any]:
    """Options of numba.njit for kernels that are compiled into their callers only."""
    try:
        return {"pipeline_class": _inner_pipeline()}
    except (ImportError, AttributeError):
        return {}


@cache
def lean_options() -> dict[str, Any]:
    """Options of numba.njit for kernels that neither make arrays nor return them."""
    try:
        from numba.core.options import DefaultOptions

        return {"_nrt": False} if DefaultOptions._nrt is not None else {}
    except (ImportError, AttributeError):
        return {}


def _inner_pipeline() -> Any:
    """Numba's compiler, but for the last step, whose result is neither optimised nor made into machine code."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    for name in _NEEDED:
        getattr(JITCodeLibrary, name)

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

    @register_pass(mutates_CFG=True, analysis_only=False)
    class InnerLowering(NativeLowering):  # type: ignore[misc, unused-ignore]
        """Lowering into such a library."""

        _name = "mtlstruct_inner_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            return bool(super().run_pass(state))

    class InnerCompiler(CompilerBase):  # type: ignore[misc, unused-ignore]
        """Numba's own pipeline with the other lowering."""

        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [
                (InnerLowering if step is NativeLowering else step, told) for step, told in passes.passes
            ]
            passes.finalize()
            return [passes]

    return InnerCompiler


@cache
def quicken() -> bool:
    """Numba's options of a compilation as a dict, at once; whether that was possible."""
    try:
        from numba.core.compiler import Flags
        from numba.core.targetconfig import TargetConfig

        asked = Flags()
        asked.nrt = True
        known = all(
            list(values_at_once(flags).items()) == list(TargetConfig.values(flags).items())
            for flags in (Flags(), asked)
        )
    except (ImportError, AttributeError):
        return False
    if known:
        TargetConfig.values = values_at_once
    return known


def values_at_once(flags: Any) -> dict[str, Any]:
    """TargetConfig.values: the defaults, and over them what was set."""
    return {**_defaults(flags.__class__), **flags._values}


@cache
def _defaults(kind: type) -> dict[str, Any]:
    known: Any = kind
    return {name: option.default for name, option in known.options.items()}
