"""Arcs of known trees as items, for labels of arcs.

Labels are predicted after the trees. Then every token has one arc, so an arc is an item: each
distinct term of the templates becomes a column with the cell that the term reads from the token's
arc, and a template joins columns of one row. Index, structure and solvers of items serve labels of
arcs.

Rejected: terms of the words between, of which an arc has none or several.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.templates import Template, TemplateSet, Term
from mtlstruct.templates.arc_terms import BINS, MIDDLE, ROOT
from mtlstruct.templates.functions import bound
from mtlstruct.templates.terms import NO_COLUMN, boundary

Int64 = NDArray[np.int64]

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

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The term of each column; items have at least one."""
        terms = dict.fromkeys(replace(term, name="") for template in self.arcs for term in template.terms)
        return tuple(terms) or (DIRECTION,)

    @cached_property
    def templates(self) -> TemplateSet:
        """The templates as templates of items, with their texts as arc templates."""
        number = {term: k for k, term in enumerate(self.terms)}
        return replace(self.arcs, templates=tuple(_of_items(template, number) for template in self.arcs))

    def corpus(
        self, corpus: Corpus, heads: NDArray[np.int32], columns: Collection[int] | None = None
    ) -> Corpus:
        """Return the arcs to these heads int32[T] as items; columns not in `columns` stay empty."""
        arcs = _TreeArcs(corpus, heads)
        empty = Column(np.zeros(corpus.tokens, np.int32), [""])

        @cache
        def view(column: int, function: str, arguments: tuple[str, ...]) -> Column:
            return self._view(corpus.columns[column], function, arguments)

        def column(term: Term) -> Column:
            if not term.sees:
                return arcs.direction() if term.function == "direction" else arcs.distance()
            return arcs.column(view(term.column, term.function, term.arguments), term)

        found = (
            column(term) if columns is None or k in columns else empty for k, term in enumerate(self.terms)
        )
        return Corpus(tuple(found), corpus.ptr)

    def _view(self, column: Column, function: str, arguments: tuple[str, ...]) -> Column:
        """Return a function of the normal form of a column of words."""
        normal = NORMALIZERS[self.normalize]
        apply = bound(function, arguments, self.arcs.lists, normal)
        return Column.merged(column.ids, [apply(normal(cell)) for cell in column.strings])


def _of_items(template: Template, number: dict[Term, int]) -> Template:
    terms = tuple(Term(0, number[replace(term, name="")]) for term in template.terms)
    return replace(template, kind="U", terms=terms)


class _TreeArcs:
    """Ends of the arcs of all tokens, int64[T] each: positions in the sentence, 0 is the root."""

    def __init__(self, corpus: Corpus, heads: NDArray[np.int32]) -> None:
        lengths = np.diff(corpus.ptr)
        self.first = np.repeat(corpus.ptr[:-1], lengths)
        self.length = np.repeat(lengths, lengths)
        head, modifier = heads.astype(np.int64), np.arange(corpus.tokens) - self.first + 1
        left, right = np.minimum(head, modifier), np.maximum(head, modifier)
        self.ends = {"h": head, "m": modifier, "l": left, "r": right}

    def direction(self) -> Column:
        """Return the side of the head on which the modifier is."""
        return Column((self.ends["m"] > self.ends["h"]).astype(np.int32), ["left", "right"])

    def distance(self) -> Column:
        """Return the bin of the number of words between."""
        between = self.ends["r"] - self.ends["l"] - 1
        ids = np.searchsorted(BINS, between, side="right") - 1
        return Column(ids.astype(np.int32), [str(low) for low in BINS])

    def column(self, view: Column, term: Term) -> Column:
        """Return what a term reads: cells of `view`, the root, the other end, boundary marks.

        A cell that is spelled like a mark is that mark.
        """
        steps = range(1, abs(term.row) + 1)
        marks = [ROOT, MIDDLE, *(boundary(-k) for k in steps), *(boundary(k) for k in steps)]
        return Column.merged(self._cells(view, term), [*view.strings, *marks])

    def _cells(self, column: Column, term: Term) -> NDArray[np.int32]:
        """Return ids of the column; then the root, the other end, marks before and after."""
        values = len(column.strings)
        start = self.ends[term.anchor]
        place = start + term.row
        inside = (place >= 1) & (place <= self.length)
        ids = np.full(len(place), values, np.int64)
        ids[inside] = column.ids[(self.first + place - 1)[inside]]
        ids = np.where(place < 0, values + 1 - place, ids)
        ids = np.where(place > self.length, values + 1 + abs(term.row) + place - self.length, ids)
        if term.row:
            left, right = self.ends["l"], self.ends["r"]
            passed = ((start == left) & (place >= right)) | ((start == right) & (place <= left))
            ids[passed] = values + 1
        return ids.astype(np.int32)
