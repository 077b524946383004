"""Readers and writers of data files, by the name a user gives them. A format is a module, not a class."""

from __future__ import annotations

from types import ModuleType

from mtlstruct.formats import columns, conll, items, segmented
from mtlstruct.formats import jsonl as dicts

FORMATS: dict[str, ModuleType] = {
    "columns": columns,
    "conll": conll,
    "dicts": dicts,
    "items": items,
    "segmented": segmented,
}
