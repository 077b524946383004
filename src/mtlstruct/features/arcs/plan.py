"""Plan of arc templates: sides of one word each, and bases of up to three sides.

The cells of a template are grouped by the word they are counted from. All cells counted from the
head are one *side*, those of the modifier another, those of a word between a third. A side depends
on one token only, so its value is found once per token, by the joins of token templates
(`ArcPlan.words` are such templates, one *slot* each). If a step from one end of the arc reaches the
other end, the side has fewer cells: another slot.

A *base* is a template without direction and distance. Templates with the same base share its table;
they differ in their *variant*, the classes of (direction, distance) that they distinguish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct.templates import Template, TemplateSet, Term
from mtlstruct.templates.arc_terms import BINS
from mtlstruct.templates.functions import VALUE
from mtlstruct.templates.terms import written

NONE = -1

DISTANCES = len(BINS)
CLASSES = 2 * DISTANCES
"""Classes of arcs: direction (0 left, 1 right) · DISTANCES + bin of the distance."""

PLAIN, DIRECTION, DISTANCE, BOTH = range(4)
"""Variants: which of direction (1) and distance (2) a template has."""

EACH = 0
"""The place of a base of each word between; 1, 2, … and -1, -2, … are one word, from either end."""

Cells = tuple[Term, ...]


@dataclass(frozen=True)
class Side:
    """All cells counted from one word of the arc, without their anchor."""

    anchor: str
    cells: Cells


@dataclass(frozen=True)
class Base:
    """Numbers of up to three sides (NONE if missing): two ends of the arc and a word between.

    place      which word between: EACH, or one from either end
    position   whether the position of the word between belongs to the value
    value      the term of the number that its features have as value; None for indicators
    """

    first: int = NONE
    second: int = NONE
    between: int = NONE
    place: int = EACH
    position: bool = False
    value: Term | None = None


@dataclass(frozen=True)
class ArcPlan:
    """Sides and bases of a set of arc templates.

    base_of      the base of each template
    variant_of   the variant of each template
    words        a token template for each slot
    slots        int32[sides, 2, reach + 1]: the slot of a side by direction and by number of words
                 between, at most the largest step of any side
    """

    sides: tuple[Side, ...]
    bases: tuple[Base, ...]
    base_of: tuple[int, ...]
    variant_of: tuple[int, ...]
    words: TemplateSet
    slots: NDArray[np.int32]

    @cached_property
    def duplicates(self) -> set[int]:
        """Templates with the base and variant of an earlier one; they have no attributes."""
        kinds = list(zip(self.base_of, self.variant_of, strict=True))
        return {j for j, kind in enumerate(kinds) if kinds.index(kind) < j}

    @cached_property
    def templates_of(self) -> list[list[int]]:
        """The templates of each base, without duplicates."""
        found: list[list[int]] = [[] for _ in self.bases]
        for j, base in enumerate(self.base_of):
            found[base] += [] if j in self.duplicates else [j]
        return found

    @cached_property
    def values(self) -> list[Term]:
        """The terms of real values."""
        return list(dict.fromkeys(base.value for base in self.bases if base.value is not None))

    @cached_property
    def value_of(self) -> list[int]:
        """The real value of each base: its number in `values`, len(values) for indicators."""
        return [(*self.values, None).index(base.value) for base in self.bases]

    @cached_property
    def sources(self) -> list[tuple[int, int]]:
        """The pairs of sides (first, second) of bases with a word between."""
        return list(dict.fromkeys((b.first, b.second) for b in self.bases if b.between != NONE))


def make_plan(templates: TemplateSet) -> ArcPlan:
    """Return the plan of arc templates; columns must be resolved to numbers."""
    sides: dict[Side, int] = {}
    bases: dict[Base, int] = {}
    base_of = [bases.setdefault(_base(template, sides), len(bases)) for template in templates]
    reach = max((abs(term.row) for side in sides for term in side.cells), default=0)
    slot_of: dict[Cells, int] = {}
    slots = np.zeros((len(sides), 2, reach + 1), np.int32)
    for side, s in sides.items():
        for right in (0, 1):
            for between in range(reach + 1):
                cells = _visible_cells(side, bool(right), between)
                slots[s, right, between] = slot_of.setdefault(cells, len(slot_of))
    words = TemplateSet(tuple(map(_token_template, slot_of)), "the sides of arcs", lists=templates.lists)
    variant_of = tuple(_variant(template) for template in templates)
    return ArcPlan(tuple(sides), tuple(bases), tuple(base_of), variant_of, words, slots)


def _base(template: Template, sides: dict[Side, int]) -> Base:
    found: dict[str, list[Term]] = {}
    places, value = [EACH], None
    for term in template.terms:
        if not term.sees:
            continue
        if term.function == VALUE:
            value = replace(term, name="")
            continue
        if term.absolute:
            places.append(term.row)
        cell = replace(term, row=0 if term.absolute else term.row, absolute=False, anchor="", name="")
        found.setdefault(term.anchor, []).append(cell)
    position = any(term.function == "position" for term in template.terms if not term.sees)
    if position:
        found.setdefault("b", [])
    numbers = {
        anchor: sides.setdefault(Side(anchor, tuple(sorted(set(cells)))), len(sides))
        for anchor, cells in found.items()
    }
    ends = [numbers[anchor] for anchor in "hlmr" if anchor in numbers]
    first, second, *_ = (*ends, NONE, NONE)
    return Base(first, second, numbers.get("b", NONE), places[-1], position, value)


def _variant(template: Template) -> int:
    functions = {term.function for term in template.terms if not term.sees}
    return DIRECTION * ("direction" in functions) + DISTANCE * ("distance" in functions)


def _visible_cells(side: Side, right: bool, between: int) -> Cells:
    """Return the cells that do not reach the other end of an arc with `between` words between."""
    if side.anchor == "b":
        return side.cells
    inwards = 1 if side.anchor == "l" or side.anchor == ("h" if right else "m") else -1
    return tuple(term for term in side.cells if inwards * term.row <= between)


def _token_template(cells: Cells) -> Template:
    pieces = ("U:", *([""] * len(cells)))
    return Template(written(pieces, cells), "U", "U", pieces, cells, 0)


def class_tables() -> NDArray[np.int64]:
    """Return int64[variants, CLASSES]: the class of a variant for each class of arcs."""
    every = np.arange(CLASSES)
    return np.stack([np.zeros(CLASSES, np.int64), every // DISTANCES, every % DISTANCES, every]).astype(
        np.int64
    )
