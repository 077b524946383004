"""Dense edge marginals of sequences, for smooth losses: no marginal is zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import threads
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import MIN_MASS, Dense

ACTIVE_MASS = np.float32(1e-3)
"""A token with less probability off gold than this is not in the working set."""


def dense_bytes(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the bytes of dense marginals of sentences `ptr`."""
    return int(ptr[-1]) * (4 * _edges(ptr, labels) * labels + 8)


@dataclass
class DenseMarginals:
    """Edge marginals float32[T, L, L] of (previous, current) labels, and the entropy of each token.

    The first token of a sentence has its node marginals in row 0. Where there are no edges, the
    shape is [T, 1, L]. `entropy` float64[T] is H(edge t) − H(node t − 1).
    """

    mass: NDArray[np.float32]
    entropy: NDArray[np.float64]

    @classmethod
    def of_gold(cls, gold: NDArray[np.int32], ptr: NDArray[np.int64], labels: int) -> DenseMarginals:
        """Return the marginals of the gold labels of sentences `ptr`."""
        tokens = len(gold)
        mass = np.zeros((tokens, _edges(ptr, labels), labels), np.float32)
        before = np.zeros(tokens, np.int32)
        before[1:] = gold[:-1]
        before[ptr[:-1]] = 0
        mass[np.arange(tokens), before, gold] = 1
        return cls(mass, np.zeros(tokens))

    @property
    def arrays(self) -> Dense:
        """The arrays that kernels take."""
        return Dense(self.mass, self.entropy)

    def loose(self, gold: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return the tokens with probability off gold."""
        found = np.zeros(len(gold), np.bool_)
        _loose(self.mass, gold, found)
        return found

    def counts(
        self, gold: NDArray[np.int32], edge_row: NDArray[np.int32], labels: int, rows: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return marginals less gold: float32[T, L] by token, float32[rows, L·L] by edge row."""
        node = np.zeros((len(gold), labels), np.float32)
        edge = np.zeros((rows, labels * labels))
        _counts(self.mass, gold, edge_row, node, edge)
        return node, edge.astype(np.float32)

    def total_entropy(self) -> float:
        """Return the entropy of all sentences."""
        return float(self.entropy.sum())

    def repair(self, gold: NDArray[np.int32], ptr: NDArray[np.int64], labels: int) -> None:
        """Scale marginals until inflow equals outflow at each label; recompute the entropy."""

        def work(first: int, last: int) -> None:
            _repair(first, last, ptr, self.mass, self.entropy, gold, np.zeros(labels))

        threads.over_sentences(work, ptr)


def _edges(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the labels that a token may follow: one where all sentences have one token."""
    return 1 if len(ptr) - 1 == ptr[-1] else labels


# ---------------------------------------------------------------- kernels


@kernel
def _loose(mass, gold, out):
    for t in range(len(gold)):
        off = np.float32(0)
        for z in range(mass.shape[1]):
            for y in range(mass.shape[2]):
                if y != gold[t]:
                    off += mass[t, z, y]
        out[t] = off > ACTIVE_MASS


@kernel
def _counts(mass, gold, edge_row, node, edge):
    """The probability on gold is one less all others, which float32 has more exactly."""
    L = node.shape[1]
    for t in range(len(gold)):
        row = edge_row[t]
        right = np.int64(gold[t - 1]) * L + gold[t] if row >= 0 else 0
        for z in range(mass.shape[1]):
            for y in range(L):
                p = mass[t, z, y]
                if y != gold[t]:
                    node[t, y] += p
                    node[t, gold[t]] -= p
                if row >= 0 and z * L + y != right:
                    edge[row, z * L + y] += p
                    edge[row, right] -= p


@kernel
def _repair(first, last, ptr, mass, entropy, gold, arrived):
    L = mass.shape[2]
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            total = 0.0
            for z in range(L if t > ptr[i] else 0):  # the labels before
                if arrived[z] > MIN_MASS:
                    total += arrived[z] * np.log(arrived[z])
            for z in range(mass.shape[1]):
                enters = arrived[z] if t > ptr[i] else np.float64(z == 0)
                leaves = 0.0
                for y in range(L):
                    leaves += mass[t, z, y]
                if leaves <= 0 and enters > 0:
                    mass[t, z, gold[t]] = enters
                for y in range(L):
                    if leaves > 0:
                        mass[t, z, y] = mass[t, z, y] * (enters / leaves)
                    p = mass[t, z, y]
                    if p > MIN_MASS:
                        total -= p * np.log(p)
            entropy[t] = total
            for y in range(L):
                arrived[y] = 0
                for z in range(mass.shape[1]):
                    arrived[y] += mass[t, z, y]
