"""How much memory there is, how much a job wants, and the refusal when the two do not fit.

The user may set a limit below what is free.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

from mtlstruct.errors import MtlError, ResourceError

_limit: int | None = None


def set_limit(count: int | None) -> None:
    """Use at most so many bytes from now on, in all (None: what is there)."""
    global _limit
    if count is not None and count <= 0:
        raise MtlError(f"expected a limit of memory above 0, got {count}")
    _limit = count


def available() -> int | None:
    """Bytes that can still be had (the least of machine, control group and limit), None if not known."""
    left = None if _limit is None else max(0, _limit - resident())
    found = [n for n in (_machine(), _control_group(), left) if n is not None]
    return min(found) if found else None


def resident() -> int:
    """Bytes that this process holds now, not counting files that it has mapped."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024
    return peak()


def peak() -> int:
    """The most bytes this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def ensure(needed: int, what: str) -> None:
    """Refuses work that cannot fit, with both figures."""
    free = available()
    if free is not None and needed > free:
        raise ResourceError(
            f"{what} needs about {gigabytes(needed)} of memory, but only {gigabytes(free)} is free"
        )


def gigabytes(count: int) -> str:
    """A size to read."""
    return f"{count / 1e9:.2f} GB" if count >= 5e7 else f"{count / 1e6:.1f} MB"


def _machine() -> int | None:
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    return None


def _control_group() -> int | None:
    with suppress(OSError, ValueError):
        root = Path("/sys/fs/cgroup")
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    return None
