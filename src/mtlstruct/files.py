"""Writing that is whole or not there: a new file takes the old one's place only when it is complete on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import MtlError


@contextmanager
def replacing(path: str | Path, mode: str = "wb") -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that is renamed to it if the block ends well, and removed if not."""
    target = Path(path)
    check_writable(target)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent or ".")
    except OSError as error:
        raise cannot_write(target, error) from None
    try:
        with os.fdopen(handle, mode) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except OSError as error:
        raise cannot_write(target, error) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def check_writable(path: str | Path) -> None:
    """Complains now, not after an hour of training, where the file could not be written."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise MtlError(f"{target}: cannot write there: it is a folder, expected a file name")
    if not folder.is_dir():
        raise MtlError(f"{target}: cannot write there: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MtlError(f"{target}: cannot write there: no permission to write in the folder {folder}")


def cannot_write(path: str | Path, error: OSError) -> MtlError:
    """The sentence for a write that failed; what was there before is untouched."""
    return MtlError(f"{path}: cannot write: {error.strerror or error}; what was there before is unchanged")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
