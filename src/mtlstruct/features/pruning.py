"""Pruning of an index after training: templates, attributes and values without weights are dropped.

The index that training built knows every value of every join. Afterwards an attribute is needed if
it has a weight; a value if a template maps it to such an attribute or a longer join is built on it;
a string if it is part of such a value. Everything is renumbered without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.pruning import prune_arcs
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]


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
    return prune_arcs(index, used, live, _prune_tokens), live


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
        vocabularies=tuple(_subset(index.vocabularies[n], needed[n]) for n in streams),
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


def _smaller_map(index: FeatureIndex, line: int, map_: Int32, needed: list[Bool]) -> Int32:
    node = index.plan.uses[line].node
    if node == ABSENT:
        return map_
    return np.append(map_[:-1][needed[node]], np.int32(ABSENT))
