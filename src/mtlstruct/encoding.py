"""Templates × corpus × sites -> Encoded, and the FeatureIndex that does the same for text to come.

Feature extraction is integer arithmetic. Every column (seen through a word function) is a *stream* of numbers;
a template's observations, sorted by position, are a chain of *joins*: number of the first cell, then number of
the pair (so far, next cell). A join depends on the distances between cells, not on where the window stands, so
the 21 word bigrams of a window of seven share six joins, and each is computed once per position for all of them.
Only the last arrow, from a join's value to the attribute of template j, belongs to the template.

    column ──function──> stream ──join──> value (shared by templates) ──map_j──> attribute of template j

A template that stands for several lines (TemplateSet.shared) has a *reading* for each: a value and a map of its own,
into the same attributes. Elsewhere a reading is a template. Readings that find several values at a site, or
numbers, are *open* (openings.py): their stream is a list of entries, and they take part in no join.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import threads
from ._kernels import lean_kernel
from .corpus import Corpus
from .linear import LOOKAHEAD, Design, score
from .normalizers import unchanged
from .numbering import ABSENT, Away, PairTable, Vocabulary, rank_by_count
from .openings import Entries, Found, Shape, check_alone, design_of, find, is_open, learn_strings
from .plain import Plain
from .plan import Plan, Stream, Use, make_plan
from .sharing import Known, joint_numbers, size_of, widened
from .structures.base import Parts, Sites
from .support import Support, seen
from .templates import TemplateSet, boundary
from .templates.functions import bound

if TYPE_CHECKING:
    from .arcs import ArcIndex

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Normalizer = Callable[[str], str]
Node = Int32 | Entries
"""What a node sees: a value at each place of the grid, or the entries of an open stream at each token."""


@dataclass(frozen=True)
class Encoded:
    """A corpus in features: a Design for each kind of site, and which row of it each site uses.

    rows[kind] int32[sites of that kind], or None where site i is row i.
    """

    kinds: tuple[str, ...]
    designs: tuple[Design, ...]
    rows: tuple[Int32 | None, ...]
    ptr: Int64
    templates: int

    def supported(self, gold: Int32, labels: int) -> Encoded:
        """The same, where an attribute of the first kind has features with the labels it is seen with in `gold` only.

        For structures whose first kind has a row for each token, and a part for each label.
        """
        first, *rest = self.designs
        found = seen(first.ids, first.ptr, first.values, first.attributes, gold, labels)
        return replace(self, designs=(replace(first, support=found), *rest))

    def outline(self) -> Encoded:
        """The same without the entries of A: what is left when only the layout of the weights matters."""
        designs = tuple(replace(d, ids=d.ids[:0].copy(), ptr=np.zeros(1, np.int64)) for d in self.designs)
        return replace(self, designs=designs)

    @property
    def attributes(self) -> int:
        """Attributes of all kinds."""
        return sum(design.attributes for design in self.designs)

    def score(
        self, weights: Sequence[NDArray[Any]], scale: NDArray[np.float64], widths: Sequence[int] | None = None
    ) -> Parts:
        """A·w for each kind: float32[rows, parts]; `widths` where weights are padded."""
        parts = []
        own = [design.parts(u) for design, u in zip(self.designs, weights, strict=True)]
        for design, u, width in zip(self.designs, weights, widths or own, strict=True):
            out = np.zeros((design.rows, width), np.float32)
            score(design, u, scale, out)
            parts.append(out)
        return tuple(parts)


@dataclass(frozen=True)
class FeatureIndex:
    """All that maps text to attributes: locked vocabularies, join tables, and a map a reading.

    maps[r]    int32[values of its node + 1]: attribute within its template, ABSENT where not kept; the last entry
               stands for a value that is not known
    sizes      int64[m]: attributes of each template
    kinds      the kind of each template
    factors    float64[m]: what training multiplied the values of each template by, None for 1. `encode` gives values
               as they are: the weights of a model have taken the factors in
    support    of the first kind of sites, the labels that each attribute has weights for; None for all
    """

    templates: TemplateSet
    kinds: tuple[str, ...]
    normalize: str
    vocabularies: tuple[Vocabulary, ...]
    tables: tuple[PairTable, ...]
    maps: tuple[Int32, ...]
    sizes: Int64
    factors: NDArray[np.float64] | None = None
    support: Support | None = None

    @cached_property
    def plan(self) -> Plan:
        """The plan of these templates; made from them, so it is not stored."""
        return make_plan(self.templates)

    @cached_property
    def _functions(self) -> list[Normalizer]:
        return stream_functions(self.plan, self.templates, self.normalize)

    def encode(self, corpus: Corpus, sites: Sequence[Sites]) -> Encoded:
        """Features of text that the index may not have seen: unknown ones become the null attribute."""
        check_alone(corpus, self.templates)
        grid = _Grid(corpus, self.plan.before, self.plan.after)
        cells = [
            _cells(corpus, grid, self.plan, stream, _strings(corpus, stream, function), vocabulary)
            for stream, function, vocabulary in zip(
                self.plan.streams, self._functions, self.vocabularies, strict=True
            )
        ]
        values = _joined(self.plan, grid, cells, lambda join, *pairs: self.tables[join].lookup(*pairs))
        encoded = _assemble(self, grid, values, sites)
        if self.support is None:
            return encoded
        first, *rest = encoded.designs
        return replace(encoded, designs=(replace(first, support=self.support), *rest))

    def score(
        self, corpus: Corpus, sites: Sequence[Sites], weights: Sequence[NDArray[Any]]
    ) -> tuple[Parts, tuple[Int32 | None, ...]]:
        """Scores of all sites by the weights of each kind, and the row of each site."""
        encoded = self.encode(corpus, sites)
        return encoded.score(weights, np.ones(len(self.templates))), encoded.rows

    @property
    def found(self) -> Int64:
        """Attributes of each template before any was left out: none is."""
        return self.sizes


def cell_function(normalize: str) -> Normalizer:
    """The function that every cell goes through before it is looked up."""
    from .normalizers import NORMALIZERS

    return NORMALIZERS[normalize]


def stream_functions(plan: Plan, templates: TemplateSet, normalize: str) -> list[Normalizer]:
    """For each stream, what its cells go through: the normal form, then the word function."""
    return [_stream_function(stream, templates, normalize) for stream in plan.streams]


def _stream_function(stream: Stream, templates: TemplateSet, normalize: str) -> Normalizer:
    normal = cell_function(normalize)
    if not stream.function:
        return normal
    function = bound(stream.function, stream.arguments, templates.lists, normal)
    return lambda cell: function(normal(cell))


def encode_training(
    corpus: Corpus,
    templates: TemplateSet,
    sites: Sequence[Sites],
    *,
    min_count: int = 1,
    normalize: str = "none",
    all_arcs: bool = False,
    folder: Path | None = None,
    unit: bool = True,
) -> tuple[Encoded, FeatureIndex | ArcIndex]:
    """Builds the index from a corpus and encodes it.

    all_arcs    of trees, not only the features of gold ones
    folder      of trees, where to keep the encoded arcs in a file, if not in memory
    unit        real values are multiplied by a factor for each template that makes the mean square of its rows 1
    """
    if any(site.letter == "A" for site in sites):
        from .arcs import encode_trees

        return encode_trees(
            corpus, templates, min_count=min_count, normalize=normalize, all_arcs=all_arcs, folder=folder
        )
    return encode_tokens(corpus, templates, sites, min_count=min_count, normalize=normalize, unit=unit)


def encode_tokens(
    corpus: Corpus,
    templates: TemplateSet,
    sites: Sequence[Sites],
    *,
    min_count: int = 1,
    normalize: str = "none",
    unit: bool = True,
) -> tuple[Encoded, FeatureIndex]:
    """The same where sites are tokens: every value that occurs `min_count` times gets an attribute."""
    seen = observe(corpus, templates, sites, normalize)
    templates, plan = seen.templates, seen.plan
    known = widened(templates, plan, (seen.vocabularies, seen.tables))
    maps, sizes = number_attributes(templates, plan, known, seen.counts, min_count)
    factors = _unit_factors(seen) if unit else None
    index = FeatureIndex(
        templates=templates,
        kinds=tuple(seen.site_of[t.kind].kind for t in templates),
        normalize=normalize,
        vocabularies=known[0],
        tables=known[1],
        maps=maps,
        sizes=sizes,
        factors=factors,
    )
    return seen.encoded(index), index


@dataclass(frozen=True)
class Observed:
    """What the templates see in a corpus, numbered by first appearance; which attributes there are is decided later.

    site_of    the sites of each template letter
    spelled    how many entries of each vocabulary are of cells; the others are boundary marks
    values     what each node of the plan sees at each place
    tallies    for some nodes, how often all tokens together see each value, from one anchor
    """

    templates: TemplateSet
    plan: Plan
    grid: _Grid
    site_of: Mapping[str, Sites]
    vocabularies: tuple[Vocabulary, ...]
    spelled: tuple[int, ...]
    tables: tuple[PairTable, ...]
    values: Sequence[Node]
    tallies: Mapping[int, tuple[int, Int64]]

    def at(self, r: int) -> Found:
        """The value of a reading at each of its sites."""
        tokens = self.site_of[self.templates[self.plan.owners[r]].kind].tokens
        return _values_at(self.plan.uses[r], self.grid, self.values, tokens, self.grid.places(tokens))

    def counts(self, r: int, size: int) -> Int64:
        """How often a reading sees each value of its node, of which there are `size`."""
        found, node = self.at(r), self.plan.uses[r].node
        if isinstance(found, Plain):
            if found.places is not self.grid.place or node not in self.tallies:
                return found.counts(size)
            shift, tally = self.tallies[node]
            counts = np.zeros(size, np.int64)
            counts[: len(tally)] = tally
            self.grid.recount(found.node, shift, found.shift, counts)
            return counts
        return np.bincount(found.ids[found.ids != ABSENT], minlength=size).astype(np.int64)

    def encoded(self, index: FeatureIndex) -> Encoded:
        """The corpus in the attributes of an index whose maps are for these values."""
        return _assemble(index, self.grid, self.values, tuple(self.site_of.values()), index.factors)


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
    grid = _Grid(corpus, plan.before, plan.after)
    functions = stream_functions(plan, templates, normalize)
    strings = [_strings(corpus, stream, f) for stream, f in zip(plan.streams, functions, strict=True)]
    distinct = [
        seen if f is unchanged else list(dict.fromkeys(seen))
        for seen, f in zip(strings, functions, strict=True)
    ]
    vocabularies = tuple(
        Vocabulary.of(learn_strings(corpus.columns[stream.column], stream, seen, corpus))
        if is_open(corpus, stream)
        else vocabulary_of(own, plan.marks(stream))
        for stream, seen, own in zip(plan.streams, strings, distinct, strict=True)
    )
    cells = [
        _cells(corpus, grid, plan, stream, seen, vocabulary, same=len(seen) == len(own))
        for stream, seen, own, vocabulary in zip(plan.streams, strings, distinct, vocabularies, strict=True)
    ]
    tables, values = _build_joins(plan, grid, cells)
    spelled = tuple(len(seen) for seen in distinct)
    sizes = [*map(len, vocabularies), *map(len, tables)]
    tallies = _tallies(plan, grid, values, sizes)
    return Observed(templates, plan, grid, site_of, vocabularies, spelled, tables, values, tallies)


class _Grid:
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

    def recount(self, node: Int32, old: int, new: int, counts: Int64) -> None:
        """The counts of what all tokens see from one anchor become those from another."""
        _recount(node, self.start, self.before, self.before + self.after, old, new, counts)


def _tallies(
    plan: Plan, grid: _Grid, values: Sequence[Node], sizes: Sequence[int]
) -> dict[int, tuple[int, Int64]]:
    """Of nodes with several readings, the counts from the middle anchor: others differ at the ends of sentences."""
    anchors: dict[int, list[int]] = {}
    for use in plan.uses:
        anchors.setdefault(use.node, []).append(use.anchor)

    def work(number: int) -> tuple[int, Int64] | None:
        node, found = values[number], sorted(anchors.get(number, []))
        if len(found) < 2 or isinstance(node, Entries):
            return None
        middle = found[len(found) // 2]
        return middle, Plain(node, grid.place, middle).counts(sizes[number])

    tallies = threads.in_order(work, range(plan.nodes))
    return {number: tally for number, tally in enumerate(tallies) if tally is not None}


def _strings(corpus: Corpus, stream: Stream, function: Normalizer) -> list[str]:
    """What the stream makes of each distinct value of its column."""
    strings = corpus.columns[stream.column].strings
    return list(strings) if function is unchanged else [function(cell) for cell in strings]


def vocabulary_of(strings: Sequence[str], marks: Sequence[int]) -> Vocabulary:
    """Distinct values of a stream, then the boundary marks (a cell that spells a mark is that mark, as in CRF++)."""
    edges = [boundary(k) for k in marks]
    spelled = set(edges).intersection(strings)
    return Vocabulary.of([*strings, *(edge for edge in edges if edge not in spelled)])


def _cells(
    corpus: Corpus,
    grid: _Grid,
    plan: Plan,
    stream: Stream,
    strings: Sequence[str],
    vocabulary: Vocabulary,
    same: bool = False,
) -> Node:
    """A stream on the grid; the entries of an open one. same: the vocabulary begins with just these strings."""
    column = corpus.columns[stream.column]
    if is_open(corpus, stream):
        return find(column, stream, strings, vocabulary, corpus)
    ids = column.ids if same else np.append(vocabulary.lookup(strings), np.int32(ABSENT))[column.ids]
    marks = _marks(vocabulary, plan.marks(stream))
    return grid.fixed(ids, stream.absolute, marks) if stream.absolute else grid.spread(ids, marks)


def _marks(vocabulary: Vocabulary, marks: list[int]) -> dict[int, int]:
    return dict(zip(marks, vocabulary.lookup([boundary(k) for k in marks]).tolist(), strict=True))


def _build_joins(plan: Plan, grid: _Grid, cells: list[Node]) -> tuple[tuple[PairTable, ...], list[Node]]:
    """All joins, and the tables that find them again."""
    tables: list[PairTable | None] = [None] * len(plan.joins)

    def build(number: int, *pairs: Any) -> None:
        tables[number], _ = PairTable.build(*pairs)

    values = _joined(plan, grid, cells, build)
    return tuple(t for t in tables if t is not None), values


def _joined(
    plan: Plan, grid: _Grid, cells: list[Node], number: Callable[[int, Int32, Int32, Away, Int32], object]
) -> list[Node]:
    """The cells, then all joins: number(join, left, right, away, out) waits only for its left side.

    That was begun before it.
    """
    values: list[Node | None] = [*cells, *([None] * len(plan.joins))]
    done = [Event() for _ in plan.joins]
    out = np.empty(
        (len(plan.joins), len(grid.room)), np.int32
    )  # at once: the system hands out large pages for it

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


def number_attributes(
    templates: TemplateSet, plan: Plan, known: Known, count: Callable[[int, int], Int64], min_count: int
) -> tuple[tuple[Int32, ...], Int64]:
    """The maps of all readings and the sizes of all templates; count(r, size) as Observed.counts has it."""

    def work(j: int) -> tuple[list[Int32], int]:
        readings = plan.readings(j)
        if len(readings) == 1:
            seen = count(readings[0], size_of(plan, readings[0], known))
            map_ = np.full(len(seen) + 1, ABSENT, np.int32)
            return [map_], rank_by_count(seen, min_count, map_[:-1])[1]
        numbers = joint_numbers(templates[j], plan, readings, known)
        counts = np.zeros(1 + max(int(number.max(initial=-1)) for number in numbers), np.int64)
        for r, number in zip(readings, numbers, strict=True):
            np.add.at(counts, number, count(r, len(number)))
        ranks, kept = rank_by_count(counts, min_count)
        return [np.append(ranks[number], np.int32(ABSENT)) for number in numbers], kept

    results = threads.in_order(work, range(len(templates)))
    maps = (map_ for found, _ in results for map_ in found)
    return tuple(maps), np.array([kept for _, kept in results], np.int64)


def _values_at(use: Use, grid: _Grid, values: Sequence[Node], tokens: Int64 | None, places: Int64) -> Found:
    """The value of a template's node at each site, which are at these tokens, and these places of the grid."""
    if use.node == ABSENT:
        return Plain(np.zeros_like(grid.room), places, 0)
    node = values[use.node]
    if isinstance(node, Entries):
        return node.at(grid.ptr, use.anchor, tokens)
    return Plain(node, places, use.anchor)


def _unit_factors(seen: Observed) -> NDArray[np.float64]:
    """1 for templates of indicators; for real values see Entries.unit."""
    factors = np.ones(len(seen.templates))
    for r, j in enumerate(seen.plan.owners):
        found = seen.at(r)
        if isinstance(found, Entries) and found.real:
            factors[j] = found.unit()
    return factors


def _assemble(
    index: FeatureIndex,
    grid: _Grid,
    values: Sequence[Node],
    sites: Sequence[Sites],
    factors: NDArray[np.float64] | None = None,
) -> Encoded:
    designs, rows = [], []
    for site in sites:
        design, row = _design(index, grid, values, site, factors)
        designs.append(design)
        rows.append(row)
    kinds = tuple(site.kind for site in sites)
    return Encoded(kinds, tuple(designs), tuple(rows), grid.ptr, len(index.templates))


def _design(
    index: FeatureIndex,
    grid: _Grid,
    values: Sequence[Node],
    site: Sites,
    factors: NDArray[np.float64] | None,
) -> tuple[Design, Int32 | None]:
    templates = np.array([j for j, kind in enumerate(index.kinds) if kind == site.kind], np.int32)
    chosen = set(templates.tolist())
    readings = [r for r, j in enumerate(index.plan.owners) if j in chosen]
    blocks = np.array([index.plan.owners[r] for r in readings], np.int32)
    places = grid.places(site.tokens)

    def attributes(r: int) -> Found:
        found = _values_at(index.plan.uses[r], grid, values, site.tokens, places).mapped(index.maps[r])
        if isinstance(found, Plain):
            return found
        return found.scaled(1.0 if factors is None else float(factors[index.plan.owners[r]]))

    open_ = any(isinstance(node, Entries) for node in values) or grid.gaps
    shapes = threads.in_order(lambda r: Shape.of(attributes(r)), readings) if open_ else None
    design = design_of(attributes, readings, shapes, blocks, index.sizes[templates], templates, len(places))
    if not site.shared:
        return design, None
    shape = len(places), len(blocks)
    table, row_of = _distinct_rows(design.ids[: math.prod(shape)].reshape(shape))
    ids = np.full(table.size + LOOKAHEAD, design.attributes, design.ids.dtype)
    ids[: table.size] = table.ravel()
    return replace(design, ids=ids, ptr=np.arange(len(table) + 1, dtype=np.int64) * len(blocks)), row_of


def _distinct_rows(table: NDArray[np.integer]) -> tuple[NDArray[np.integer], Int32]:
    """Sites with equal observations share a row; at least one row, so that kernels have something to look at."""
    if len(table) == 0:
        return np.zeros((1, table.shape[1]), table.dtype), np.zeros(0, np.int32)
    row = np.zeros(len(table), np.int32)
    for ids in table.T:
        if ids.dtype != np.int32:
            ids = np.unique(ids, return_inverse=True)[1].astype(
                np.int32
            )  # dense, so that any id fits 32 bits
        _, row = PairTable.build(row, np.ascontiguousarray(ids))
    first = np.flatnonzero(
        np.diff(np.maximum.accumulate(row), prepend=np.int32(-1))
    )  # numbers rise where one is new
    return table[first], row


@lean_kernel
def _recount(node, start, before, marks, old, new, counts):  # type: ignore[no-untyped-def]
    """A window moves along each sentence: what it leaves at one end, and what it comes to at the other."""
    for i in range(len(start) - 1):
        first = start[i] + before
        length = start[i + 1] - start[i] - marks
        last = first + length - 1
        for k in range(min(abs(new - old), length)):
            gone = node[first + old + k if new > old else last + old - k]
            come = node[last + new - k if new > old else first + new + k]
            if gone >= 0:
                counts[gone] -= 1
            if come >= 0:
                counts[come] += 1
