"""A smaller ArcIndex: the entries that lead to attributes in use, and the numbers of sides that these need.

Who asks does it in two steps, because between them the index of words must be made smaller too:

    smaller = Smaller(index, used, live)        entries that are left, and which values of sides they need
    smaller.index(words)                        the index over the smaller words
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs.build import stacked
from mtlstruct.features.arcs.index import ArcIndex
from mtlstruct.features.arcs.kernels import EMPTY, MASK_BITS, POSITIONS
from mtlstruct.features.arcs.plan import NONE, Base, Plan, Side, make_plan
from mtlstruct.features.arcs.redundancy import thinned
from mtlstruct.features.index import FeatureIndex

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

LOW = (1 << 32) - 1


class Smaller:
    """What is left of an index: attributes marked in used[j], templates `live`.

    slots         the slots of the smaller plan, by their number in the larger one
    used_words    for each slot of the larger plan, the values that are needed
    """

    def __init__(self, index: ArcIndex, used: Sequence[Bool], live: Sequence[int]) -> None:
        self.plan = make_plan(index.templates.select(live))
        self.templates = index.templates.select(live)
        self.sizes = np.array([int(used[j].sum()) for j in live], np.int64)
        self.old = index.words
        self._renumber_sources(index, self._kept(index, thinned(index, list(used)), live))
        self.slots = _slots(index.plan, self.plan)
        needed = np.zeros(int(index.words.sizes.sum()) + 1, bool)
        for keys, fields in zip(self.keys, self._fields, strict=True):
            for field in fields:
                needed[_part(keys, field)] = True
        ptr = np.concatenate([[0], np.cumsum(index.words.sizes)])
        self.used_words = [needed[a:b] for a, b in pairwise(ptr.tolist())]

    def index(self, words: FeatureIndex) -> ArcIndex:
        """The index over words that were made smaller."""
        ptr = np.concatenate([[0], np.cumsum(self.old.sizes)])
        new_ptr = np.concatenate([[0], np.cumsum(words.sizes)])
        moved = np.full(int(ptr[-1]), NONE, np.int64)
        for new, slot in enumerate(self.slots):
            mask = self.used_words[slot]
            moved[ptr[slot] : ptr[slot + 1]][mask] = np.arange(mask.sum()) + new_ptr[new]
        for keys, fields in zip(self.keys, self._fields, strict=True):
            for field in fields:
                _put(keys, field, moved[_part(keys, field)])
        table, first = stacked(list(zip(self.keys, self.records, strict=True)))
        return ArcIndex(self.templates, words, table, first, self.sizes)

    def _kept(self, index: ArcIndex, thin: ArcIndex, live: Sequence[int]) -> list[list[Int64]]:
        """Numbers of the sources that are needed; fills keys and records of the bases."""
        number = {_spelled(index.plan, base): b for b, base in enumerate(index.plan.bases)}
        self.keys: list[Int64] = []
        self.records: list[Int64] = []
        needed: list[list[Int64]] = [[] for _ in self.plan.sources]
        for base, templates in zip(self.plan.bases, self.plan.templates_of, strict=True):
            b = number[_spelled(self.plan, base)]
            rows = thin.table[thin.first[b] : thin.first[b + 1]]
            places = [1 + index.plan.templates_of[b].index(live[j]) for j in templates]
            records = rows[:, places]
            left = (rows[:, 0] != EMPTY) & ((records & ((1 << MASK_BITS) - 1)) != 0).any(axis=1)
            self.keys.append(rows[left, 0].copy())
            self.records.append(np.ascontiguousarray(records[left]))
            if base.between != NONE:
                needed[self.plan.sources.index((base.first, base.second))].append(self.keys[-1] >> 32)
        return needed

    def _renumber_sources(self, index: ArcIndex, needed: list[list[Int64]]) -> None:
        """Pairs of sides that bases with a word between are built on: those needed, numbered without gaps."""
        old = [tuple(_side(index.plan, s) for s in pair) for pair in index.plan.sources]
        self._fields = [_base_fields(base) for base in self.plan.bases]
        for n, pair in enumerate(self.plan.sources):
            if NONE in pair:  # its number is the value of a side, or 0
                self._add_source(np.zeros(0, np.int64), np.zeros((0, 1), np.int64), ())
                continue
            node = len(index.plan.bases) + old.index(tuple(_side(self.plan, s) for s in pair))
            rows = index.table[index.first[node] : index.first[node + 1]]
            rows = rows[rows[:, 0] != EMPTY]
            rows = rows[np.argsort(rows[:, 1])]
            kept = np.unique(np.concatenate(needed[n]))
            moved = np.full(len(rows), NONE, np.int64)
            moved[kept] = np.arange(len(kept))
            for base, keys in zip(self.plan.bases, self.keys, strict=False):
                if base.between != NONE and (base.first, base.second) == pair:
                    _put(keys, "high", moved[keys >> 32])
            self._add_source(rows[kept, 0].copy(), np.arange(len(kept))[:, None], ("high", "low"))

    def _add_source(self, keys: Int64, records: Int64, fields: tuple[str, ...]) -> None:
        self.keys.append(keys)
        self.records.append(records.astype(np.int64))
        self._fields.append(fields)


def _base_fields(base: Base) -> tuple[str, ...]:
    """Which parts of a base's keys are values of sides: high, low, or low together with a position."""
    if base.between == NONE:
        return tuple(field for field, s in (("high", base.first), ("low", base.second)) if s != NONE)
    single = (base.first == NONE) != (base.second == NONE)
    return (*(("high",) if single else ()), "position" if base.position else "low")


def _part(keys: Int64, field: str) -> Int64:
    if field == "high":
        return keys >> 32
    return (keys & LOW) // POSITIONS if field == "position" else keys & LOW


def _put(keys: Int64, field: str, values: Int64) -> None:
    """Replaces a part of every key, in place."""
    if field == "high":
        keys[:] = values << 32 | keys & LOW
    elif field == "position":
        keys[:] = keys >> 32 << 32 | values * POSITIONS + (keys & LOW) % POSITIONS
    else:
        keys[:] = keys >> 32 << 32 | values


def _side(plan: Plan, number: int) -> Side | None:
    return None if number == NONE else plan.sides[number]


def _spelled(plan: Plan, base: Base) -> tuple[object, ...]:
    """What a base sees, independent of how a plan numbers its sides."""
    sides = (_side(plan, s) for s in (base.first, base.second, base.between))
    return (*sides, base.place, base.position)


def _slots(large: Plan, small: Plan) -> list[int]:
    number = {template.terms: n for n, template in enumerate(large.words)}
    return [number[template.terms] for template in small.words]
