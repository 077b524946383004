"""ArcIndex: the map from text to attributes of arcs, and the encoding of arcs by it.

`words`, an index of tokens, numbers the values of each side of a template at each word and at the
root. Bases then join the numbers of sides in one table of rows [key, record, record, …]
(kernels.py). Rows of A are the arcs of a sentence: modifier by modifier, heads 0..n within; a
word's arc to itself is an empty row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory, threads
from mtlstruct.corpus import Column, Corpus
from mtlstruct.features.arcs.kernels import EMPTY, Program, encode_arcs, score_arcs, sum_classes
from mtlstruct.features.arcs.plan import EACH, NONE, ArcPlan, class_tables, make_plan
from mtlstruct.features.arcs.values import real_values, word_numbers
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import Int32, Int64
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.structures.tree import arc_starts
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.arc_terms import BINS, ROOT

KIND = "arc"
TOKENS = (Sites("node", "U", None, False),)
"""Sides are read at every word."""


@dataclass(frozen=True)
class ArcIndex:
    """The map from text to attributes of arcs.

    words       an index of tokens whose templates are the slots of the plan
    table       int64[rows, 1 + most records of a base]: key and records; the tables of all bases,
                then of all sources
    first       int64[bases + sources + 1]: the first row of each
    sizes       int64[m]: attributes of each template
    factors     float64[m]: factors of the values of each template in training; None for 1
    """

    templates: TemplateSet
    words: FeatureIndex
    table: Int64
    first: Int64
    sizes: Int64
    factors: NDArray[np.float64] | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each template."""
        return (KIND,) * len(self.templates)

    @property
    def normalize(self) -> str:
        """The normal form of cells."""
        return self.words.normalize

    @cached_property
    def plan(self) -> ArcPlan:
        """The plan of these templates, which is not stored."""
        return make_plan(self.templates)

    @cached_property
    def program(self) -> Program:
        """Plan and tables as kernels read them."""
        return _program(self)

    @cached_property
    def layout(self) -> WeightLayout:
        """The layout of the weights."""
        ptr = np.append(0, np.cumsum(self.sizes)).astype(np.int64)
        return WeightLayout(ptr, np.arange(len(self.sizes), dtype=np.int32))

    @cached_property
    def value_of(self) -> Int32:
        """The number of the real value (ArcPlan.value_of) of each attribute."""
        return np.repeat(np.array(self.plan.value_of, np.int32)[list(self.plan.base_of)], self.sizes)

    def encode(self, corpus: Corpus, sites: Sequence[Sites]) -> Encoded:
        """Return the attributes of all arcs; values that are not in the index have none."""
        return encode_all(self, corpus, self.numbers(corpus))

    def score(
        self, corpus: Corpus, sites: Sequence[Sites], weights: Sequence[NDArray[Any]]
    ) -> tuple[Parts, tuple[None]]:
        """Return the scores of all arcs, and their rows."""
        words, starts = self.numbers(corpus), arc_starts(corpus.ptr)
        memory.ensure(8 * int(starts[-1]), f"scoring {starts[-1]:,} arcs")
        out = np.zeros((int(starts[-1]), 1), np.float32)
        if not self._stored or self._stored[0] is not weights[0]:
            self._stored[:] = [weights[0], *_by_value(self, weights[0])]
        by_value, read = self._stored[1:], word_numbers(corpus, self.plan, self.normalize)

        def work(span: tuple[int, int]) -> None:
            real, arcs = real_values(self.plan, read, corpus.ptr, span), out[slice(*starts[list(span)])]
            score_arcs(self.program, *by_value, words, corpus.ptr, span, real, arcs)

        threads.in_order(work, threads.chunks(starts))
        return (out,), (None,)

    @cached_property
    def _stored(self) -> list[NDArray[Any]]:
        """The weights of the last call of `score`, and the same by value."""
        return []

    def rows(self, node: int) -> Int64:
        """Return the entries of the table of a base, or of a source after all bases."""
        rows = self.table[self.first[node] : self.first[node + 1]]
        found: Int64 = rows[rows[:, 0] != EMPTY]
        return found

    def numbers(self, corpus: Corpus) -> NDArray[np.integer]:
        """Return the number of each side's value at each word and root: [T + S, slots + 1]."""
        return side_numbers(self.words.encode(rooted(corpus), TOKENS))


def rooted(corpus: Corpus) -> Corpus:
    """Return the corpus with a root before every sentence; columns of numbers have no cells."""
    columns = tuple(
        Column.merged(np.insert(c.ids, corpus.ptr[:-1], len(c.strings)), [*c.strings, ROOT])
        if c.ptr is None
        else Column(np.zeros(corpus.tokens + len(corpus), np.int32), [ROOT])
        for c in corpus.columns
    )
    return Corpus(columns, corpus.ptr + np.arange(len(corpus.ptr)))


def side_numbers(encoded: Encoded) -> NDArray[np.integer]:
    """Return the ids of encoded words, one row per word; a last column 0 is for missing sides."""
    (design,) = encoded.designs
    found = design.ids[: design.ptr[-1]].reshape(design.rows, len(design.layout.templates))
    return np.concatenate([found, np.zeros((design.rows, 1), found.dtype)], axis=1)


def arc_bytes(arcs: int, templates: TemplateSet) -> int:
    """Estimate the bytes of the attributes of so many arcs.

    About every other template has its value on a gold arc; those with one place between fire
    rarely.
    """
    return 2 * arcs * sum(not any(term.absolute for term in template.terms) for template in templates)


def encode_all(index: ArcIndex, corpus: Corpus, words: NDArray[np.integer]) -> Encoded:
    """Return the attributes of all arcs; a few sentences at a time, so that few are held twice."""
    starts, layout, program = arc_starts(corpus.ptr), index.layout, index.program
    numbers, values = word_numbers(corpus, index.plan, index.normalize), np.zeros(0, np.float32)
    ids, ptr = np.zeros(0, layout.id_type), np.zeros(int(starts[-1]) + 1, np.int64)

    def work(span: tuple[int, int]) -> tuple[NDArray[np.integer], Int64, NDArray[np.float32]]:
        """Return the attributes of arcs of some sentences, where those of each end, and values."""
        ends = np.zeros(int(starts[span[1]] - starts[span[0]]), np.int64)
        empty = np.empty(64 * (len(ends) + 1), layout.id_type)
        found = encode_arcs(program, index.table, words, corpus.ptr, span, ends, empty)
        real = real_values(index.plan, numbers, corpus.ptr, span)
        if real is None:
            return found, ends, np.zeros(0, np.float32)
        return (
            found,
            ends,
            real[index.value_of[found], np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))],
        )

    spans, step, size = threads.chunks(starts), threads.get_threads(), 0
    for k in range(0, len(spans), step):
        some = spans[k : k + step]
        for (first, last), (new, ends, own_values) in zip(some, threads.in_order(work, some), strict=True):
            ids.resize(size + len(new), refcheck=False)  # the system remaps pages instead of copying
            ids[size:] = new
            ptr[starts[first] + 1 : starts[last] + 1] = ends + size
            size += len(new)
            if len(own_values):
                values.resize(size, refcheck=False)
                values[size - len(new) :] = own_values
    ids.resize(size + PREFETCH_DISTANCE, refcheck=False)
    ids[size:] = layout.attributes
    design = Design(ids, ptr, np.zeros(0, np.int32), values, layout)
    return Encoded((KIND,), (design,), (None,), corpus.ptr, len(index.templates))


def _by_value(index: ArcIndex, weights: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
    """Return the weights of all templates of a base by value and class: arguments of score_arcs."""
    bases, program = len(index.plan.bases), index.program
    filled = index.table[: index.first[bases], 0] != EMPTY
    table = index.table[:, :2].copy()
    table[: len(filled), 1] = np.cumsum(filled) - filled
    sums = np.zeros((int(filled.sum()) + 1, program.classes.shape[1]), np.float32)
    for base in range(bases):
        rows = slice(index.first[base], index.first[base + 1])
        sum_classes(program, base, index.table[rows], table[rows], weights, sums)
    ends, slots = program.ends, program.slots
    same = (slots[0] == slots[1]) & ((ends[0] != ends[1]) | (slots[0] == len(index.plan.words)))
    value_of = np.array(index.plan.value_of, np.int64)
    plain = value_of[program.lookups[:, 2]] == len(index.plan.values)
    both_ways = same.all(axis=(0, 2)) & (np.arange(len(program.lookups)) >= program.sources) & plain
    return table, sums, both_ways, value_of


def _program(index: ArcIndex) -> Program:
    plan, first, mask = index.plan, index.first, np.diff(index.first) - 1
    pairs = [b for b, base in enumerate(plan.bases) if base.between == NONE]
    inner = [b for b, base in enumerate(plan.bases) if base.between != NONE]
    inner.sort(key=lambda b: (plan.bases[b].place > EACH, plan.bases[b].place))
    sides = [*plan.sources, *((plan.bases[b].first, plan.bases[b].second) for b in pairs)]
    lookups = [
        (first[n], mask[n], NONE, NONE not in pair) for n, pair in enumerate(plan.sources, len(plan.bases))
    ]
    lookups += [(first[b], mask[b], b, False) for b in pairs]
    between = []
    for b in inner:
        base = plan.bases[b]
        source, slot = plan.sources.index((base.first, base.second)), plan.slots[base.between, 0, 0]
        between.append((first[b], mask[b], b, source, slot, base.place, base.position))
    # the end of the arc that a side is seen from: 0 the head, 1 the modifier
    ends = [
        [[s != NONE and plan.sides[s].anchor in ("m", "r" if right else "l") for s in pair] for pair in sides]
        for right in (False, True)
    ]
    listed = [j for templates in plan.templates_of for j in templates]
    # the slot after the last one is all zeros; NONE = -1 reads it
    every = np.append(plan.slots, np.full((1, *plan.slots.shape[1:]), len(plan.words)), axis=0)
    slots = every[np.array(sides, np.int64).reshape(-1, 2)].transpose(2, 3, 0, 1)
    return Program(
        lookups=np.array(lookups, np.int64).reshape(-1, 4),
        ends=np.array(ends, np.int64).reshape(2, -1, 2),
        slots=np.ascontiguousarray(slots, np.int64),
        inner=np.array(between, np.int64).reshape(-1, 7),
        record=np.append(0, np.cumsum([len(js) for js in plan.templates_of])).astype(np.int64),
        block=index.layout.block_ptr[np.array(listed, np.int64)],
        classes=class_tables()[np.array([plan.variant_of[j] for j in listed], np.int64)],
        bins=np.searchsorted(BINS, np.arange(BINS[-1] + 1), side="right") - 1,
        sources=len(plan.sources),
        # 0 is a missing side, even where no template has sides
        null=int(index.words.sizes.sum()) or NONE,
    )
