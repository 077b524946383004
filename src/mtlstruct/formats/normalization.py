"""Normalization of cells before their features are looked up; output has the original text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable


def nfkc(cell: str) -> str:
    """Return the Unicode compatibility form, which unifies full-width and half-width letters."""
    return unicodedata.normalize("NFKC", cell)


def unchanged(cell: str) -> str:
    """Return the cell."""
    return cell


NORMALIZERS: dict[str, Callable[[str], str]] = {"none": unchanged, "nfkc": nfkc}
