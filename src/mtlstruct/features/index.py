"""Templates × corpus × sites -> Encoded, and the FeatureIndex that does the same for text to come.

What templates see is numbered in `extraction`, for all of them together. Only the last arrow, from a join's value to
the attribute of template j, belongs to the template.

    column ──function──> stream ──join──> value (shared by templates) ──map_j──> attribute of template j

A template that stands for several lines (TemplateSet.shared) has a *reading* for each: a value and a map of its own,
into the same attributes. Elsewhere a reading is a template. Readings that find several values at a site, or
numbers, are *open* (multi_valued.py): their stream is a list of entries, and they take part in no join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.assembly import Shape, design_of, share_rows
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.extraction import (
    Grid,
    Node,
    Normalizer,
    Observed,
    cells_of,
    joined,
    observe,
    stream_functions,
    strings_of,
    values_at,
)
from mtlstruct.features.multi_valued import Entries, Found, check_alone
from mtlstruct.features.plan import Plan, make_plan
from mtlstruct.features.shared_templates import Known, joint_numbers, size_of, widened
from mtlstruct.features.single_valued import Plain
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary, rank_by_count
from mtlstruct.linear.design import Design
from mtlstruct.linear.label_support import Support
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.templates import TemplateSet

if TYPE_CHECKING:
    from mtlstruct.features.arcs import ArcIndex

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


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
        return replace(encoded, designs=(replace(first, support=self.support), *rest))

    def score(
        self, corpus: Corpus, sites: Sequence[Sites], weights: Sequence[NDArray[Any]]
    ) -> tuple[Parts, tuple[Int32 | None, ...]]:
        """Scores of all sites by the weights of each kind, and the row of each site."""
        encoded = self.encode(corpus, sites)
        return encoded.score(weights, np.ones(len(self.templates))), encoded.rows

    def known_cells(self, corpus: Corpus, column: int) -> NDArray[np.bool_] | None:
        """Which cells of a column some template has seen as they are: bool[T]; None if no template looks at them."""
        known = [
            vocabulary.lookup(strings_of(corpus, stream, function)) != ABSENT
            for stream, function, vocabulary in zip(
                self.plan.streams, self._functions, self.vocabularies, strict=True
            )
            if (stream.column, stream.function, stream.absolute) == (column, "", 0)
        ]
        return np.logical_or.reduce(known)[corpus.columns[column].ids] if known else None

    @property
    def found(self) -> Int64:
        """Attributes of each template before any was left out: none is."""
        return self.sizes


def encode_training(
    corpus: Corpus,
    templates: TemplateSet,
    sites: Sequence[Sites],
    *,
    min_count: int = 1,
    normalize: str = "none",
    unit: bool = True,
) -> tuple[Encoded, FeatureIndex | ArcIndex]:
    """Builds the index from a corpus and encodes it.

    unit        real values are multiplied by a factor for each template that makes the mean square of its rows 1
    """
    if any(site.letter == "A" for site in sites):
        from mtlstruct.features.arcs import encode_trees

        return encode_trees(corpus, templates, min_count=min_count, normalize=normalize)
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
    return encoded_by(index, seen), index


def encoded_by(index: FeatureIndex, seen: Observed) -> Encoded:
    """A corpus in the attributes of an index whose maps are for the values that were seen."""
    return _assemble(index, seen.grid, seen.values, tuple(seen.site_of.values()), index.factors)


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
    grid: Grid,
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
    grid: Grid,
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
        found = values_at(index.plan.uses[r], grid, values, site.tokens, places).mapped(index.maps[r])
        if isinstance(found, Plain):
            return found
        return found.scaled(1.0 if factors is None else float(factors[index.plan.owners[r]]))

    open_ = any(isinstance(node, Entries) for node in values) or grid.gaps
    shapes = threads.in_order(lambda r: Shape.of(attributes(r)), readings) if open_ else None
    design = design_of(attributes, readings, shapes, blocks, index.sizes[templates], templates, len(places))
    return share_rows(design) if site.shared else (design, None)
