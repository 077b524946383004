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
    "_optimize_functions", "codegen", "get_pointer_to_function",
)  # fmt: skip
_SAID = ("_alloca_var", "_blk_local_varmap", "_singly_assigned_vars", "getvar")


@cache
def inner_options() -> dict[str, Any]:
    """Options of numba.njit for kernels that are compiled into their callers only."""
    try:
        _look_at_libraries()
        from mtlstruct._numba.pipelines import InnerCompiler

        return {"pipeline_class": InnerCompiler}
    except (ImportError, AttributeError):
        return {}


@cache
def lean_options(compiler: str = "LeanCompiler") -> dict[str, Any]:
    """Options of numba.njit for kernels that neither make arrays nor return them, by a compiler of `_pipelines`."""
    own = {} if compiler == "LeanCompiler" else inner_options()
    try:
        from numba.core.options import DefaultOptions

        own = own | {"_nrt": False} if DefaultOptions._nrt is not None else own
        _look_at_libraries()
        _look_at_lowering()
        from mtlstruct._numba import pipelines as _pipelines

        return own | {"pipeline_class": getattr(_pipelines, compiler)}
    except (ImportError, AttributeError):
        return own


def _look_at_libraries() -> None:
    from numba.core.codegen import JITCodeLibrary

    for name in _NEEDED:
        getattr(JITCodeLibrary, name)


def _look_at_lowering() -> None:
    """Variables as we know them, and nobody who wants to be told of them or of places outside of arrays."""
    from llvmlite.binding import create_new_function_pass_manager as known
    from numba.core import config
    from numba.core.codegen import CPUCodegen
    from numba.core.lowering import Lower

    names = Lower.storevar.__code__.co_names
    wanted = config.DEBUGINFO_DEFAULT or config.BOUNDSCHECK
    if wanted or not known or not CPUCodegen._pass_builder or not all(name in names for name in _SAID):
        raise AttributeError("numba does all its work")


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
