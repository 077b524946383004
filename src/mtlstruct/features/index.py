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
    Normalizer,
    cells_of,
    extract,
    joined,
    stream_functions,
)
from mtlstruct.features.plan import Plan, make_plan
from mtlstruct.features.shared_templates import NodeTables, joint_numbers, size_of, widened
from mtlstruct.features.values import MultiValued, SingleValued, Values, check_multi_valued
from mtlstruct.features.vocabulary import ABSENT, Int32, Int64, PairTable, Vocabulary, rank_by_count
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.label_support import LabelSupport
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.templates import TemplateSet

if TYPE_CHECKING:
    from mtlstruct.features.arcs import ArcIndex

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
            cells_of(corpus, grid, self.plan, stream, self._strings(corpus, s), self.vocabularies[s])
            for s, stream in enumerate(self.plan.streams)
        ]
        values = joined(self.plan, grid, cells, lambda join, *pairs: self.tables[join].lookup(*pairs))
        site_of = {site.letter: site for site in sites}
        known = self.vocabularies, (), self.tables
        encoded = encoded_by(self, Extraction(self.templates, self.plan, grid, site_of, *known, values))
        if self.support is None:
            return encoded
        first, *rest = encoded.designs
        return replace(encoded, designs=(first.with_support(self.support), *rest))

    def _strings(self, corpus: Corpus, stream: int) -> list[str]:
        """Return the function of a stream of each distinct cell of its column."""
        return list(map(self._functions[stream], corpus.columns[self.plan.streams[stream].column].strings))

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
            self.vocabularies[s].lookup(self._strings(corpus, s)) != ABSENT
            for s, stream in enumerate(self.plan.streams)
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

        return encode_trees(corpus, templates, min_count=min_count, normalize=normalize, unit=unit)
    found = extract(corpus, templates, sites, normalize)
    templates, plan = found.templates, found.plan
    known = widened(templates, plan, (found.vocabularies, found.tables))
    maps, sizes = number_attributes(templates, plan, known, found.counts, min_count)
    factors = _unit_factors(found) if unit else None
    kinds = tuple(found.site_of[t.kind].kind for t in templates)
    index = FeatureIndex(templates, kinds, normalize, *known, maps, sizes, factors)
    return encoded_by(index, found, factors), index


def encoded_by(index: FeatureIndex, found: Extraction, factors: NDArray[np.float64] | None = None) -> Encoded:
    """Return an extracted corpus in the attributes of an index with maps of its values."""
    sites = tuple(found.site_of.values())
    pairs = [_design(index, found, site, factors) for site in sites]
    designs, rows = (tuple(some) for some in zip(*pairs, strict=True))
    kinds = tuple(site.kind for site in sites)
    return Encoded(kinds, designs, rows, found.grid.ptr, len(index.templates))


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


Line = tuple[int, int, Callable[[], Values]]
"""A line: its template, the first attribute of that, and its attributes at all sites.

They are computed whenever they are needed: those of all lines together are as large as A.
"""


def _design(
    index: FeatureIndex, found: Extraction, site: Sites, factors: NDArray[np.float64] | None
) -> tuple[Design, Int32 | None]:
    """Return A of one kind, and the row of each site if rows are shared."""
    layout = index.layout(site.kind)
    sites = len(found.grid.place if site.tokens is None else site.tokens)

    def attributes(line: int) -> Values:
        own = found.at(line).mapped(index.maps[line])
        if factors is None or isinstance(own, SingleValued):
            return own
        return own.scaled(float(factors[found.plan.template_of[line]]))

    lines: list[Line] = [
        (j, first, partial(attributes, line))
        for j, first in zip(layout.templates.tolist(), layout.block_ptr.tolist(), strict=False)
        for line in found.plan.lines_of(j)
    ]
    shapes: list[tuple[int | None, int, bool]] = [(1, sites, False)] * len(lines)
    if found.grid.gaps or any(isinstance(node, MultiValued) for node in found.values):
        shapes = threads.in_order(lambda line: line[2]().shape(), lines)
    filled, real = sum(shape[1] for shape in shapes), any(shape[2] for shape in shapes)
    widths = [width for width, _, _ in shapes if width is not None]
    if len(widths) == len(lines) and filled >= MIN_UNIFORM_SHARE * sites * sum(widths):
        design = _uniform_rows(lines, widths, sites, real, layout)
    else:
        design = _ragged_rows(lines, filled, sites, real, layout)
    return share_rows(design) if site.shared else (design, None)


def _uniform_rows(
    lines: Sequence[Line], widths: Sequence[int], sites: int, real: bool, layout: WeightLayout
) -> Design:
    """Return rows in which each line has as many slots as it has entries at a site."""
    ends = np.cumsum(widths).tolist()
    slots, null = ends[-1] if ends else 0, layout.attributes
    ids = np.empty(sites * slots + PREFETCH_DISTANCE, layout.id_type)
    ids[sites * slots :] = null
    table = ids[: sites * slots].reshape(sites, slots)
    values = np.ones((sites, slots) if real else (0, 0), np.float32)

    def write(number: int) -> None:
        _, offset, attributes = lines[number]
        found, columns = attributes(), slice(ends[number] - widths[number], ends[number])
        if isinstance(found, SingleValued):
            found.write(offset, null, table[:, ends[number] - 1])
            return
        local = found.ids.reshape(sites, widths[number])
        table[:, columns] = np.where(local == ABSENT, null, local + layout.id_type(offset))
        if real and found.values is not None:
            values[:, columns] = found.values.reshape(sites, widths[number])

    threads.in_order(write, range(len(lines)))
    blocks = np.repeat(np.array([line[0] for line in lines], np.int32), widths)
    _sort_within_blocks(table, blocks, values if real else None)
    return Design(ids, np.arange(sites + 1, dtype=np.int64) * slots, blocks, values.ravel(), layout)


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


def _ragged_rows(lines: Sequence[Line], filled: int, sites: int, real: bool, layout: WeightLayout) -> Design:
    """Return rows of the known entries of each line in turn."""
    counts = np.zeros(sites, np.int64)
    for _, _, attributes in lines:
        counts += np.bincount(attributes().sites(), minlength=sites)
    ptr = np.append(0, np.cumsum(counts)).astype(np.int64)
    ids = np.full(filled + PREFETCH_DISTANCE, layout.attributes, layout.id_type)
    blocks = np.empty(filled, np.int32)
    values = np.ones(filled if real else 0, np.float32)
    cursor = ptr[:-1].copy()
    for block, offset, attributes in lines:
        found = attributes()
        site, (local, own_values) = found.sites(), found.known()
        lengths = np.bincount(site, minlength=sites)
        at = (cursor - np.cumsum(lengths) + lengths)[site] + np.arange(len(site))
        cursor += lengths
        ids[at] = local + layout.id_type(offset)
        blocks[at] = block
        if real and own_values is not None:
            values[at] = own_values
    return Design(ids, ptr, blocks, values, layout)


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
