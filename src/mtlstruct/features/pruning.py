"""Pruning of an index after training: templates, attributes and values without weights are dropped.

The index that training built knows every value of every join. Afterwards an attribute is needed if
it has a weight; a value if a template maps it to such an attribute or a longer join is built on it;
a string if it is part of such a value. Everything is renumbered without gaps.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.build import stacked
from mtlstruct.features.arcs.kernels import EMPTY, MASK, POSITIONS, drop_unused
from mtlstruct.features.arcs.plan import NONE, ArcPlan, Base, Side
from mtlstruct.features.arcs.plan import make_plan as make_arc_plan
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]
Entries = tuple[Int64, Int64]
"""Keys and records of a base or a source."""

LOW = (1 << 32) - 1


@overload
def prune(index: FeatureIndex, used: Sequence[Bool]) -> tuple[FeatureIndex, list[int]]: ...
@overload
def prune(index: ArcIndex, used: Sequence[Bool]) -> tuple[ArcIndex, list[int]]: ...
def prune(index: FeatureIndex | ArcIndex, used: Sequence[Bool]) -> tuple[FeatureIndex | ArcIndex, list[int]]:
    """Return the index of the attributes marked in used[j], and its templates.

    Templates without attributes are dropped; the second result has the numbers of the others.
    """
    live = [j for j, mask in enumerate(used) if mask.any()]
    if isinstance(index, FeatureIndex):
        return _prune_tokens(index, used, live), live
    return _prune_arcs(index, used, live), live


def _prune_tokens(index: FeatureIndex, used: Sequence[Bool], live: Sequence[int]) -> FeatureIndex:
    """Return the index of the templates `live`, in that order, with used attributes only."""
    maps = {line: _renumbered(index.maps[line], used[j]) for j in live for line in index.plan.lines_of(j)}
    needed = _needed(index, maps)
    small = index.templates.select(live)
    plan = make_plan(small)
    node_of = {index.plan.signature(node): node for node in range(index.plan.nodes)}
    nodes = [node_of[plan.signature(node)] for node in range(plan.nodes)]
    numbers = {n: _renumbering(needed[n]) for n in nodes}
    streams = nodes[: len(plan.streams)]
    joins = nodes[len(plan.streams) :]
    return FeatureIndex(
        templates=small,
        kinds=tuple(index.kinds[j] for j in live),
        normalize=index.normalize,
        vocabularies=tuple(
            Vocabulary.of(map(index.vocabularies[n].__getitem__, np.flatnonzero(needed[n]).tolist()))
            for n in streams
        ),
        tables=tuple(_smaller_table(index, n, needed, numbers) for n in joins),
        maps=tuple(_smaller_map(index, line, map_, needed) for line, map_ in maps.items()),
        sizes=np.array([int(used[j].sum()) for j in live], np.int64),
    )


def _renumbered(map_: Int32, used: Bool) -> Int32:
    """Return the map of a line without unused attributes, the others numbered without gaps."""
    numbers = np.append(_renumbering(used), np.int32(ABSENT))
    return numbers[map_]  # ABSENT = -1 points at the appended entry


def _renumbering(mask: Bool) -> Int32:
    out = np.cumsum(mask, dtype=np.int32) - 1
    out[~mask] = ABSENT
    return out.astype(np.int32)


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


def _smaller_table(
    index: FeatureIndex, node: int, needed: list[Bool], numbers: dict[int, Int32]
) -> PairTable:
    number = node - len(index.plan.streams)
    join, table = index.plan.joins[number], index.tables[number]
    kept = np.flatnonzero(needed[node])
    left = numbers[join.left][table.left()[kept]].astype(np.int64)
    right = numbers[join.stream][table.right()[kept]].astype(np.int64)
    return PairTable(left << 32 | right)


def _smaller_map(index: FeatureIndex, line: int, map_: Int32, needed: list[Bool]) -> Int32:
    node = index.plan.uses[line].node
    if node == ABSENT:
        return map_
    return np.append(map_[:-1][needed[node]], np.int32(ABSENT))


# ---------------------------------------------------------------- arcs


def _prune_arcs(index: ArcIndex, used: Sequence[Bool], live: Sequence[int]) -> ArcIndex:
    """Return the index of the templates `live`, with used attributes and the sides they need."""
    templates = index.templates.select(live)
    plan = make_arc_plan(templates)
    bases = _base_entries(index, plan, _without_unused(index, used), live)
    sources = [_source_entries(index, plan, pair, bases) for pair in plan.sources]
    fields = [_side_fields(base) for base in plan.bases]
    fields += [() if NONE in pair else ("high", "low") for pair in plan.sources]
    parts = [
        (keys, field) for (keys, _), some in zip([*bases, *sources], fields, strict=True) for field in some
    ]
    ptr = np.concatenate([[0], np.cumsum(index.words.sizes)])
    needed = np.zeros(int(ptr[-1]) + 1, bool)
    for keys, field in parts:
        needed[_part(keys, field)] = True
    number = {template.terms: n for n, template in enumerate(index.plan.words)}
    slots = [number[template.terms] for template in plan.words]
    words = _prune_tokens(index.words, [needed[a:b] for a, b in pairwise(ptr.tolist())], slots)
    new_values = np.full(int(ptr[-1]), NONE, np.int64)
    first = 0
    for slot in slots:
        mask = needed[ptr[slot] : ptr[slot + 1]]
        new_values[ptr[slot] : ptr[slot + 1]][mask] = np.arange(mask.sum()) + first
        first += int(mask.sum())
    for keys, field in parts:
        _put(keys, field, new_values[_part(keys, field)])
    table, starts = stacked([*bases, *sources])
    return ArcIndex(templates, words, table, starts, np.array([int(used[j].sum()) for j in live], np.int64))


def _without_unused(index: ArcIndex, used: Sequence[Bool]) -> ArcIndex:
    """Return the index without unmarked attributes; templates and entries stay, possibly empty."""
    table = index.table.copy()
    for base, templates in enumerate(index.plan.templates_of):
        rows = table[index.first[base] : index.first[base + 1]]
        for k, j in enumerate(templates):
            before = np.concatenate([[0], np.cumsum(used[j])])
            drop_unused(rows[:, 1 + k], np.append(used[j], False), before)
    return replace(index, table=table, sizes=np.array([int(mask.sum()) for mask in used], np.int64))


def _base_entries(index: ArcIndex, plan: ArcPlan, thin: ArcIndex, live: Sequence[int]) -> list[Entries]:
    """Return the entries of each base of the smaller plan that have an attribute."""
    number = {_described(index.plan, base): b for b, base in enumerate(index.plan.bases)}
    found = []
    for base, templates in zip(plan.bases, plan.templates_of, strict=True):
        b = number[_described(plan, base)]
        rows = thin.table[thin.first[b] : thin.first[b + 1]]
        records = rows[:, [1 + index.plan.templates_of[b].index(live[j]) for j in templates]]
        kept = (rows[:, 0] != EMPTY) & (records & MASK != 0).any(axis=1)
        found.append((rows[kept, 0].copy(), np.ascontiguousarray(records[kept])))
    return found


def _source_entries(
    index: ArcIndex, plan: ArcPlan, pair: tuple[int, int], bases: Sequence[Entries]
) -> Entries:
    """Return the entries of a source that bases need; renumber them in the keys of bases."""
    if NONE in pair:  # its number is the value of a side, or 0
        return np.zeros(0, np.int64), np.zeros((0, 1), np.int64)
    users = [
        keys
        for base, (keys, _) in zip(plan.bases, bases, strict=True)
        if base.between != NONE and (base.first, base.second) == pair
    ]
    old = [tuple(_side(index.plan, s) for s in one) for one in index.plan.sources]
    node = len(index.plan.bases) + old.index(tuple(_side(plan, s) for s in pair))
    rows = index.table[index.first[node] : index.first[node + 1]]
    rows = rows[rows[:, 0] != EMPTY]
    rows = rows[np.argsort(rows[:, 1])]
    kept = np.unique(np.concatenate([keys >> 32 for keys in users]))
    for keys in users:
        _put(keys, "high", np.searchsorted(kept, keys >> 32))
    return rows[kept, 0].copy(), np.arange(len(kept), dtype=np.int64)[:, None]


def _side_fields(base: Base) -> tuple[str, ...]:
    """Return the parts of a base's keys that are values of sides: high, low or position."""
    if base.between == NONE:
        return tuple(field for field, s in (("high", base.first), ("low", base.second)) if s != NONE)
    single = (base.first == NONE) != (base.second == NONE)
    return (*(("high",) if single else ()), "position" if base.position else "low")


def _part(keys: Int64, field: str) -> Int64:
    if field == "high":
        return keys >> 32
    return (keys & LOW) // POSITIONS if field == "position" else keys & LOW


def _put(keys: Int64, field: str, values: Int64) -> None:
    """Replace a part of every key, in place."""
    if field == "high":
        keys[:] = values << 32 | keys & LOW
    elif field == "position":
        keys[:] = keys >> 32 << 32 | values * POSITIONS + (keys & LOW) % POSITIONS
    else:
        keys[:] = keys >> 32 << 32 | values


def _side(plan: ArcPlan, number: int) -> Side | None:
    return None if number == NONE else plan.sides[number]


def _described(plan: ArcPlan, base: Base) -> tuple[object, ...]:
    """Return what a base reads, independent of how a plan numbers its sides."""
    sides = (_side(plan, s) for s in (base.first, base.second, base.between))
    return (*sides, base.place, base.position)
