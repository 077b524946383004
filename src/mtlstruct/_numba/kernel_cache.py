"""What numba's cache of kernels is asked to do otherwise.

It asks whether the file of a kernel has changed. Where it calls kernels of other files, these count, too.

Before it gives a kernel, it has numba get ready to compile: a third of a second of imports, of which a kernel that
is compiled already needs none. Whoever compiles gets ready by itself.

Both look inside numba, so they first look whether it is as they know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

_LOADING = ("refresh", "_guard_against_spurious_io_errors", "_load_overload")


def ask_for(kernel: Any, files: Iterable[str]) -> bool:
    """Makes the cache of a kernel stale where one of these files changes, too; whether that was possible."""
    try:
        kept = kernel._cache._cache_file
        asked = [method.__code__.co_names for method in (kept._load_index, kept._save_index)]
        stamp = (kept._source_stamp, *(_digest(file) for file in sorted(files)))
    except (AttributeError, OSError):
        return False
    if not all("_source_stamp" in names for names in asked):
        return False
    kept._source_stamp = stamp
    return True


@cache
def _digest(file: str) -> bytes:
    return sha256(Path(file).read_bytes()).digest()


def load_alone(kernel: Any, counts: bool) -> bool:
    """Makes the cache of a kernel give what it has without getting ready to compile; whether that was possible.

    counts    whether the kernel counts who holds an array, for which numba has functions to be made ready
    """
    try:
        from numba.core.compiler import CompilerBase
        from numba.core.runtime import rtsys

        kept, ready = kernel._cache, rtsys.initialize
        known = kept.load_overload.__code__.co_names == _LOADING
        known = known and "refresh" in CompilerBase.__init__.__code__.co_names
    except (ImportError, AttributeError):
        return False

    def load_overload(sig: Any, target_context: Any) -> Any:
        if counts:
            ready(target_context)
        with kept._guard_against_spurious_io_errors():
            return kept._load_overload(sig, target_context)

    if known:
        kept.load_overload = load_overload
    return known
