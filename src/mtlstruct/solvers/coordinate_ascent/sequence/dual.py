"""The dual variables of sequences, kept as edge marginals; block_update.py improves them.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals
matter, the mass of labelings with label z at t-1 and y at t. They form a unit flow through the
trellis, gold to begin with, and edge_marginals.py keeps them.

With the hinge, where a span does not begin or end with its sentence, the label outside is held:
paths run between the labels that carry most mass there. So a sentence of any length is visited in
spans of bounded size, and a span of tokens whose mass has left gold is visited without the rest.
With a smooth loss, spans are whole sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Stateful
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.weight_layout import WeightLayout, padded
from mtlstruct.solvers.coordinate_ascent.dual_state import BlockUpdates, DualProblem
from mtlstruct.solvers.coordinate_ascent.sequence.block_update import update_spans
from mtlstruct.solvers.coordinate_ascent.sequence.dense_marginals import DenseMarginals, dense_bytes
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import Flow, flow_bytes
from mtlstruct.solvers.coordinate_ascent.sequence.pairwise_step import Step
from mtlstruct.structures.sequence import SequenceStructure

MAX_SPAN = 400
"""A span has at most this many tokens: the kernels of a span take 4·MAX_SPAN² bytes."""


class SequenceDual(Stateful):
    """Edge marginals of all sentences as a dual state of the coordinate solver."""

    state_fields = ("marginals",)
    shares_singletons: ClassVar[bool] = True
    smooth_losses: ClassVar[bool] = True

    @staticmethod
    def memory(oracle: Any) -> int:
        """Return the bytes that the edge marginals of the data take."""
        if oracle.temperature == 0:
            return flow_bytes(oracle.tokens)
        return dense_bytes(oracle.encoded.ptr, oracle.structure.labels)

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        tokens = int(problem.encoded.ptr[-1])
        self.marginals: Flow | DenseMarginals
        if problem.temperature == 0:
            self.marginals = Flow.of_gold(problem.gold, problem.encoded.ptr)
        else:
            self.marginals = DenseMarginals.of_gold(
                problem.gold, problem.encoded.ptr, problem.structure.labels
            )
        self.edge_row = np.full(tokens, -1, np.int32)
        inner = problem.structure.sites(problem.encoded.ptr)[1].tokens
        self.edge_row[inner] = problem.encoded.rows[1]
        self.starts = np.zeros(tokens + 1, np.bool_)
        self.starts[problem.encoded.ptr] = True

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Return spans [k, 3] (start, stop, sentence); long sentences are cut at `shift`."""
        ptr = self.problem.encoded.ptr
        start, stop = ptr[sentences], ptr[sentences + 1]
        whole = np.stack([start, stop, sentences], axis=1)
        return whole if self.problem.temperature > 0 else _cut(whole, shift)

    def active(self) -> NDArray[np.int64]:
        """Runs of tokens with mass off gold, as spans; with a smooth loss their sentences."""
        loose, ptr = self.marginals.loose(self.problem.gold), self.problem.encoded.ptr
        if self.problem.temperature == 0:
            return _runs(loose, self.starts, ptr)
        return self.spans(np.unique(np.searchsorted(ptr, np.flatnonzero(loose), side="right") - 1), 0)

    def update(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> BlockUpdates:
        """Update spans in turn, each until its gap is below tolerance or `enough` of before."""
        step = Step(float(c), int(rounds), float(tolerance), float(enough), self.problem.temperature)
        return BlockUpdates(
            *update_spans(spans, self.starts, self.problem, self.marginals, self.edge_row, mu, step)
        )

    def set_distributions(self, parts: Sequence[NDArray[np.float32]]) -> None:
        """Set each distribution to exp(score / temperature), normalised, for part scores `parts`.

        Block updates do it, of a problem with c = 0 whose weights are the part scores: one
        attribute per row.
        """
        p = self.problem
        edges = parts[1] if len(parts) > 1 else np.zeros((1, p.structure.labels**2))
        missing = padded(p.structure.labels) - parts[0].shape[1]
        V: list[NDArray[Any]] = [
            -np.pad(parts[0], ((0, 1), (0, missing))),
            -np.pad(edges.astype(np.float64), ((0, 1), (0, 0))),
        ]
        designs = tuple(_one_attribute_per_row(len(v) - 1, block) for block, v in enumerate(V))
        scores = replace(p, encoded=replace(p.encoded, designs=designs), V=V, N=np.zeros(2))
        spans = self.spans(np.arange(len(p.encoded.ptr) - 1), 0)
        step = Step(0.0, 1, 0.0, 0.0, p.temperature)
        update_spans(spans, self.starts, scores, self.marginals, self.edge_row, np.ones(2), step)

    def repair(self) -> None:
        """Remove rounding errors of the marginals, from the first token on."""
        p = self.problem
        self.marginals.repair(p.gold, p.encoded.ptr, p.structure.labels)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        p = self.problem
        return self.marginals.counts(p.gold, self.edge_row, p.structure.labels, p.encoded.designs[1].rows)

    def loss(self, node: NDArray[np.float32]) -> float:
        """Return Σ_t Σ_y marginal·cost, from the node counts, plus T times the entropy."""
        p = self.problem
        cost = float(np.einsum("ty,ty->", node, p.cost[p.gold], dtype=np.float64))
        return cost + p.temperature * self.marginals.total_entropy()


class ItemDual(SequenceDual):
    """Dual of independent items: sequences with one edge row that has no features."""

    def __init__(self, problem: Any) -> None:
        encoded, labels = problem.encoded, problem.structure.labels
        none, no_ids = np.zeros(0, np.int32), np.zeros(PREFETCH_DISTANCE, np.int32)
        layout = WeightLayout(np.zeros(1, np.int64), none)
        edge = Design(no_ids, np.zeros(2, np.int64), none, np.zeros(0, np.float32), layout)
        rows = (None, np.zeros(int(encoded.ptr[-1]) - len(encoded.ptr) + 1, np.int32))
        linked = replace(encoded, designs=(encoded.designs[0], edge), rows=rows)
        V = [problem.V[0], np.zeros((1, labels * labels))]
        super().__init__(replace(problem, structure=SequenceStructure(labels), encoded=linked, V=V))

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): float32[T, L]."""
        return super().counts()[:1]


def _one_attribute_per_row(rows: int, block: int) -> Design:
    """Return a design matrix in which attribute r fires at row r only, all of one template."""
    layout = WeightLayout(np.array([0, rows]), np.array([block], np.int32))
    ids = padded_ids(np.arange(rows, dtype=np.int32), rows)
    blocks = np.array([block], np.int32)
    return Design(ids, np.arange(rows + 1), blocks, np.zeros(0, np.float32), layout)


def _cut(spans: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return spans of at most MAX_SPAN tokens; `shift` says where long ones are cut."""
    long = np.flatnonzero(spans[:, 1] - spans[:, 0] > MAX_SPAN)
    pieces = [np.delete(spans, long, axis=0)]
    for start, stop, sentence in spans[long].tolist():
        cuts = np.unique(np.arange(start - shift % MAX_SPAN, stop + MAX_SPAN, MAX_SPAN).clip(start, stop))
        pieces.append(np.stack([cuts[:-1], cuts[1:], np.full(len(cuts) - 1, sentence)], axis=1))
    return np.concatenate(pieces)


def _runs(loose: NDArray[np.bool_], starts: NDArray[np.bool_], ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Maximal runs of loose tokens that stay in one sentence and within MAX_SPAN."""
    joined = loose[1:] & loose[:-1] & ~starts[1:-1]
    begins = np.flatnonzero(loose & ~np.concatenate([[False], joined]))
    ends = np.flatnonzero(loose & ~np.concatenate([joined, [False]])) + 1
    sentence = np.searchsorted(ptr, begins, side="right") - 1
    return _cut(np.stack([begins, ends, sentence], axis=1), 0)
