"""Kernels of a visit to a span of a sequence: gathering its part scores. `sequence_visit` says what the letters are.

Weights are asked for before they are wanted. Where spans are gathered ahead, what the span before has changed
since is made up for, by the products of their tokens.
"""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import inlined_kernel, inner_kernel
from mtlstruct.linear.design import LOOKAHEAD, prefetch
from mtlstruct.linear.label_support import NEAR

DEAD = 1e-8
"""Templates below this weight add nothing to a score that a float32 would notice."""


@inner_kernel
def gather(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em):  # type: ignore[no-untyped-def]
    """em of a span."""
    if own is not None:
        _load_listed(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em)
    else:
        _load_nodes(start, n, ids, ptr, ragged, values, scales, ahead, V, gold, cost, em)


@inner_kernel
def _load_nodes(start, n, ids, ptr, ragged, values, scales, ahead, V, gold, cost, em):  # type: ignore[no-untyped-def]
    """em[t] = cost − Σ_j mu_j v_j, the weights fetched LOOKAHEAD entries before they are needed."""
    W = V.shape[1]
    for t in range(n):
        first = ptr[start + t]
        size = ptr[start + t + 1] - first
        entry = ids[first : first + size + LOOKAHEAD]
        at = first if ragged else 0
        total = em[t]
        for y in range(W):
            total[y] = 0
        for k in range(size):
            if ahead[at + k]:
                prefetch(V, np.int64(entry[k + LOOKAHEAD]))
            x = scales[at + k]
            if x < DEAD:
                continue
            v = V[np.uint64(entry[k])]
            if values is not None:
                x *= values[first + k]
            for y in range(W):
                total[y] -= x * v[y]
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@inner_kernel
def _load_listed(  # type: ignore[no-untyped-def]
    start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em
):
    """_load_nodes where attributes have features with some labels only: fetched in two stages, the lists, then V."""
    for t in range(n):
        first = ptr[start + t]
        size = ptr[start + t + 1] - first
        entry = ids[first : first + size + LOOKAHEAD]
        at = first if ragged else 0
        total = em[t]
        total[:] = 0
        for k in range(size):
            prefetch(own, np.int64(entry[k + LOOKAHEAD]))
            if ahead[at + k]:
                near = own[np.int64(entry[k + NEAR]), 0]
                prefetch(V, near)
                prefetch(of, near)
            x = scales[at + k]
            if x < DEAD:
                continue
            if values is not None:
                x *= values[first + k]
            a = np.uint64(entry[k])
            for f in range(own[a, 0], own[a + np.uint64(1), 0]):
                total[of[f, 0]] -= x * V[f, 0]
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@inner_kernel
def edge_scores(row, edges, mu, tr, most):  # type: ignore[no-untyped-def]
    """tr[z, y] of an edge row, and most[y], the largest of each column."""
    _, ids, ptr, blocks, _, null, V = edges
    L = tr.shape[0]
    for z in range(L):
        for y in range(L):
            tr[z, y] = 0
    for q in range(ptr[row], ptr[row + 1]):
        if ids[q] != null:
            x = mu[blocks[q - ptr[row]]]
            v = V[ids[q]]
            for z in range(L):
                for y in range(L):
                    tr[z, y] -= np.float32(x * v[z * L + y])
    for y in range(L):
        most[y] = tr[0, y]
    for z in range(1, L):
        for y in range(L):
            most[y] = max(most[y], tr[z, y])


@inner_kernel
def load_edges(start, n, left, right, edges, mu, er, local, tr, most):  # type: ignore[no-untyped-def]
    """tr on the distinct edge rows of the span; er says which one each position uses. Returns how many.

    Where the corpus has one edge row alone, its tr is kept from span to span: steps change it as they change V.
    """
    if len(edges.ptr) == 2:
        for t in range(n + 1):
            er[t] = 0
        local[0] = 0
        return 1
    rows = 0
    for t in range(n + 1):
        if (t == 0 and left < 0) or (t == n and right < 0):
            continue
        row = np.int64(edges.row[start + t])
        k = 0
        while k < rows and local[k] != row:
            k += 1
        er[t] = k
        if k < rows:
            continue
        local[k] = row
        rows += 1
        edge_scores(row, edges, mu, tr[k], most[k])
    return rows


@inlined_kernel
def catch_up(start, n, before, delta, ids, slots, scales, null, mine, em):  # type: ignore[no-untyped-def]
    """em of a span, gathered before V had the changes of an earlier one, whose tokens begin at `before`."""
    for t in range(len(delta)):
        d = delta[t]
        some = False
        for y in range(len(d)):
            some |= d[y] != 0
        if not some:
            continue
        entry = ids[(before + t) * slots : (before + t + 1) * slots]
        for k in range(slots):
            mine[k] = scales[k] if entry[k] != null and scales[k] >= DEAD else np.float32(0)
        for u in range(n):
            other = ids[(start + u) * slots : (start + u + 1) * slots]
            alike = np.float32(0)
            for k in range(slots):
                alike += mine[k] if entry[k] == other[k] else np.float32(0)
            for y in range(len(d)):
                em[u, y] -= alike * d[y]
