"""Pruning of an ArcIndex: entries of used attributes, and the values of sides they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs.build import stacked
from mtlstruct.features.arcs.index import ArcIndex
from mtlstruct.features.arcs.kernels import EMPTY, MASK, POSITIONS, drop_unused
from mtlstruct.features.arcs.plan import NONE, ArcPlan, Base, Side, make_plan
from mtlstruct.features.index import FeatureIndex

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]
Entries = tuple[Int64, Int64]
"""Keys and records of a base or a source."""

LOW = (1 << 32) - 1


def prune_arcs(
    index: ArcIndex,
    used: Sequence[Bool],
    live: Sequence[int],
    prune_words: Callable[[FeatureIndex, Sequence[Bool], Sequence[int]], FeatureIndex],
) -> ArcIndex:
    """Return the index of the templates `live`, with the attributes marked in used[j]."""
    templates = index.templates.select(live)
    plan = make_plan(templates)
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
    words = prune_words(index.words, [needed[a:b] for a, b in pairwise(ptr.tolist())], slots)
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
