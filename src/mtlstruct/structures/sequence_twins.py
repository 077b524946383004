"""Segments that quarrel: tokens that look alike, and are moved in opposite ways.

Two tokens with the same features and different gold labels cannot both be right. What their dual variables have to
do is climb to their bounds together: their moves add up to nothing, so the weights do not mind, and the loss gains.
One at a time they climb in steps of 1/(c·‖x‖²), since each changes the weights alone. So they are looked for among
the segments that visits have written down (sequence_segments.py), and moved two by two.

Finding them is a matter of hashing. Each attribute draws an exponential waiting time with its template's mu as its
rate; the attribute of a token that comes first is its sign. Two tokens have the same sign with a probability that is
the mu of the attributes they share over the mu of those that either has: K[t,u] / (K[t,t] + K[u,u] − K[t,u]). Equal
tokens always have, and those that are nearly equal have it sooner or later, since each search draws anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._kernels import lean_fast_kernel, lean_inner_kernel
from ..linear import Design

ALIKE = 0.5
"""The share of mu on which two tokens must agree: a pair of less gains hardly more than one by one."""

_WAITS = -np.log((np.arange(4096) + 0.5) / 4096).astype(np.float32)
"""Quantiles of an exponential waiting time of rate 1."""

_DEAD = 1e-8
"""Templates below this mu draw no times: see sequence_visit.DEAD."""


def opposed(
    rows: NDArray[np.int32], node: Design, scales: NDArray[np.float32], salt: int
) -> NDArray[np.int64]:
    """int64[k, 2], numbers of rows that quarrel; of rows with one sign the first come first."""
    signs, paths, turned = (*np.zeros((2, len(rows)), np.int64), np.zeros(len(rows), np.bool_))
    _sign(rows, node.ids, len(node.blocks), node.own, scales, _WAITS, salt, signs, paths, turned)
    keys = signs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + paths.astype(np.uint64)
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    company = np.append(same, False) | np.append(False, same)
    order = order[company & (signs[order] >= 0)]
    pairs = np.zeros((len(order) // 2, 2), np.int64)
    found = _match(rows, order, keys, turned, node.ids, len(node.blocks), node.null, scales, pairs)
    return pairs[:found]


# ---------------------------------------------------------------- kernels


@lean_fast_kernel
def _sign(rows, ids, slots, alone, scales, waits, salt, signs, paths, turned):  # type: ignore[no-untyped-def]
    """Of each row the sign of its first token, −1 where nothing is shared; its two paths, and which way it goes."""
    mask, factor = salt & 0x7FFFFFFF, (salt >> 31) & 0x7FFFFFFF | 1
    for s in range(len(rows)):
        row = rows[s]
        entry = ids[row[0] * slots : (row[0] + 1) * slots]
        least = np.float32(np.inf)
        signs[s] = -1
        for k in range(slots):
            a = np.int64(entry[k])
            if a >= alone or scales[k] < _DEAD:  # from `alone` on: seen here only
                continue
            # no product here needs more than 63 bits
            wait = waits[((((a & 0x7FFFFFFF) ^ mask) * factor) & 0xFFFFFFFF) >> 20] / scales[k]
            if wait < least:
                least = wait
                signs[s] = a
        high = low = np.int64(row[1])
        for t in range(row[1]):
            high = (high * 40503 + row[4 + 2 * t]) & 0xFFFFFFFF
            low = (low * 40503 + row[5 + 2 * t]) & 0xFFFFFFFF
        turned[s] = high < low
        paths[s] = min(high, low) * 3 + max(high, low)


@lean_fast_kernel
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


@lean_inner_kernel
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
