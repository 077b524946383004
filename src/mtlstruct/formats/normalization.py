"""What may be done to a cell before its features are looked up. Output always keeps the user's text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable


def nfkc(cell: str) -> str:
    """Unicode compatibility form: full-width and half-width letters and digits become one."""
    return unicodedata.normalize("NFKC", cell)


def unchanged(cell: str) -> str:
    """The cell as it is."""
    return cell


NORMALIZERS: dict[str, Callable[[str], str]] = {"none": unchanged, "nfkc": nfkc}
