"""Attributes as text and back: which cells an attribute of a template stands for, and an index made of such cells.

Inside a model an attribute is a number at the end of a chain of joins. Other programs know it by its cells, put
into the template's line. `cells_of` walks the chains backwards; `index_of` builds them from the cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import Plan, make_plan, step_of
from mtlstruct.features.shared_templates import cells_by_term
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary
from mtlstruct.templates import Template, TemplateSet

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
    nodes: list[dict[str | tuple[int, int], int]] = [{} for _ in (*plan.streams, *plan.joins)]
    values = [_numbered(plan, templates[j], j, cells[j], nodes) for j in range(len(templates))]
    streams = len(plan.streams)
    return FeatureIndex(
        templates=templates,
        kinds=tuple(kinds),
        normalize="none",
        vocabularies=tuple(Vocabulary.of([str(s) for s in node]) for node in nodes[:streams]),
        tables=tuple(PairTable(_packed(node)) for node in nodes[streams:]),
        maps=tuple(_map(plan, j, values[j], nodes) for j in range(len(templates))),
        sizes=np.array([len(found) for found in cells], np.int64),
    )


def _numbered(
    plan: Plan,
    template: Template,
    j: int,
    cells: Sequence[Cells],
    nodes: list[dict[str | tuple[int, int], int]],
) -> list[int]:
    """The value of the template's node for each attribute; new strings and pairs get the next number."""
    places = [step_of(term) for term in template.terms]
    chain = [(places.index((row, plan.streams[stream])), stream, node) for row, stream, node in plan.chain(j)]
    out = []
    for found in cells:
        value = 0
        for term, stream, node in chain:
            strings = nodes[stream]
            number = strings.setdefault(found[term], len(strings))
            value = number if node == stream else nodes[node].setdefault((value, number), len(nodes[node]))
        out.append(value)
    return out


def _packed(node: dict[str | tuple[int, int], int]) -> NDArray[np.int64]:
    pairs = np.array(list(node), np.int64).reshape(-1, 2)
    return pairs[:, 0] << 32 | pairs[:, 1]


def _map(
    plan: Plan, j: int, values: list[int], nodes: list[dict[str | tuple[int, int], int]]
) -> NDArray[np.int32]:
    node = plan.uses[j].node
    size = 1 if node == ABSENT else len(nodes[node])
    map_ = np.full(size + 1, ABSENT, np.int32)
    map_[values] = np.arange(len(values), dtype=np.int32)
    return map_
