"""Cuts and the bundle: the working set W of Algorithm 1.

A cut is the pair (p, q) of the paper: p_j = −(1/n)·Σ_i δΦ_j^i(ŷ_i), q = (1/n)·Σ_i Δ(y_i, ŷ_i). It is kept as the
outputs ŷ that made it, one small integer a token; p is rebuilt when wanted and never stored. The bundle adds the
per-template Gram matrices Q^j_{rr'} = ⟨p_j^r, p_j^r'⟩, one row a new cut, in one walk over the data: a weight is
fetched once and serves all cuts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system.stateful import Kept, State
from mtlstruct.linear.design import Design
from mtlstruct.linear.label_support import lists
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.structures.base import Triplets

REMEMBERED = 20_000_000
"""Sparse differences to gold are kept beside the labelings up to this many entries, and rebuilt beyond."""


class Cuts(Kept):
    """The cuts as outputs of the sentences at hand; q and p are means over `sentences`, which may be more."""

    kept: ClassVar[tuple[str, ...]] = ("outputs",)

    def __init__(self, oracle: Oracle, sentences: int) -> None:
        self.oracle, self.sentences = oracle, sentences
        self.outputs: list[NDArray[np.integer]] = []
        self._differences: list[tuple[Triplets, ...] | None] = []

    def unpack(self, state: State) -> None:
        """Takes the cuts; differences to gold are made again when they are wanted."""
        super().unpack(state)
        self._differences = [None] * len(self.outputs)

    def add(self, outputs: NDArray[np.int32]) -> None:
        """One more cut."""
        self.outputs.append(outputs.astype(np.min_scalar_type(int(outputs.max(initial=0)))))
        self._differences.append(None)

    def combine(self, alpha: NDArray[np.float64], weights: Weights) -> None:
        """weights := Σ_r α_r p^r, unscaled."""
        counts = [np.zeros(shape) for shape in self.oracle.part_shapes()]
        for r in np.flatnonzero(alpha).tolist():
            for triplets, table in zip(self._difference(r), counts, strict=True):
                triplets.add_to(table, alpha[r] / self.sentences)
        self.oracle.count(counts, weights)

    def products(self, p: Weights) -> NDArray[np.float64]:
        """⟨p_j, p_j^r⟩ for all templates and cuts: float64[m, s]."""
        out = np.zeros((self.oracle.templates, len(self.outputs)))
        differences = [self._difference(r) for r in range(len(self.outputs))]
        for kind, design in enumerate(self.oracle.encoded.designs):
            some = [d[kind] for d in differences]
            table = _by_row(some, design.rows)
            _dots(
                design.ids, design.ptr, *_blocks(design), design.values, design.attributes,
                *lists(design.support), p[kind], *table, out,
            )  # fmt: skip
        return out / self.sentences

    def select(self, kept: NDArray[np.int64]) -> None:
        """Drops all other cuts."""
        self.outputs = [self.outputs[r] for r in kept]
        self._differences = [self._differences[r] for r in kept]

    def _difference(self, r: int) -> tuple[Triplets, ...]:
        known = self._differences[r]
        if known is not None:
            return known
        fresh = self.oracle.indicator(self.outputs[r])
        if self._entries() + sum(len(t.row) for t in fresh) <= REMEMBERED:
            self._differences[r] = fresh
        return fresh

    def _entries(self) -> int:
        return sum(len(t.row) for d in self._differences if d is not None for t in d)


class Bundle(Kept):
    """Cuts, their Gram matrices, and how long each has been idle.

    gram float64[m, s, s], q float64[s]
    """

    kept = ("cuts", "gram", "q", "idle")

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        spread = getattr(oracle, "cuts", None)  # over shards, each has those of its own sentences
        self.cuts: Cuts = spread() if spread is not None else Cuts(oracle, oracle.sentences)
        self.gram = np.zeros((oracle.templates, 0, 0))
        self.q = np.zeros(0)
        self.idle = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.q)

    def add(self, outputs: NDArray[np.int32], loss: float, buffer: Weights) -> None:
        """Adds the cut that these outputs make; `buffer` holds p meanwhile."""
        self.cuts.add(outputs)
        self.q = np.append(self.q, loss / self.oracle.sentences)
        self.idle = np.append(self.idle, 0)
        one = np.zeros(len(self))
        one[-1] = 1
        self.cuts.combine(one, buffer)
        row = self.cuts.products(buffer)
        gram = np.empty((self.oracle.templates, len(self), len(self)))
        gram[:, :-1, :-1] = self.gram
        gram[:, -1, :] = gram[:, :, -1] = row
        self.gram = gram

    def prune(self, alpha: NDArray[np.float64], patience: int) -> NDArray[np.float64]:
        """Drops cuts that have had no weight for `patience` solves; returns alpha of the rest."""
        self.idle = np.where(alpha > 1e-9 * alpha.max(initial=0.0), 0, self.idle + 1)
        kept = np.flatnonzero(self.idle < patience)
        if len(kept) < len(self):
            self.cuts.select(kept)
            self.gram = np.ascontiguousarray(self.gram[:, kept][:, :, kept])
            self.q, self.idle = self.q[kept], self.idle[kept]
        return alpha[kept]


BY_SLOT, BY_ENTRY, BY_ATTRIBUTE = range(3)
"""What tells the template of an entry: its place in the row, its place in A, or its attribute."""


def _blocks(design: Design) -> tuple[int, NDArray[np.int32]]:
    """How to find the template of an entry, and where."""
    if design.unlisted:
        return BY_ATTRIBUTE, design.attribute_blocks
    return (BY_ENTRY if design.ragged else BY_SLOT), design.blocks


def _by_row(triplets: list[Triplets], rows: int) -> tuple[NDArray[Any], ...]:
    """All cuts' triplets in one table sorted by row: ptr int64[rows+1], then cut, part, count of each entry."""
    row = np.concatenate([t.row for t in triplets])
    cut = np.repeat(np.arange(len(triplets)), [len(t.row) for t in triplets]).astype(np.int32)
    part = np.concatenate([t.part for t in triplets])
    count = np.concatenate([t.count for t in triplets])
    ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    order = _order_by_row(row, ptr)
    return ptr, cut[order], part[order], count[order]


# ---------------------------------------------------------------- kernels


@kernel
def _order_by_row(row, ptr):  # type: ignore[no-untyped-def]
    head = ptr[:-1].copy()
    order = np.empty(len(row), np.int64)
    for i in range(len(row)):
        order[head[row[i]]] = i
        head[row[i]] += 1
    return order


@kernel
def _feature(own, of, a, y):  # type: ignore[no-untyped-def]
    """The feature of attribute a with label y, -1 if there is none (support.py); labels rise."""
    low, high = own[a, 0], own[a + 1, 0]
    while low < high:
        middle = (low + high) // 2
        if of[middle, 0] < y:
            low = middle + 1
        else:
            high = middle
    return low if low < own[a + 1, 0] and of[low, 0] == y else -1


@kernel
def _dots(  # type: ignore[no-untyped-def]
    ids, ptr, by, blocks, values, null, own, of, p, entry_ptr, cut, part, count, out
):
    listed = len(own) > 0
    for row in range(len(entry_ptr) - 1):
        if entry_ptr[row] == entry_ptr[row + 1]:
            continue
        for k in range(ptr[row], ptr[row + 1]):
            if ids[k] == null:
                continue
            a = np.int64(ids[k])
            at = k - ptr[row] if by == BY_SLOT else k if by == BY_ENTRY else np.int64(ids[k])
            block = out[blocks[at]]
            x = values[k] if len(values) > 0 else np.float32(1)
            for e in range(entry_ptr[row], entry_ptr[row + 1]):
                if not listed:
                    block[cut[e]] += np.float64(x * count[e]) * p[a, part[e]]
                    continue
                f = _feature(own, of, a, part[e])
                if f >= 0:
                    block[cut[e]] += np.float64(x * count[e]) * p[f, 0]
