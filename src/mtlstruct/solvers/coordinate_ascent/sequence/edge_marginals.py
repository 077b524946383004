"""The flow of a sequence's dual: the edges that carry mass, in a short list a token.

Most tokens keep all their mass on one edge, few have more than ten, however many labels there are.
So a token has `count` entries, each an edge from label `tail` to label `head` with its mass; the
first token of a sentence is entered from label 0. All tokens have room for the same number of
entries, which grows when somebody needs it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel
from mtlstruct.solvers.coordinate_ascent.sequence.features import count_edge
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE

LEAST_MASS = np.float32(1e-6)
"""Mass below this is rounding: it is not moved, and a token with less off gold is not active."""

MIN_STORED_MASS = np.float32(1e-7)
"""Marginals below this are set to zero when the flow is made exact, to free entries."""

EDGE_CAPACITY = 8
"""Entries a token to begin with."""

INFINITE_SCORE = np.float32(1e30)
"""Further than any score."""


class Flow(NamedTuple):
    """size int32[T]; tail, head int16[T, capacity]; mass float32[T, capacity], up to size."""

    size: NDArray[np.int32]
    tail: NDArray[np.int16]
    head: NDArray[np.int16]
    mass: NDArray[np.float32]

    @classmethod
    def of_gold(cls, gold: NDArray[np.int32], ptr: NDArray[np.int64]) -> Flow:
        """Return the flow with all mass on the gold labels of sentences `ptr`."""
        tail = np.zeros((len(gold), EDGE_CAPACITY), np.int16)
        head, mass = np.zeros_like(tail), np.zeros(tail.shape, np.float32)
        tail[1:, 0], head[:, 0], mass[:, 0] = gold[:-1], gold, 1
        tail[ptr[:-1], 0] = 0
        return cls(np.ones(len(gold), np.int32), tail, head, mass)

    def with_room(self, entries: int) -> Flow:
        """Return the flow with room for so many more entries at any token."""
        wanted = int(self.size.max(initial=0)) + entries
        if wanted <= self.mass.shape[1]:
            return self
        more = ((0, 0), (0, wanted + EDGE_CAPACITY // 2 - self.mass.shape[1]))
        return Flow(self.size, np.pad(self.tail, more), np.pad(self.head, more), np.pad(self.mass, more))


# ---------------------------------------------------------------- kernels


@inner_kernel
def held_label(flow, t, now):
    """The label that carries most mass at token t."""
    count, _, head, mass = flow
    for y in range(len(now)):
        now[y] = 0
    best = head[t, 0]
    for k in range(count[t]):
        y = head[t, k]
        now[y] += mass[t, k]
        if now[y] > now[best] or (now[y] == now[best] and y < best):
            best = y
    return np.int64(best)


@inner_kernel
def best_path(n, left, right, work):
    """Find the best path, in work.high; return its score. Skip labels with no edge that can win."""
    em, path, back, now, best, arg = work.em, work.high, work.back, work.now, work.best, work.arg
    at, tr, most = work.edges.at, work.edges.tr, work.edges.most
    L, W = tr.shape[1], em.shape[1]
    for y in range(W):
        now[y] = em[0, y]
        if left >= 0:
            now[y] += tr[at[0], left, y]
    for t in range(1, n):
        e = tr[at[t]]
        first = 0
        limit = -INFINITE_SCORE
        if L >= MIN_LABELS_TO_PRUNE:
            for z in range(1, L):
                first = z if now[z] > now[first] else first
            limit = INFINITE_SCORE
            for y in range(L):
                limit = min(limit, now[first] + e[first, y] - most[at[t], y])
        for y in range(W):
            best[y] = now[first] + e[first, y]
            arg[y] = first
        for z in range(L):
            dz = now[z]
            if z == first or dz < limit:
                continue
            for y in range(W):
                v = dz + e[z, y]
                better = v > best[y]
                best[y] = v if better else best[y]
                arg[y] = z if better else arg[y]
        for y in range(W):
            back[t, y] = arg[y]
            now[y] = best[y] + em[t, y]
    k = 0
    top = -INFINITE_SCORE
    for y in range(L):
        v = now[y]
        if right >= 0:
            v += tr[at[n], y, right]
        if v > top:
            top = v
            k = y
    for t in range(n - 1, -1, -1):
        path[t] = k
        if t > 0:
            k = back[t, k]
    return top


@inner_kernel
def worst_path(flow, start, n, left, right, work):
    """Find the lowest-scoring path with mass on all edges, in work.low; INFINITE_SCORE if none."""
    count, tail, head, mass = flow
    em, path, back, now, best = work.em, work.low, work.back, work.now, work.best
    at, tr = work.edges.at, work.edges.tr
    L = tr.shape[1]
    enter = max(left, 0)
    for y in range(L):
        now[y] = INFINITE_SCORE
    for k in range(count[start]):
        if mass[start, k] > LEAST_MASS and tail[start, k] == enter:
            y = head[start, k]
            now[y] = em[0, y] + (tr[at[0], left, y] if left >= 0 else np.float32(0))
    for t in range(1, n):
        e = tr[at[t]]
        for y in range(L):
            best[y] = INFINITE_SCORE
        for k in range(count[start + t]):
            z, y = tail[start + t, k], head[start + t, k]
            if mass[start + t, k] > LEAST_MASS and now[z] < INFINITE_SCORE:
                v = now[z] + e[z, y]
                if v < best[y]:
                    best[y] = v
                    back[t, y] = z
        for y in range(L):
            now[y] = best[y] + em[t, y] if best[y] < INFINITE_SCORE else INFINITE_SCORE
    last = -1
    low = INFINITE_SCORE
    if right < 0:
        for y in range(L):
            if now[y] < low:
                low = now[y]
                last = y
    else:
        for k in range(count[start + n]):
            y = tail[start + n, k]
            if head[start + n, k] == right and mass[start + n, k] > LEAST_MASS and now[y] < INFINITE_SCORE:
                v = now[y] + tr[at[n], y, right]
                if v < low:
                    low = v
                    last = y
    if last < 0:
        return INFINITE_SCORE
    for t in range(n - 1, -1, -1):
        path[t] = last
        if t > 0:
            last = back[t, last]
    return low


@inner_kernel
def expected(em, edges, flow, start, n, left, right):
    """The score of the flow inside the span, and the mass that enters it."""
    count, tail, head, mass = flow
    at, tr = edges.at, edges.tr
    total = 0.0
    entered = 0.0
    enter = max(left, 0)
    for k in range(count[start]):
        if tail[start, k] == enter:
            y = head[start, k]
            total += mass[start, k] * (em[0, y] + (tr[at[0], left, y] if left >= 0 else np.float32(0)))
            entered += mass[start, k]
    for t in range(1, n):
        e = tr[at[t]]
        for k in range(count[start + t]):
            y = head[start + t, k]
            total += np.float64(mass[start + t, k] * (em[t, y] + e[tail[start + t, k], y]))
    if right >= 0:
        for k in range(count[start + n]):
            if head[start + n, k] == right:
                total += mass[start + n, k] * tr[at[n], tail[start + n, k], right]
    return total, entered


@kernel
def count_flow(flow, gold, edge_row, node, edge):
    """Add marginals less gold."""
    for t in range(len(gold)):
        for k in range(flow.size[t]):
            count_edge(
                t, np.int64(flow.tail[t, k]), flow.head[t, k], flow.mass[t, k], gold, edge_row, node, edge
            )


@kernel
def repair_flow(first, last, ptr, flow, gold, arrived):
    """Push mass forward from the first token: in present shares, or to gold if none leaves a label.

    Loops clear arrays: `arrived[:] = 0` would be more to compile.
    """
    count, tail, head, mass = flow
    L = len(arrived)
    left = np.zeros(L)
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            if t == ptr[i]:
                for z in range(L):
                    arrived[z] = z == 0  # the first token is entered from label 0
            for z in range(L):
                left[z] = 0
            for k in range(count[t]):
                if mass[t, k] > MIN_STORED_MASS:
                    left[tail[t, k]] += mass[t, k]
            kept = 0
            for k in range(count[t]):
                z = tail[t, k]
                if mass[t, k] > MIN_STORED_MASS and arrived[z] > 0:
                    tail[t, kept], head[t, kept] = z, head[t, k]
                    mass[t, kept] = mass[t, k] * (arrived[z] / left[z])
                    kept += 1
            for z in range(L):
                if arrived[z] > 0 and left[z] <= 0 and kept < mass.shape[1]:
                    tail[t, kept], head[t, kept], mass[t, kept] = z, gold[t], arrived[z]
                    kept += 1
            count[t] = kept
            for y in range(L):
                arrived[y] = 0
            total = 0.0
            for k in range(kept):
                arrived[head[t, k]] += mass[t, k]
                total += mass[t, k]
            for y in range(L):
                arrived[y] /= total


@inner_kernel
def find(flow, t, z, y):
    """Return the entry of edge z to y at token t, or -1; a first token has z below 0."""
    count, tail, head, _ = flow
    for k in range(count[t]):
        if head[t, k] == y and tail[t, k] == max(z, 0):
            return k
    return -1


@inner_kernel
def add_mass(flow, t, z, y, step):
    """Add mass to edge z to y at token t within its capacity; remove an edge without mass."""
    count, tail, head, mass = flow
    k = find(flow, t, z, y)
    if k < 0:
        k = count[t]
        count[t] += 1
        tail[t, k], head[t, k], mass[t, k] = max(z, 0), y, 0
    mass[t, k] += step
    if mass[t, k] <= 0:
        count[t] -= 1
        end = count[t]
        tail[t, k], head[t, k], mass[t, k] = tail[t, end], head[t, end], mass[t, end]
