"""Feature extraction: the numbered values of all templates in a corpus.

Extraction is integer arithmetic. Every column, seen through a function of cells, is a *stream* of
numbers; a line is a chain of *joins*: the number of the first cell, then the number of the pair
(value so far, next cell). A join depends on the distances between cells, not on the position of the
window, so the 21 word bigrams of a window of seven share six joins, and each is computed once per
position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.plan import Plan, Stream, make_plan
from mtlstruct.features.values import (
    MultiValued,
    SingleValued,
    Values,
    check_multi_valued,
    is_multi_valued,
    multi_values,
    vocabulary_strings,
)
from mtlstruct.features.vocabulary import ABSENT, Int32, Int64, PairTable, Vocabulary
from mtlstruct.formats.normalization import NORMALIZERS
from mtlstruct.structures.base import Sites
from mtlstruct.templates import TemplateSet, boundary
from mtlstruct.templates.functions import bound

Normalizer = Callable[[str], str]
NodeValues = Int32 | MultiValued
"""Values of a node: one at each position of the grid, or the entries of each token."""


@dataclass(frozen=True)
class Extraction:
    """The values of all templates in a corpus, numbered by first appearance.

    site_of     the sites of each template letter
    n_strings   number of entries of each vocabulary that are cells; the others are boundary marks.
                Empty where the vocabularies were given
    values      the values of each node of the plan
    """

    templates: TemplateSet
    plan: Plan
    grid: Grid
    site_of: Mapping[str, Sites]
    vocabularies: tuple[Vocabulary, ...]
    n_strings: tuple[int, ...]
    tables: tuple[PairTable, ...]
    values: Sequence[NodeValues]

    def at(self, line: int) -> Values:
        """Return the values of a line at its sites."""
        kind = self.templates[self.plan.template_of[line]].kind
        use, tokens = self.plan.uses[line], self.site_of[kind].tokens
        places = self.grid.place if tokens is None else self.grid.place[tokens]
        if use.node == ABSENT:
            return SingleValued(np.zeros(int(self.grid.start[-1]), np.int32), places, 0)
        node = self.values[use.node]
        if isinstance(node, MultiValued):
            return node.at(self.grid.ptr, use.anchor, tokens)
        return SingleValued(node, places, use.anchor)

    def counts(self, line: int, size: int) -> Int64:
        """Return how often each of the `size` values of a line's node occurs at its sites."""
        return self.at(line).counts(size)


def extract(corpus: Corpus, templates: TemplateSet, sites: Sequence[Sites], normalize: str) -> Extraction:
    """Number all values of the templates in a corpus."""
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    site_of = {site.letter: site for site in sites}
    for template in templates:
        if template.kind not in site_of:
            known = ", ".join(site_of)
            problem = f"expected templates of the kinds {known} for this task, got {template.kind}"
            raise templates.error(template, problem)
    check_multi_valued(corpus, templates)
    plan = make_plan(templates)
    grid = Grid(corpus, plan.before, plan.after)
    vocabularies, n_strings, cells = [], [], []
    for stream, function in zip(plan.streams, stream_functions(plan, templates, normalize), strict=True):
        strings = list(map(function, corpus.columns[stream.column].strings))
        distinct = list(dict.fromkeys(strings))
        if is_multi_valued(corpus, stream):
            vocabulary = Vocabulary.of(vocabulary_strings(corpus, stream, strings))
        else:
            vocabulary = vocabulary_of(distinct, plan.marks(stream))
        cells.append(cells_of(corpus, grid, plan, stream, strings, vocabulary))
        vocabularies.append(vocabulary)
        n_strings.append(len(distinct))
    tables: list[PairTable] = [PairTable(np.zeros(0, np.int64))] * len(plan.joins)

    def build(join: int, left: Int32, right: Int32, out: Int32) -> None:
        tables[join], _ = PairTable.build(left, right, out)

    values = joined(plan, grid, cells, build)
    return Extraction(
        templates, plan, grid, site_of, tuple(vocabularies), tuple(n_strings), tuple(tables), values
    )


class Grid:
    """Sentences padded with boundary marks, so that windows need no bounds checks.

    start   int64[S + 1]: where the cells of each sentence begin, padding included
    place   int64[T]: the position of each token
    gaps    whether some token has no cell in some column
    """

    def __init__(self, corpus: Corpus, before: int, after: int) -> None:
        self.before, self.after, self.ptr = before, after, corpus.ptr
        self.gaps = any(column.ids.min(initial=0) == ABSENT for column in corpus.columns)
        lengths = np.diff(corpus.ptr)
        self.start = np.concatenate([[0], np.cumsum(lengths + before + after)]).astype(np.int64)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        self.place = np.arange(corpus.tokens) + before + sentence * (before + after)

    def spread(self, ids: Int32, marks: Mapping[int, int]) -> Int32:
        """Return token ids on the grid, with marks[-k] before and marks[k] after each sentence."""
        out = np.empty(self.start[-1], np.int32)
        out[self.place] = ids
        for k in range(1, self.before + 1):
            out[self.start[:-1] + self.before - k] = marks[-k]
        for k in range(1, self.after + 1):
            out[self.start[1:] - self.after - 1 + k] = marks[k]
        return out

    def fixed(self, ids: Int32, position: int, marks: Mapping[int, int]) -> Int32:
        """Return at each cell the id of one token of its sentence (1 the first, -1 the last)."""
        lengths = np.diff(self.ptr)
        inside = lengths >= abs(position)
        at = (self.ptr[:-1] + position - 1 if position > 0 else self.ptr[1:] + position)[inside]
        sign = 1 if position > 0 else -1
        ids_of = np.empty(len(lengths), np.int32)
        ids_of[inside] = ids[at]
        ids_of[~inside] = [marks[sign * (abs(position) - n)] for n in lengths[~inside].tolist()]
        return np.repeat(ids_of, np.diff(self.start))

    def shifted(self, values: Int32, gap: int) -> Int32:
        """Return the value `gap` cells to the right of each cell, ABSENT beyond its sentence."""
        if gap == 0:
            return values
        out = np.empty_like(values)
        out[:-gap] = values[gap:]
        for k in range(1, gap + 1):
            out[self.start[1:] - k] = ABSENT
        return out


def stream_functions(plan: Plan, templates: TemplateSet, normalize: str) -> list[Normalizer]:
    """Return for each stream the normal form of cells followed by the function."""
    normal = NORMALIZERS[normalize]

    def function_of(stream: Stream) -> Normalizer:
        if not stream.function:
            return normal
        function = bound(stream.function, stream.arguments, templates.lists, normal)
        return lambda cell: function(normal(cell))

    return [function_of(stream) for stream in plan.streams]


def vocabulary_of(strings: Sequence[str], marks: Sequence[int]) -> Vocabulary:
    """Return strings and boundary marks; a cell spelled like a mark is that mark (CRF++)."""
    edges = [boundary(k) for k in marks]
    spelled = set(edges).intersection(strings)
    return Vocabulary.of([*strings, *(edge for edge in edges if edge not in spelled)])


def cells_of(
    corpus: Corpus, grid: Grid, plan: Plan, stream: Stream, strings: Sequence[str], vocabulary: Vocabulary
) -> NodeValues:
    """Return the values of a stream; strings: its function of each distinct cell of the column."""
    if is_multi_valued(corpus, stream):
        return multi_values(corpus, stream, strings, vocabulary)
    column = corpus.columns[stream.column]
    ids = np.append(vocabulary.lookup(strings), np.int32(ABSENT))[column.ids]
    edges = plan.marks(stream)
    marks = dict(zip(edges, vocabulary.lookup([boundary(k) for k in edges]).tolist(), strict=True))
    return grid.fixed(ids, stream.absolute, marks) if stream.absolute else grid.spread(ids, marks)


def joined(
    plan: Plan, grid: Grid, cells: list[NodeValues], number: Callable[[int, Int32, Int32, Int32], object]
) -> list[NodeValues]:
    """Return the values of all nodes; number(join, left, right, out) numbers the pairs of a join.

    Joins of as many cells are independent, and run on several threads.
    """
    values: list[Any] = [*cells, *np.empty((len(plan.joins), int(grid.start[-1])), np.int32)]
    shifts = list(dict.fromkeys((join.stream, join.gap) for join in plan.joins))
    shifted = threads.in_order(lambda key: grid.shifted(values[key[0]], key[1]), shifts)
    right = dict(zip(shifts, shifted, strict=True))

    def work(k: int) -> None:
        join = plan.joins[k]
        number(k, values[join.left], right[join.stream, join.gap], values[len(cells) + k])

    for joins in plan.levels:
        threads.in_order(work, joins)
    return values
