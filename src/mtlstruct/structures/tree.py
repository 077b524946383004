"""Dependency trees scored arc by arc: the structure of MTL^parse (the paper's section on parsing).

A sentence of n tokens has n·(n + 1) arcs, each with a row of its own: row (m − 1)·(n + 1) + h, counted from the
sentence's first, is the arc from head h (0 is the root) to modifier m. The arcs of a token to itself have rows too,
empty ones, so that every token has as many. An output is the head of each token. The loss is what a wrong head
costs, whichever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.structures.base import (
    Cost,
    Outputs,
    Parts,
    Ptr,
    RowCounts,
    Rows,
    Sites,
    Span,
    Triplets,
    Values,
)
from mtlstruct.structures.tree_decoding import best_trees
from mtlstruct.structures.tree_marginals import marginals

CHOICES = ("right", "wrong")
"""What a loss compares: a head is one or the other."""


@dataclass(frozen=True)
class TreeStructure:
    """Trees of any shape. Parts: arc float32[rows, 1]. The number of labels means nothing to it."""

    labels: int = 0
    name: ClassVar[str] = "tree"
    projective: ClassVar[bool] = False
    single_root: ClassVar[bool] = False

    def widths(self) -> tuple[int, ...]:
        """An arc is there or not: one weight a feature."""
        return (1,)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Arcs; `arc_starts` says which rows are whose."""
        return (Sites("arc", "A", None, False),)

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Where the arcs of each sentence begin."""
        return (arc_starts(ptr),)

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """The right head and a wrong one."""
        return CHOICES

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """What the wrong heads of each sentence cost."""
        each = np.where(outputs == gold, cost[0, 0], cost[0, 1]).astype(np.float64)
        return np.add.reduceat(each, ptr[:-1]) if len(each) else np.zeros(0)

    def decode(
        self,
        parts: Parts,
        rows: Rows,
        ptr: Ptr,
        span: Span,
        outputs: Outputs,
        values: Values,
        *,
        scale: float = 1.0,
        gold: Outputs | None = None,
        cost: Cost | None = None,
    ) -> None:
        """The best trees, loss-augmented where gold and cost are given."""
        wrong = 0.0
        if gold is None or cost is None:
            gold = np.zeros(0, np.int32)
        else:
            wrong = float(cost[0, 1])
        first_row = int(arc_starts(ptr[: span[0] + 1])[-1])
        best_trees(
            span, ptr, parts[0], first_row, scale, gold, wrong, self.projective, self.single_root, outputs, values
        )  # fmt: skip

    def evaluate(self, parts: Parts, rows: Rows, ptr: Ptr, outputs: Outputs) -> Values:
        """The sum of the scores of the arcs."""
        each = parts[0][arc_rows(ptr) + outputs, 0].astype(np.float64)
        return np.add.reduceat(each, ptr[:-1]) if len(each) else np.zeros(0)

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """The arcs of tokens whose heads differ."""
        tokens = np.flatnonzero(outputs != against)
        heads = np.stack([outputs[tokens], against[tokens]], axis=1)
        first = heads.min(axis=1, keepdims=True)
        row = arc_rows(ptr)[tokens][:, None] + np.sort(heads, axis=1)
        count = np.where(heads[:, :1] == first, [1, -1], [-1, 1])
        return (
            Triplets(
                row.ravel().astype(np.int32), np.zeros(row.size, np.int32), count.ravel().astype(np.float32)
            ),
        )

    def marginals(
        self,
        parts: Parts,
        rows: Rows,
        ptr: Ptr,
        span: Span,
        log_partition: Values,
        *,
        scale: float = 1.0,
        gold: Outputs | None = None,
    ) -> tuple[RowCounts, ...]:
        """The probability of each arc, and log Z."""
        first_row = int(arc_starts(ptr[: span[0] + 1])[-1])
        return marginals(
            parts, ptr, span, first_row, log_partition, scale, gold, self.projective, self.single_root
        )


class ProjectiveTree(TreeStructure):
    """Trees without crossing arcs."""

    name = "projective-tree"
    projective = True


class SingleRootTree(TreeStructure):
    """Trees with one token under the root."""

    name = "single-root-tree"
    single_root = True


class SingleRootProjectiveTree(ProjectiveTree):
    """Trees without crossing arcs, and with one token under the root."""

    name = "single-root-projective-tree"
    single_root = True


def arc_starts(ptr: Ptr) -> NDArray[np.int64]:
    """The row of the first arc of each sentence, and one past the last row. int64[S+1]."""
    n = np.diff(ptr)
    starts = np.zeros(len(ptr), np.int64)
    np.cumsum(n * (n + 1), out=starts[1:])
    return starts


def arc_rows(ptr: Ptr) -> NDArray[np.int64]:
    """For each token the row of its arc from the root; the arc from head h is h rows below. int64[T]."""
    n = np.diff(ptr)
    place = np.arange(int(ptr[-1])) - np.repeat(ptr[:-1], n)
    rows: NDArray[np.int64] = np.repeat(arc_starts(ptr)[:-1], n) + place * np.repeat(n + 1, n)
    return rows
