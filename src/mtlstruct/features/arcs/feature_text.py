"""Attributes of arcs as text: from the record of a row back to the cells of its key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs.index import ArcIndex
from mtlstruct.features.arcs.kernels import EMPTY, MASK, MASK_BITS, POSITIONS
from mtlstruct.features.arcs.plan import BOTH, DIRECTION, DISTANCE, DISTANCES, NONE, Base
from mtlstruct.features.shared_templates import cells_by_term
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.templates import Template, Term
from mtlstruct.templates.arc_terms import BINS, MIDDLE

Int64 = NDArray[np.int64]
Cells = dict[tuple[str, Term], str]
"""Cells by anchor and term without anchor."""

LOW = (1 << 32) - 1


def spell_arcs(index: ArcIndex, j: int, attributes: Int64) -> list[str]:
    """Return attributes of template j as text: its line with cells, without its name."""
    plan = index.plan
    b = plan.base_of[j]
    rows = index.table[index.first[b] : index.first[b + 1]]
    record = rows[:, 1 + plan.templates_of[b].index(j)]
    observed = record & MASK
    filled = np.flatnonzero((rows[:, 0] != EMPTY) & (observed != 0))
    starts = record >> MASK_BITS
    filled = filled[np.argsort(starts[filled], kind="stable")]
    at = filled[np.searchsorted(starts[filled], attributes, side="right") - 1]
    sides = _Sides(index)
    return [
        _line(
            index.templates[j],
            sides.cells(plan.bases[b], key),
            key & LOW,
            _class(int(observed[row]), int(attribute - starts[row]), plan.variant_of[j]),
        )
        for row, key, attribute in zip(at.tolist(), rows[at, 0].tolist(), attributes.tolist(), strict=True)
    ]


class _Sides:
    """Cells of the values of sides."""

    def __init__(self, index: ArcIndex) -> None:
        self.index = index
        self.starts = np.concatenate([[0], np.cumsum(index.words.sizes)])

    def cells(self, base: Base, key: int) -> Cells:
        """Return all cells of a base's key."""
        high, low = key >> 32, key & LOW
        if base.between == NONE:
            return self._side(base.first, high) | self._side(base.second, low)
        between = self._side(base.between, low // POSITIONS if base.position else low)
        if NONE not in (base.first, base.second):
            return self._source(base, high) | between
        return self._side(max(base.first, base.second), high) | between

    def _source(self, base: Base, number: int) -> Cells:
        """Return the cells of a source: the pair of sides joined to a word between."""
        index = self.index
        node = len(index.plan.bases) + index.plan.sources.index((base.first, base.second))
        rows = index.table[index.first[node] : index.first[node + 1]]
        (row,) = np.flatnonzero((rows[:, 0] != EMPTY) & (rows[:, 1] == number))
        key = int(rows[row, 0])
        return self._side(base.first, key >> 32) | self._side(base.second, key & LOW)

    def _side(self, side: int, value: int) -> Cells:
        if side == NONE:
            return {}
        words = self.index.words
        slot = int(np.searchsorted(self.starts, value, side="right")) - 1
        template = words.templates[slot]
        map_ = words.maps[slot][:-1]
        found = np.flatnonzero((map_ != ABSENT) & (map_ == value - self.starts[slot]))[:1]
        cells = next(cells_by_term(words.plan, slot, template, found, (words.vocabularies, words.tables)))
        anchor = self.index.plan.sides[side].anchor
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
    if not term.sees:
        return str(low % POSITIONS) if term.function == "position" else arc[term.function]
    bare = Term(0 if term.absolute else term.row, term.column, term.function, term.arguments)
    return cells.get((term.anchor, bare), MIDDLE)
