"""Functions on lists of lists."""

from collections.abc import Iterable
from itertools import chain
from typing import Any


def flatten(y: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the entries of all lists in one list."""
    return list(chain.from_iterable(y))
