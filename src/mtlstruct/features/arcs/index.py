"""ArcIndex: all that maps text to attributes of arcs, and the encoding of arcs by it.

The words of a sentence come first, the root before them: `words`, an index of tokens, gives each side of a template
a number. Bases then join numbers of sides in one table of rows [key, record, record, …]; see kernels.py.
Arcs of a sentence are rows of A: modifier by modifier, heads 0..n within, and a word's arc to itself is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory, threads
from mtlstruct._system.shared_arrays import Growing
from mtlstruct.corpus import Column, Corpus
from mtlstruct.features.arcs.kernels import Program, encode_arcs, make_tags, make_work, score_arcs
from mtlstruct.features.arcs.plan import EACH, NONE, Base, Plan, class_tables, make_plan
from mtlstruct.features.index import Encoded, FeatureIndex
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.arc_terms import BINS, ROOT

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
    def tags(self) -> NDArray[np.uint8]:
        """What tells most values that are not in the table."""
        return make_tags(self.table)

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
        memory.ensure(8 * int(starts[-1]), f"scoring {int(starts[-1]):,} arcs")
        out = np.zeros((int(starts[-1]), 1), np.float32)

        def work(span: tuple[int, int]) -> None:
            room = make_work(self.program, _longest(corpus.ptr, span))
            part = out[starts[span[0]] : starts[span[1]]]
            score_arcs(self.program, self.table, self.tags, words, corpus.ptr, span, room, weights[0], part)

        threads.in_order(work, threads.chunks(starts))
        return (out,), (None,)

    def numbers(self, corpus: Corpus) -> NDArray[np.integer]:
        """The number of every side's value for each word and each root: [T + S, slots + 1]."""
        return side_numbers(self.words.encode(rooted(corpus), TOKENS))

    @property
    def found(self) -> Int64:
        """Attributes of each template before any was left out."""
        return self.sizes if self.merged is None else self.merged.sizes


def rooted(corpus: Corpus) -> Corpus:
    """The corpus with a root before every sentence."""
    columns = tuple(
        Column.merged(np.insert(c.ids, corpus.ptr[:-1], len(c.strings)), [*c.strings, ROOT])
        for c in corpus.columns
    )
    return Corpus(columns, corpus.ptr + np.arange(len(corpus.ptr)))


def side_numbers(encoded: Encoded) -> NDArray[np.integer]:
    """The ids of an encoded corpus of words, a row a word; behind them 0, the value of a side that is not there."""
    (design,) = encoded.designs
    found = design.ids[: design.ptr[-1]].reshape(design.rows, len(design.templates))
    return np.concatenate([found, np.zeros((design.rows, 1), found.dtype)], axis=1)


def arc_starts(ptr: Int64) -> Int64:
    """The row of the first arc of each sentence, and one past the last. int64[S + 1]."""
    n = np.diff(ptr)
    return np.concatenate([[0], np.cumsum(n * (n + 1))]).astype(np.int64)


@dataclass
class Rows:
    """Attributes of all arcs: those of arc r are ids[ptr[r]:ptr[r + 1]]; behind the last is room to read ahead."""

    found: Growing
    ptr: Int64

    @property
    def ids(self) -> NDArray[np.integer]:
        """The attributes, and the room behind them."""
        return self.found.array


def encode_rows(
    index: ArcIndex, corpus: Corpus, words: NDArray[np.integer], folder: Path | None = None
) -> Rows:
    """Attributes of all arcs. A few pieces at a time are made and put behind the others, so none is held twice.

    folder: where to keep them in a file, if not in memory
    """
    starts = arc_starts(corpus.ptr)
    dtype = np.int32 if index.block_ptr[-1] < np.iinfo(np.int32).max else np.int64
    rows = Rows(Growing(dtype, folder), np.zeros(int(starts[-1]) + 1, np.int64))

    def work(span: tuple[int, int]) -> NDArray[np.integer]:
        ends = rows.ptr[starts[span[0]] + 1 : starts[span[1]] + 1]
        room = make_work(index.program, _longest(corpus.ptr, span))
        empty = np.empty(64 * len(ends) + 1, dtype)
        ids: NDArray[np.integer] = encode_arcs(
            index.program, index.table, index.tags, words, corpus.ptr, span, room, ends, empty
        )
        return ids

    spans = threads.chunks(starts)
    step = threads.get_threads()
    size = 0
    for k in range(0, len(spans), step):
        for span, ids in zip(spans[k : k + step], threads.in_order(work, spans[k : k + step]), strict=True):
            rows.found.extend(ids)
            rows.ptr[starts[span[0]] + 1 : starts[span[1]] + 1] += size
            size += len(ids)
    rows.found.extend(np.zeros(LOOKAHEAD, dtype))
    rows.found.finish()
    return rows


def assembled(index: ArcIndex, corpus: Corpus, rows: Rows) -> Encoded:
    """The Design of the rows, whose memory it takes over."""
    rows.found.cut(int(rows.ptr[-1]) + LOOKAHEAD)
    rows.ids[-LOOKAHEAD:] = index.block_ptr[-1]
    templates = np.arange(len(index.templates), dtype=np.int32)
    nothing = np.zeros(0, np.int32)
    design = Design(rows.ids, rows.ptr, nothing, np.zeros(0, np.float32), index.block_ptr, templates)
    return Encoded((KIND,), (design,), (None,), corpus.ptr, len(index.templates))


def _longest(ptr: Int64, span: tuple[int, int]) -> int:
    return int(np.diff(ptr[span[0] : span[1] + 1]).max(initial=1))


# ---------------------------------------------------------------- the program


def _program(index: ArcIndex) -> Program:
    plan, first, mask = index.plan, index.first, np.diff(index.first) - 1
    alone, pairs, inner = _sorted_bases(plan)
    sources, bases = len(plan.sources), len(plan.bases)
    looked = [*plan.sources, *((plan.bases[b].first, plan.bases[b].second) for b in pairs)]
    nodes = [*range(bases, bases + sources), *pairs]
    numbered = [NONE not in pair for pair in plan.sources] + [False] * len(pairs)
    looks = [
        [first[node], mask[node], node if node < bases else NONE, number]
        for node, number in zip(nodes, numbered, strict=True)
    ]
    ends = [[[_end(plan, s, right) for s in pair] for pair in looked] for right in (0, 1)]
    listed = [j for templates in plan.templates_of for j in templates]
    return Program(
        looks=_ints(looks).reshape(-1, 4),
        ends=_ints(ends).reshape(2, -1, 2),
        slots=_look_slots(plan, looked),
        inner=_ints([[first[b], mask[b], b, *_inner(plan, plan.bases[b])] for b in inner]).reshape(-1, 7),
        alone=_ints([[first[b], mask[b], b, *_alone(plan, plan.bases[b])] for b in alone]).reshape(-1, 6),
        record=np.concatenate([[0], np.cumsum([len(js) for js in plan.templates_of])]).astype(np.int64),
        block=_ints(index.block_ptr[listed]),
        classes=class_tables()[_ints([plan.variant_of[j] for j in listed])],
        bins=_ints([max(b for b, low in enumerate(BINS) if low <= room) for room in range(BINS[-1] + 1)]),
        sources=sources,
        null=int(index.words.sizes.sum())
        or NONE,  # 0 is a side that is not there, even where no template has sides
    )


def _inner(plan: Plan, base: Base) -> tuple[int, int, int, int]:
    """Source, slot, place and position of a base with a word between."""
    source = plan.sources.index((base.first, base.second))
    return source, int(plan.slots[base.between, 0, 0]), base.place, int(base.position)


def _alone(plan: Plan, base: Base) -> tuple[int, int, int]:
    """Slot of a base of one word, and the end of the arc that it is, by direction."""
    return int(plan.slots[base.first, 0, 0]), _end(plan, base.first, 0), _end(plan, base.first, 1)


def _end(plan: Plan, side: int, right: int) -> int:
    """Which end of the arc a side is seen from: 0 the head, 1 the modifier."""
    return int(side != NONE and plan.sides[side].anchor in ("m", "r" if right else "l"))


def _look_slots(plan: Plan, looked: Sequence[tuple[int, int]]) -> Int64:
    """Program.slots; the slot behind the last one is all zeros."""
    nothing = np.full((1, *plan.slots.shape[1:]), len(plan.words))
    slots = np.concatenate([plan.slots, nothing])  # NONE = -1 is the last one
    pairs = np.array(looked, np.int64).reshape(len(looked), 2)
    return np.ascontiguousarray(slots[pairs].transpose(2, 3, 0, 1)).astype(np.int64)


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


def _ints(numbers: Sequence[Any] | Int64) -> Int64:
    return np.array(numbers, np.int64)
