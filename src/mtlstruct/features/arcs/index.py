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

from mtlstruct._system import memory, threads
from mtlstruct.corpus import Column, Corpus
from mtlstruct.features.arcs.kernels import Program, encode_arcs, make_tags, make_work
from mtlstruct.features.arcs.plan import EACH, NONE, Base, Plan, class_tables, make_plan
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.linear.products import sum_rows
from mtlstruct.structures.base import Parts, Sites
from mtlstruct.structures.tree import arc_starts
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
        """Return the scores of all arcs, and the rows they are in. Attributes are held a few sentences at a time."""
        words = self.numbers(corpus)
        starts = arc_starts(corpus.ptr)
        arcs, longest = int(starts[-1]), int(np.diff(starts).max(initial=0))
        memory.ensure(8 * arcs + arc_bytes(longest, self.templates), f"scoring {arcs:,} arcs")
        out = np.zeros((arcs, 1), np.float32)

        def work(span: tuple[int, int]) -> None:
            ids, ptr = _encode_span(self, corpus.ptr, words, span)
            sum_rows(0, len(ptr) - 1, ids, ptr, weights[0], out[starts[span[0]] : starts[span[1]]])

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


def arc_bytes(arcs: int, templates: TemplateSet) -> int:
    """Estimate the bytes that the attributes of so many arcs take.

    About every other template has seen its value on gold arcs; those of one word between fire on few arcs.
    """
    return 2 * arcs * sum(not any(term.absolute for term in template.terms) for template in templates)


@dataclass
class Rows:
    """The attributes of all arcs: those of arc r are ids[ptr[r]:ptr[r + 1]]; padding follows the last."""

    ids: NDArray[np.integer]
    ptr: Int64

    def resize(self, size: int) -> None:
        """Set the number of ids; the system moves pages, not numbers."""
        self.ids.resize(size, refcheck=False)


def encode_rows(index: ArcIndex, corpus: Corpus, words: NDArray[np.integer]) -> Rows:
    """Return the attributes of all arcs; few sentences are encoded at a time, so that none is held twice."""
    starts = arc_starts(corpus.ptr)
    rows = Rows(np.zeros(0, _id_type(index)), np.zeros(int(starts[-1]) + 1, np.int64))
    spans = threads.chunks(starts)
    step = threads.get_threads()
    size = 0
    for k in range(0, len(spans), step):
        some = spans[k : k + step]
        found = threads.in_order(lambda span: _encode_span(index, corpus.ptr, words, span), some)
        for (first, last), (ids, ptr) in zip(some, found, strict=True):
            rows.resize(size + len(ids))
            rows.ids[size:] = ids
            rows.ptr[starts[first] + 1 : starts[last] + 1] = ptr[1:] + size
            size += len(ids)
    return rows


def _encode_span(
    index: ArcIndex, ptr: Int64, words: NDArray[np.integer], span: tuple[int, int]
) -> tuple[NDArray[np.integer], Int64]:
    """Return the attributes of all arcs of sentences span[0]:span[1], and where those of each arc begin."""
    lengths = np.diff(ptr[span[0] : span[1] + 1])
    work = make_work(index.program, int(lengths.max(initial=1)))
    starts = np.zeros(int((lengths * (lengths + 1)).sum()) + 1, np.int64)
    empty: NDArray[np.integer] = np.empty(64 * len(starts), _id_type(index))
    ids = encode_arcs(index.program, index.table, index.tags, words, ptr, span, work, starts[1:], empty)
    return ids, starts


def _id_type(index: ArcIndex) -> type:
    return np.int32 if index.block_ptr[-1] < np.iinfo(np.int32).max else np.int64


def assembled(index: ArcIndex, corpus: Corpus, rows: Rows) -> Encoded:
    """The Design of the rows, whose memory it takes over."""
    rows.resize(int(rows.ptr[-1]) + LOOKAHEAD)
    rows.ids[-LOOKAHEAD:] = index.block_ptr[-1]
    templates = np.arange(len(index.templates), dtype=np.int32)
    nothing = np.zeros(0, np.int32)
    design = Design(rows.ids, rows.ptr, nothing, np.zeros(0, np.float32), index.block_ptr, templates)
    return Encoded((KIND,), (design,), (None,), corpus.ptr, len(index.templates))


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
        # 0 is a side that is not there, even where no template has sides
        null=int(index.words.sizes.sum()) or NONE,
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
