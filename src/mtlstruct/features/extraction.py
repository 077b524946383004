"""What templates see in a corpus, numbered: streams on a grid, and the joins of a plan.

Feature extraction is integer arithmetic. Every column (seen through a word function) is a *stream* of numbers;
a template's observations, sorted by position, are a chain of *joins*: number of the first cell, then number of
the pair (so far, next cell). A join depends on the distances between cells, not on where the window stands, so
the 21 word bigrams of a window of seven share six joins, and each is computed once per position for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.multi_valued import Entries, Found, check_alone, find, is_open, learn_strings
from mtlstruct.features.plan import Plan, Stream, Use, make_plan
from mtlstruct.features.single_valued import Plain
from mtlstruct.features.vocabulary import ABSENT, Away, PairTable, Vocabulary
from mtlstruct.formats.normalization import NORMALIZERS, unchanged
from mtlstruct.structures.base import Sites
from mtlstruct.templates import TemplateSet, boundary
from mtlstruct.templates.functions import bound

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Normalizer = Callable[[str], str]
Node = Int32 | Entries
"""What a node sees: a value at each place of the grid, or the entries of an open stream at each token."""


@dataclass(frozen=True)
class Observed:
    """What the templates see in a corpus, numbered by first appearance; which attributes there are is decided later.

    site_of    the sites of each template letter
    spelled    how many entries of each vocabulary are of cells; the others are boundary marks
    values     what each node of the plan sees at each place
    """

    templates: TemplateSet
    plan: Plan
    grid: Grid
    site_of: Mapping[str, Sites]
    vocabularies: tuple[Vocabulary, ...]
    spelled: tuple[int, ...]
    tables: tuple[PairTable, ...]
    values: Sequence[Node]

    def at(self, r: int) -> Found:
        """The value of a reading at each of its sites."""
        tokens = self.site_of[self.templates[self.plan.owners[r]].kind].tokens
        return values_at(self.plan.uses[r], self.grid, self.values, tokens, self.grid.places(tokens))

    def counts(self, r: int, size: int) -> Int64:
        """How often a reading sees each value of its node, of which there are `size`."""
        found = self.at(r)
        if isinstance(found, Plain):
            return found.counts(size)
        return np.bincount(found.ids[found.ids != ABSENT], minlength=size).astype(np.int64)


def observe(corpus: Corpus, templates: TemplateSet, sites: Sequence[Sites], normalize: str) -> Observed:
    """Numbers all that the templates see."""
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    site_of = {site.letter: site for site in sites}
    for template in templates:
        if template.kind not in site_of:
            known = ", ".join(site_of)
            problem = f"this task has no sites for {template.kind} templates, expected {known}"
            raise templates.error(template, problem)
    check_alone(corpus, templates)
    plan = make_plan(templates)
    grid = Grid(corpus, plan.before, plan.after)
    functions = stream_functions(plan, templates, normalize)
    strings = [strings_of(corpus, stream, f) for stream, f in zip(plan.streams, functions, strict=True)]
    distinct = [
        seen if f is unchanged else list(dict.fromkeys(seen))
        for seen, f in zip(strings, functions, strict=True)
    ]
    vocabularies = tuple(
        Vocabulary.of(learn_strings(corpus, stream, seen))
        if is_open(corpus, stream)
        else vocabulary_of(own, plan.marks(stream))
        for stream, seen, own in zip(plan.streams, strings, distinct, strict=True)
    )
    cells = [
        cells_of(corpus, grid, plan, stream, seen, vocabulary, same=len(seen) == len(own))
        for stream, seen, own, vocabulary in zip(plan.streams, strings, distinct, vocabularies, strict=True)
    ]
    tables, values = _build_joins(plan, grid, cells)
    spelled = tuple(len(seen) for seen in distinct)
    return Observed(templates, plan, grid, site_of, vocabularies, spelled, tables, values)


class Grid:
    """Sentences laid out with room for boundary marks on both sides, so that windows never need a test.

    place   int64[T]: where token t lies in the grid
    gaps    whether some token has no cell in some column
    room    int32[grid]: how many cells of its own sentence's stretch lie to the right of a cell
    """

    def __init__(self, corpus: Corpus, before: int, after: int) -> None:
        self.before, self.after, self.ptr = before, after, corpus.ptr
        self.gaps = any(column.ids.min(initial=0) == ABSENT for column in corpus.columns)
        lengths = np.diff(corpus.ptr)
        stretch = lengths + before + after
        self.start = np.concatenate([[0], np.cumsum(stretch)]).astype(np.int64)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        self.place = np.arange(corpus.tokens) + before + sentence * (before + after)
        ends = np.repeat(self.start[1:], stretch)
        self.room = (ends - 1 - np.arange(self.start[-1])).astype(np.int32)

    def places(self, tokens: Int64 | None) -> Int64:
        """Where some tokens lie; None for all."""
        found: Int64 = self.place if tokens is None else self.place[tokens]
        return found

    def spread(self, ids: Int32, marks: Mapping[int, int]) -> Int32:
        """Token ids on the grid, with marks[-k] before and marks[k] after each sentence."""
        out = np.empty(self.start[-1], np.int32)
        out[self.place] = ids
        for k in range(1, self.before + 1):
            out[self.start[:-1] + self.before - k] = marks[-k]
        for k in range(1, self.after + 1):
            out[self.start[1:] - self.after - 1 + k] = marks[k]
        return out

    def fixed(self, ids: Int32, place: int, marks: Mapping[int, int]) -> Int32:
        """The id at one place of each sentence (1 the first token, -1 the last), all over its stretch."""
        lengths = np.diff(self.ptr)
        inside = lengths >= abs(place)
        at = (self.ptr[:-1] + place - 1 if place > 0 else self.ptr[1:] + place)[inside]
        sign = 1 if place > 0 else -1
        ids_of = np.empty(len(lengths), np.int32)
        ids_of[inside] = ids[at]
        ids_of[~inside] = [marks[sign * (abs(place) - n)] for n in lengths[~inside].tolist()]
        return np.repeat(ids_of, np.diff(self.start))


def stream_functions(plan: Plan, templates: TemplateSet, normalize: str) -> list[Normalizer]:
    """For each stream, what its cells go through: the normal form, then the word function."""
    normal = NORMALIZERS[normalize]

    def function_of(stream: Stream) -> Normalizer:
        if not stream.function:
            return normal
        function = bound(stream.function, stream.arguments, templates.lists, normal)
        return lambda cell: function(normal(cell))

    return [function_of(stream) for stream in plan.streams]


def strings_of(corpus: Corpus, stream: Stream, function: Normalizer) -> list[str]:
    """What the stream makes of each distinct value of its column."""
    strings = corpus.columns[stream.column].strings
    return list(strings) if function is unchanged else [function(cell) for cell in strings]


def vocabulary_of(strings: Sequence[str], marks: Sequence[int]) -> Vocabulary:
    """Distinct values of a stream, then the boundary marks (a cell that spells a mark is that mark, as in CRF++)."""
    edges = [boundary(k) for k in marks]
    spelled = set(edges).intersection(strings)
    return Vocabulary.of([*strings, *(edge for edge in edges if edge not in spelled)])


def cells_of(
    corpus: Corpus,
    grid: Grid,
    plan: Plan,
    stream: Stream,
    strings: Sequence[str],
    vocabulary: Vocabulary,
    same: bool = False,
) -> Node:
    """A stream on the grid; the entries of an open one. same: the vocabulary begins with just these strings."""
    if is_open(corpus, stream):
        return find(corpus, stream, strings, vocabulary)
    column = corpus.columns[stream.column]
    ids = column.ids if same else np.append(vocabulary.lookup(strings), np.int32(ABSENT))[column.ids]
    marks = _marks(vocabulary, plan.marks(stream))
    return grid.fixed(ids, stream.absolute, marks) if stream.absolute else grid.spread(ids, marks)


def _marks(vocabulary: Vocabulary, marks: list[int]) -> dict[int, int]:
    return dict(zip(marks, vocabulary.lookup([boundary(k) for k in marks]).tolist(), strict=True))


def _build_joins(plan: Plan, grid: Grid, cells: list[Node]) -> tuple[tuple[PairTable, ...], list[Node]]:
    """All joins, and the tables that find them again."""
    tables: list[PairTable | None] = [None] * len(plan.joins)

    def build(number: int, *pairs: Any) -> None:
        tables[number], _ = PairTable.build(*pairs)

    values = joined(plan, grid, cells, build)
    return tuple(t for t in tables if t is not None), values


def joined(
    plan: Plan, grid: Grid, cells: list[Node], number: Callable[[int, Int32, Int32, Away, Int32], object]
) -> list[Node]:
    """The cells, then all joins: number(join, left, right, away, out) waits only for its left side.

    That was begun before it.
    """
    values: list[Node | None] = [*cells, *([None] * len(plan.joins))]
    done = [Event() for _ in plan.joins]
    out = np.empty((len(plan.joins), len(grid.room)), np.int32)  # at once: it comes in large pages

    def work(k: int) -> None:
        join = plan.joins[k]
        try:
            if join.left >= len(cells):
                done[join.left - len(cells)].wait()
            left, right = values[join.left], cells[join.stream]
            if left is None:
                return  # whoever was to find it raises
            assert isinstance(left, np.ndarray)
            assert isinstance(right, np.ndarray)  # check_alone
            number(k, left, right, (join.gap, grid.room), out[k])
            values[len(cells) + k] = out[k]
        finally:
            done[k].set()

    threads.in_order(work, plan.in_waves)
    return [v for v in values if v is not None]


def values_at(use: Use, grid: Grid, values: Sequence[Node], tokens: Int64 | None, places: Int64) -> Found:
    """The value of a template's node at each site, which are at these tokens, and these places of the grid."""
    if use.node == ABSENT:
        return Plain(np.zeros_like(grid.room), places, 0)
    node = values[use.node]
    if isinstance(node, Entries):
        return node.at(grid.ptr, use.anchor, tokens)
    return Plain(node, places, use.anchor)
