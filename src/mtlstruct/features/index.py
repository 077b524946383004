"""Templates × corpus × sites -> Encoded, and the FeatureIndex that repeats it on new text.

The values of templates are numbered in `extraction`, for all templates together. Only the last
arrow, from the value of a node to the attribute of template j, belongs to the template.

    column ──function──> stream ──join──> value (shared by templates) ──map──> attribute

A template of several lines (TemplateSet.shared) has a value and a map per line, into the same
attributes. Lines with several entries or numbers per site (values.py) take part in no join.

Rows of A are uniform if each line has the same number of entries at every site, as vectors have,
and ragged otherwise. In both, the entries of a row are sorted, except null attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.extraction import (
    Extraction,
    Grid,
    NodeValues,
    Normalizer,
    cells_of,
    extract,
    joined,
    stream_functions,
    strings_of,
    values_at,
)
from mtlstruct.features.plan import Plan, make_plan
from mtlstruct.features.shared_templates import NodeTables, joint_numbers, size_of, widened
from mtlstruct.features.values import MultiValued, SingleValued, Values, check_multi_valued
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary, rank_by_count
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.label_support import LabelSupport
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.templates import TemplateSet

if TYPE_CHECKING:
    from mtlstruct.features.arcs import ArcIndex


Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MIN_UNIFORM_SHARE = 0.25
"""Rows with a smaller share of known entries are ragged; a ragged entry takes twice the memory."""


@dataclass(frozen=True)
class FeatureIndex:
    """The map from text to attributes: vocabularies, join tables, and a map per line.

    kinds      the kind of each template
    maps       for each line int32[values of its node + 1]: the attribute within its template,
               ABSENT if there is none; the last entry is for unknown values
    sizes      int64[m]: attributes of each template
    factors    float64[m]: factors of the values of each template in training; None for 1. `encode`
               does not apply them, since they are part of the weights of a model
    support    the labels that each attribute of the first kind has weights for; None for all
    """

    templates: TemplateSet
    kinds: tuple[str, ...]
    normalize: str
    vocabularies: tuple[Vocabulary, ...]
    tables: tuple[PairTable, ...]
    maps: tuple[Int32, ...]
    sizes: Int64
    factors: NDArray[np.float64] | None = None
    support: LabelSupport | None = None

    @cached_property
    def plan(self) -> Plan:
        """The plan of these templates, which is not stored."""
        return make_plan(self.templates)

    @cached_property
    def _functions(self) -> list[Normalizer]:
        return stream_functions(self.plan, self.templates, self.normalize)

    def encode(self, corpus: Corpus, sites: Sequence[Sites]) -> Encoded:
        """Return the features of a corpus; unknown ones become the null attribute."""
        check_multi_valued(corpus, self.templates)
        grid = Grid(corpus, self.plan.before, self.plan.after)
        cells = [
            cells_of(corpus, grid, self.plan, stream, strings_of(corpus, stream, function), vocabulary)
            for stream, function, vocabulary in zip(
                self.plan.streams, self._functions, self.vocabularies, strict=True
            )
        ]
        values = joined(self.plan, grid, cells, lambda join, *pairs: self.tables[join].lookup(*pairs))
        encoded = _assemble(self, grid, values, sites)
        if self.support is None:
            return encoded
        first, *rest = encoded.designs
        return replace(encoded, designs=(first.with_support(self.support), *rest))

    def layout(self, kind: str) -> WeightLayout:
        """Return the layout of the weights of a kind of sites."""
        templates = np.array([j for j, own in enumerate(self.kinds) if own == kind], np.int32)
        return WeightLayout(np.append(0, np.cumsum(self.sizes[templates])).astype(np.int64), templates)

    def score(
        self, corpus: Corpus, sites: Sequence[Sites], weights: Sequence[NDArray[Any]]
    ) -> tuple[Parts, tuple[Int32 | None, ...]]:
        """Return the scores of all sites by the weights of each kind, and the row of each site."""
        encoded = self.encode(corpus, sites)
        return encoded.score(weights, np.ones(len(self.templates))), encoded.rows

    def known_cells(self, corpus: Corpus, column: int) -> NDArray[np.bool_] | None:
        """Return whether each cell of a column is known; None if no template reads them."""
        known = [
            vocabulary.lookup(strings_of(corpus, stream, function)) != ABSENT
            for stream, function, vocabulary in zip(
                self.plan.streams, self._functions, self.vocabularies, strict=True
            )
            if (stream.column, stream.function, stream.absolute) == (column, "", 0)
        ]
        return np.logical_or.reduce(known)[corpus.columns[column].ids] if known else None


def encode_training(
    corpus: Corpus,
    templates: TemplateSet,
    sites: Sequence[Sites],
    *,
    min_count: int = 1,
    normalize: str = "none",
    unit: bool = True,
) -> tuple[Encoded, FeatureIndex | ArcIndex]:
    """Build the index of a corpus and encode it.

    min_count   occurrences that a value needs to get an attribute
    unit        multiply real values by a factor per template that makes the mean square of rows 1
    """
    if any(site.letter == "A" for site in sites):
        from mtlstruct.features.arcs import encode_trees

        return encode_trees(corpus, templates, min_count=min_count, normalize=normalize)
    found = extract(corpus, templates, sites, normalize)
    templates, plan = found.templates, found.plan
    known = widened(templates, plan, (found.vocabularies, found.tables))
    maps, sizes = number_attributes(templates, plan, known, found.counts, min_count)
    factors = _unit_factors(found) if unit else None
    kinds = tuple(found.site_of[t.kind].kind for t in templates)
    index = FeatureIndex(templates, kinds, normalize, *known, maps, sizes, factors)
    return encoded_by(index, found), index


def encoded_by(index: FeatureIndex, found: Extraction) -> Encoded:
    """Return an extracted corpus in the attributes of an index with maps of its values."""
    return _assemble(index, found.grid, found.values, tuple(found.site_of.values()), index.factors)


def number_attributes(
    templates: TemplateSet,
    plan: Plan,
    known: NodeTables,
    count: Callable[[int, int], Int64],
    min_count: int,
) -> tuple[tuple[Int32, ...], Int64]:
    """Return the maps of all lines and the sizes of all templates; `count` is Extraction.counts."""

    def work(j: int) -> tuple[list[Int32], int]:
        lines = plan.lines_of(j)
        if len(lines) == 1:
            counts = count(lines[0], size_of(plan, lines[0], known))
            ranks, size = rank_by_count(counts, min_count)
            return [np.append(ranks, np.int32(ABSENT))], size
        numbers = joint_numbers(templates[j], plan, lines, known)
        counts = np.zeros(1 + max(int(number.max(initial=-1)) for number in numbers), np.int64)
        for line, number in zip(lines, numbers, strict=True):
            np.add.at(counts, number, count(line, len(number)))
        ranks, size = rank_by_count(counts, min_count)
        return [np.append(ranks[number], np.int32(ABSENT)) for number in numbers], size

    results = threads.in_order(work, range(len(templates)))
    maps = (map_ for found, _ in results for map_ in found)
    return tuple(maps), np.array([size for _, size in results], np.int64)


def _unit_factors(found: Extraction) -> NDArray[np.float64]:
    """Return 1 for templates of indicators, MultiValued.unit for real values."""
    factors = np.ones(len(found.templates))
    for line, j in enumerate(found.plan.template_of):
        values = found.at(line)
        if isinstance(values, MultiValued) and values.real:
            factors[j] = values.unit()
    return factors


def _assemble(
    index: FeatureIndex,
    grid: Grid,
    values: Sequence[NodeValues],
    sites: Sequence[Sites],
    factors: NDArray[np.float64] | None = None,
) -> Encoded:
    pairs = [_design(index, grid, values, site, factors) for site in sites]
    designs, rows = (tuple(some) for some in zip(*pairs, strict=True))
    kinds = tuple(site.kind for site in sites)
    return Encoded(kinds, designs, rows, grid.ptr, len(index.templates))


def _design(
    index: FeatureIndex,
    grid: Grid,
    values: Sequence[NodeValues],
    site: Sites,
    factors: NDArray[np.float64] | None,
) -> tuple[Design, Int32 | None]:
    layout, places = index.layout(site.kind), grid.places(site.tokens)

    def attributes(line: int) -> Values:
        use = index.plan.uses[line]
        found = values_at(use, grid, values, site.tokens, places).mapped(index.maps[line])
        if factors is None or isinstance(found, SingleValued):
            return found
        return found.scaled(float(factors[index.plan.template_of[line]]))

    lines = [
        LineSource(j, first, partial(attributes, line))
        for j, first in zip(layout.templates.tolist(), layout.block_ptr.tolist(), strict=False)
        for line in index.plan.lines_of(j)
    ]
    varying = any(isinstance(node, MultiValued) for node in values) or grid.gaps
    shapes = threads.in_order(lambda line: Shape.of(line.attributes()), lines) if varying else None
    design = assemble_design(lines, shapes, layout, len(places))
    return share_rows(design) if site.shared else (design, None)


@dataclass(frozen=True)
class Shape:
    """Size of a line: entries per site (None: varying), known entries, any value not 1."""

    width: int | None
    filled: int
    real: bool

    @classmethod
    def of(cls, values: Values) -> Shape:
        """Return the shape of the values of a line."""
        if isinstance(values, MultiValued):
            return cls(values.width, int(np.count_nonzero(values.ids != ABSENT)), values.real)
        return cls(1, int(np.count_nonzero(values.ids() != ABSENT)), False)


@dataclass(frozen=True)
class LineSource:
    """A line: its template, the first attribute of that, and its attributes at all sites.

    `attributes` is called whenever they are needed: those of all lines together are as large as A.
    """

    block: int
    offset: int
    attributes: Callable[[], Values]


_Rows = tuple[NDArray[np.integer], Int64, Int32, NDArray[np.float32]]
"""ids, ptr, blocks and values of a Design."""


def assemble_design(
    lines: Sequence[LineSource], shapes: Sequence[Shape] | None, layout: WeightLayout, sites: int
) -> Design:
    """Return A of one kind, from lines in template order; no shapes: one entry per site."""
    null = layout.attributes
    dtype = np.int32 if null < np.iinfo(np.int32).max else np.int64
    shapes = [Shape(1, sites, False) for _ in lines] if shapes is None else shapes
    widths = [shape.width for shape in shapes if shape.width is not None]
    filled = sum(shape.filled for shape in shapes)
    real = any(shape.real for shape in shapes)
    if len(widths) == len(shapes) and filled >= MIN_UNIFORM_SHARE * sites * sum(widths):
        rows = _uniform_rows(lines, widths, sites, null, dtype, real)
    else:
        rows = _ragged_rows(lines, filled, sites, null, dtype, real)
    return Design(*rows, layout)


def _uniform_rows(
    lines: Sequence[LineSource], widths: Sequence[int], sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """Return rows in which each line has as many slots as it has entries at a site."""
    ends = np.cumsum(widths).tolist()
    slots = ends[-1] if ends else 0
    ids: NDArray[np.integer] = np.empty(sites * slots + PREFETCH_DISTANCE, dtype)
    ids[sites * slots :] = null
    table = ids[: sites * slots].reshape(sites, slots)
    values = np.ones((sites, slots) if real else (0, 0), np.float32)

    def write(number: int) -> None:
        line, width = lines[number], widths[number]
        found, columns = line.attributes(), slice(ends[number] - width, ends[number])
        if isinstance(found, SingleValued):
            found.write(line.offset, null, table[:, ends[number] - 1])
            return
        local = found.ids.reshape(sites, width)
        table[:, columns] = np.where(local == ABSENT, null, local + dtype(line.offset))
        if real and found.values is not None:
            values[:, columns] = found.values.reshape(sites, width)

    threads.in_order(write, range(len(lines)))
    blocks = np.repeat(np.array([line.block for line in lines], np.int32), widths)
    _sort_within_blocks(table, blocks, values if real else None)
    return ids, np.arange(sites + 1, dtype=np.int64) * slots, blocks, values.ravel()


def _sort_within_blocks(
    table: NDArray[np.integer], blocks: Int32, values: NDArray[np.float32] | None
) -> None:
    """Sort the entries of each block in each row, whichever line they come from."""
    cuts = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1))
    for first, last in pairwise(cuts.tolist()):
        part = table[:, first:last]
        if last - first == 1 or bool((part[:, 1:] >= part[:, :-1]).all()):
            continue
        order = np.argsort(part, axis=1, kind="stable")
        part[:] = np.take_along_axis(part, order, 1)
        if values is not None:
            values[:, first:last] = np.take_along_axis(values[:, first:last], order, 1)


def _ragged_rows(
    lines: Sequence[LineSource], filled: int, sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """Return rows of the known entries of each line in turn."""
    counts = np.zeros(sites, np.int64)
    for line in lines:
        counts += _counts(line.attributes())
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids: NDArray[np.integer] = np.full(filled + PREFETCH_DISTANCE, null, dtype)
    blocks = np.empty(filled, np.int32)
    values = np.ones(filled if real else 0, np.float32)
    cursor = ptr[:-1].copy()
    for line in lines:
        found = line.attributes()
        if isinstance(found, MultiValued):
            known = found.known()
            local, lengths = known.ids, np.diff(known.ptr)
            at = np.repeat(cursor - known.ptr[:-1], lengths) + np.arange(len(local))
            cursor += lengths
            if real and known.values is not None:
                values[at] = known.values
        else:
            local = found.ids()
            firing = np.flatnonzero(local != ABSENT)
            local, at = local[firing], cursor[firing]
            cursor[firing] += 1
        ids[at] = local + dtype(line.offset)
        blocks[at] = line.block
    return ids, ptr, blocks, values


def _counts(found: Values) -> Int64:
    """Return the number of known entries of each site."""
    if isinstance(found, SingleValued):
        firing: Int64 = (found.ids() != ABSENT).astype(np.int64)
        return firing
    site = np.repeat(np.arange(len(found.ptr) - 1), np.diff(found.ptr))
    counts: Int64 = np.bincount(site[found.ids != ABSENT], minlength=len(found.ptr) - 1)
    return counts


def share_rows(design: Design) -> tuple[Design, Int32]:
    """Return a uniform design with each distinct row once, and the row of each site."""
    width = len(design.blocks)
    table = design.ids[: design.ptr[-1]].reshape(design.rows, width)
    row = np.zeros(len(table), np.int32)
    for ids in table.T:
        if ids.dtype != np.int32:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int32)
        _, row = PairTable.build(row, np.ascontiguousarray(ids))
    first = np.flatnonzero(
        np.diff(np.maximum.accumulate(row), prepend=np.int32(-1))
    )  # numbers rise at new rows
    distinct = table[first] if len(table) else np.zeros((1, width), table.dtype)
    ids = padded_ids(distinct.ravel(), design.layout.attributes)
    return replace(design, ids=ids, ptr=np.arange(len(distinct) + 1, dtype=np.int64) * width), row
