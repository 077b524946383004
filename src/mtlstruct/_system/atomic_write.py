"""Atomic writing: a new file takes the place of an old one only when it is complete on disk."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from mtlstruct.errors import MtlError


@contextmanager
def replacing(path: str | Path, mode: str = "wb") -> Iterator[IO[bytes]]:
    """Give a temporary file beside `path`, renamed to it if the block succeeds and removed if not.

    A device or a pipe is opened directly: it has no content to protect, and a rename would replace
    it by a plain file (as root, `-o /dev/null` would destroy /dev/null).
    """
    check_writable(path)
    target = Path(os.path.realpath(path))  # a link keeps its target
    try:
        with open(target, mode) if _is_special(target) else _open_beside(target, mode) as out:
            yield out
    except OSError as error:
        raise cannot_write(path, error) from None


@contextmanager
def _open_beside(target: Path, mode: str) -> Iterator[IO[bytes]]:
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, mode) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def check_writable(path: str | Path) -> None:
    """Raise an error if the file could not be written, before hours of training."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    if target.is_dir():
        raise MtlError(f"{path}: cannot write there: it is a folder, expected a file name")
    if not folder.is_dir():
        raise MtlError(f"{path}: cannot write there: the folder {folder} does not exist")
    if target.exists() and not os.access(target, os.W_OK):
        raise MtlError(f"{path}: cannot write there: the file is write-protected")
    if _is_special(target):
        return
    try:  # permissions alone do not tell whether a file system takes a file
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = error.strerror or error
        raise MtlError(f"{path}: cannot write there: no file can be made in {folder}: {reason}") from None


def cannot_write(path: str | Path, error: OSError) -> MtlError:
    """Return the error for a write that failed; what was there before is unchanged."""
    return MtlError(f"{path}: cannot write: {error.strerror or error}; what was there before is unchanged")
