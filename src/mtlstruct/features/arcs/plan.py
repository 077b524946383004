"""What must be looked up for templates of arcs: sides of one word each, and bases of up to three sides.

What a template sees splits by the word it is seen from. All cells counted from the head are one *side*, those of
the modifier another, those of a word between a third. A side depends on one token only, so its value is found
once for each token, by the same joins as templates of tokens (`Plan.words` are such templates, a *slot* each).
Where a step from one end of the arc comes to the other end, the side is seen *in part*: another slot.

A *base* is what a template sees, direction and distance left out. Templates with the same base share its table;
they differ in their *variant*, the classes of (direction, distance) that they keep apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct.templates import Template, TemplateSet, Term
from mtlstruct.templates.arc_terms import BINS
from mtlstruct.templates.terms import written

NONE = -1

DISTANCES = len(BINS)
CLASSES = 2 * DISTANCES
"""Classes of arcs: direction (0 left, 1 right) · DISTANCES + bin of the distance."""

PLAIN, DIRECTION, DISTANCE, BOTH = range(4)
"""Variants: whether direction (1) and distance (2) belong to a template."""

EACH = 0
"""The place of a base that looks at each word between; 1, 2, … and -1, -2, … are one of them from either end."""

Cells = tuple[Term, ...]


@dataclass(frozen=True)
class Side:
    """All cells seen from one word of the arc: `cells` without their anchor."""

    anchor: str
    cells: Cells


@dataclass(frozen=True)
class Base:
    """Sides by number, NONE where there is none: of one end of the arc, of the other, of a word between.

    place      which word between: EACH, or one from either end
    position   whether the how-manyth word between it is belongs to the value
    """

    first: int = NONE
    second: int = NONE
    between: int = NONE
    place: int = EACH
    position: bool = False


@dataclass(frozen=True)
class Plan:
    """Sides, bases, and what each template makes of them.

    words      for each slot a template of tokens that sees its cells
    slots      int32[sides, 2, reach + 1]: the slot of a side by direction and by how many words lie between, at most
               as many as any side can tell
    base_of    the base of each template; variant_of its variant
    """

    sides: tuple[Side, ...]
    bases: tuple[Base, ...]
    base_of: tuple[int, ...]
    variant_of: tuple[int, ...]
    words: TemplateSet
    slots: NDArray[np.int32]

    @cached_property
    def twins(self) -> dict[int, int]:
        """Templates that see what an earlier one sees, and that one."""
        first: dict[tuple[int, int], int] = {}
        kinds = zip(self.base_of, self.variant_of, strict=True)
        same = [first.setdefault(kind, j) for j, kind in enumerate(kinds)]
        return {j: k for j, k in enumerate(same) if j != k}

    @cached_property
    def templates_of(self) -> list[list[int]]:
        """The templates of each base, without twins."""
        found: list[list[int]] = [[] for _ in self.bases]
        for j, base in enumerate(self.base_of):
            found[base] += [] if j in self.twins else [j]
        return found

    @cached_property
    def sources(self) -> list[tuple[int, int]]:
        """The pairs of sides (first, second) that bases with a word between are built on."""
        return list(dict.fromkeys((b.first, b.second) for b in self.bases if b.between != NONE))


def make_plan(templates: TemplateSet) -> Plan:
    """Finds sides and bases. Columns must have their numbers."""
    sides: dict[Side, int] = {}
    bases: dict[Base, int] = {}
    base_of = [bases.setdefault(_base(template, sides), len(bases)) for template in templates]
    reach = max((abs(term.row) for side in sides for term in side.cells), default=0)
    seen: dict[Cells, int] = {}
    slots = np.zeros((len(sides), 2, reach + 1), np.int32)
    for side, s in sides.items():
        for right in (0, 1):
            for room in range(reach + 1):
                slots[s, right, room] = seen.setdefault(_visible(side, bool(right), room), len(seen))
    words = TemplateSet(tuple(map(_token_template, seen)), "the sides of arcs", lists=templates.lists)
    variant_of = tuple(_variant(template) for template in templates)
    return Plan(tuple(sides), tuple(bases), tuple(base_of), variant_of, words, slots)


def _base(template: Template, sides: dict[Side, int]) -> Base:
    found: dict[str, list[Term]] = {}
    places = [EACH]
    for term in template.terms:
        if not term.sees:
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
    return Base(
        first=first, second=second, between=numbers.get("b", NONE), place=places[-1], position=position
    )


def _variant(template: Template) -> int:
    functions = {term.function for term in template.terms if not term.sees}
    return DIRECTION * ("direction" in functions) + DISTANCE * ("distance" in functions)


def _visible(side: Side, right: bool, room: int) -> Cells:
    """The cells that do not come to the other end, where `room` words lie between and the arc leads right or left."""
    if side.anchor == "b":
        return side.cells
    inwards = 1 if side.anchor == "l" or side.anchor == ("h" if right else "m") else -1
    return tuple(term for term in side.cells if inwards * term.row <= room)


def _token_template(cells: Cells) -> Template:
    pieces = ("U:", *([""] * len(cells)))
    return Template(written(pieces, cells), "U", "U", pieces, cells, 0)


def class_tables() -> NDArray[np.int64]:
    """int64[variants, CLASSES]: the class that a variant sees where the arc has a class."""
    every = np.arange(CLASSES)
    return np.stack([np.zeros(CLASSES, np.int64), every // DISTANCES, every % DISTANCES, every]).astype(
        np.int64
    )
