"""What numba is spared when it compiles our kernels: work that takes much of a first run and leaves no trace.

Inner kernels become part of their callers, and nobody calls them otherwise. Numba would yet optimise each by itself
and make machine code of it; here they are kept as they are written until a caller takes them in.

Numba asks for all the options of a compilation, as a dict, each time it looks at an overload: tens of thousands of
times for a large kernel. The same dict can be had without asking for options one by one.

Numba asks what a call of one of its functions or operators gives for some types at every place where there is one,
and more than once: each time it tries all implementations in turn. What was found is found again without trying.

Numba counts who holds an array, in each kernel that is given one. One that makes no arrays need not.

All of these look inside numba, so they first look whether it is as they know it. Where it is not, it does all its
work.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

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


@cache
def remember() -> bool:
    """Makes numba find the type of a call once for the same types and options; whether that was possible."""
    try:
        from numba.core.targetconfig import ConfigStack
        from numba.core.types import functions

        kind: Any = functions.BaseFunction
        find, options = kind.get_call_type, ConfigStack.top_or_none
        known = list(signature(find).parameters) == ["self", "context", "args", "kws"]
        known = known and kind.get_impl_key.__code__.co_names == ("_impl_keys", "args")
    except (ImportError, AttributeError):
        return False
    if known:
        kind.get_call_type = _found_once(find, options)
    return known


def _found_once(find: Any, options: Any) -> Any:
    """BaseFunction.get_call_type: the signature, and with it the implementation, which numba keeps for lowering.

    A function that gets another implementation is another one to numba. What fails is tried again.
    """
    found: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        mine, asked = found.setdefault(self, {}), (context, args, tuple(kws.items()), options())
        if asked in mine:
            call, self._impl_keys[call.args] = mine[asked]
            return call
        call = find(self, context, args, kws)
        if _plain(self.templates):
            mine[asked] = call, self._impl_keys[call.args]
        return call

    return get_call_type


def _plain(templates: Any) -> bool:
    """Whether no implementation is copied into the caller as source: numba keeps such copies with the call."""
    inlined = (getattr(template, "_inline", None) for template in templates)
    return all(how is None or how.is_never_inline for how in inlined)
