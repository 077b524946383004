"""Memory: how much is free, how much is used, and the error for work that does not fit."""

import sys
from contextlib import suppress
from pathlib import Path

from mtlstruct.errors import MtlError, ResourceError

_limit: int | None = None


def set_limit(count: int | None) -> None:
    """Use at most `count` bytes from now on (None: all that is free)."""
    global _limit
    if count is not None and count <= 0:
        raise MtlError(f"expected a limit of memory above 0, got {count}")
    _limit = count


def available() -> int:
    """Return the bytes that are free: the minimum over machine, control group and limit."""
    import psutil

    free = [int(psutil.virtual_memory().available)]
    if _limit is not None:
        free.append(max(0, _limit - resident()))
    with suppress(OSError, ValueError):  # no control group, or one without a limit
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(free)


def resident(*, shared: bool = False) -> int:
    """Return the bytes that this process uses; without `shared`, not those of mapped files."""
    import psutil

    used = psutil.Process().memory_info()
    return int(used.rss - (0 if shared else getattr(used, "shared", 0)))


def peak() -> int:
    """Return the maximum of the bytes that this process has used."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        import psutil

        used = psutil.Process().memory_info()
        return int(getattr(used, "peak_wset", used.rss))
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def trim() -> None:
    """Return freed memory to the system, where the C library keeps it for later."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):  # not the GNU library
        ctypes.CDLL(None).malloc_trim(0)


def ensure(needed: int, what: str) -> None:
    """Raise ResourceError, with both sizes, if `needed` bytes are not free."""
    free = available()
    if needed > free:
        trim()
        free = available()
    if needed > free:
        raise ResourceError(
            f"{what} needs about {gigabytes(needed)} of memory, but only {gigabytes(free)} is free"
        )


def gigabytes(count: int) -> str:
    """Return a number of bytes as text."""
    return f"{count / 1e9:.2f} GB" if count >= 5e7 else f"{count / 1e6:.1f} MB"
