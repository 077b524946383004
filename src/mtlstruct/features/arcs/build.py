"""Building an ArcIndex from trees: which values bases have on gold arcs, or on all, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.index import TOKENS, ArcIndex, assembled, encode_rows, rooted, side_numbers
from mtlstruct.features.arcs.kernels import EMPTY, MASK_BITS, POSITIONS, count_bits, fill, mark_classes
from mtlstruct.features.arcs.plan import DISTANCES, EACH, NONE, Base, Plan, class_tables, make_plan
from mtlstruct.features.arcs.redundancy import merge
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import encode_tokens
from mtlstruct.features.vocabulary import PairTable, capacity, rank_by_count
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.arc_terms import BINS

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def encode_trees(
    corpus: Corpus, templates: TemplateSet, *, min_count: int = 1, normalize: str = "none"
) -> tuple[Encoded, ArcIndex]:
    """Build the index from the arcs of gold trees and encode all arcs by it."""
    for template in templates:
        if template.kind != "A":
            problem = f"this task has no sites for {template.kind} templates, expected A"
            raise templates.error(template, problem)
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    if corpus.outputs is None:
        raise IncompatibleError("training data must have heads")
    plan = make_plan(templates)
    encoded_words, words = encode_tokens(rooted(corpus), plan.words, TOKENS, normalize=normalize)
    numbers = side_numbers(encoded_words)
    seen = _Seen(plan, numbers, corpus.ptr, corpus.outputs)
    nodes = threads.in_order(lambda base: _node(seen, base, min_count), range(len(plan.bases)))
    sources = [seen.source_entries(pair) for pair in plan.sources]
    table, first = stacked([*((node.keys, node.records) for node in nodes), *sources])
    sizes = np.zeros(len(templates), np.int64)
    for node, js in zip(nodes, plan.templates_of, strict=True):
        sizes[js] = node.sizes
    index = ArcIndex(templates, words, table, first, sizes)
    rows = encode_rows(index, corpus, numbers)
    index = merge(index, corpus, rows)
    return assembled(index, corpus, rows), index


class _Seen:
    """The values of sides and bases on the arcs to some heads; places are those among words and roots."""

    def __init__(self, plan: Plan, numbers: NDArray[np.integer], ptr: Int64, heads: Int32) -> None:
        self.plan, self.numbers = plan, numbers
        sentence = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        self.head = ptr[sentence] + sentence + heads
        self.modifier = np.arange(len(heads)) + sentence + 1
        self.left_end = np.minimum(self.head, self.modifier)
        self.right_end = np.maximum(self.head, self.modifier)
        self.right = (self.modifier > self.head).astype(np.int64)
        self.room = self.right_end - self.left_end - 1
        self.classes = self.right * DISTANCES + np.searchsorted(BINS, self.room, side="right") - 1
        pairs = plan.sources
        self._sources = dict(zip(pairs, threads.in_order(self._number_source, pairs), strict=True))

    def side(self, number: int) -> Int32:
        """The value of a side on each arc, 0 if there is no such side."""
        if number == NONE:
            return np.zeros(len(self.room), np.int32)
        anchors = {"h": self.head, "m": self.modifier, "l": self.left_end, "r": self.right_end}
        place = anchors[self.plan.sides[number].anchor]
        seen = np.minimum(self.room, self.plan.slots.shape[2] - 1)
        values: Int32 = self.numbers[place, self.plan.slots[number, self.right, seen]].astype(np.int32)
        return values

    def _number_source(self, pair: tuple[int, int]) -> tuple[PairTable | None, Int32]:
        if NONE in pair:
            return None, self.side(pair[0]) + self.side(pair[1])
        return PairTable.build(self.side(pair[0]), self.side(pair[1]))

    def source_entries(self, pair: tuple[int, int]) -> tuple[Int64, Int64]:
        """Keys and records of a pair of sides: its number is its record. None where it needs no table."""
        table = self._sources[pair][0]
        keys = np.zeros(0, np.int64) if table is None else table.pairs
        return keys, np.arange(len(keys), dtype=np.int64)[:, None]

    def base(self, base: Base) -> tuple[Int64 | None, Int32, Int32]:
        """Where a base is seen: the arc (None: on each), and the two sides of its key."""
        if base.between == NONE:
            return None, self.side(base.first), self.side(base.second)
        arc, place = self._between(base)
        inner = self.numbers[place, self.plan.slots[base.between, 0, 0]].astype(np.int64)
        if base.position:
            inner = inner * POSITIONS + np.minimum(place - self.left_end[arc], POSITIONS - 1)
        return arc, self._sources[base.first, base.second][1][arc], inner

    def _between(self, base: Base) -> tuple[Int64, Int64]:
        """Arcs, and the words between that a base looks at on them."""
        if base.place == EACH:
            arc = np.repeat(np.arange(len(self.room)), self.room)
            begins = np.repeat(np.cumsum(self.room) - self.room, self.room)
            return arc, np.asarray(self.left_end[arc] + 1 + np.arange(len(arc)) - begins)
        arc = np.flatnonzero(self.room >= abs(base.place))
        ends = self.left_end if base.place > 0 else self.right_end
        return arc, np.asarray(ends[arc] + base.place)


@dataclass(frozen=True)
class _Node:
    """Entries of a base, frequent ones first: keys int64[n], records int64[n, templates], attributes of each."""

    keys: Int64
    records: Int64
    sizes: Int64


def _node(seen: _Seen, number: int, min_count: int) -> _Node:
    plan = seen.plan
    arc, left, right = seen.base(plan.bases[number])
    table, entry = PairTable.build(left, right)
    classes = seen.classes if arc is None else seen.classes[arc]
    if plan.bases[number].between != NONE and plan.bases[number].place == EACH:
        entry, classes = _once(entry, classes, arc)
    ranks, count = rank_by_count(np.bincount(entry, minlength=len(table)), 1)
    order = np.argsort(ranks, kind="stable")
    records, sizes = [], []
    for j in plan.templates_of[number]:
        bits = mark_classes(entry, class_tables()[plan.variant_of[j]][classes], min_count, count)[order]
        ones = count_bits(bits)
        records.append((np.cumsum(ones) - ones) << MASK_BITS | bits)
        sizes.append(int(ones.sum()))
    return _Node(table.pairs[order], np.stack(records, axis=1), np.array(sizes, np.int64))


def _once(entry: Int32, classes: Int64, arc: Int64 | None) -> tuple[Int32, Int64]:
    """A value that several words between have counts once for its arc."""
    assert arc is not None
    first = np.unique(arc << 32 | entry, return_index=True)[1]
    return entry[first], classes[first]


def stacked(entries: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """Hash tables of (keys, records) one below the other, and where each begins."""
    width = 1 + max((records.shape[1] for _, records in entries), default=1)
    sizes = [capacity(len(keys)) for keys, _ in entries]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    table = np.zeros((int(first[-1]), width), np.int64)
    table[:, 0] = EMPTY

    def work(n: int) -> None:
        fill(*entries[n], table[first[n] : first[n + 1]])

    threads.in_order(work, range(len(entries)))
    return table, first
