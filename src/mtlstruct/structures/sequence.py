"""Label sequences with first-order transitions: the structure of MTL^hmm in the paper.

Node templates (U) score a label at a token, edge templates (B) a pair of labels at a token and its
left neighbour, from the second token of a sentence on. The best sequence is found by the Viterbi
algorithm, eq. (op:1-inference) with the cost added, in O(l·L²). With many labels most are skipped,
because a bound shows that none of their edges can be the best. Ties go to the label with the
smaller index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, kernel
from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import (
    FORBIDDEN,
    IMPOSSIBLE,
    Batch,
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
from mtlstruct.structures.forward_backward import (
    MAX_EDGE_RANGE,
    logarithmic_messages,
    scaled_messages,
    subtract_gold,
)
from mtlstruct.structures.nbest import best_sequences

MIN_LABELS_TO_PRUNE = 24
"""The number of labels from which on bounding the edges out of a label pays."""

_LARGEST_SCORE = np.float32(3e38)


@dataclass(frozen=True)
class SequenceStructure:
    """Sequences over `labels` labels.

    Parts: node float32[T, ≥L], edge float32[rows, L·L] (previous label, label).
    """

    labels: int
    name: ClassVar[str] = "sequence"

    def widths(self) -> tuple[int, ...]:
        """Return L and L²: labels at a node, pairs of labels at an edge."""
        return (self.labels, self.labels * self.labels)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Return a node for each token, and an edge for each token but the first of a sentence."""
        inner = np.ones(int(ptr[-1]), bool)
        inner[ptr[:-1]] = False
        return (Sites("node", "U", None, False), Sites("edge", "B", np.flatnonzero(inner), True))

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Return the first node and the first edge of each sentence."""
        return ptr, ptr - np.arange(len(ptr))

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """Return the labels."""
        return labels

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """Return cost[gold, outputs], summed over the tokens of a sentence."""
        return np.add.reduceat(cost[gold, outputs].astype(np.float64), ptr[:-1])

    def decode(
        self, batch: Batch, span: Span, outputs: Outputs, values: Values,
        *, scale: float = 1.0, gold: Outputs | None = None, cost: Cost | None = None,
    ) -> None:  # fmt: skip
        """Run the Viterbi algorithm, loss-augmented where gold and cost are given."""
        if gold is None or cost is None:
            gold, cost = np.zeros(0, np.int32), np.zeros((1, self.labels), np.float32)
        L, ptr = self.labels, batch.ptr
        nodes, edges, row = self._tables(batch)
        prune = len(edges) == 1 and L >= MIN_LABELS_TO_PRUNE
        largest_edge = edges[0].max(axis=0) if prune else np.zeros(0, np.float32)
        longest = int(np.diff(ptr[span[0] : span[1] + 1]).max(initial=1))
        back, arg = np.empty((longest, L), np.int32), np.empty(L, np.int32)
        work = ViterbiWorkspace(largest_edge, back, np.empty(L, np.float32), np.empty(L, np.float32), arg)
        viterbi(*span, ptr, nodes, edges, row, np.float32(scale), gold, cost, work, outputs, values)

    def evaluate(self, batch: Batch, outputs: Outputs) -> Values:
        """Return the sum of the node and edge scores on the path."""
        totals = np.zeros(len(batch.ptr) - 1)
        _path_scores(*self._tables(batch), batch.ptr, outputs, totals)
        return totals

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Return labels where the two differ, and pairs where either end differs, summed by row."""
        tokens = np.flatnonzero(outputs != against)
        node = Triplets(
            np.repeat(tokens, 2).astype(np.int32),
            np.stack([outputs[tokens], against[tokens]], axis=1).ravel().astype(np.int32),
            np.tile(np.array([1, -1], np.float32), len(tokens)),
        )
        if len(rows) == 1:
            return (node,)
        touched = np.union1d(tokens, tokens + 1)
        touched = touched[touched < ptr[-1]]
        sentence = np.searchsorted(ptr, touched, side="right")
        inside = touched != ptr[sentence - 1]
        touched, sentence = touched[inside], sentence[inside]
        row, parts = edge_rows(rows)[touched - sentence].astype(np.int64), self.labels**2
        plus, minus = (y[touched - 1].astype(np.int64) * self.labels + y[touched] for y in (outputs, against))
        key = np.concatenate([row * parts + plus, row * parts + minus])
        distinct, where = np.unique(key, return_inverse=True)
        count = np.bincount(where, np.repeat([1.0, -1.0], len(touched)), minlength=len(distinct))
        used = count != 0
        row, part = np.divmod(distinct[used], parts)
        edge = Triplets(row.astype(np.int32), part.astype(np.int32), count[used].astype(np.float32))
        return node, edge

    def marginals(
        self, batch: Batch, span: Span, log_partition: Values,
        *, scale: float = 1.0, gold: Outputs | None = None,
    ) -> tuple[RowCounts, ...]:  # fmt: skip
        """Return marginals of labels and of pairs, by forward-backward; write log Z."""
        (first, last), L, ptr = span, self.labels, batch.ptr
        start, stop = int(ptr[first]), int(ptr[last])
        _, every, edge_row = self._tables(batch)
        rows, site_row = np.unique(edge_row[start - first : stop - last], return_inverse=True)
        sites, bounds = site_row.astype(np.int64), ptr[first : last + 1] - start
        nodes = batch.parts[0][start:stop, :L]
        edges = scale * every[rows].astype(np.float64)
        node, edge = np.zeros((stop - start, L)), np.zeros_like(edges)
        edge_range = float(np.ptp(edges)) if edges.size else 0.0
        run = scaled_messages if edge_range <= MAX_EDGE_RANGE else logarithmic_messages
        run(bounds, nodes, edges, sites, scale, node, edge, log_partition[first:last])
        if gold is not None:
            subtract_gold(bounds, gold[start:stop], sites, node, edge)
        found = RowCounts(slice(start, stop), node), RowCounts(rows.astype(np.int32), edge.reshape(-1, L * L))
        return found[: len(batch.parts)]

    def nbest(self, batch: Batch, span: Span, outputs: Outputs, values: Values) -> None:
        """Write the N best labelings, by recursive enumeration after the Viterbi algorithm."""
        best_sequences(*span, batch.ptr, *self._tables(batch), IMPOSSIBLE, outputs, values)

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Forbid pairs at edges, labels at the ends of a sentence, labels at any token."""
        L = self.labels
        nodes, *edges = parts
        if constraints.labels is not None:
            nodes = np.where(constraints.labels, nodes, FORBIDDEN)
        if constraints.pairs is not None:
            may_start, may_end = constraints.pairs[L, :L], constraints.pairs[:L, L]
            nodes = nodes.copy()
            for tokens, may in ((ptr[:-1], may_start), (ptr[1:] - 1, may_end)):
                nodes[tokens] = np.where(may, nodes[tokens], FORBIDDEN)
            edges = [np.where(constraints.pairs[:L, :L].ravel(), edges[0], FORBIDDEN)]
        return nodes, *edges

    def _tables(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
        """Return node scores [T, L], edge scores [rows, L, L], and the row of each edge."""
        return batch.parts[0], batch.parts[1].reshape(-1, self.labels, self.labels), edge_rows(batch.rows)


def edge_rows(rows: Rows) -> NDArray[np.int32]:
    """Return the row of each edge site. The edge into token t of sentence i is site t - i - 1."""
    assert rows[1] is not None
    return rows[1]


class ViterbiWorkspace(NamedTuple):
    """Arrays of `viterbi`.

    largest_edge   float32[L]: the largest edge into each label; empty if labels are few
    back           int32[longest, L]: the best previous label
    now, best      float32[L]: scores of the best paths up to the last token, and to the next one
    arg            int32[L]: the row of `back` that is being computed
    """

    largest_edge: NDArray[np.float32]
    back: NDArray[np.int32]
    now: NDArray[np.float32]
    best: NDArray[np.float32]
    arg: NDArray[np.int32]


@dataclass(frozen=True)
class MulticlassStructure(SequenceStructure):
    """Items over `labels` classes: sequences with edges of score 0. Parts: float32[T, ≥L]."""

    name: ClassVar[str] = "multiclass"

    def widths(self) -> tuple[int, ...]:
        """Return L: one part per class."""
        return (self.labels,)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Return one site per token."""
        return super().sites(ptr)[:1]

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Return the first item of each sentence."""
        return (ptr,)

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Return the scores with forbidden classes; raise for constraints on pairs."""
        if constraints.pairs is not None:
            raise IncompatibleError(
                "items stand alone: no class follows another, so none can be forbidden to"
            )
        return super().restrict((parts[0][:, : self.labels],), ptr, constraints)

    def _tables(self, batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
        edges = np.zeros((1, self.labels, self.labels), np.float32)
        return batch.parts[0], edges, np.zeros(int(batch.ptr[-1]) - len(batch.ptr) + 1, np.int32)


# ---------------------------------------------------------------- kernels


@kernel
def _path_scores(nodes, edges, edge_row, ptr, outputs, totals):
    for i in range(len(totals)):
        for t in range(ptr[i], ptr[i + 1]):
            totals[i] += nodes[t, outputs[t]]
            if t > ptr[i]:
                totals[i] += edges[edge_row[t - i - 1], outputs[t - 1], outputs[t]]


@fast_kernel
def viterbi(first, last, ptr, nodes, edges, edge_row, scale, gold, cost, work, outputs, values):
    largest_edge, back, now, best, arg = work
    L = edges.shape[1]
    prune = len(largest_edge) > 0
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
                limit = -_LARGEST_SCORE
                if prune:  # no edge out of a label whose path scores less than the limit can be the best
                    for z in range(1, L):
                        top = z if now[z] > now[top] else top
                    limit = _LARGEST_SCORE
                    for y in range(L):
                        limit = min(limit, now[top] + scale * (e[top, y] - largest_edge[y]))
                for y in range(L):
                    best[y] = now[top] + scale * e[top, y]
                    arg[y] = top
                for k in range(1, L):  # from top down, then up; ties go to the smaller label
                    z = top - k if k <= top else k
                    if now[z] < limit:
                        continue
                    for y in range(L):
                        v = now[z] + scale * e[z, y]
                        better = v >= best[y] if z < top else v > best[y]
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
