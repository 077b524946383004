"""How kernels are compiled, and where the compiled ones are kept.

Numba keeps them beside the source if that folder can be written, else in the user's cache folder. Where neither
can be (a read-only install run by a user without a home), it would refuse to import us; then they go to a folder
of this user's in the system's temporary one. A NUMBA_CACHE_DIR that is set already is respected.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from mtlstruct._numba.compiler import inner_options, lean_options, quicken, remember
from mtlstruct._numba.kernel_cache import ask_for, load_alone

Kernel = Callable[..., Any]

_FAST = {"fastmath": True, "error_model": "numpy"}

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Whether kernels are compiled; else they are plain Python, for debugging."""


def kernel(function: Kernel) -> Kernel:
    """Compiles a kernel: cached on disk, without the GIL, IEEE arithmetic."""
    return _compiled(function, cache=True)


def fast_kernel(function: Kernel) -> Kernel:
    """The same, free to reorder sums and without checks for division by zero: for the inner loops of floats."""
    return _compiled(function, cache=True, **_FAST)


def lean_kernel(function: Kernel) -> Kernel:
    """A kernel that makes no arrays and returns none: it need not count who holds them, which compiles sooner."""
    return _compiled(function, cache=True, **_lean())


def lean_fast_kernel(function: Kernel) -> Kernel:
    """Both."""
    return _compiled(function, cache=True, **_FAST, **_lean())


def lean_inner_kernel(function: Kernel) -> Kernel:
    """An inner kernel that makes no arrays and returns none: if it is large, its caller has it once and calls it."""
    return _compiled(function, **_inner() | _lean("LeanInnerCompiler"))


def inner_kernel(function: Kernel) -> Kernel:
    """A fast kernel that becomes part of each kernel which calls it; Python cannot call it.

    A caller that is loaded from the cache has its own copy of what it calls, optimised with it; one that was
    just compiled would use the copy which stands by itself. Both are right, and sums may differ in their last
    bits: with no copy by itself to call, they do not. A caller in another file has it imported by name, above:
    the cache then asks whether this file has changed, too.
    """
    return _compiled(function, **_inner())


def _inner() -> dict[str, Any]:
    alone = {"forceinline": True, "no_cpython_wrapper": True}
    return _FAST | alone | (inner_options() if COMPILED else {})


def _lean(compiler: str = "LeanCompiler") -> dict[str, Any]:
    return lean_options(compiler) if COMPILED else {}


def _compiled(function: Kernel, **options: Any) -> Kernel:
    from numba import njit

    # nobody calls a kernel from C, for which numba would make a second function
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    if not COMPILED:
        return cast(Kernel, njit(**options)(function))
    quicken()
    remember()
    made, others = njit(**options)(function), _others(function)
    if "cache" in options:
        if others and not ask_for(made, others):
            made = njit(**options | {"cache": False})(function)  # rather compiled each time than out of date
        load_alone(made, options.get("_nrt", True))
    return cast(Kernel, made)


def _others(function: Kernel) -> set[str]:
    """The files whose kernels a kernel may call besides those of its own, and which these may call."""
    own = function.__code__.co_filename
    found, new = {own}, [function]
    while new:
        for value in list(new.pop().__globals__.values()):
            callee = getattr(value, "py_func", None)
            if callee is not None and callee.__code__.co_filename not in found:
                found.add(callee.__code__.co_filename)
                new.append(callee)
    return found - {own}


def make_prefetch() -> Callable[[Any, Any], None]:
    """prefetch(array, row) asks the cache for the start of array[row]; it has no effect on values."""
    from llvmlite import ir
    from numba import config, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    if config.DISABLE_JIT:
        return lambda array, row: None

    def prefetch(typing_context, array, row):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind = signature.args[0]
            view = context.make_array(kind)(context, builder, args[0])
            place = [args[1], *[context.get_constant(types.intp, 0)] * (kind.ndim - 1)]
            at = cgutils.get_item_pointer(context, builder, kind, view, place, wraparound=False)
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            hint = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            call = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
            builder.call(call, [builder.bitcast(at, byte), word(0), word(3), word(1)])
            return context.get_dummy_value()

        return types.void(array, row), codegen

    return cast(Callable[[Any, Any], None], intrinsic(prefetch))


def make_peek() -> Callable[[Any, Any], Any]:
    """peek(address, i) is the int32 i of the array that begins at the address: for kernels that read many arrays.

    Who calls such a kernel sees to it that the arrays stay where they are.
    """
    from llvmlite import ir
    from numba import config, types
    from numba.extending import intrinsic

    if config.DISABLE_JIT:
        from ctypes import c_int32

        return lambda address, i: c_int32.from_address(int(address) + 4 * int(i)).value

    def peek(typing_context, address, i):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            array = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
            return builder.load(builder.gep(array, [args[1]]))

        return types.int32(types.int64, types.int64), codegen

    return cast(Callable[[Any, Any], Any], intrinsic(peek))


def make_meeting() -> tuple[Callable[..., None], Callable[..., None]]:
    """tell(meeting, k, value), and wait(meeting, k, value) until so much has been told: for kernels on two threads.

    meeting is int64[8·k + 1] or longer: each number has a cache line of its own. What was written before telling can
    be read after waiting.
    """
    from llvmlite import ir
    from numba import config, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    if config.DISABLE_JIT:
        return (lambda meeting, k, value: None), (lambda meeting, k, value: None)

    def place(context: Any, builder: Any, kind: Any, array: Any, k: Any) -> Any:
        view = context.make_array(kind)(context, builder, array)
        return cgutils.get_item_pointer(context, builder, kind, view, [k], wraparound=False)

    def store(typing_context, array, k, value):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            at = place(context, builder, signature.args[0], args[0], args[1])
            builder.store_atomic(args[2], at, "release", 8)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), codegen

    def load(typing_context, array, k):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            at = place(context, builder, signature.args[0], args[0], args[1])
            return builder.load_atomic(at, "acquire", 8)

        return types.int64(array, types.int64), codegen

    def rest(typing_context):  # type: ignore[no-untyped-def]
        """Lets others have the core: the thread that is waited for may want it."""

        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            function = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, "sched_yield"), [])
            return context.get_dummy_value()

        return types.void(), codegen

    told, known, give_way = (intrinsic(function) for function in (store, load, rest))

    @lean_inner_kernel
    def tell(meeting, k, value):  # type: ignore[no-untyped-def]
        told(meeting, 8 * k, value)

    @lean_inner_kernel
    def wait(meeting, k, value):  # type: ignore[no-untyped-def]
        turns = 0
        while known(meeting, 8 * k) < value:
            turns += 1
            if turns == 2000:
                turns = 0
                give_way()

    return tell, wait


def _can_write(folder: Path) -> bool:
    """Whether files can be made in the folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose() -> None:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if "NUMBA_CACHE_DIR" in os.environ or _can_write(Path(__file__).parent) or _can_write(home):
        return
    private = Path(tempfile.gettempdir()) / f"mtlstruct-kernels-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid == os.getuid():  # never run code that somebody else put there
        os.environ["NUMBA_CACHE_DIR"] = str(private)


_choose()
