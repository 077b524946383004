"""Construction of an ArcIndex: the values of bases on the arcs of gold trees, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.arcs.as_items import TreeArcs
from mtlstruct.features.arcs.index import TOKENS, ArcIndex, encode_all, rooted, side_numbers
from mtlstruct.features.arcs.kernels import EMPTY, MASK_BITS, POSITIONS, fill
from mtlstruct.features.arcs.plan import DISTANCES, EACH, NONE, ArcPlan, Base, class_tables, make_plan
from mtlstruct.features.arcs.values import scale_to_unit
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex, encode_training
from mtlstruct.features.vocabulary import Int32, Int64, PairTable, capacity, rank_by_count
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.functions import VALUE


def encode_trees(
    corpus: Corpus, templates: TemplateSet, *, min_count: int = 1, normalize: str = "none", unit: bool = True
) -> tuple[Encoded, ArcIndex]:
    """Build the index from the arcs of gold trees and encode all arcs by it (encode_training)."""
    for template in templates:
        if template.kind != "A":
            problem = f"expected templates of the kind A for trees, got {template.kind}"
            raise templates.error(template, problem)
    templates = templates.resolved(corpus.names)
    templates.check_columns(len(corpus.columns))
    for template in templates:
        for term in template.terms:
            if term.sees and term.function != VALUE and corpus.columns[term.column].ptr is not None:
                name = term.name or f"column {term.column}"
                raise templates.error(template, f"{name} holds numbers: expected %value of it in an A line")
    if corpus.outputs is None:
        raise IncompatibleError("training data must have heads")
    plan = make_plan(templates)
    encoded_words, words = encode_training(rooted(corpus), plan.words, TOKENS, normalize=normalize)
    assert isinstance(words, FeatureIndex)
    numbers = side_numbers(encoded_words)
    gold = _GoldArcs(plan, numbers, corpus.ptr, corpus.outputs)
    nodes = threads.in_order(lambda base: _base_entries(gold, base, min_count), range(len(plan.bases)))
    sources = [gold.source_entries(pair) for pair in plan.sources]
    table, first = stacked([*((keys, records) for keys, records, _ in nodes), *sources])
    sizes = np.zeros(len(templates), np.int64)
    for (_, _, found), js in zip(nodes, plan.templates_of, strict=True):
        sizes[js] = found
    index = ArcIndex(templates, words, table, first, sizes)
    encoded = encode_all(index, corpus, numbers)
    if unit and plan.values:
        index = replace(index, factors=scale_to_unit(encoded.designs[0]))
    return encoded, index


class _GoldArcs:
    """Values of sides and bases on the arcs of gold trees; positions count words and roots."""

    def __init__(self, plan: ArcPlan, numbers: NDArray[np.integer], ptr: Int64, heads: Int32) -> None:
        self.plan, self.numbers, self.arcs = plan, numbers, TreeArcs(ptr, heads)
        self.classes = self.arcs.right * DISTANCES + self.arcs.distance
        pairs = plan.sources
        self._sources = dict(zip(pairs, threads.in_order(self._number_source, pairs), strict=True))

    def side(self, number: int) -> Int32:
        """Return the value of a side on each arc, 0 if there is no such side."""
        arcs = self.arcs
        if number == NONE:
            return np.zeros(len(arcs.between), np.int32)
        place = arcs.origin + arcs.ends[self.plan.sides[number].anchor]
        reach = np.minimum(arcs.between, self.plan.slots.shape[2] - 1)
        values: Int32 = self.numbers[place, self.plan.slots[number, arcs.right, reach]].astype(np.int32)
        return values

    def _number_source(self, pair: tuple[int, int]) -> tuple[PairTable | None, Int32]:
        if NONE in pair:
            return None, self.side(pair[0]) + self.side(pair[1])
        return PairTable.build(self.side(pair[0]), self.side(pair[1]))

    def source_entries(self, pair: tuple[int, int]) -> tuple[Int64, Int64]:
        """Return keys and records (numbers) of a pair of sides; empty if it has no table."""
        table = self._sources[pair][0]
        keys = np.zeros(0, np.int64) if table is None else table.pairs
        return keys, np.arange(len(keys), dtype=np.int64)[:, None]

    def base(self, base: Base) -> tuple[Int64 | None, Int32, Int32]:
        """Return the arcs with a value of a base (None: all), and the two parts of its key."""
        if base.between == NONE:
            return None, self.side(base.first), self.side(base.second)
        arc, step = self._between(base)
        place = (self.arcs.origin + self.arcs.ends["l"])[arc] + step
        inner = self.numbers[place, self.plan.slots[base.between, 0, 0]].astype(np.int64)
        if base.position:
            inner = inner * POSITIONS + np.minimum(step, POSITIONS - 1)
        return arc, self._sources[base.first, base.second][1][arc], inner

    def _between(self, base: Base) -> tuple[Int64, Int64]:
        """Return arcs and distances from the left end, for each word between that a base reads."""
        between = self.arcs.between
        if base.place == EACH:
            arc = np.repeat(np.arange(len(between)), between)
            return arc, np.arange(1, len(arc) + 1) - np.repeat(np.cumsum(between) - between, between)
        arc = np.flatnonzero(between >= abs(base.place))
        return arc, base.place + (base.place < 0) * (between[arc] + 1)


def _base_entries(gold: _GoldArcs, number: int, min_count: int) -> tuple[Int64, Int64, list[int]]:
    """Return keys [n] and records [n, templates] by falling frequency, and sizes of templates."""
    plan = gold.plan
    arc, left, right = gold.base(plan.bases[number])
    table, entry = PairTable.build(left, right)
    classes = gold.classes if arc is None else gold.classes[arc]
    if plan.bases[number].between != NONE and plan.bases[number].place == EACH:
        assert arc is not None
        first = np.unique(arc << 32 | entry, return_index=True)[1]  # a value counts once per arc
        entry, classes = entry[first], classes[first]
    ranks, count = rank_by_count(np.bincount(entry, minlength=len(table)), 1)
    order = np.argsort(ranks, kind="stable")
    records, sizes = [], []
    for j in plan.templates_of[number]:
        found = entry * np.int64(MASK_BITS) + class_tables()[plan.variant_of[j]][classes]
        observed = np.bincount(found, minlength=count * MASK_BITS).reshape(-1, MASK_BITS)[order] >= min_count
        ones = observed.sum(axis=1)
        records.append((np.cumsum(ones) - ones) << MASK_BITS | observed @ (1 << np.arange(MASK_BITS)))
        sizes.append(int(ones.sum()))
    return table.pairs[order], np.stack(records, axis=1), sizes


def stacked(entries: Sequence[tuple[Int64, Int64]]) -> tuple[Int64, Int64]:
    """Return the hash tables of (keys, records) one below the other, and where each begins."""
    width = 1 + max((records.shape[1] for _, records in entries), default=1)
    sizes = [capacity(len(keys)) for keys, _ in entries]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    table = np.zeros((int(first[-1]), width), np.int64)
    table[:, 0] = EMPTY

    def work(n: int) -> None:
        fill(*entries[n], table[first[n] : first[n + 1]])

    threads.in_order(work, range(len(entries)))
    return table, first
