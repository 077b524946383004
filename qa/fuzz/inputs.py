"""Inputs of targets: values taken from bytes, and files in memory where the system has a place for them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Taking:
    """Bytes that are used up from the front; where none are left, everything is 0."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        """0 to 255."""
        self.at += 1
        return self.data[self.at - 1] if self.at <= len(self.data) else 0

    def number(self, count: int) -> int:
        """0 to 2^(8·count) − 1."""
        return int.from_bytes(bytes(self.byte() for _ in range(count)), "little")

    def one_of(self, choices: Sequence[T]) -> T:
        """One of up to 65,536 choices."""
        return choices[self.number(1 if len(choices) <= 256 else 2) % len(choices)]

    def some(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        self.at += count
        return self.data[self.at - count : self.at]

    def rest(self) -> bytes:
        """All that is left."""
        return self.some(len(self.data))


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
