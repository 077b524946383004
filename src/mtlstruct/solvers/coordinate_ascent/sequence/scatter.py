"""Kernels of a visit to a span of a sequence: what it has changed is added to V, and N_j = ‖v_j‖² follows."""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import inner_kernel
from mtlstruct.linear.design import LOOKAHEAD, prefetch
from mtlstruct.linear.label_support import NEAR


@inner_kernel
def commit(start, n, delta, ids, ptr, ragged, blocks, values, V, null, alone, own, of, N):  # type: ignore[no-untyped-def]
    """Adds delta to V, and follows N."""
    for t in range(n):
        some = False
        for y in range(delta.shape[1]):
            some |= delta[t, y] != 0
        if not some:
            continue
        first, last = ptr[start + t], ptr[start + t + 1]
        if own is not None:
            _add_listed(ids, values, blocks, ragged, first, last, delta[t], V, own, of, N)
        else:
            _add_row(ids, values, blocks, ragged, null, alone, start + t, first, last, delta[t], V, N)


@inner_kernel
def _add_listed(ids, values, blocks, ragged, start, stop, d, V, own, of, N):  # type: ignore[no-untyped-def]
    """_add_row where attributes have features with some labels only."""
    entry = ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(own, np.int64(entry[k + LOOKAHEAD]))
        near = own[np.int64(entry[k + NEAR]), 0]
        prefetch(V, near)
        prefetch(of, near)
        a = np.uint64(entry[k])
        x = values[start + k] if values is not None else np.float32(1)
        change = 0.0
        for f in range(own[a, 0], own[a + np.uint64(1), 0]):
            dx = x * d[of[f, 0]]
            change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
            V[f, 0] += dx
        N[blocks[start + k] if ragged else blocks[k]] += change


@inner_kernel
def _add_row(ids, values, blocks, ragged, null, alone, row, start, stop, d, V, N):  # type: ignore[no-untyped-def]
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    From id `alone` on, attributes that fire here only share the weights of this row, which change once.
    """
    W = V.shape[1]
    square = 0.0
    for y in range(W):
        square += np.float64(d[y]) * np.float64(d[y])
    entry = ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(V, np.int64(entry[k + LOOKAHEAD]))
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        x = values[start + k] if values is not None else np.float32(1)
        own = x if entry[k] < alone else np.float32(0)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += own * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
    if alone < null:
        for y in range(W):
            V[alone + row, y] += d[y]


@inner_kernel
def add_edge(row, pair, d, edges, N):  # type: ignore[no-untyped-def]
    """The same for one pair of an edge row; edge weights are few and heavy, so they are doubles."""
    _, ids, ptr, blocks, _, null, V = edges
    start, stop = ptr[row], ptr[row + 1]
    for k in range(stop - start):
        a = ids[start + k]
        if a != null:
            N[blocks[k]] += d * (2.0 * V[a, pair] + d)
            V[a, pair] += d
