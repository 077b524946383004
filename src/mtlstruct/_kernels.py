"""Where compiled kernels are kept.

Numba keeps them beside the source if that folder can be written, else in the user's cache folder. Where neither
can be (a read-only install run by a user without a home), it would refuse to import us; then they go to a folder
of this user's in the system's temporary one. A NUMBA_CACHE_DIR that is set already is respected.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def _can_write(folder: Path) -> bool:
    """Whether files can be made in the folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose() -> None:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if "NUMBA_CACHE_DIR" in os.environ or _can_write(Path(__file__).parent) or _can_write(home):
        return
    private = Path(tempfile.gettempdir()) / f"mtlstruct-kernels-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid == os.getuid():  # never run code that somebody else put there
        os.environ["NUMBA_CACHE_DIR"] = str(private)


_choose()
