"""Open readings: those that find any number of entries at a site, each with a value, and rows of A made of them.

A plain reading finds one value at a site. A column of a feature dict may hold several strings a token, or a
number; a cell behind `%value` is a number, or a vector of them. Such a reading is *open*. It stands alone in its
line, since there is no one value that a join could pair with another.

Rows of A are uniform where each reading has the same number of entries at every site, as vectors have, and
ragged elsewhere. In both, the entries of a row are sorted, but for null attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Column, Corpus, entries
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.plan import Stream
from mtlstruct.features.single_valued import Columns, Plain
from mtlstruct.features.vocabulary import ABSENT, Vocabulary
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.functions import VALUE

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MISSING = ("_", "")
"""Cells that stand for no number."""

LARGEST = 2.0**100
"""The most that values are multiplied by."""

HIGHEST = float(np.finfo(np.float32).max)
"""The greatest value: what is beyond is infinite in float32."""

SPARSE = 0.25
"""Rows of which less than this would be filled are ragged: an entry of a ragged row takes twice the memory."""


SPAN = 8192
"""Sites that one thread writes the entries of before it takes others."""


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


def is_open(corpus: Corpus, stream: Stream) -> bool:
    """Whether readings of a stream are open, in this corpus."""
    return stream.function == VALUE or corpus.columns[stream.column].ptr is not None


def check_alone(corpus: Corpus, templates: TemplateSet) -> None:
    """Refuses lines in which an open column does not stand alone, is seen through a function, or is no U line."""
    for template in templates:
        for reading in template.readings:
            for term in reading.terms:
                if term.function == VALUE or corpus.columns[term.column].ptr is None:
                    continue
                name = term.name or f"column {term.column}"
                if len(reading.terms) > 1 or reading.kind != "U" or term.absolute or term.function:
                    problem = f"{name} holds several entries or numbers a token: expected %x of it alone in a U line"
                    raise templates.error(reading, problem)
        if len(template.readings) > 1 and any(
            term.function == VALUE or corpus.columns[term.column].ptr is not None
            for reading in template.readings
            for term in reading.terms
        ):
            raise templates.error(template, "lines with numbers or several entries a token cannot be shared")


def learn_strings(column: Column, stream: Stream, strings: Sequence[str], corpus: Corpus) -> list[str]:
    """What the vocabulary of an open stream holds: its strings, or the numbers of the dimensions of a vector."""
    if stream.function != VALUE or column.ptr is not None:
        return list(dict.fromkeys(strings))
    return [str(k) for k in range(_numbers(column, stream, strings, corpus).shape[1])]


def find(
    column: Column, stream: Stream, strings: Sequence[str], known: Vocabulary, corpus: Corpus
) -> Entries:
    """The entries of an open stream at each token, as numbers in its vocabulary."""
    if column.ptr is not None:
        ids = known.lookup(strings)[column.ids] if len(strings) else column.ids
        return Entries(column.ptr, ids, column.values)
    table = _numbers(column, stream, strings, corpus)
    width = table.shape[1]
    if len(known) != width:
        some = strings[0] if strings else ""
        raise IncompatibleError(
            f"column {stream.column}: expected {len(known)} numbers in a cell as in training, got {width} in {some!r}"
        )
    tokens = len(column)
    ids = np.tile(np.arange(width, dtype=np.int32), tokens)
    return Entries(np.arange(tokens + 1, dtype=np.int64) * width, ids, table[column.ids].ravel())


def _numbers(column: Column, stream: Stream, strings: Sequence[str], corpus: Corpus) -> NDArray[np.float32]:
    """The numbers of each distinct cell. float32[cells + 1, numbers of a cell]; the last row is that of no cell."""
    rows = [None if cell in MISSING else _parsed(cell) for cell in strings]
    for number, (cell, row) in enumerate(zip(strings, rows, strict=True)):
        if row is not None and not all(abs(value) <= HIGHEST for value in row):
            raise _bad_number(column, stream, number, f"a number, got {cell[:50]!r}", corpus)
    width = next((len(row) for row in rows if row is not None), 1)
    for number, row in enumerate(rows):
        if row is not None and len(row) != width:
            raise _bad_number(
                column, stream, number, f"{width} numbers as in the first cell, got {len(row)}", corpus
            )
    return np.array([row or [0.0] * width for row in [*rows, None]], np.float32).reshape(-1, width)


def _parsed(cell: str) -> list[float]:
    try:
        return [float(number) for number in cell.split(",")]
    except ValueError:
        return [math.nan]


def _bad_number(
    column: Column, stream: Stream, number: int, problem: str, corpus: Corpus
) -> IncompatibleError:
    token = int(np.flatnonzero(column.ids == number)[0])
    sentence = int(np.searchsorted(corpus.ptr, token, side="right")) - 1
    line = "" if corpus.lines is None else f", which begins on line {int(corpus.lines[sentence])}"
    return IncompatibleError(
        f"column {stream.column}, read by %{VALUE}: expected {problem} in sentence {sentence + 1}{line}"
    )


# ---------------------------------------------------------------- rows of A


Found = Plain | Entries
"""What a reading finds at each site: an attribute within its template, ABSENT if none; or entries of such."""

Find = Callable[[int], Found]
"""What reading r finds. Asked again where it is wanted again: all answers together would be as large as A."""


@dataclass(frozen=True)
class Shape:
    """What a reading takes: entries a site (None if they vary), those that are known, whether any value is not 1."""

    width: int | None
    filled: int
    real: bool

    @classmethod
    def of(cls, found: Found) -> Shape:
        """The shape of what was found."""
        if isinstance(found, Entries):
            return cls(found.width, int(np.count_nonzero(found.ids != ABSENT)), found.real)
        return cls(1, int(np.count_nonzero(found.ids() != ABSENT)), False)


def design_of(
    attributes: Find,
    readings: Sequence[int],
    shapes: Sequence[Shape] | None,
    blocks: Int32,
    sizes: Int64,
    templates: Int32,
    sites: int,
) -> Design:
    """A of one kind from what each reading finds.

    shapes      of each reading; None: each finds one attribute at a site
    blocks      the template of each reading, in rising order
    sizes       attributes of each of `templates`, which are those of this kind
    """
    block_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    null = int(block_ptr[-1])
    dtype = np.int32 if null < np.iinfo(np.int32).max else np.int64
    first = dict(zip(templates.tolist(), block_ptr.tolist(), strict=False))
    jobs = [_Job(r, j, first[j]) for r, j in zip(readings, blocks.tolist(), strict=True)]
    shapes = [Shape(1, sites, False) for _ in readings] if shapes is None else shapes
    widths = [shape.width for shape in shapes if shape.width is not None]
    filled = sum(shape.filled for shape in shapes)
    uniform = len(widths) == len(shapes) and filled >= SPARSE * sites * sum(widths)
    real = any(shape.real for shape in shapes)
    if uniform:
        rows = _uniform(attributes, jobs, widths, sites, null, dtype, real)
    else:
        rows = _ragged(attributes, jobs, filled, sites, null, dtype, real)
    return Design(*rows, block_ptr, templates)


@dataclass(frozen=True)
class _Job:
    """A reading, its template, and the first attribute of that."""

    reading: int
    block: int
    offset: int


_Rows = tuple[NDArray[np.integer], Int64, Int32, NDArray[np.float32]]
"""ids, ptr, blocks and values of a Design."""


def _uniform(
    attributes: Find,
    jobs: Sequence[_Job],
    widths: Sequence[int],
    sites: int,
    null: int,
    dtype: type,
    real: bool,
) -> _Rows:
    """Each reading has as many slots as it has entries at a site."""
    ends = np.cumsum(widths).tolist()
    slots = ends[-1] if ends else 0
    ids: NDArray[np.integer] = np.empty(sites * slots + LOOKAHEAD, dtype)
    ids[sites * slots :] = null
    table = ids[: sites * slots].reshape(sites, slots)
    values = np.ones((sites, slots) if real else (0, 0), np.float32)

    def open_(number: int) -> tuple[int, int, Plain] | None:
        """Writes what an open reading has found; a plain one is left for later: its column and first attribute."""
        job, width = jobs[number], widths[number]
        some, own = attributes(job.reading), slice(ends[number] - width, ends[number])
        if isinstance(some, Plain):
            return ends[number] - 1, job.offset, some
        local = some.ids.reshape(sites, width)
        table[:, own] = np.where(local == ABSENT, null, local + dtype(job.offset))
        if real and some.values is not None:
            values[:, own] = some.values.reshape(sites, width)
        return None

    plain = [some for some in threads.in_order(open_, range(len(jobs))) if some is not None]
    if plain:
        where, offsets, found = zip(*plain, strict=True)
        columns = Columns(found, where, offsets, null)
        threads.in_order(lambda k: columns.write(table[k : k + SPAN], k), range(0, sites, SPAN))
    blocks = np.repeat(np.array([job.block for job in jobs], np.int32), widths)
    _sort_within(table, blocks, values if real else None)
    return ids, np.arange(sites + 1, dtype=np.int64) * slots, blocks, values.ravel()


def _sort_within(table: NDArray[np.integer], blocks: Int32, values: NDArray[np.float32] | None) -> None:
    """Sorts the entries of each block in each row: rows can then be merged, whichever reading found an entry."""
    cuts = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1))
    for first, last in pairwise(cuts.tolist()):
        part = table[:, first:last]
        if last - first == 1 or bool((part[:, 1:] >= part[:, :-1]).all()):
            continue
        if values is None:
            part.sort(axis=1)
            continue
        order = np.argsort(part, axis=1, kind="stable")
        part[:] = np.take_along_axis(part, order, 1)
        values[:, first:last] = np.take_along_axis(values[:, first:last], order, 1)


def _ragged(
    attributes: Find, jobs: Sequence[_Job], filled: int, sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """The entries of each reading go behind those of the readings before it, site by site."""
    counts = np.zeros(sites, np.int64)
    for job in jobs:
        counts += _counts(attributes(job.reading))
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids: NDArray[np.integer] = np.full(filled + LOOKAHEAD, null, dtype)
    blocks = np.empty(filled, np.int32)
    values = np.ones(filled if real else 0, np.float32)
    cursor = ptr[:-1].copy()
    for job in jobs:
        some = attributes(job.reading)
        if isinstance(some, Entries):
            known = some.known()
            local, lengths = known.ids, np.diff(known.ptr)
            at = np.repeat(cursor - known.ptr[:-1], lengths) + np.arange(len(local))
            cursor += lengths
            if real and known.values is not None:
                values[at] = known.values
        else:
            local = some.ids()
            firing = np.flatnonzero(local != ABSENT)
            local, at = local[firing], cursor[firing]
            cursor[firing] += 1
        ids[at] = local + dtype(job.offset)
        blocks[at] = job.block
    return ids, ptr, blocks, values


def _counts(found: Found) -> Int64:
    """How many entries each site has that are known."""
    if not isinstance(found, Entries):
        firing: Int64 = (found.ids() != ABSENT).astype(np.int64)
        return firing
    site = np.repeat(np.arange(len(found.ptr) - 1), np.diff(found.ptr))
    counts: Int64 = np.bincount(site[found.ids != ABSENT], minlength=len(found.ptr) - 1)
    return counts
