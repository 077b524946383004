"""ArcIndex: all that maps text to attributes of arcs, and the encoding of arcs by it.

The words of a sentence come first, the root before them: `words`, an index of tokens, gives each side of a template
a number. Bases then join numbers of sides in one table of rows [key, record, record, …]; see kernels.py.
Arcs of a sentence are rows of A: modifier by modifier, heads 0..n within, and a word's arc to itself is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import threads
from ..corpus import Column, Corpus
from ..encoding import Encoded, FeatureIndex
from ..linear import LOOKAHEAD, Design
from ..structures.base import Parts, Sites
from ..templates import TemplateSet
from ..templates.arcs import BINS, ROOT
from .kernels import Program, encode_arcs, make_work, score_arcs
from .plan import EACH, NONE, Base, Plan, class_tables, make_plan

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

KIND = "arc"
TOKENS = (Sites("node", "U", None, False),)
"""Where sides look: at every word."""


@dataclass(frozen=True)
class Merged:
    """What was left out: templates that are constant over trees, and for others the earlier one they equal.

    sizes    int64[m]: attributes of each template before anything was left out
    """

    constant: tuple[int, ...]
    identical: dict[int, int]
    sizes: Int64

    @property
    def dropped(self) -> list[int]:
        """All templates left out, in order."""
        return sorted([*self.constant, *self.identical])


@dataclass(frozen=True)
class ArcIndex:
    """Locked numbers of sides, and the table of bases.

    words    an index of tokens whose templates are the slots of the plan
    table    int64[rows, 1 + most records of a base]: key and records, tables of bases and sources one below the other
    first    int64[bases + sources + 1]: where each begins
    sizes    int64[m]: attributes of each template
    merged   what training left out; a model's index does not know
    """

    templates: TemplateSet
    words: FeatureIndex
    table: Int64
    first: Int64
    sizes: Int64
    merged: Merged | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each template."""
        return (KIND,) * len(self.templates)

    @property
    def normalize(self) -> str:
        """What cells go through before they are looked up."""
        return self.words.normalize

    @cached_property
    def plan(self) -> Plan:
        """The plan of these templates; made from them, so it is not stored."""
        return make_plan(self.templates)

    @cached_property
    def program(self) -> Program:
        """Plan and tables as the kernels read them."""
        return _program(self)

    @cached_property
    def block_ptr(self) -> Int64:
        """int64[m + 1]: the attributes of each template."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    def encode(self, corpus: Corpus, sites: Sequence[Sites]) -> Encoded:
        """Attributes of all arcs; what the index has not seen is left out."""
        return assembled(self, corpus, encode_rows(self, corpus, self.numbers(corpus)))

    def score(
        self, corpus: Corpus, sites: Sequence[Sites], weights: Sequence[NDArray[Any]]
    ) -> tuple[Parts, tuple[None]]:
        """Scores of all arcs without their attributes ever being listed, and the rows they are in."""
        words = self.numbers(corpus)
        starts = arc_starts(corpus.ptr)
        out = np.zeros((int(starts[-1]), 1), np.float32)

        def work(span: tuple[int, int]) -> None:
            room = make_work(self.program, _longest(corpus.ptr, span))
            part = out[starts[span[0]] : starts[span[1]]]
            score_arcs(self.program, self.table, words, corpus.ptr, span, room, weights[0], part)

        threads.in_order(work, threads.chunks(starts))
        return (out,), (None,)

    def numbers(self, corpus: Corpus) -> NDArray[np.integer]:
        """The number of every side's value for each word and each root: [T + S, slots]."""
        return side_numbers(self.words.encode(rooted(corpus), TOKENS))

    @property
    def found(self) -> Int64:
        """Attributes of each template before any was left out."""
        return self.sizes if self.merged is None else self.merged.sizes


def rooted(corpus: Corpus) -> Corpus:
    """The corpus with a root before every sentence."""
    columns = tuple(
        Column(np.insert(c.ids, corpus.ptr[:-1], len(c.strings)).astype(np.int32), [*c.strings, ROOT])
        for c in corpus.columns
    )
    return Corpus(columns, corpus.ptr + np.arange(len(corpus.ptr)))


def side_numbers(encoded: Encoded) -> NDArray[np.integer]:
    """The ids of an encoded corpus of words, a row a word."""
    (design,) = encoded.designs
    return design.ids[: design.ptr[-1]].reshape(design.rows, len(design.templates))


def arc_starts(ptr: Int64) -> Int64:
    """The row of the first arc of each sentence, and one past the last. int64[S + 1]."""
    n = np.diff(ptr)
    return np.concatenate([[0], np.cumsum(n * (n + 1))]).astype(np.int64)


@dataclass
class Rows:
    """Attributes of all arcs: those of arc r are ids[ptr[r]:ptr[r + 1]]."""

    ids: NDArray[np.integer]
    ptr: Int64


def encode_rows(index: ArcIndex, corpus: Corpus, words: NDArray[np.integer]) -> Rows:
    """Attributes of all arcs. A few pieces at a time are made and put behind the others, so none is held twice."""
    starts = arc_starts(corpus.ptr)
    dtype = np.int32 if index.block_ptr[-1] < np.iinfo(np.int32).max else np.int64
    rows = Rows(np.zeros(0, dtype), np.zeros(int(starts[-1]) + 1, np.int64))

    def work(span: tuple[int, int]) -> NDArray[np.integer]:
        ends = rows.ptr[starts[span[0]] + 1 : starts[span[1]] + 1]
        room = make_work(index.program, _longest(corpus.ptr, span))
        empty = np.empty(64 * len(ends) + 1, dtype)
        ids: NDArray[np.integer] = encode_arcs(
            index.program, index.table, words, corpus.ptr, span, room, ends, empty
        )
        return ids

    spans = threads.chunks(starts)
    step = threads.get_threads()
    for k in range(0, len(spans), step):
        for span, ids in zip(spans[k : k + step], threads.in_order(work, spans[k : k + step]), strict=True):
            size = len(rows.ids)
            rows.ids.resize(size + len(ids), refcheck=False)  # moves pages, not numbers
            rows.ids[size:] = ids
            rows.ptr[starts[span[0]] + 1 : starts[span[1]] + 1] += size
    return rows


def assembled(index: ArcIndex, corpus: Corpus, rows: Rows) -> Encoded:
    """The Design of the rows, whose memory it takes over."""
    size = len(rows.ids)
    rows.ids.resize(size + LOOKAHEAD, refcheck=False)
    rows.ids[size:] = index.block_ptr[-1]
    templates = np.arange(len(index.templates), dtype=np.int32)
    nothing = np.zeros(0, np.int32)
    design = Design(rows.ids, rows.ptr, nothing, np.zeros(0, np.float32), index.block_ptr, templates)
    return Encoded((KIND,), (design,), (None,), corpus.ptr, len(index.templates))


def _longest(ptr: Int64, span: tuple[int, int]) -> int:
    return int(np.diff(ptr[span[0] : span[1] + 1]).max(initial=1))


# ---------------------------------------------------------------- the program


def _program(index: ArcIndex) -> Program:
    plan = index.plan
    nowhere = len(plan.sides)  # the side that is none
    sides = [[nowhere if s == NONE else s for s in (b.first, b.second)] for b in plan.bases]
    order = plan.templates_of
    listed = [j for templates in order for j in templates]
    alone, pairs, inner = _sorted_bases(plan)
    sizes = np.diff(index.first)
    count = len(plan.bases)
    pair_sources = [
        (nowhere if one == NONE else one, nowhere if other == NONE else other) for one, other in plan.sources
    ]
    sources = [
        [*pair, index.first[count + n], sizes[count + n] - 1 if nowhere not in pair else -1]
        for n, pair in enumerate(pair_sources)
    ]
    return Program(
        anchor=_ints([*("hmlrb".index(side.anchor) for side in plan.sides), 4]),
        slots=plan.slots,
        classes=class_tables(),
        bins=_ints([max(b for b, low in enumerate(BINS) if low <= room) for room in range(BINS[-1] + 1)]),
        first=_ints([one for one, _ in sides]),
        second=_ints([other for _, other in sides]),
        start=index.first[:count].copy(),
        mask=sizes[:count] - 1,
        record=np.concatenate([[0], np.cumsum([len(o) for o in order])]).astype(np.int64),
        variant=_ints([plan.variant_of[j] for j in listed]),
        block=index.block_ptr[listed] if listed else _ints([]),
        alone=_ints(alone),
        slot=_ints([plan.slots[plan.bases[b].first, 0, 0] for b in alone]),
        pairs=_ints(pairs),
        inner=_ints(inner),
        inner_source=_ints([plan.sources.index((plan.bases[b].first, plan.bases[b].second)) for b in inner]),
        inner_slot=_ints([plan.slots[plan.bases[b].between, 0, 0] for b in inner]),
        inner_place=_ints([plan.bases[b].place for b in inner]),
        inner_position=_ints([plan.bases[b].position for b in inner]),
        sources=np.array(sources, np.int64).reshape(len(sources), 4),
        null=int(index.words.sizes.sum()),
    )


def _sorted_bases(plan: Plan) -> tuple[list[int], list[int], list[int]]:
    """Bases of one word that always looks the same; the others without a word between; those with one."""
    alone, pairs, inner = [], [], []
    for number, base in enumerate(plan.bases):
        if base.between != NONE:
            inner.append(number)
        elif is_alone(plan, base):
            alone.append(number)
        else:
            pairs.append(number)
    return alone, pairs, sorted(inner, key=lambda b: (plan.bases[b].place > EACH, plan.bases[b].place))


def is_alone(plan: Plan, base: Base) -> bool:
    """Whether a base looks at one word only, and always at the same cells of it."""
    one = base.first != NONE and base.second == NONE and base.between == NONE
    return one and len(np.unique(plan.slots[base.first])) == 1


def _ints(numbers: Sequence[Any]) -> Int64:
    return np.array(numbers, np.int64)
