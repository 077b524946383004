"""Lock on a folder, so that two runs do not write into it at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mtlstruct._system.atomic_write import cannot_write
from mtlstruct.errors import MtlError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder if it does not exist, and raise an error if another run has locked it.

    A new folder in which the run leaves no file is removed.
    """
    lock, new = FileLock(folder / ".lock", timeout=0), not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock.acquire()
    except Timeout:
        raise MtlError(f"{folder}: another run uses this folder") from None
    except OSError as error:
        raise cannot_write(folder, error) from None
    try:
        with held:  # the system releases it when the process ends
            yield
    finally:
        if new and [path.name for path in folder.iterdir()] == [".lock"]:
            with suppress(OSError):  # another run has begun
                (folder / ".lock").unlink()
                folder.rmdir()
