"""Open readings: those that find any number of entries at a site, each with a value.

A plain reading finds one value at a site. A column of a feature dict may hold several strings a token, or a
number; a cell behind `%value` is a number, or a vector of them. Such a reading is *open*. It stands alone in its
line, since there is no one value that a join could pair with another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.plan import Stream
from mtlstruct.features.single_valued import Plain
from mtlstruct.features.vocabulary import ABSENT, Vocabulary
from mtlstruct.templates import TemplateSet, Term
from mtlstruct.templates.functions import VALUE

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MISSING = ("_", "")
"""Cells that stand for no number."""

LARGEST = 2.0**100
"""The most that values are multiplied by."""

HIGHEST = float(np.finfo(np.float32).max)
"""The greatest value: what is beyond is infinite in float32."""


@dataclass(frozen=True)
class Entries:
    """What an open reading finds: entries ptr[s]:ptr[s+1] of site (or token) s.

    ids      int32: numbers in a vocabulary, or attributes within a template; ABSENT where not known
    values   float32, None where all are 1
    """

    ptr: Int64
    ids: Int32
    values: NDArray[np.float32] | None = None

    @property
    def width(self) -> int | None:
        """How many entries each site has, if they are as many everywhere."""
        sites = len(self.ptr) - 1
        if sites == 0 or self.ptr[-1] % sites:
            return None
        width = int(self.ptr[-1]) // sites
        return width if bool((np.diff(self.ptr) == width).all()) else None

    @property
    def real(self) -> bool:
        """Whether any value is not 1."""
        return self.values is not None and bool((self.values != 1).any())

    def mapped(self, numbers: Int32) -> Entries:
        """The same with other numbers: numbers[id], of which the last stands for ABSENT."""
        return replace(self, ids=numbers[self.ids])

    def scaled(self, factor: float) -> Entries:
        """The same with every value times a factor."""
        if factor == 1:
            return self
        values = np.ones(len(self.ids), np.float32) if self.values is None else self.values
        return replace(self, values=(factor * values.astype(np.float64)).astype(np.float32))

    def known(self) -> Entries:
        """Without the entries that are not known, those of each site sorted by number."""
        site = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        kept = np.flatnonzero(self.ids != ABSENT)
        order = kept[np.lexsort((self.ids[kept], site[kept]))]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(site[kept], minlength=len(self.ptr) - 1))])
        values = None if self.values is None else self.values[order]
        return Entries(ptr.astype(np.int64), self.ids[order], values)

    def at(self, corpus_ptr: Int64, row: int, tokens: Int64 | None) -> Entries:
        """The entries seen from some tokens (None: all), `row` tokens away; none where that leaves the sentence."""
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
        return Entries(ptr, self.ids[found], None if self.values is None else self.values[found])

    def unit(self) -> float:
        """The factor that makes the mean of ‖x‖² over the sites with an entry 1, as it is for indicators.

        At most LARGEST: weights are multiplied by it in the end, and values that are next to nothing stay so.
        """
        if self.values is None:
            return 1.0
        squares = float(np.einsum("e,e->", self.values, self.values, dtype=np.float64))
        sites = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        firing = len(np.unique(sites[self.values != 0]))
        return min(LARGEST, math.sqrt(firing / squares)) if squares > 0 else 1.0


def is_open(corpus: Corpus, seen: Stream | Term) -> bool:
    """Return whether readings of a stream, or of the stream of a term, are open in this corpus."""
    return seen.function == VALUE or corpus.columns[seen.column].ptr is not None


def check_alone(corpus: Corpus, templates: TemplateSet) -> None:
    """Raise on lines in which an open column does not stand alone, is seen through a function, or is no U line."""
    for template in templates:
        terms = [(line, term) for line in template.readings for term in line.terms if is_open(corpus, term)]
        for line, term in terms:
            if term.function == VALUE:
                continue
            if len(line.terms) > 1 or line.kind != "U" or term.absolute or term.function:
                name = term.name or f"column {term.column}"
                problem = (
                    f"{name} holds several entries or numbers a token: expected %x of it alone in a U line"
                )
                raise templates.error(line, problem)
        if terms and len(template.readings) > 1:
            raise templates.error(template, "lines with numbers or several entries a token cannot be shared")


def learn_strings(corpus: Corpus, stream: Stream, strings: Sequence[str]) -> list[str]:
    """What the vocabulary of an open stream holds: its strings, or the numbers of the dimensions of a vector."""
    if stream.function != VALUE or corpus.columns[stream.column].ptr is not None:
        return list(dict.fromkeys(strings))
    return [str(k) for k in range(_numbers(corpus, stream, strings).shape[1])]


def find(corpus: Corpus, stream: Stream, strings: Sequence[str], known: Vocabulary) -> Entries:
    """Return the entries of an open stream at each token, as numbers in its vocabulary."""
    column = corpus.columns[stream.column]
    if column.ptr is not None:
        ids = known.lookup(strings)[column.ids] if len(strings) else column.ids
        return Entries(column.ptr, ids, column.values)
    table = _numbers(corpus, stream, strings)
    width = table.shape[1]
    if len(known) != width:
        some = strings[0] if strings else ""
        raise IncompatibleError(
            f"column {stream.column}: expected {len(known)} numbers in a cell as in training, got {width} in {some!r}"
        )
    tokens = len(column)
    ids = np.tile(np.arange(width, dtype=np.int32), tokens)
    return Entries(np.arange(tokens + 1, dtype=np.int64) * width, ids, table[column.ids].ravel())


def _numbers(corpus: Corpus, stream: Stream, strings: Sequence[str]) -> NDArray[np.float32]:
    """The numbers of each distinct cell. float32[cells + 1, numbers of a cell]; the last row is that of no cell."""
    rows = [None if cell in MISSING else _parsed(cell) for cell in strings]
    for number, (cell, row) in enumerate(zip(strings, rows, strict=True)):
        if row is not None and not all(abs(value) <= HIGHEST for value in row):
            raise _bad_number(corpus, stream, number, f"a number, got {cell[:50]!r}")
    width = next((len(row) for row in rows if row is not None), 1)
    for number, row in enumerate(rows):
        if row is not None and len(row) != width:
            problem = f"{width} numbers as in the first cell, got {len(row)}"
            raise _bad_number(corpus, stream, number, problem)
    return np.array([row or [0.0] * width for row in [*rows, None]], np.float32).reshape(-1, width)


def _parsed(cell: str) -> list[float]:
    try:
        return [float(number) for number in cell.split(",")]
    except ValueError:
        return [math.nan]


def _bad_number(corpus: Corpus, stream: Stream, number: int, problem: str) -> IncompatibleError:
    token = int(np.flatnonzero(corpus.columns[stream.column].ids == number)[0])
    sentence = int(np.searchsorted(corpus.ptr, token, side="right")) - 1
    line = "" if corpus.lines is None else f", which begins on line {int(corpus.lines[sentence])}"
    return IncompatibleError(
        f"column {stream.column}, read by %{VALUE}: expected {problem} in sentence {sentence + 1}{line}"
    )


Found = Plain | Entries
"""What a reading finds at each site: an attribute within its template, ABSENT if none; or entries of such."""
