"""Label sequences with first-order transitions: the structure of MTL^hmm (the paper's Section on sequences).

Node templates (U) score a label at a token, edge templates (B) a pair of labels at a token and its left
neighbour; they fire from the second token on. The best sequence is Viterbi's, eq. (op:1-inference) with the
cost added, in O(l·L²), or less with many labels: of these most are passed over, since none of their edges can be the
best. Ties go to the label with the smaller number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, kernel
from mtlstruct.structures.base import (
    FORBIDDEN,
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
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.forward_backward import marginals
from mtlstruct.structures.nbest import nbest

CROWD = 24
"""Labels from which on it pays to ask whether any edge out of a label can be the best, before looking at all."""

_FAR = np.float32(3e38)


@dataclass(frozen=True)
class SequenceStructure:
    """Sequences over `labels` labels. Parts: node float32[T, ≥L], edge float32[rows, L·L] (previous, current)."""

    labels: int
    name: ClassVar[str] = "sequence"

    def widths(self) -> tuple[int, ...]:
        """A label at a node, a pair of labels at an edge."""
        return (self.labels, self.labels * self.labels)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Every token is a node; every token but the first of a sentence is an edge."""
        inner = np.ones(int(ptr[-1]), bool)
        inner[ptr[:-1]] = False
        return (Sites("node", "U", None, False), Sites("edge", "B", np.flatnonzero(inner), True))

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """A sentence has as many nodes as tokens, and one edge less."""
        return ptr, ptr - np.arange(len(ptr))

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """The labels."""
        return labels

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """cost[gold, chosen], summed over the tokens of a sentence."""
        return np.add.reduceat(cost[gold, outputs].astype(np.float64), ptr[:-1])

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
        """Viterbi, loss-augmented where gold and cost are given."""
        if gold is None or cost is None:
            gold, cost = np.zeros(0, np.int32), np.zeros((1, self.labels), np.float32)
        L = self.labels
        edges = parts[1].reshape(-1, L, L)
        longest = int(np.diff(ptr[span[0] : span[1] + 1]).max(initial=1))
        crowded = len(edges) == 1 and L >= CROWD
        most = edges[0].max(axis=0) if crowded else np.zeros(0, np.float32)
        back, arg = np.empty((longest, L), np.int32), np.empty(L, np.int32)
        now, best = np.empty(L, np.float32), np.empty(L, np.float32)
        room = (most, back, now, best, arg)
        nodes, row, factor = parts[0], edge_rows(rows), np.float32(scale)
        _viterbi(*span, ptr, nodes, edges, row, factor, gold, cost, *room, outputs, values)

    def evaluate(self, parts: Parts, rows: Rows, ptr: Ptr, outputs: Outputs) -> Values:
        """Sum of the node and edge scores on the path."""
        totals = np.zeros(len(ptr) - 1)
        _path_scores(*parts, edge_rows(rows), ptr, outputs, self.labels, totals)
        return totals

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Labels where the two differ, and pairs where either end differs (summed where edges share a row)."""
        tokens = np.flatnonzero(outputs != against)
        node = Triplets(
            np.repeat(tokens, 2).astype(np.int32),
            np.stack([outputs[tokens], against[tokens]], axis=1).ravel().astype(np.int32),
            np.tile(np.array([1, -1], np.float32), len(tokens)),
        )
        return node, self._edge_indicator(tokens, outputs, against, rows, ptr)

    def _edge_indicator(
        self, tokens: NDArray[np.int64], outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr
    ) -> Triplets:
        touched = np.unique(np.concatenate([tokens, tokens + 1]))
        touched = touched[touched < ptr[-1]]
        sentence = np.searchsorted(ptr, touched, side="right")
        inside = touched != ptr[sentence - 1]
        touched, sentence = touched[inside], sentence[inside]
        row = edge_rows(rows)[touched - sentence].astype(np.int64)
        L = self.labels
        plus = outputs[touched - 1].astype(np.int64) * L + outputs[touched]
        minus = against[touched - 1].astype(np.int64) * L + against[touched]
        key = np.concatenate([row * L * L + plus, row * L * L + minus])
        distinct, where = np.unique(key, return_inverse=True)
        count = np.bincount(where, np.repeat([1.0, -1.0], len(touched)), minlength=len(distinct))
        kept = count != 0
        at = distinct[kept]
        return Triplets(
            (at // (L * L)).astype(np.int32), (at % (L * L)).astype(np.int32), count[kept].astype(np.float32)
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
        """Forward-backward: probabilities of labels at tokens and of pairs at edges, and log Z."""
        return marginals(parts, edge_rows(rows), ptr, span, self.labels, log_partition, scale, gold)

    def nbest(self, parts: Parts, rows: Rows, ptr: Ptr, span: Span, outputs: Outputs, values: Values) -> None:
        """Viterbi, and on from there by recursive enumeration."""
        nbest(parts, edge_rows(rows), ptr, span, self.labels, outputs, values)

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Pairs at edges, labels at the first and the last token of a sentence, and labels at any token."""
        L = self.labels
        nodes, edges = parts
        if constraints.labels is not None:
            nodes = np.where(constraints.labels, nodes, FORBIDDEN)
        if constraints.pairs is not None:
            may_start, may_end = constraints.pairs[L, :L], constraints.pairs[:L, L]
            nodes = nodes.copy()
            for tokens, may in ((ptr[:-1], may_start), (ptr[1:] - 1, may_end)):
                nodes[tokens] = np.where(may, nodes[tokens], FORBIDDEN)
            edges = np.where(constraints.pairs[:L, :L].ravel(), edges, FORBIDDEN)
        return nodes, edges


def edge_rows(rows: Rows) -> NDArray[np.int32]:
    """The edge row of each edge site. Edge site of token t in sentence i is number t - i - 1."""
    assert rows[1] is not None
    return rows[1]


# ---------------------------------------------------------------- kernels


@kernel
def _path_scores(nodes, edges, edge_row, ptr, outputs, labels, totals):  # type: ignore[no-untyped-def]
    for i in range(len(totals)):
        for t in range(ptr[i], ptr[i + 1]):
            totals[i] += nodes[t, outputs[t]]
            if t > ptr[i]:
                totals[i] += edges[edge_row[t - i - 1], outputs[t - 1] * labels + outputs[t]]


@fast_kernel
def _viterbi(  # type: ignore[no-untyped-def]
    first, last, ptr, nodes, edges, edge_row, scale, gold, cost, most, back, now, best, arg, outputs, values
):
    """most: the largest edge into each label, where labels are so many that this is worth knowing; else empty."""
    L = edges.shape[1]
    crowded = len(most) > 0
    augmented = len(gold) > 0
    right = 0
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        for t in range(n):
            row = nodes[start + t]
            if augmented:
                right = gold[start + t]
            if t == 0:
                for y in range(L):
                    best[y] = 0
            else:
                e = edges[edge_row[start + t - i - 1]]
                top = 0
                limit = -_FAR
                if crowded:  # no edge out of a label below the limit can be the best
                    for z in range(1, L):
                        top = z if now[z] > now[top] else top
                    limit = _FAR
                    for y in range(L):
                        limit = min(limit, now[top] + scale * (e[top, y] - most[y]))
                for y in range(L):
                    best[y] = now[top] + scale * e[top, y]
                    arg[y] = top
                for z in range(top - 1, -1, -1):  # of equal ones the smallest wins
                    if now[z] < limit:
                        continue
                    for y in range(L):
                        v = now[z] + scale * e[z, y]
                        better = v >= best[y]
                        best[y] = v if better else best[y]
                        arg[y] = z if better else arg[y]
                for z in range(top + 1, L):
                    if now[z] < limit:
                        continue
                    for y in range(L):
                        v = now[z] + scale * e[z, y]
                        better = v > best[y]
                        best[y] = v if better else best[y]
                        arg[y] = z if better else arg[y]
                for y in range(L):
                    back[t, y] = arg[y]
            for y in range(L):
                now[y] = best[y] + scale * row[y] + cost[right, y]
        y = 0
        for k in range(1, L):
            if now[k] > now[y]:
                y = k
        values[i] = now[y]
        for t in range(n - 1, -1, -1):
            outputs[start + t] = y
            if t > 0:
                y = back[t, y]
