"""Attributes of arcs as text: from the record of a row back to the cells of its key."""

from __future__ import annotations

import numpy as np

from mtlstruct.features.arcs.index import ArcIndex
from mtlstruct.features.arcs.kernels import MASK, MASK_BITS, POSITIONS
from mtlstruct.features.arcs.plan import BOTH, DIRECTION, DISTANCE, DISTANCES, NONE, Base
from mtlstruct.features.shared_templates import cells_by_term
from mtlstruct.features.vocabulary import Int64
from mtlstruct.templates import Template, Term
from mtlstruct.templates.arc_terms import BINS, MIDDLE
from mtlstruct.templates.functions import VALUE

Cells = dict[tuple[str, Term], str]
"""Cells by anchor and term without anchor."""

LOW = (1 << 32) - 1


def spell_arcs(index: ArcIndex, j: int, attributes: Int64) -> list[str]:
    """Return attributes of template j as text: its line with cells, without its name."""
    plan = index.plan
    b = plan.base_of[j]
    rows = index.rows(b)
    record = rows[:, 1 + plan.templates_of[b].index(j)]
    order = np.argsort(record, kind="stable")
    order = order[record[order] & MASK != 0]
    at = order[np.searchsorted(record[order] >> MASK_BITS, attributes, side="right") - 1]
    lines = []
    for attribute, key, found in zip(
        attributes.tolist(), rows[at, 0].tolist(), record[at].tolist(), strict=True
    ):
        arc = _class(found & MASK, attribute - (found >> MASK_BITS), plan.variant_of[j])
        lines.append(_line(index.templates[j], _cells(index, plan.bases[b], key), key & LOW, arc))
    return lines


def _cells(index: ArcIndex, base: Base, key: int) -> Cells:
    """Return all cells of a base's key."""
    high, low = key >> 32, key & LOW
    if base.between == NONE:
        return _side(index, base.first, high) | _side(index, base.second, low)
    between = _side(index, base.between, low // POSITIONS if base.position else low)
    if NONE in (base.first, base.second):
        return _side(index, max(base.first, base.second), high) | between
    rows = index.rows(len(index.plan.bases) + index.plan.sources.index((base.first, base.second)))
    (pair,) = rows[rows[:, 1] == high, 0].tolist()
    return _side(index, base.first, pair >> 32) | _side(index, base.second, pair & LOW) | between


def _side(index: ArcIndex, side: int, value: int) -> Cells:
    if side == NONE:
        return {}
    words, starts = index.words, np.append(0, np.cumsum(index.words.sizes))
    slot = int(np.searchsorted(starts, value, side="right")) - 1
    template = words.templates[slot]
    found = np.flatnonzero(words.maps[slot][:-1] == value - starts[slot])[:1]
    cells = next(cells_by_term(words.plan, slot, template, found, (words.vocabularies, words.tables)))
    anchor = index.plan.sides[side].anchor
    return {(anchor, term): cell for term, cell in zip(template.terms, cells, strict=True)}


def _class(observed: int, rank: int, variant: int) -> dict[str, str]:
    """Return direction and distance of the rank-th observed class, if the variant has them."""
    bit = [bit for bit in range(MASK_BITS) if observed >> bit & 1][rank]
    direction, distance = (bit, bit) if variant in (DIRECTION, DISTANCE) else divmod(bit, DISTANCES)
    found = {}
    if variant in (DIRECTION, BOTH):
        found["direction"] = "right" if direction else "left"
    if variant in (DISTANCE, BOTH):
        found["distance"] = str(BINS[distance])
    return found


def _line(template: Template, cells: Cells, low: int, arc: dict[str, str]) -> str:
    first, *rest = template.pieces
    values = (_value(term, cells, low, arc) for term in template.terms)
    return first.partition(":")[2] + "".join(value + piece for value, piece in zip(values, rest, strict=True))


def _value(term: Term, cells: Cells, low: int, arc: dict[str, str]) -> str:
    if term.function == VALUE:
        return term.text()
    if not term.sees:
        return str(low % POSITIONS) if term.function == "position" else arc[term.function]
    bare = Term(0 if term.absolute else term.row, term.column, term.function, term.arguments)
    return cells.get((term.anchor, bare), MIDDLE)
