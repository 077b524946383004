"""The dual variables of sequences, kept as edge marginals, and their block updates.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals
matter, the mass of labelings with label z at t-1 and y at t, gold to begin with. With the hinge
(pairwise_step.py) few of them are not zero, and edge_marginals.py keeps those. With a smooth loss
(smooth_step.py) all are kept.

With the hinge, where a span does not begin or end with its sentence, the label outside is held:
paths run between the labels that carry most mass there. So a sentence of any length is updated in
spans of bounded size, and a span of tokens whose mass has left gold is updated without the rest.
With a smooth loss, spans are whole sentences.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import disk_arrays, threads
from mtlstruct._system.stateful import Stateful
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.label_support import support_arrays
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import (
    EDGE_CAPACITY,
    LEAST_MASS,
    Flow,
    count_flow,
    repair_flow,
)
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    Edges,
    FeatureLists,
    Labels,
    Step,
    Templates,
    node_features,
)
from mtlstruct.solvers.coordinate_ascent.sequence.pairwise_step import pairwise_workspace, take_pairwise_steps
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import (
    DenseMarginals,
    ascend_spans,
    count_marginals,
    dense_bytes,
    repair_marginals,
    smooth_workspace,
)
from mtlstruct.structures.base import Batch
from mtlstruct.structures.sequence import SequenceStructure, edge_rows

MAX_SPAN = 400
"""A span has at most this many tokens: the kernels of a span take 4·MAX_SPAN² bytes."""


class SequenceDual(Stateful):
    """Edge marginals of all sentences as a dual state of the coordinate solver."""

    state_fields = ("marginals",)
    shares_singletons: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("hinge", "log", "softmax-margin")

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes that the edge marginals of the data take."""
        if oracle.temperature == 0:
            return int(oracle.tokens) * (4 + EDGE_CAPACITY * 8)
        if disk_arrays.on_disk():
            return 0
        return dense_bytes(oracle.encoded.ptr, oracle.structure.labels)

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        self.oracle, self.V, self.N = oracle, V, N
        structure, encoded, gold = oracle.structure, oracle.encoded, oracle.gold
        self.labels, self.ptr, self.smooth = structure.labels, encoded.ptr, oracle.temperature > 0
        self.marginals: Flow | DenseMarginals = (
            DenseMarginals.of_gold(gold, self.ptr, self.labels)
            if self.smooth
            else Flow.of_gold(gold, self.ptr)
        )
        self.edge_row = np.full(oracle.tokens, -1, np.int32)
        self.edge_row[structure.sites(self.ptr)[1].tokens] = edge_rows(encoded.rows)
        self.starts = np.zeros(oracle.tokens + 1, np.bool_)
        self.starts[self.ptr] = True

    def spans(self, shift: int) -> NDArray[np.int64]:
        """Return the sentences as spans; long ones are cut at `shift`."""
        whole = np.stack([self.ptr[:-1], self.ptr[1:], np.arange(len(self.ptr) - 1)], axis=1)
        return whole if self.smooth else _cut(whole, shift)

    def active(self) -> NDArray[np.int64]:
        """Return the runs of tokens whose mass has left gold; hinge only."""
        assert isinstance(self.marginals, Flow)
        size, _, head, mass = self.marginals
        off = (head != self.oracle.gold[:, None]) & (np.arange(head.shape[1]) < size[:, None])
        loose = np.where(off, mass, 0).sum(axis=1) > LEAST_MASS
        joined = loose[1:] & loose[:-1] & ~self.starts[1:-1]
        begins = np.flatnonzero(loose & ~np.concatenate([[False], joined]))
        ends = np.flatnonzero(loose & ~np.concatenate([joined, [False]])) + 1
        sentence = np.searchsorted(self.ptr, begins, side="right") - 1
        return _cut(np.stack([begins, ends, sentence], axis=1), 0)

    def update(
        self, spans: NDArray[np.int64], mu: NDArray[np.float64], step: Step
    ) -> tuple[NDArray[np.float64], float]:
        """Update spans, V and N in order. Return gaps before, and the change of the loss."""
        node, edge = self.oracle.encoded.designs
        support = None if node.layout.support is None else FeatureLists(*support_arrays(node.layout.support))
        values = node.values if len(node.values) > 0 else None
        mark = None if node.slots_aligned else np.zeros(node.layout.null_row + 1, np.float32)
        longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
        run: Any = ascend_spans if self.smooth else take_pairwise_steps
        if isinstance(self.marginals, Flow):
            self.marginals = self.marginals.with_room(step.rounds)  # a round brings a token at most one edge
            work = pairwise_workspace(longest, self.labels, node, edge.rows, step.rounds)
        else:
            work = smooth_workspace(longest, self.marginals.mass.shape[1:], node, edge.rows)
        gaps, entries = np.zeros(len(spans)), (edge.ids, edge.ptr, edge.blocks, edge.slots_aligned)
        loss = run(
            spans, Labels(self.starts, self.oracle.gold, self.oracle.cost), self.marginals,
            node_features(node, self.V[0], mu), values, support,
            Edges(self.edge_row, *entries, edge.layout.null_row, self.V[1]),
            Templates(mu, self.N), step, work, mark, gaps,
        )  # fmt: skip
        return gaps, float(loss)

    def set_distributions(self, parts: Sequence[NDArray[np.float32]]) -> None:
        """Set each distribution to exp(score / temperature), normalised, for part scores."""
        structure, T, L = SequenceStructure(self.labels), self.oracle.temperature, self.labels
        nodes = parts[0][:, :L] + self.oracle.cost[self.oracle.gold]
        edges = parts[1] if len(parts) > 1 else np.zeros((1, L * L), np.float32)

        def work(first: int, last: int) -> None:
            span, ptr = slice(self.ptr[first], self.ptr[last]), self.ptr[first : last + 1] - self.ptr[first]
            mass, inner = self.marginals.mass[span], np.flatnonzero(~self.starts[:-1][span])
            apart = (None, np.arange(len(inner), dtype=np.int32))
            batch = Batch((nodes[span], edges[self.edge_row[span][inner]]), apart, ptr)
            node, edge = structure.marginals(batch, (0, last - first), np.zeros(last - first), scale=1 / T)
            mass[ptr[:-1], 0] = node.count[ptr[:-1]]
            mass[ptr[:-1], 1:] = 0
            mass[inner] = edge.count.reshape(-1, *mass.shape[1:])

        threads.over_sentences(work, self.ptr)

    def repair(self) -> None:
        """Remove rounding errors of the marginals, from the first token on."""
        kernel: Any = repair_marginals if self.smooth else repair_flow

        def work(first: int, last: int) -> None:
            kernel(first, last, self.ptr, self.marginals, self.oracle.gold, np.zeros(self.labels))

        threads.over_sentences(work, self.ptr)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        node = np.zeros((self.oracle.tokens, self.labels), np.float32)
        edge = np.zeros((self.oracle.encoded.designs[1].rows, self.labels**2))
        kernel: Any = count_marginals if self.smooth else count_flow
        kernel(self.marginals, self.oracle.gold, self.edge_row, node, edge)
        return node, edge.astype(np.float32)

    def loss(self, node: NDArray[np.float32]) -> float:
        """Return Σ_t Σ_y marginal·cost, from the node counts, plus T times the entropy."""
        cost = self.oracle.cost[self.oracle.gold]
        expected = float(np.einsum("ty,ty->", node, cost, dtype=np.float64))
        if isinstance(self.marginals, Flow):
            return expected
        return expected + self.oracle.temperature * float(self.marginals.entropy.sum())


class ItemDual(SequenceDual):
    """Dual of independent items: sequences with one edge row that has no features."""

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        encoded, labels = oracle.encoded, oracle.structure.labels
        none, no_ids = np.zeros(0, np.int32), np.zeros(PREFETCH_DISTANCE, np.int32)
        layout = WeightLayout(np.zeros(1, np.int64), none)
        edge = Design(no_ids, np.zeros(2, np.int64), none, np.zeros(0, np.float32), layout)
        rows = (None, np.zeros(int(encoded.ptr[-1]) - len(encoded.ptr) + 1, np.int32))
        linked = replace(encoded, designs=(encoded.designs[0], edge), rows=rows)
        chain = replace(oracle, structure=SequenceStructure(labels), encoded=linked)
        super().__init__(chain, [V[0], np.zeros((1, labels * labels))], N)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): float32[T, L]."""
        return super().counts()[:1]


def _cut(spans: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return spans of at most MAX_SPAN tokens; `shift` says where long ones are cut."""
    long = np.flatnonzero(spans[:, 1] - spans[:, 0] > MAX_SPAN)
    pieces = [np.delete(spans, long, axis=0)]
    for start, stop, sentence in spans[long].tolist():
        cuts = np.unique(np.arange(start - shift % MAX_SPAN, stop + MAX_SPAN, MAX_SPAN).clip(start, stop))
        pieces.append(np.stack([cuts[:-1], cuts[1:], np.full(len(cuts) - 1, sentence)], axis=1))
    return np.concatenate(pieces)
