"""Decorators and intrinsics for numba kernels, and the folder where compiled kernels are cached.

Numba decides by the file of a kernel alone whether its cache is stale, not by the files of the
kernels it calls. The folder is therefore named by a digest of all files with kernels: a change of
any of them compiles all kernels again.

Numba is imported at the first call of a kernel outside `small_work`: importing it takes longer than
labelling a few sentences by the same functions in plain Python.
"""

import math
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from ctypes import c_int32, c_int64
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

Kernel = Callable[..., Any]

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""Whether kernels are compiled; else they are plain Python, for debugging."""

MAX_OLD_FOLDERS = 16
"""Number of cache folders of other versions that are not deleted, those used last."""

MAX_INTERPRETED = 100_000
"""Weights that kernels add in plain Python, which takes less time than importing numba."""

_small = threading.local()
"""Its attribute `work` is whether this thread does small work."""

_FAST = {"fastmath": True, "error_model": "numpy"}
_DEFINES_KERNEL = re.compile(rb"^ *@\w*kernel$", re.MULTILINE)


def kernel(function: Kernel) -> Kernel:
    """Compile a kernel: cached on disk, without the GIL, IEEE arithmetic."""
    return _cached(function)


def fast_kernel(function: Kernel) -> Kernel:
    """Compile a kernel that may reorder sums and does not check for division by zero."""
    return _cached(function, **_FAST)


def inner_kernel(function: Kernel) -> Kernel:
    """Compile a fast kernel that is inlined into each kernel that calls it; Python cannot call it.

    A cached caller contains its own copy of a called kernel, optimised together with it; a caller
    that was just compiled may call a separate copy. Fast sums of the two may differ in their last
    bits. Inlining leaves no separate copy, so that both give the same bits.
    """
    return _compiled(function, forceinline=True, no_cpython_wrapper=True, **_FAST)


def inlined_kernel(function: Kernel) -> Kernel:
    """Compile a small fast kernel that numba inlines as source into its callers.

    LLVM may order a sum differently if it has optimised the function alone before. Large kernels
    take longer to compile this way than as `inner_kernel`.
    """
    return _compiled(function, inline="always", **_FAST)


class Deferred:
    """A kernel or intrinsic that numba makes when it is first used.

    plain    the same function in Python
    build    a function that returns what numba makes of it
    """

    interpreted = 0.0
    """Weights that were added in plain Python; infinite once a kernel is compiled."""

    def __init__(self, plain: Kernel, build: Callable[[], Any]) -> None:
        self.plain, self._build, self.__doc__ = plain, build, plain.__doc__

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function, or the plain one within `small_work`."""
        return (self.plain if interpreting() else self.compiled)(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)

    @cached_property
    def compiled(self) -> Any:
        """What numba makes."""
        compile_from_now_on()
        return self._build()


@contextmanager
def small_work(weights: float) -> Iterator[None]:
    """Run kernels in plain Python if they add few weights and no kernel has been compiled yet."""
    Deferred.interpreted += weights
    before, _small.work = interpreting(), Deferred.interpreted <= MAX_INTERPRETED
    try:
        with np.errstate(over="ignore") if _small.work else nullcontext():  # of hashes
            yield
    finally:
        _small.work = before


def compile_from_now_on() -> None:
    """Run no more kernels in plain Python."""
    Deferred.interpreted = math.inf


def interpreting() -> bool:
    """Return whether kernels of this thread run in plain Python."""
    return getattr(_small, "work", False)


def _cached(function: Kernel, **options: Any) -> Kernel:
    """Compile with the cache on disk, below numba's folder only while the decorator runs."""

    def build() -> Kernel:
        from numba import config

        folder = cache_folder()
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder or "")
        try:
            return _jit(function, cache=folder is not None, **options)
        finally:
            config.CACHE_DIR = before

    return Deferred(function, build) if COMPILED else function


def _compiled(function: Kernel, **options: Any) -> Kernel:
    return Deferred(function, lambda: _jit(function, **options)) if COMPILED else function


def _jit(function: Kernel, **options: Any) -> Kernel:
    """Return the dispatcher of a function that calls the dispatchers of kernels."""
    from numba import njit

    assert isinstance(function, FunctionType)
    own = function.__globals__
    calls = {name: own[name] for name in function.__code__.co_names if isinstance(own.get(name), Deferred)}
    names = own | {name: called.compiled for name, called in calls.items()}
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__qualname__ = function.__qualname__
    # no kernel is called from C, for which numba would compile a second wrapper
    made: Kernel = njit(nogil=True, no_cfunc_wrapper=True, **options)(copy)
    return made


@cache
def cache_folder() -> Path | None:
    """Return the folder of this version's compiled kernels; None if no folder can be written.

    It is below the user's NUMBA_CACHE_DIR if set, else in the user's cache folder, else in the
    temporary one.
    """
    for parent in (_given, _users, _temporary):
        with suppress(OSError, RuntimeError):  # not writable; no home
            folder = parent() / "mtlstruct" / _digest(Path(__file__).parents[1])
            new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)  # used now
            if new:
                _prune(folder.parent)
            return folder
    return None


def _given() -> Path:
    from numba import config

    if not config.CACHE_DIR:
        raise FileNotFoundError("NUMBA_CACHE_DIR is not set")
    return Path(config.CACHE_DIR)


def _users() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _temporary() -> Path:
    """Return a folder that no other user can write to: cached code is executed."""
    if not hasattr(os, "getuid"):
        return Path(tempfile.gettempdir())  # the user's own on Windows
    folder = Path(tempfile.gettempdir()) / f"mtlstruct-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder}: can be written by others")
    return folder


def _digest(package: Path) -> str:
    """Return a digest of the sources of all kernels, and of Python, numba and processor."""
    import numba
    from llvmlite.binding import get_host_cpu_name

    text = sha256(f"{sys.version} {numba.__version__} {get_host_cpu_name()}".encode())
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if file == Path(__file__) or _DEFINES_KERNEL.search(source):
            text.update(b"%d %s" % (len(source), source))
    return text.hexdigest()[:16]


def _prune(folder: Path) -> None:
    """Delete cache folders of other versions except those used last."""
    with suppress(OSError):  # another process prunes at the same time
        versions = sorted(folder.iterdir(), key=lambda version: version.stat().st_mtime)
        for version in versions[: -MAX_OLD_FOLDERS - 1]:
            shutil.rmtree(version, ignore_errors=True)


def make_prefetch() -> Kernel:
    """Return prefetch(array, row), which loads the start of array[row] into the cache."""

    def build() -> Any:
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def prefetch(typing_context, array, row):
            def codegen(context, builder, signature, args):
                kind = signature.args[0]
                view = context.make_array(kind)(context, builder, args[0])
                place = [args[1], *[context.get_constant(types.intp, 0)] * (kind.ndim - 1)]
                at = cgutils.get_item_pointer(context, builder, kind, view, place, wraparound=False)
                _hint(builder, cgutils, at)
                return context.get_dummy_value()

            return types.void(array, row), codegen

        return intrinsic(prefetch)

    return _intrinsic(lambda array, row: None, build)


def make_peek(bits: int = 32) -> Kernel:
    """Return peek(address, i), the integer number i of the array at an address.

    The caller of such a kernel must keep the arrays alive.
    """

    def build() -> Any:
        from llvmlite import ir
        from numba import types
        from numba.extending import intrinsic

        def peek(typing_context, address, i):
            def codegen(context, builder, signature, args):
                array = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
                return builder.load(builder.gep(array, [args[1]]))

            return (types.int64 if bits == 64 else types.int32)(types.int64, types.int64), codegen

        return intrinsic(peek)

    kind, size = (c_int64, 8) if bits == 64 else (c_int32, 4)
    return _intrinsic(lambda address, i: kind.from_address(int(address) + size * int(i)).value, build)


def make_prefetch_at(bits: int = 32) -> Kernel:
    """Return prefetch_at(address, i), which loads the integer number i there into the cache."""

    def build() -> Any:
        from llvmlite import ir
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def prefetch_at(typing_context, address, i):
            def codegen(context, builder, signature, args):
                array = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
                _hint(builder, cgutils, builder.gep(array, [args[1]]))
                return context.get_dummy_value()

            return types.void(types.int64, types.int64), codegen

        return intrinsic(prefetch_at)

    return _intrinsic(lambda address, i: None, build)


def make_atomic(operation: str) -> Kernel:
    """Return atomic(array, i, value), which returns array[i] of an int64 array shared by threads.

    "load" does no more, "add" adds the value, "xchg" stores it. No access to memory moves across it
    (sequential consistency). The plain function is not atomic.
    """

    def plain(array: Any, i: int, value: int) -> int:
        before = int(array[i])
        array[i] = {"load": before, "add": before + value, "xchg": value}[operation]
        return before

    def build() -> Any:
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        def atomic(typing_context, array, i, value):
            def codegen(context, builder, signature, args):
                kind = signature.args[0]
                view = context.make_array(kind)(context, builder, args[0])
                at = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
                if operation == "load":
                    return builder.load_atomic(at, "seq_cst", 8)
                return builder.atomic_rmw(operation, at, args[2], "seq_cst")

            return types.int64(array, types.int64, types.int64), codegen

        return intrinsic(atomic)

    return _intrinsic(plain, build)


def _intrinsic(plain: Kernel, build: Callable[[], Any]) -> Kernel:
    return Deferred(plain, build) if COMPILED else plain


def _hint(builder: Any, cgutils: Any, at: Any) -> None:
    """Emit the prefetch of an address."""
    from llvmlite import ir

    byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    hint = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
    call = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0")
    builder.call(call, [builder.bitcast(at, byte), word(0), word(3), word(1)])
