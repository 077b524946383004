"""Segments that quarrel: tokens that look alike, and are moved in opposite ways.

Two tokens with the same features and different gold labels cannot both be right. What their dual variables have to
do is climb to their bounds together: their moves add up to nothing, so the weights do not mind, and the loss gains.
One at a time they climb in steps of 1/(c·‖x‖²), since each changes the weights alone. So they are looked for among
the segments that visits have written down (sequence_segments.py), and moved two by two.

Finding them is a matter of hashing. For each search a few templates are drawn by lot, with mu as their chances, and a
token is known by the attributes that it has of these. Two tokens that share attributes with a share s of mu are taken
for one another with probability s^LOTS: equal ones always, those that are nearly equal sooner or later.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import Design

ALIKE = 0.5
"""The share of mu on which two tokens must agree: a pair of less gains hardly more than one by one."""

LOTS = 3
"""Templates that are drawn: with one alone, common words would hide who is equal among those who share them."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def opposed(
    rows: NDArray[np.int32], node: Design, scales: NDArray[np.float32], salt: int
) -> NDArray[np.int64]:
    """int64[k, 2], numbers of rows that quarrel, rising; where there is a choice, the first of either way."""
    slots, total = len(node.blocks), scales.sum(dtype=np.float64)
    if not 0 < total < np.inf:  # nothing is seen of tokens, or the run is about to be ended
        return np.zeros((0, 2), np.int64)
    first = rows[:, 0].astype(np.int64) * slots
    high, low = _path(rows, 4), _path(rows, 5)
    keys, known = np.minimum(high, low) * _ODD + np.maximum(high, low), np.ones(len(rows), np.bool_)
    for slot in np.random.Generator(np.random.PCG64(salt)).choice(slots, LOTS, p=scales / total):
        seen = node.ids[first + slot]
        keys, known = keys * _ODD + seen.astype(np.uint64), known & (seen != node.null)
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    order = order[(np.append(same, False) | np.append(False, same)) & known[order]]
    pairs = np.zeros((len(order) // 2, 2), np.int64)
    found = _match(rows, order, keys, high < low, node.ids, slots, node.null, scales, pairs)
    return pairs[np.lexsort(pairs[:found].T)]  # whatever the numbers of attributes are


def _path(rows: NDArray[np.int32], column: int) -> NDArray[np.uint64]:
    """A number for the labels of one path of each row."""
    number = rows[:, 1].astype(np.uint64)
    for t in range((rows.shape[1] - 4) // 2):
        label = rows[:, column + 2 * t].astype(np.uint64) + np.uint64(1)
        number = np.where(t < rows[:, 1], number * _ODD + label, number)
    return number


# ---------------------------------------------------------------- kernels


@fast_kernel
def _match(rows, order, keys, turned, ids, slots, null, scales, pairs):  # type: ignore[no-untyped-def]
    """Pairs rows with equal keys and opposite ways, the first with the first; how many pairs there are."""
    found = 0
    i = 0
    while i < len(order):
        end = i + 1
        while end < len(order) and keys[order[end]] == keys[order[i]]:
            end += 1
        p, q = i, i  # the next of either way
        while True:
            while p < end and turned[order[p]]:
                p += 1
            while q < end and not turned[order[q]]:
                q += 1
            if p == end or q == end:
                break
            one, other = order[p], order[q]
            p += 1
            q += 1
            if _alike(rows[one], rows[other], ids, slots, null, scales):
                pairs[found, 0], pairs[found, 1] = one, other
                found += 1
        i = end
    return found


@inner_kernel
def _alike(row, other, ids, slots, null, scales):  # type: ignore[no-untyped-def]
    """Whether the first tokens of two segments share enough; segments with an edge in common do not count."""
    if row[0] + row[1] >= other[0] and other[0] + other[1] >= row[0]:
        return False
    entry = ids[row[0] * slots : (row[0] + 1) * slots]
    facing = ids[other[0] * slots : (other[0] + 1) * slots]
    shared = every = np.float32(0)
    for k in range(slots):
        every += scales[k]
        shared += scales[k] if entry[k] == facing[k] and entry[k] != null else np.float32(0)
    return shared >= ALIKE * every
