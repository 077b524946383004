"""The dual variables of sequences, kept as edge marginals; block_update.py improves them.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals matter, the mass of
labelings with label z at t-1 and y at t. They form a unit flow through the trellis, gold to begin with, and
edge_marginals.py keeps them.

Where a span does not begin or end with its sentence, the label outside is held: paths run between the labels
that carry most mass there. So a sentence of any length is visited in spans of bounded size, and a span of tokens
whose mass has left gold is visited without the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Kept
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.solvers.coordinate_ascent.dual_state import BlockUpdates, DualProblem
from mtlstruct.solvers.coordinate_ascent.sequence.block_update import update_spans
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import Flow, flow_bytes
from mtlstruct.solvers.coordinate_ascent.sequence.pairwise_step import Step
from mtlstruct.structures.sequence import SequenceStructure

LONGEST = 400
"""A span has at most this many tokens: the kernels of a span take 4·LONGEST² bytes."""


class SequenceDual(Kept):
    """Edge marginals of all sentences, and the operations the coordinate learner asks of a dual state."""

    kept = ("flow",)
    shares_singletons: ClassVar[bool] = True

    @staticmethod
    def memory(tokens: int) -> int:
        """Return the bytes that the edge marginals of so many tokens take."""
        return flow_bytes(tokens)

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        tokens = int(problem.encoded.ptr[-1])
        self.flow = Flow.of_gold(problem.gold, problem.encoded.ptr)
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
        return _runs(self.flow.loose(self.problem.gold), self.starts, self.problem.encoded.ptr)

    def update(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> BlockUpdates:
        """Improves the dual on each span in turn, until its gap is below tolerance or `enough` of what it was."""
        step = Step(float(c), int(rounds), float(tolerance), float(enough))
        return BlockUpdates(
            *update_spans(spans, self.starts, self.problem, self.flow, self.edge_row, mu, step)
        )

    def repair(self) -> None:
        """Makes the flow exact again: rounding leaks are closed by pushing mass forward from the first token."""
        p = self.problem
        self.flow.repair(p.gold, p.encoded.ptr, p.structure.labels)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        p = self.problem
        return self.flow.marginals(p.gold, self.edge_row, p.structure.labels, p.encoded.designs[1].rows)

    def loss(self, node: NDArray[np.float32]) -> float:
        """The expected cost Σ_t Σ_y marginal·cost, from the node counts (gold costs nothing)."""
        return float(np.einsum("ty,ty->", node, self.problem.cost[self.problem.gold], dtype=np.float64))


class ItemDual(SequenceDual):
    """The dual of items that do not depend on each other: sequences with one edge row that has no features."""

    def __init__(self, problem: Any) -> None:
        encoded, labels = problem.encoded, problem.structure.labels
        none, no_ids = np.zeros(0, np.int32), np.zeros(LOOKAHEAD, np.int32)
        edge = Design(
            no_ids, np.zeros(2, np.int64), none, np.zeros(0, np.float32), np.zeros(1, np.int64), none
        )
        rows = (None, np.zeros(int(encoded.ptr[-1]) - len(encoded.ptr) + 1, np.int32))
        linked = replace(encoded, designs=(encoded.designs[0], edge), rows=rows)
        V = [problem.V[0], np.zeros((1, labels * labels))]
        super().__init__(replace(problem, structure=SequenceStructure(labels), encoded=linked, V=V))

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): float32[T, L]."""
        return super().counts()[:1]


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
