"""How much memory there is, how much a job wants, and the refusal when the two do not fit.

The user may set a limit below what is free. What is too large for memory and can do with less may go to a file in
the folder for temporary files.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from mtlstruct.errors import MtlError, ResourceError

_limit: int | None = None


def set_limit(count: int | None) -> None:
    """Use at most so many bytes from now on, in all (None: what is there)."""
    global _limit
    if count is not None and count <= 0:
        raise MtlError(f"expected a limit of memory above 0, got {count}")
    _limit = count


def available() -> int:
    """Return the bytes that can still be had: the least of machine, control group and limit."""
    found = [int(psutil.virtual_memory().available)]
    if _limit is not None:
        found.append(max(0, _limit - resident()))
    group = _control_group()
    return min(found if group is None else [*found, group])


def resident() -> int:
    """Return the bytes that this process holds now, without files that it has mapped where that is known."""
    held = psutil.Process().memory_info()
    return int(held.rss - getattr(held, "shared", 0))


def peak() -> int:
    """Return the most bytes that this process has held."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        held = psutil.Process().memory_info()
        return int(getattr(held, "peak_wset", held.rss))
    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def ensure(needed: int, what: str) -> None:
    """Refuses work that cannot fit, with both figures."""
    free = available()
    if needed > free:
        raise ResourceError(
            f"{what} needs about {gigabytes(needed)} of memory, but only {gigabytes(free)} is free"
        )


def ensure_disk(needed: int, what: str) -> Path:
    """The folder for temporary files, if it has room."""
    folder = Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ResourceError(
            f"{what} needs about {gigabytes(needed)}, more than fits into memory or into {folder} "
            f"({gigabytes(free)} free; TMPDIR names another folder)"
        )
    return folder


def gigabytes(count: int) -> str:
    """A size to read."""
    return f"{count / 1e9:.2f} GB" if count >= 5e7 else f"{count / 1e6:.1f} MB"


def _control_group() -> int | None:
    with suppress(OSError, ValueError):
        root = Path("/sys/fs/cgroup")
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    return None
