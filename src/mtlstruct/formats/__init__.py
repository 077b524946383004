"""Readers and writers of data files and of data in memory: column files, segmented text, trees, feature dicts.

A format is a module with `read`, `stream` and `write`, not a class.
May import: `corpus`, `errors`, `_system`.
Start reading at `columns` and `sentences`, which turns the X of an estimator into a corpus.
"""

from __future__ import annotations

from types import ModuleType

from mtlstruct.formats import columns, conll, segmented
from mtlstruct.formats import jsonl as dicts

FORMATS: dict[str, ModuleType] = {
    "columns": columns,
    "conll": conll,
    "dicts": dicts,
    "segmented": segmented,
}
