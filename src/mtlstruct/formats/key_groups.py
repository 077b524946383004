"""Groups of the keys of feature dicts by their names; standard library only.

CRFsuite's attributes are texts such as "word:Oslo", "word=Oslo" or "next:word:is". A text and all
keys that it may have come from have the same group: what stands before the first ":" or "=", and of
a *nested* name such as "next" also the name after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

NAME = re.compile(r"([^:=]*)([:=]?)([^:=]*)")


class NamedGroups(dict):  # type: ignore[type-arg]
    """The group of each key; `nested` None: one group for all."""

    def __init__(self, nested: Sequence[str] | None) -> None:
        super().__init__()
        self.nested = nested

    def get(self, key: str, default: Any = None) -> str:
        """Return the group of a key or of a text."""
        if self.nested is None:
            return "attributes"
        first, between, second = NAME.match(key).groups()  # type: ignore[union-attr]
        return first + between + second if first in self.nested else first


def nested_names(texts: Iterable[str]) -> list[str]:
    """Return the names that stand only before other names, as in next:word:is beside word:Oslo."""
    after: dict[str, set[str]] = {}
    for text in texts:
        first, between, second = NAME.match(text).groups()  # type: ignore[union-attr]
        after.setdefault(first, set()).add(second if between == ":" else "")
    return sorted(first for first, seconds in after.items() if seconds <= after.keys() - {"", first})
