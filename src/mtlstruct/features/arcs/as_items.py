"""Arcs of known trees as items, for labels of arcs.

Labels are predicted after the trees. Then every token has one arc, so an arc is an item: each
distinct term of the templates becomes a column with the cell that the term reads from the token's
arc, and a template joins columns of one row. Index, structure and solvers of items serve labels of
arcs.

Rejected: terms of the words between, of which an arc has none or several, and real values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.features.vocabulary import Int64
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.templates import TemplateSet, Term
from mtlstruct.templates.arc_terms import BINS, MIDDLE, ROOT
from mtlstruct.templates.functions import VALUE, bound
from mtlstruct.templates.terms import NO_COLUMN, boundary

DIRECTION = Term(0, NO_COLUMN, "direction", anchor="hm")


@dataclass(frozen=True)
class ArcItems:
    """Arc templates with resolved columns, and the normal form of cells."""

    arcs: TemplateSet
    normalize: str = "none"

    def __post_init__(self) -> None:
        for template in self.arcs:
            if template.kind != "A":
                raise self.arcs.error(template, f"labels of arcs need A templates, got {template.kind}")
            if any("b" in term.anchor for term in template.terms):
                problem = "templates for labels of arcs see h, m, l and r, not the words between (b)"
                raise self.arcs.error(template, problem)
            if any(term.function == VALUE for term in template.terms):
                raise self.arcs.error(template, "templates for labels of arcs take no real values (%value)")

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The term of each column; items have at least one."""
        terms = dict.fromkeys(replace(term, name="") for template in self.arcs for term in template.terms)
        return tuple(terms) or (DIRECTION,)

    @cached_property
    def templates(self) -> TemplateSet:
        """The templates as templates of items, with their texts as arc templates."""
        number = {term: k for k, term in enumerate(self.terms)}
        found = []
        for template in self.arcs:
            terms = tuple(Term(0, number[replace(term, name="")]) for term in template.terms)
            found.append(replace(template, kind="U", terms=terms))
        return replace(self.arcs, templates=tuple(found))

    def corpus(
        self, corpus: Corpus, heads: NDArray[np.int32], columns: Collection[int] | None = None
    ) -> Corpus:
        """Return the arcs to these heads int32[T] as items; columns not in `columns` stay empty."""
        arcs = TreeArcs(corpus.ptr, heads)
        normal = NORMALIZERS[self.normalize]
        empty = Column(np.zeros(corpus.tokens, np.int32), [""])

        @cache
        def view(column: int, function: str, arguments: tuple[str, ...]) -> Column:
            apply = bound(function, arguments, self.arcs.lists, normal)
            cells = corpus.columns[column]
            return Column.merged(cells.ids, [apply(normal(cell)) for cell in cells.strings])

        def column(term: Term) -> Column:
            if not term.sees:
                direction = term.function == "direction"
                names = ("left", "right") if direction else tuple(map(str, BINS))
                return Column((arcs.right if direction else arcs.distance).astype(np.int32), names)
            return _cells(arcs, view(term.column, term.function, term.arguments), term)

        found = (
            column(term) if columns is None or k in columns else empty for k, term in enumerate(self.terms)
        )
        return Corpus(tuple(found), corpus.ptr)


class TreeArcs:
    """The arcs of trees, one per token, int64[T] each: positions in the sentence; 0 is the root.

    ends       the place of each anchor
    right      whether the modifier is right of its head
    between    the number of words between; `distance` is its bin
    origin     where the root would be if one stood before each sentence of the corpus
    """

    def __init__(self, ptr: Int64, heads: NDArray[np.int32]) -> None:
        lengths = np.diff(ptr)
        self.first, self.length = np.repeat(ptr[:-1], lengths), np.repeat(lengths, lengths)
        self.origin = self.first + np.repeat(np.arange(len(lengths)), lengths)
        head, modifier = heads.astype(np.int64), np.arange(len(heads)) - self.first + 1
        left, right = np.minimum(head, modifier), np.maximum(head, modifier)
        self.ends = {"h": head, "m": modifier, "l": left, "r": right}
        self.right, self.between = (modifier > head).astype(np.int64), right - left - 1
        self.distance = np.searchsorted(BINS, self.between, side="right") - 1


def _cells(arcs: TreeArcs, view: Column, term: Term) -> Column:
    """Return what a term reads: cells of `view`, the root, the other end, boundary marks.

    A cell that is spelled like a mark is that mark.
    """
    values, reach = len(view.strings), abs(term.row)
    marks = [boundary(sign * k) for sign in (-1, 1) for k in range(1, reach + 1)]
    start, left, right = arcs.ends[term.anchor], arcs.ends["l"], arcs.ends["r"]
    place = start + term.row
    inside = (place >= 1) & (place <= arcs.length)
    ids = np.full(len(place), values)
    ids[inside] = view.ids[(arcs.first + place - 1)[inside]]
    ids = np.where(place < 0, values + 1 - place, ids)
    ids = np.where(place > arcs.length, values + 1 + reach + place - arcs.length, ids)
    passed = ((start == left) & (place >= right)) | ((start == right) & (place <= left))
    ids[passed & (term.row != 0)] = values + 1
    return Column.merged(ids.astype(np.int32), [*view.strings, ROOT, MIDDLE, *marks])
