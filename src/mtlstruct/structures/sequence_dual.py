"""The dual of a sequence, kept as a flow over edges; sequence_visit.py has the visit that improves it.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals matter:
flow[t, z, y] is the mass of labelings with label z at t-1 and y at t (the first token of a sentence uses row 0).
They form a unit flow through the trellis, gold to begin with.

Where a span does not begin or end with its sentence, the label outside is held: paths run between the labels
that carry most mass there. So a sentence of any length is visited in spans of bounded size, and a span of tokens
whose mass has left gold is visited without the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import threads
from .._kernels import kernel
from .base import DualProblem, Visits
from .sequence_visit import TINY, visit

LONGEST = 400
"""A span has at most this many tokens: the kernels of a span take 4·LONGEST² bytes."""


class SequenceDual:
    """Edge marginals of all sentences, and the operations the coordinate learner asks of a dual state."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        L = problem.structure.labels
        tokens = int(problem.encoded.ptr[-1])
        self.flow = np.zeros((tokens, L, L), np.float32)
        first = problem.encoded.ptr[:-1]
        previous = np.zeros(tokens, np.int32)
        previous[1:] = problem.gold[:-1]
        previous[first] = 0
        self.flow[np.arange(tokens), previous, problem.gold] = 1
        self.edge_row = np.full(tokens, -1, np.int32)
        inner = problem.structure.sites(problem.encoded.ptr)[1].tokens
        self.edge_row[inner] = problem.encoded.rows[1]
        self.starts = np.zeros(tokens + 1, np.bool_)
        self.starts[problem.encoded.ptr] = True

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Spans [k, 3] (start, stop, sentence) that cover these sentences; long ones in pieces cut at `shift`."""
        ptr = self.problem.encoded.ptr
        start, stop = ptr[sentences], ptr[sentences + 1]
        whole = np.stack([start, stop, sentences], axis=1)
        long = np.flatnonzero(stop - start > LONGEST)
        if len(long) == 0:
            return whole
        pieces = [_pieces(whole[i], shift) for i in long]
        return np.concatenate([np.delete(whole, long, axis=0), *pieces])

    def active(self) -> NDArray[np.int64]:
        """Runs of tokens with mass off gold, as spans."""
        loose = _loose(self.flow, self.problem.gold)
        return _runs(loose, self.starts, self.problem.encoded.ptr)

    def visit(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> Visits:
        """Improves the dual on each span in turn, until its gap is below tolerance or `enough` of what it was."""
        p = self.problem
        node, edge = p.encoded.designs
        gaps, loss, steps = visit(
            spans, self.starts, p.gold, p.cost, self.flow, self.edge_row, node, edge, p.V[0], p.V[1], p.N, mu,
            c, rounds, tolerance, enough,
        )  # fmt: skip
        return Visits(gaps, loss, steps)

    def repair(self) -> None:
        """Makes the flow exact again: rounding leaks are closed by pushing mass forward from the first token."""
        ptr = self.problem.encoded.ptr

        def work(first: int, last: int) -> None:
            _repair(first, last, ptr, self.flow, self.problem.gold)

        threads.over_sentences(work, ptr)

    def counts(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        p = self.problem
        L = p.structure.labels
        node = np.zeros((len(p.gold), L), np.float32)
        edge = np.zeros((p.encoded.designs[1].rows, L * L))
        _marginals(self.flow, p.gold, self.edge_row, node, edge)
        return node, edge.astype(np.float32)

    def loss(self, node: NDArray[np.float32]) -> float:
        """The expected cost Σ_t Σ_y marginal·cost, from the node counts (gold costs nothing)."""
        return float(np.einsum("ty,ty->", node, self.problem.cost[self.problem.gold], dtype=np.float64))


def _pieces(span: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    start, stop, sentence = span.tolist()
    cuts = np.arange(start - shift % LONGEST, stop + LONGEST, LONGEST).clip(start, stop)
    cuts = np.unique(cuts)
    return np.stack([cuts[:-1], cuts[1:], np.full(len(cuts) - 1, sentence)], axis=1)


def _runs(loose: NDArray[np.bool_], starts: NDArray[np.bool_], ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Maximal runs of loose tokens that stay in one sentence and within LONGEST."""
    joined = loose[1:] & loose[:-1] & ~starts[1:-1]
    begins = np.flatnonzero(loose & ~np.concatenate([[False], joined]))
    ends = np.flatnonzero(loose & ~np.concatenate([joined, [False]])) + 1
    sentence = np.searchsorted(ptr, begins, side="right") - 1
    spans = np.stack([begins, ends, sentence], axis=1)
    long = np.flatnonzero(ends - begins > LONGEST)
    if len(long) == 0:
        return spans
    pieces = [_pieces(spans[i], 0) for i in long]
    return np.concatenate([np.delete(spans, long, axis=0), *pieces])


# ---------------------------------------------------------------- kernels


@kernel
def _loose(flow, gold):  # type: ignore[no-untyped-def]
    T, L = flow.shape[0], flow.shape[1]
    out = np.zeros(T, np.bool_)
    for t in range(T):
        off = np.float32(0)
        for z in range(L):
            for y in range(L):
                if y != gold[t]:
                    off += flow[t, z, y]
        out[t] = off > TINY
    return out


@kernel
def _marginals(flow, gold, edge_row, node, edge):  # type: ignore[no-untyped-def]
    L = flow.shape[1]
    for t in range(len(gold)):
        row = edge_row[t]
        for z in range(L):
            for y in range(L):
                f = flow[t, z, y]
                if f != 0:
                    node[t, y] += f
                    if row >= 0:
                        edge[row, z * L + y] += f
        node[t, gold[t]] -= np.float32(1)
        if row >= 0:
            edge[row, gold[t - 1] * L + gold[t]] -= 1


@kernel
def _repair(first, last, ptr, flow, gold):  # type: ignore[no-untyped-def]
    L = flow.shape[1]
    mass = np.zeros(L)
    fresh = np.zeros(L)
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            if t == ptr[i]:
                mass[:] = 0
                mass[0] = 1  # the first token is entered from row 0
            fresh[:] = 0
            for z in range(L):
                total = 0.0
                for y in range(L):
                    total += flow[t, z, y]
                if mass[z] <= 0:
                    for y in range(L):
                        flow[t, z, y] = 0
                elif total <= 0:
                    flow[t, z, gold[t]] = mass[z]
                    fresh[gold[t]] += mass[z]
                else:
                    for y in range(L):
                        flow[t, z, y] = flow[t, z, y] * (mass[z] / total)
                        fresh[y] += flow[t, z, y]
            total = 0.0
            for y in range(L):
                total += fresh[y]
            for y in range(L):
                mass[y] = fresh[y] / total
