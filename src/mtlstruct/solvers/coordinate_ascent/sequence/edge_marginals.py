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

LEAST_MASS = np.float32(1e-6)
"""Mass below this is rounding: it is not moved, and a token with less off gold is not active."""

MIN_STORED_MASS = np.float32(1e-7)
"""Marginals below this are set to zero when the flow is made exact, to free entries."""

EDGE_CAPACITY = 8
"""Entries a token to begin with."""


def flow_bytes(tokens: int) -> int:
    """Memory of a flow, before some token needs more room."""
    return tokens * (4 + EDGE_CAPACITY * 8)


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


@kernel
def find_loose_flow(flow, gold, out):
    """Find the tokens whose mass has left gold."""
    count, _, head, mass = flow
    for t in range(len(count)):
        off = np.float32(0)
        for k in range(count[t]):
            if head[t, k] != gold[t]:
                off += mass[t, k]
        out[t] = off > LEAST_MASS


@kernel
def count_flow(flow, gold, edge_row, node, edge):
    """Add marginals less gold, summed off gold: 1 − (mass on gold) is too coarse for a large c."""
    count, tail, head, mass = flow
    L = node.shape[1]
    for t in range(len(gold)):
        row = edge_row[t]
        right = np.int64(gold[t - 1]) * L + gold[t] if row >= 0 else 0
        for k in range(count[t]):
            if head[t, k] != gold[t]:
                node[t, head[t, k]] += mass[t, k]
                node[t, gold[t]] -= mass[t, k]
            pair = np.int64(tail[t, k]) * L + head[t, k]
            if row >= 0 and pair != right:
                edge[row, pair] += mass[t, k]
                edge[row, right] -= mass[t, k]


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
