"""Kernels of a visit to a span of a sequence: the products K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩ of its tokens and edges.

What a step is worth, and what it does to the scores of the span, comes from them. They are made for tokens that move.
"""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import inner_kernel
from mtlstruct.solvers.coordinate_ascent.sequence.gather import DEAD


@inner_kernel
def edge_kernels(rows, local, edges, mu, K):  # type: ignore[no-untyped-def]
    """K[k, q] = Σ_j mu_j ⟨x_kj, x_qj⟩ of edge rows: templates on which they agree, or pairs of equal entries."""
    _, ids, ptr, blocks, slotwise, null, _ = edges
    slots = len(blocks)
    for k in range(rows):
        for q in range(k + 1):
            total = 0.0
            for j in range(slots):
                x = ids[ptr[local[k]] + j]
                if x == null:
                    continue
                other = ptr[local[q]]
                for i in range(j if slotwise else 0, j + 1 if slotwise else slots):
                    if ids[other + i] == x:
                        total += mu[blocks[j]]
            K[k, q] = K[q, k] = np.float32(total)


@inner_kernel
def transpose(ids, start, slots, n, out):  # type: ignore[no-untyped-def]
    """Ids or values of the span slot by slot: one token is compared with all others in one run through memory."""
    for t in range(n):
        row = ids[start + t * slots : start + t * slots + slots]
        for k in range(slots):
            out[k, t] = row[k]


@inner_kernel
def kernel_row(turned, turned_values, scales, slots, n, t, null, own, of, label, out):  # type: ignore[no-untyped-def]
    """out[u] = Σ_j mu_j ⟨x_tj, x_uj⟩ for all tokens u of the span, of features with one label."""
    for u in range(n):
        out[u] = 0
    for k in range(slots):
        here = turned[k, t]
        s = scales[k]
        if here == null or s < DEAD or not has(own, of, here, label):
            continue
        row = turned[k]
        if turned_values is not None:
            x = turned_values[k]
            s *= x[t]
            for u in range(n):
                out[u] += s * x[u] if row[u] == here else np.float32(0)
        else:
            for u in range(n):
                out[u] += s if row[u] == here else np.float32(0)


@inner_kernel
def ragged_row(start, n, t, ids, ptr, ragged, values, scales, null, own, of, label, room, out):  # type: ignore[no-untyped-def]
    """The same where an attribute may stand anywhere in a row, and more than once.

    room [attributes + 1] is zero before and after: in between it holds mu·x of token t.
    """
    first, last = ptr[start + t], ptr[start + t + 1]
    for k in range(first, last):
        s = scales[k if ragged else k - first]
        if ids[k] != null and s >= DEAD and has(own, of, ids[k], label):
            room[np.uint64(ids[k])] += s * values[k] if values is not None else s
    for u in range(n):
        low, high = ptr[start + u], ptr[start + u + 1]
        entry = ids[low:high]
        total = np.float32(0)
        for k in range(high - low):
            x = room[np.uint64(entry[k])]
            total += x * values[low + k] if values is not None else x
        out[u] = total
    for k in range(first, last):
        room[np.uint64(ids[k])] = 0


@inner_kernel
def has(own, of, a, y):  # type: ignore[no-untyped-def]
    """Whether attribute a has a feature with label y; its labels rise."""
    if own is None:
        return True
    low, high = own[a, 0], own[a + 1, 0]
    while low < high:
        middle = (low + high) // 2
        if of[middle, 0] < y:
            low = middle + 1
        else:
            high = middle
    return low < own[a + 1, 0] and of[low, 0] == y


@inner_kernel
def seat_of(place, t, y):  # type: ignore[no-untyped-def]
    """Where token t with label y has its number in `place`; one serves all labels where attributes have all."""
    return t, min(y, place.shape[1] - 1)


@inner_kernel
def curvature(a, e, high, low, K, place, count, moved, edge_K):  # type: ignore[no-untyped-def]
    """‖Σ_j √mu_j (change of features)‖² for one unit of mass moved on the segment."""
    quad = 0.0
    for t in range(a, e + 1):
        up = K[place[seat_of(place, t, high[t])]]
        down = K[place[seat_of(place, t, low[t])]]
        quad += np.float64(up[t]) + np.float64(down[t])
        for u in range(a, t):
            if up[u] != 0 or down[u] != 0:
                both = np.float32(0)
                both += up[u] if high[t] == high[u] else np.float32(0)
                both -= up[u] if high[t] == low[u] else np.float32(0)
                both -= down[u] if low[t] == high[u] else np.float32(0)
                both += down[u] if low[t] == low[u] else np.float32(0)
                quad += 2.0 * both
    for i in range(count):
        for j in range(count):
            if moved[i, 1] == moved[j, 1]:
                quad += moved[i, 2] * moved[j, 2] * edge_K[moved[i, 0], moved[j, 0]]
    return quad
