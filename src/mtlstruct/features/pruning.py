"""Throwing away what a trained model does not need: dead templates, zero attributes, values nobody asks for.

The index that training built knows every value of every join. After training only attributes with a weight are
worth keeping; a value is worth keeping if a live template maps it to such an attribute or a longer join is built
on it; a string if it is in such a value. Everything is renumbered densely, so nothing remains but what can fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.pruning import Smaller
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]


@overload
def compact(index: FeatureIndex, used: Sequence[Bool]) -> tuple[FeatureIndex, list[int]]: ...
@overload
def compact(index: ArcIndex, used: Sequence[Bool]) -> tuple[ArcIndex, list[int]]: ...
def compact(
    index: FeatureIndex | ArcIndex, used: Sequence[Bool]
) -> tuple[FeatureIndex | ArcIndex, list[int]]:
    """Keeps the attributes marked in used[j] bool[attributes of j], and the templates that have any.

    Returns the smaller index and the numbers of the templates kept.
    """
    live = [j for j, mask in enumerate(used) if mask.any()]
    if isinstance(index, FeatureIndex):
        return _compact_tokens(index, used, live), live
    smaller = Smaller(index, used, live)
    return smaller.index(_compact_tokens(index.words, smaller.used_words, smaller.slots)), live


def _compact_tokens(index: FeatureIndex, used: Sequence[Bool], live: Sequence[int]) -> FeatureIndex:
    """The templates `live`, in that order, with the attributes that are used."""
    maps = {r: _renumbered(index.maps[r], used[j]) for j in live for r in index.plan.readings(j)}
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
        vocabularies=tuple(_subset(index.vocabularies[n], needed[n]) for n in streams),
        tables=tuple(_smaller_table(index, n, needed, numbers) for n in joins),
        maps=tuple(_smaller_map(index, r, map_, needed) for r, map_ in maps.items()),
        sizes=np.array([int(used[j].sum()) for j in live], np.int64),
    )


def _renumbered(map_: Int32, used: Bool) -> Int32:
    """The map of a reading with unused attributes gone and the rest numbered without gaps."""
    numbers = np.append(_renumbering(used), np.int32(ABSENT))
    return numbers[map_]  # ABSENT = -1 points at the appended entry


def _renumbering(mask: Bool) -> Int32:
    out = np.cumsum(mask, dtype=np.int32) - 1
    out[~mask] = ABSENT
    return out.astype(np.int32)


def _needed(index: FeatureIndex, maps: dict[int, Int32]) -> list[Bool]:
    """Which values of each node anybody needs."""
    plan = index.plan
    streams = len(plan.streams)
    needed = [np.zeros(len(v), bool) for v in index.vocabularies]
    needed += [np.zeros(len(t), bool) for t in index.tables]
    for r, map_ in maps.items():
        if plan.uses[r].node != ABSENT:
            needed[plan.uses[r].node] |= map_[:-1] != ABSENT
    for number in range(len(plan.joins) - 1, -1, -1):
        join, table, mask = plan.joins[number], index.tables[number], needed[streams + number]
        needed[join.left][table.left()[mask]] = True
        needed[join.stream][table.right()[mask]] = True
    return needed


def _subset(vocabulary: Vocabulary, mask: Bool) -> Vocabulary:
    return Vocabulary.of([vocabulary[i] for i in np.flatnonzero(mask).tolist()])


def _smaller_table(
    index: FeatureIndex, node: int, needed: list[Bool], numbers: dict[int, Int32]
) -> PairTable:
    number = node - len(index.plan.streams)
    join, table = index.plan.joins[number], index.tables[number]
    kept = np.flatnonzero(needed[node])
    left = numbers[join.left][table.left()[kept]].astype(np.int64)
    right = numbers[join.stream][table.right()[kept]].astype(np.int64)
    return PairTable(left << 32 | right)


def _smaller_map(index: FeatureIndex, r: int, map_: Int32, needed: list[Bool]) -> Int32:
    node = index.plan.uses[r].node
    if node == ABSENT:
        return map_
    return np.append(map_[:-1][needed[node]], np.int32(ABSENT))
