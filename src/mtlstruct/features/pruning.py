"""Pruning of an index after training: templates, attributes and values without weights are dropped.

The index that training built knows every value of every join. Afterwards an attribute is needed if
it has a weight; a value if a template maps it to such an attribute or a longer join is built on it;
a string if it is part of such a value. Everything is renumbered without gaps.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.build import stacked
from mtlstruct.features.arcs.kernels import MASK, MASK_BITS, POSITIONS
from mtlstruct.features.arcs.plan import NONE, ArcPlan, Base
from mtlstruct.features.arcs.plan import make_plan as make_arc_plan
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.vocabulary import ABSENT, Int32, Int64, PairTable, Vocabulary

Bool = NDArray[np.bool_]
AnyIndex = TypeVar("AnyIndex", bound=FeatureIndex | ArcIndex)

LOW = (1 << 32) - 1


def prune(index: AnyIndex, used: Sequence[Bool]) -> tuple[AnyIndex, list[int]]:
    """Return the index of the attributes marked in used[j], and its templates.

    Templates without attributes are dropped; the second result has the numbers of the others.
    """
    live = [j for j, mask in enumerate(used) if mask.any()]
    if isinstance(index, FeatureIndex):
        return cast(AnyIndex, _prune_tokens(index, used, live)), live
    return cast(AnyIndex, _prune_arcs(index, used, live)), live


def _prune_tokens(index: FeatureIndex, used: Sequence[Bool], live: Sequence[int]) -> FeatureIndex:
    """Return the index of the templates `live`, in that order, with used attributes only."""
    maps = {
        line: np.append(_renumbering(used[j]), np.int32(ABSENT))[index.maps[line]]  # ABSENT = -1 is the last
        for j in live
        for line in index.plan.lines_of(j)
    }
    needed = _needed(index, maps)
    small = index.templates.select(live)
    plan = make_plan(small)
    node_of = {index.plan.signature(node): node for node in range(index.plan.nodes)}
    nodes = [node_of[plan.signature(node)] for node in range(plan.nodes)]
    numbers = {n: _renumbering(needed[n]) for n in nodes}
    strings = [
        map(index.vocabularies[n].__getitem__, np.flatnonzero(needed[n]).tolist())
        for n in nodes[: len(plan.streams)]
    ]
    tables = []
    for n in nodes[len(plan.streams) :]:
        number = n - len(index.plan.streams)
        join, pairs = index.plan.joins[number], index.tables[number].pairs[needed[n]]
        left = numbers[join.left][pairs >> 32].astype(np.int64)
        tables.append(PairTable(left << 32 | numbers[join.stream][pairs & LOW]))
    for line, map_ in maps.items():
        if (node := index.plan.uses[line].node) != ABSENT:
            maps[line] = np.append(map_[:-1][needed[node]], np.int32(ABSENT))
    return FeatureIndex(
        templates=small,
        kinds=tuple(index.kinds[j] for j in live),
        normalize=index.normalize,
        vocabularies=tuple(map(Vocabulary.of, strings)),
        tables=tuple(tables),
        maps=tuple(maps.values()),
        sizes=np.array([int(used[j].sum()) for j in live], np.int64),
    )


def _renumbering(mask: Bool) -> Int32:
    """Return numbers without gaps of the marked values, ABSENT for the others."""
    return np.where(mask, np.cumsum(mask, dtype=np.int32) - 1, np.int32(ABSENT))


def _needed(index: FeatureIndex, maps: dict[int, Int32]) -> list[Bool]:
    """Return which values of each node are needed."""
    plan = index.plan
    streams = len(plan.streams)
    needed = [np.zeros(len(v), bool) for v in index.vocabularies]
    needed += [np.zeros(len(t), bool) for t in index.tables]
    for line, map_ in maps.items():
        if plan.uses[line].node != ABSENT:
            needed[plan.uses[line].node] |= map_[:-1] != ABSENT
    for number in range(len(plan.joins) - 1, -1, -1):
        join, table, mask = plan.joins[number], index.tables[number], needed[streams + number]
        needed[join.left][table.left()[mask]] = True
        needed[join.stream][table.right()[mask]] = True
    return needed


# ---------------------------------------------------------------- arcs


class _ArcEntries(NamedTuple):
    """Entries of a base or a source: keys high · 2³² + low · unit + position, and records.

    parts     high, low and position: int64[3, n]
    sides     those of the first two parts that are values of sides
    """

    parts: Int64
    sides: list[int]
    records: Int64
    unit: int = 1


def _prune_arcs(index: ArcIndex, used: Sequence[Bool], live: Sequence[int]) -> ArcIndex:
    """Return the index of the templates `live`, with used attributes and the sides they need."""
    templates = index.templates.select(live)
    plan = make_arc_plan(templates)
    entries = [_base_entries(index, plan, n, used, live) for n in range(len(plan.bases))]
    entries += [_source_entries(index, plan, pair, entries) for pair in plan.sources]
    ptr = np.append(0, np.cumsum(index.words.sizes))
    needed = np.zeros(int(ptr[-1]) + 1, bool)
    sides = [(some.parts, k) for some in entries for k in some.sides]
    for parts, k in sides:
        needed[parts[k]] = True
    number = {template.terms: n for n, template in enumerate(index.plan.words)}
    slots = [number[template.terms] for template in plan.words]
    words = _prune_tokens(index.words, [needed[a:b] for a, b in pairwise(ptr.tolist())], slots)
    smaller = np.zeros(len(needed), np.int64)
    for slot, first in zip(slots, np.append(0, np.cumsum(words.sizes)).tolist(), strict=False):
        own = slice(ptr[slot], ptr[slot + 1])
        smaller[own] = np.cumsum(needed[own]) - 1 + first
    for parts, k in sides:
        parts[k] = smaller[parts[k]]
    table, starts = stacked([(p[0] << 32 | p[1] * unit + p[2], records) for p, _, records, unit in entries])
    return ArcIndex(templates, words, table, starts, np.array([int(used[j].sum()) for j in live], np.int64))


def _base_entries(
    index: ArcIndex, plan: ArcPlan, number: int, used: Sequence[Bool], live: Sequence[int]
) -> _ArcEntries:
    """Return the entries of a base of the smaller plan that have a used attribute."""
    base = plan.bases[number]
    b = [_described(index.plan, some) for some in index.plan.bases].index(_described(plan, base))
    rows = index.rows(b)
    templates = [live[j] for j in plan.templates_of[number]]
    columns = [1 + index.plan.templates_of[b].index(j) for j in templates]
    records = np.stack(
        [_without_unused(rows[:, k], used[j]) for k, j in zip(columns, templates, strict=True)], axis=1
    )
    kept = (records & MASK != 0).any(axis=1)
    keys, unit = rows[kept, 0], POSITIONS if base.position else 1
    seen = base.first != NONE, base.second != NONE
    if base.between != NONE:  # high is the value of the only end, or the number of a source
        seen = seen[0] != seen[1], True
    parts = np.stack([keys >> 32, *np.divmod(keys & LOW, unit)])
    return _ArcEntries(parts, [k for k in (0, 1) if seen[k]], records[kept], unit)


def _without_unused(records: Int64, used: Bool) -> Int64:
    """Return the records of a template without its unused attributes."""
    starts, bits = records >> MASK_BITS, np.arange(MASK_BITS)
    observed = records[:, None] >> bits & 1
    attributes = starts[:, None] + np.cumsum(observed, axis=1) - observed
    kept = np.append(used, False)[np.minimum(attributes, len(used))] & (observed == 1)
    smaller: Int64 = np.append(0, np.cumsum(used))[starts] << MASK_BITS | kept @ (1 << bits)
    return smaller


def _source_entries(
    index: ArcIndex, plan: ArcPlan, pair: tuple[int, int], bases: Sequence[_ArcEntries]
) -> _ArcEntries:
    """Return the entries of a source that bases need; renumber them in the keys of bases."""
    if NONE in pair:  # its number is the value of a side, or 0
        return _ArcEntries(np.zeros((3, 0), np.int64), [], np.zeros((0, 1), np.int64))
    users = [
        some.parts[0]
        for base, some in zip(plan.bases, bases, strict=False)
        if base.between != NONE and (base.first, base.second) == pair
    ]
    old = [[index.plan.sides[s] if s != NONE else None for s in one] for one in index.plan.sources]
    rows = index.rows(len(index.plan.bases) + old.index([plan.sides[s] for s in pair]))
    kept = np.unique(np.concatenate(users))
    for numbers in users:
        numbers[:] = np.searchsorted(kept, numbers)
    keys = rows[np.argsort(rows[:, 1]), 0][kept]
    parts = np.stack([keys >> 32, keys & LOW, np.zeros_like(keys)])
    return _ArcEntries(parts, [0, 1], np.arange(len(kept), dtype=np.int64)[:, None])


def _described(plan: ArcPlan, base: Base) -> tuple[object, ...]:
    """Return what a base reads, independent of how a plan numbers its sides."""
    sides = (plan.sides[s] if s != NONE else None for s in (base.first, base.second, base.between))
    return (*sides, base.place, base.position, base.value)
