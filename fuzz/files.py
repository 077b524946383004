"""One scratch file, in memory where the system has a place for that: readers take paths, as users give them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """A folder of this process's own."""
    memory = "/dev/shm"
    made = tempfile.mkdtemp(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def written(data: bytes, name: str = "input") -> Path:
    """A file with this content; the next one of that name takes its place."""
    path = folder() / name
    path.unlink(missing_ok=True)  # a new file, for the old one may still be mapped
    with open(path, "wb") as out:
        out.write(data)
    return path
