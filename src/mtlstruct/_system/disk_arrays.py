"""Large arrays in temporary files, for data that do not fit into memory.

The files have no names, so nothing is left behind, however the process ends. The system reads ahead
and writes back. A thread releases the pages of these files when the process uses too much memory;
what is released stays in the page cache, which the system can use for other purposes.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct.errors import ResourceError

MIN_BYTES = 1 << 22
"""Smaller arrays stay in memory."""

CHECK_SECONDS = 0.05
"""Time between two looks at the memory of the process."""

RELEASE_SHARE = 0.85
"""Share of the memory limit beyond which pages are released."""

_folder: Path | None = None
_maps: WeakSet[mmap.mmap] = WeakSet()


@contextmanager
def arrays_on_disk(folder: Path) -> Iterator[None]:
    """Inside, `zeros` maps large arrays from files in a folder, and the memory limit is kept."""
    global _folder
    memory.trim()
    ended = threading.Event()
    limit = int(RELEASE_SHARE * (memory.available() + memory.resident()))

    def release() -> None:
        """Release mapped pages beyond `limit` bytes of memory, until `ended` is set."""
        while not ended.wait(CHECK_SECONDS):
            if memory.resident(shared=True) > limit and hasattr(mmap, "MADV_DONTNEED"):
                for mapped in list(_maps):
                    mapped.madvise(mmap.MADV_DONTNEED)

    releaser = threading.Thread(target=release, daemon=True)
    _folder = folder
    releaser.start()
    try:
        yield
    finally:
        _folder = None
        ended.set()
        releaser.join()


def on_disk() -> bool:
    """Return whether `zeros` maps files."""
    return _folder is not None


def zeros(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of zeros, in a file if it is large and within `arrays_on_disk`."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if _folder is None or size < MIN_BYTES:
        return np.zeros(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=_folder) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk would end the process at some later time
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        problem = f"{memory.gigabytes(size)} in a temporary file cannot be had: {error.strerror}"
        raise ResourceError(f"{_folder}: {problem}") from None
    _maps.add(mapped)
    return np.frombuffer(mapped, dtype).reshape(shape)
