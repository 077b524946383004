"""Attributes as text and back: which cells an attribute of a template stands for, and an index made of such cells.

Inside a model an attribute is a number at the end of a chain of joins. Other programs know it by its cells, put
into the template's line. `cells_of` walks the chains backwards; `index_of` builds them from the cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.shared_templates import Nodes, cells_by_term, size_of
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.templates import TemplateSet

Cells = tuple[str, ...]
"""The cells of an attribute, in the order of its template's terms."""


def cells_of(index: FeatureIndex, j: int) -> list[Cells]:
    """The cells of each attribute of template j, by attribute number."""
    cells: dict[int, Cells] = {}
    for reading, r in zip(index.templates[j].readings, index.plan.readings(j), strict=True):
        map_ = index.maps[r]
        values = np.flatnonzero(map_[:-1] != ABSENT)
        known = (index.vocabularies, index.tables)
        found = cells_by_term(index.plan, r, reading, values, known)
        cells |= zip(map_[values].tolist(), found, strict=True)
    return [cells[a] for a in range(len(cells))]


def index_of(templates: TemplateSet, kinds: Sequence[str], cells: Sequence[Sequence[Cells]]) -> FeatureIndex:
    """An index in which attribute a of template j stands for cells[j][a]; the cells of a template are distinct.

    No template may stand for several lines.
    """
    plan = make_plan(templates)
    nodes = Nodes(plan)
    values = [nodes.learn(j, template, cells[j]) for j, template in enumerate(templates)]
    known = nodes.known()
    maps = []
    for j, found in enumerate(values):
        maps.append(np.full(size_of(plan, j, known) + 1, ABSENT, np.int32))
        maps[j][found] = np.arange(len(found), dtype=np.int32)
    return FeatureIndex(
        templates=templates,
        kinds=tuple(kinds),
        normalize="none",
        vocabularies=known[0],
        tables=known[1],
        maps=tuple(maps),
        sizes=np.array([len(found) for found in cells], np.int64),
    )
