"""Values of lines at their sites: one value per site, or any number of entries.

Single-valued lines are looked up in kernels. A column of feature dicts may hold several strings or
a number per token; a cell read by `%value` is a number or a vector. Such a multi-valued line has
one term, because a join needs one value per site.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.corpus import Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.plan import Stream
from mtlstruct.features.vocabulary import ABSENT, Int32, Int64, Vocabulary
from mtlstruct.templates import TemplateSet, Term
from mtlstruct.templates.functions import VALUE

IDENTITY = np.zeros(0, np.int32)

MISSING = ("_", "")
"""Cells without a number."""

MAX_FACTOR = 2.0**100
"""The largest factor that values are multiplied by."""

MAX_VALUE = float(np.finfo(np.float32).max)


class SingleValued(NamedTuple):
    """Values of a line: site s has numbers[node[places[s] + shift]].

    node      int32: the values of a node of the plan on the grid, ABSENT where there is none
    numbers   int32: an attribute for each value, the last one for ABSENT; empty for the values
              themselves
    """

    node: Int32
    places: Int64
    shift: int
    numbers: Int32 = IDENTITY

    def mapped(self, numbers: Int32) -> SingleValued:
        """Return the attributes of the values."""
        return self._replace(numbers=numbers)

    def ids(self) -> Int32:
        """Return the value or attribute of each site."""
        found: Int32 = self.node[self.places + self.shift]
        return self.numbers[found] if len(self.numbers) else found  # the last number is that of ABSENT

    def counts(self, size: int) -> Int64:
        """Return how often each of `size` values occurs, before any mapping."""
        counts = np.zeros(size, np.int64)
        _count(self.node, self.places, self.shift, counts)
        return counts

    def shape(self) -> tuple[int | None, int, bool]:
        """Return entries per site, known entries, and whether any value is not 1."""
        return 1, len(self.sites()), False

    def sites(self) -> Int64:
        """Return the site of each known entry."""
        return np.flatnonzero(self.ids() != ABSENT)

    def known(self) -> tuple[Int32, None]:
        """Return the known entries, and None: all values are 1."""
        found = self.ids()
        return found[found != ABSENT], None

    def write(self, offset: int, null: int, column: NDArray[np.integer]) -> None:
        """Write the attribute of each site plus an offset to a column of A; null for ABSENT."""
        _write(self.node, self.places, self.shift, self.numbers, offset, null, column)


@dataclass(frozen=True)
class MultiValued:
    """Values of a line: site (or token) s has entries ptr[s]:ptr[s+1].

    ids      int32: numbers in a vocabulary, or attributes within a template; ABSENT if unknown
    values   float32; None if all are 1
    """

    ptr: Int64
    ids: Int32
    values: NDArray[np.float32] | None = None

    @property
    def real(self) -> bool:
        """Whether any value is not 1."""
        return self.values is not None and bool((self.values != 1).any())

    def mapped(self, numbers: Int32) -> MultiValued:
        """Return the entries with ids numbers[id]; the last number is that of ABSENT."""
        return replace(self, ids=numbers[self.ids])

    def counts(self, size: int) -> Int64:
        """Return how often each of `size` values occurs."""
        return np.bincount(self.ids[self.ids != ABSENT], minlength=size).astype(np.int64)

    def scaled(self, factor: float) -> MultiValued:
        """Return the entries with every value times a factor."""
        if factor == 1:
            return self
        values = np.ones(len(self.ids), np.float32) if self.values is None else self.values
        return replace(self, values=(factor * values.astype(np.float64)).astype(np.float32))

    def shape(self) -> tuple[int | None, int, bool]:
        """Return entries per site (None: varying), known entries, whether any value is not 1."""
        lengths = np.diff(self.ptr)
        width = int(lengths[0]) if len(lengths) and bool((lengths == lengths[0]).all()) else None
        return width, int(np.count_nonzero(self.ids != ABSENT)), self.real

    def sites(self) -> Int64:
        """Return the site of each known entry."""
        found: Int64 = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))[self.ids != ABSENT]
        return found

    def known(self) -> tuple[Int32, NDArray[np.float32] | None]:
        """Return the known entries and their values, sorted by number within each site."""
        kept = np.flatnonzero(self.ids != ABSENT)
        order = kept[np.lexsort((self.ids[kept], self.sites()))]
        return self.ids[order], None if self.values is None else self.values[order]

    def at(self, corpus_ptr: Int64, row: int, tokens: Int64 | None) -> MultiValued:
        """Return the entries `row` tokens from some tokens (None: all); none outside a sentence."""
        if row == 0 and tokens is None:
            return self
        lengths = np.diff(corpus_ptr)
        here = np.arange(int(corpus_ptr[-1])) if tokens is None else tokens
        first, last = (np.repeat(edge, lengths)[here] for edge in (corpus_ptr[:-1], corpus_ptr[1:]))
        inside = (here + row >= first) & (here + row < last)
        found, starts = entries(self.ptr, (here + row)[inside])
        counts = np.zeros(len(here), np.int64)
        counts[inside] = np.diff(starts)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return MultiValued(ptr, self.ids[found], None if self.values is None else self.values[found])

    def unit(self) -> float:
        """Return the factor that makes the mean of ‖x‖² over sites with an entry 1."""
        if self.values is None:
            return 1.0
        squares = float(np.einsum("e,e->", self.values, self.values, dtype=np.float64))
        sites = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        firing = len(np.unique(sites[self.values != 0]))
        return unit_factor(squares, firing)


def unit_factor(squares: float, count: float) -> float:
    """Return the factor that makes the mean of `count` squares 1, given their sum.

    It is at most MAX_FACTOR, because weights are multiplied by it in the end.
    """
    return min(MAX_FACTOR, math.sqrt(count / squares)) if squares > 0 else 1.0


Values = SingleValued | MultiValued
"""Values of a line at each site, or its attributes within its template."""


# ---------------------------------------------------------------- multi-valued streams


def is_multi_valued(corpus: Corpus, stream: Stream | Term) -> bool:
    """Return whether a stream, or the stream of a term, is multi-valued in this corpus."""
    return stream.function == VALUE or corpus.columns[stream.column].ptr is not None


def check_multi_valued(corpus: Corpus, templates: TemplateSet) -> None:
    """Raise on multi-valued terms that are not alone in a U line, or have a function."""
    for template in templates:
        terms = [
            (line, term) for line in template.members for term in line.terms if is_multi_valued(corpus, term)
        ]
        for line, term in terms:
            if term.function == VALUE:
                continue
            if len(line.terms) > 1 or line.kind != "U" or term.absolute or term.function:
                name = term.name or f"column {term.column}"
                problem = (
                    f"{name} holds several entries or numbers per token: expected %x of it alone in a U line"
                )
                raise templates.error(line, problem)
        if terms and len(template.members) > 1:
            raise templates.error(
                template, "lines with numbers or several entries per token cannot be shared"
            )


def vocabulary_strings(corpus: Corpus, stream: Stream, strings: Sequence[str]) -> list[str]:
    """Return the vocabulary of a multi-valued stream: strings, or dimensions of a vector."""
    if stream.function != VALUE or corpus.columns[stream.column].ptr is not None:
        return list(dict.fromkeys(strings))
    return [str(k) for k in range(cell_numbers(corpus, stream.column, strings).shape[1])]


def multi_values(
    corpus: Corpus, stream: Stream, strings: Sequence[str], vocabulary: Vocabulary
) -> MultiValued:
    """Return the entries of a multi-valued stream at each token, as numbers in its vocabulary."""
    column = corpus.columns[stream.column]
    if column.ptr is not None:
        ids = vocabulary.lookup(strings)[column.ids] if len(strings) else column.ids
        return MultiValued(column.ptr, ids, column.values)
    table = cell_numbers(corpus, stream.column, strings)
    width = table.shape[1]
    if len(vocabulary) != width:
        got = f"{width} in {strings[0] if strings else ''!r}"
        raise IncompatibleError(
            f"column {stream.column}: expected {len(vocabulary)} numbers in a cell as in training, got {got}"
        )
    tokens = len(column)
    ids = np.tile(np.arange(width, dtype=np.int32), tokens)
    return MultiValued(np.arange(tokens + 1, dtype=np.int64) * width, ids, table[column.ids].ravel())


def cell_numbers(corpus: Corpus, column: int, strings: Sequence[str]) -> NDArray[np.float32]:
    """Return the numbers of each distinct cell: float32[cells + 1, numbers]; last: no cell."""
    rows = [None if cell in MISSING else _parsed(cell) for cell in strings]
    for number, (cell, row) in enumerate(zip(strings, rows, strict=True)):
        if row is not None and not all(abs(value) <= MAX_VALUE for value in row):
            raise _bad_number(corpus, column, number, f"a number, got {cell[:50]!r}")
    width = next((len(row) for row in rows if row is not None), 1)
    for number, row in enumerate(rows):
        if row is not None and len(row) != width:
            problem = f"{width} numbers as in the first cell, got {len(row)}"
            raise _bad_number(corpus, column, number, problem)
    return np.array([row or [0.0] * width for row in [*rows, None]], np.float32).reshape(-1, width)


def _parsed(cell: str) -> list[float]:
    try:
        return [float(number) for number in cell.split(",")]
    except ValueError:
        return [math.nan]


def _bad_number(corpus: Corpus, column: int, number: int, problem: str) -> IncompatibleError:
    token = int(np.flatnonzero(corpus.columns[column].ids == number)[0])
    sentence = int(np.searchsorted(corpus.ptr, token, side="right")) - 1
    line = "" if corpus.lines is None else f", which begins on line {int(corpus.lines[sentence])}"
    return IncompatibleError(
        f"column {column}, read by %{VALUE}: expected {problem} in sentence {sentence + 1}{line}"
    )


# ---------------------------------------------------------------- kernels


@kernel
def _count(node, places, shift, counts):
    for place in places:
        value = node[place + shift]
        if value >= 0:
            counts[value] += 1


@kernel
def _write(node, places, shift, numbers, offset, null, column):
    for s in range(len(places)):
        found = numbers[node[places[np.uint64(s)] + shift]]  # the last number is that of ABSENT
        column[np.uint64(s)] = null if found < 0 else found + offset
