"""Dependency trees scored arc by arc: the structure of MTL^parse (the paper's section on parsing).

A sentence of n tokens has n·(n + 1) arcs, each with a row: row (m − 1)·(n + 1) + h, counted from
the first of the sentence, is the arc from head h (0 is the root) to modifier m. Arcs from a token
to itself have empty rows, so that every token has the same number. An output is the head of each
token. Every wrong head has the same loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.structures.base import (
    Batch,
    Cost,
    Outputs,
    Ptr,
    RowCounts,
    Rows,
    Sites,
    Span,
    Triplets,
    Values,
)
from mtlstruct.structures.tree_decoding import best_nonprojective, best_projective
from mtlstruct.structures.tree_marginals import inside_outside, matrix_tree

CHOICES = ("right", "wrong")
"""What a loss compares: a right and a wrong head."""


@dataclass(frozen=True)
class TreeStructure:
    """Non-projective trees. Parts: arc float32[rows, 1]. The number of labels is not used."""

    labels: int = 0
    name: ClassVar[str] = "tree"
    projective: ClassVar[bool] = False
    single_root: ClassVar[bool] = False

    def widths(self) -> tuple[int, ...]:
        """Return 1: a feature of an arc has one weight."""
        return (1,)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Return the arcs; `arc_starts` has the first row of each sentence."""
        return (Sites("arc", "A", None, False),)

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Return the first arc of each sentence."""
        return (arc_starts(ptr),)

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """Return a right head and a wrong one."""
        return CHOICES

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """Return the cost of the wrong heads of each sentence."""
        return _sum_by_sentence(np.where(outputs == gold, cost[0, 0], cost[0, 1]), ptr)

    def decode(
        self, batch: Batch, span: Span, outputs: Outputs, values: Values,
        *, scale: float = 1.0, gold: Outputs | None = None, cost: Cost | None = None,
    ) -> None:  # fmt: skip
        """Write the best trees, loss-augmented where gold and cost are given."""
        wrong = 0.0
        if gold is None or cost is None:
            gold = np.zeros(0, np.int32)
        else:
            wrong = float(cost[0, 1])
        (scores,), row = batch.parts, int(arc_starts(batch.ptr[: span[0] + 1])[-1])
        search, single = best_projective if self.projective else best_nonprojective, self.single_root
        search(*span, batch.ptr, scores, row, float(scale), gold, wrong, single, outputs, values)

    def evaluate(self, batch: Batch, outputs: Outputs) -> Values:
        """Return the sum of the scores of the arcs."""
        return _sum_by_sentence(batch.parts[0][arc_rows(batch.ptr) + outputs, 0], batch.ptr)

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Return the arcs of tokens whose heads differ."""
        tokens = np.flatnonzero(outputs != against)
        heads = np.stack([outputs[tokens], against[tokens]], axis=1)
        first = heads.min(axis=1, keepdims=True)
        row = arc_rows(ptr)[tokens][:, None] + np.sort(heads, axis=1)
        count = np.where(heads[:, :1] == first, [1, -1], [-1, 1]).ravel().astype(np.float32)
        return (Triplets(row.ravel().astype(np.int32), np.zeros(row.size, np.int32), count),)

    def marginals(
        self, batch: Batch, span: Span, log_partition: Values,
        *, scale: float = 1.0, gold: Outputs | None = None,
    ) -> tuple[RowCounts, ...]:  # fmt: skip
        """Return the marginal of each arc; write log Z."""
        (scores,), ptr = batch.parts, batch.ptr
        starts = arc_starts(ptr[: span[1] + 1])
        rows = slice(int(starts[span[0]]), int(starts[-1]))
        out, right = np.zeros((rows.stop - rows.start, 1)), np.zeros(0, np.int32) if gold is None else gold
        run = inside_outside if self.projective else matrix_tree
        run(*span, ptr, scores[rows], float(scale), right, self.single_root, out, log_partition)
        return (RowCounts(rows, out.astype(np.float32)),)


class ProjectiveTree(TreeStructure):
    """Trees without crossing arcs."""

    name = "projective-tree"
    projective = True


class SingleRootTree(TreeStructure):
    """Trees with one token under the root."""

    name = "single-root-tree"
    single_root = True


class SingleRootProjectiveTree(ProjectiveTree):
    """Trees without crossing arcs and with one token under the root."""

    name = "single-root-projective-tree"
    single_root = True


def arc_starts(ptr: Ptr) -> NDArray[np.int64]:
    """Return the row of the first arc of each sentence, and one past the last row. int64[S+1]."""
    n = np.diff(ptr)
    starts = np.zeros(len(ptr), np.int64)
    np.cumsum(n * (n + 1), out=starts[1:])
    return starts


def arc_rows(ptr: Ptr) -> NDArray[np.int64]:
    """Return the row of each token's arc from the root; from head h it is h rows below. int64[T]"""
    n = np.diff(ptr)
    place = np.arange(int(ptr[-1])) - np.repeat(ptr[:-1], n)
    rows: NDArray[np.int64] = np.repeat(arc_starts(ptr)[:-1], n) + place * np.repeat(n + 1, n)
    return rows


def _sum_by_sentence(values: NDArray[np.float32], ptr: Ptr) -> Values:
    return np.add.reduceat(values.astype(np.float64), ptr[:-1]) if len(values) else np.zeros(0)
