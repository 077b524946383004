"""The dual variables of sequences with a smooth loss, kept as edge marginals, and their updates.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals
matter, the mass of labelings with label z at t-1 and y at t, gold to begin with. A span is a whole
sentence. Items are sequences with one edge row that has no features. For the hinge see `hinge`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import COMPILED
from mtlstruct._system import disk_arrays, threads
from mtlstruct._system.stateful import Stateful
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.label_support import support_arrays
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    Edges,
    FeatureLists,
    Labels,
    Step,
    Templates,
    node_features,
)
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import (
    DenseMarginals,
    ascend_spans,
    count_marginals,
    dense_bytes,
    own_workspace,
    repair_marginals,
    smooth_workspace,
)
from mtlstruct.structures.base import Batch
from mtlstruct.structures.sequence import MulticlassStructure, SequenceStructure, edge_rows

MAX_WORKERS = 4
"""Threads that work on the updates of sentences, at most."""

MIN_SHARED_TOKENS = 4
"""Mean length of sentences from which on threads share an update."""

UPDATES_ALONE = 20
"""Calls of `update` on one thread after another thread was suspended too often."""


class SequenceDual(Stateful):
    """Edge marginals of all sentences as a dual state of the coordinate solver."""

    state_fields = ("marginals",)
    shares_singletons: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("log", "softmax-margin")
    marginals: Any

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes that the edge marginals of the data take."""
        return 0 if disk_arrays.on_disk() else dense_bytes(oracle.encoded.ptr, oracle.structure.labels)

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        self.kinds = len(oracle.structure.widths())
        if isinstance(oracle.structure, MulticlassStructure):
            oracle, V = _as_sequences(oracle, V)
        self.oracle, self.V, self.N = oracle, V, N
        structure, encoded = oracle.structure, oracle.encoded
        self.labels, self.ptr, self.alone = structure.labels, encoded.ptr, 0
        self.edge_row = np.full(oracle.tokens, -1, np.int32)
        self.edge_row[structure.sites(self.ptr)[1].tokens] = edge_rows(encoded.rows)
        self.starts = np.zeros(oracle.tokens + 1, np.bool_)
        self.starts[self.ptr] = True
        self.marginals = self.at_gold()

    def at_gold(self) -> Any:
        """Return the marginals of the gold labels."""
        return DenseMarginals.of_gold(self.oracle.gold, self.ptr, self.labels)

    def spans(self, shift: int) -> NDArray[np.int64]:
        """Return the sentences as spans (start, stop, sentence)."""
        return np.stack([self.ptr[:-1], self.ptr[1:], np.arange(len(self.ptr) - 1)], axis=1)

    def update(
        self, spans: NDArray[np.int64], mu: NDArray[np.float64], step: Step
    ) -> tuple[NDArray[np.float64], float]:
        """Update spans, V and N in order. Return gaps before, and the change of the loss."""
        node, edge = self.oracle.encoded.designs
        support = None if node.layout.support is None else FeatureLists(*support_arrays(node.layout.support))
        values = node.values if len(node.values) > 0 else None
        gaps, entries = np.zeros(len(spans)), (edge.ids, edge.ptr, edge.blocks, edge.slots_aligned)
        edges = Edges(self.edge_row, *entries, edge.layout.null_row, self.V[1])
        labels = Labels(self.starts, self.oracle.gold, self.oracle.cost)
        features = node_features(node, self.V[0], mu), values, support, edges, Templates(mu, self.N)
        return gaps, self.run(spans, labels, features, step, gaps)

    def run(self, spans: Any, labels: Labels, features: Any, step: Step, gaps: Any) -> float:
        """Run the kernel on spans, on several threads. Return the change of the loss."""
        node, edge = self.oracle.encoded.designs
        length = spans[:, 1] - spans[:, 0]
        longest = int(length.max(initial=1))
        work = smooth_workspace(longest, self.labels, self.marginals.mass.shape[1], node, edge.rows)

        def update(rank: int) -> float:
            own = work._replace(**own_workspace(longest, node)) if rank > 0 else work
            arguments = self.marginals, *features, step, own, mark_of(node), gaps
            return float(ascend_spans(rank, spans, labels, *arguments))

        alone = self.alone > 0 or length.sum() < MIN_SHARED_TOKENS * len(spans) or not COMPILED
        workers = 1 if alone else min(threads.get_threads(), MAX_WORKERS)
        work.team.closed[0] = workers == 1
        change = threads.with_helpers(update, workers)
        self.alone = UPDATES_ALONE if work.team.closed[0] > (workers == 1) else max(0, self.alone - 1)
        return change

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
            mass[ptr[:-1]] = 0
            mass[ptr[:-1], :L] = node.count[ptr[:-1]]
            mass[inner] = edge.count.reshape(-1, mass.shape[1])

        threads.over_sentences(work, self.ptr)

    def repair(self) -> None:
        """Remove rounding errors of the marginals, from the first token on."""

        def work(first: int, last: int) -> None:
            self.repair_kernel(first, last, self.ptr, self.marginals, self.oracle.gold, np.zeros(self.labels))

        threads.over_sentences(work, self.ptr)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        node = np.zeros((self.oracle.tokens, self.labels), np.float32)
        edge = np.zeros((self.oracle.encoded.designs[1].rows, self.labels**2))
        self.count_kernel(self.marginals, self.oracle.gold, self.edge_row, node, edge)
        return (node, edge.astype(np.float32))[: self.kinds]

    def loss(self, node: NDArray[np.float32]) -> float:
        """Return Σ_t Σ_y marginal·cost, from the node counts, plus T times the entropy."""
        cost = self.oracle.cost[self.oracle.gold]
        expected = float(np.einsum("ty,ty->", node, cost, dtype=np.float64))
        return expected + self.oracle.temperature * self.entropy()

    def repair_kernel(self, *arguments: Any) -> None:
        """Remove rounding errors of some sentences."""
        repair_marginals(*arguments)

    def count_kernel(self, *arguments: Any) -> None:
        """Add marginals less gold to tables."""
        count_marginals(*arguments)

    def entropy(self) -> float:
        """Return the sum of the entropies."""
        return float(self.marginals.entropy.sum())


def mark_of(node: Design) -> NDArray[np.float32] | None:
    """Return the `mark` of `kernel_row`, where it needs one."""
    return None if node.slots_aligned else np.zeros(node.layout.null_row + 1, np.float32)


def _as_sequences(oracle: Oracle, V: Weights) -> tuple[Oracle, Weights]:
    """Return items as sequences with one edge row that has no features."""
    encoded, labels = oracle.encoded, oracle.structure.labels
    none, no_ids = np.zeros(0, np.int32), np.zeros(PREFETCH_DISTANCE, np.int32)
    layout = WeightLayout(np.zeros(1, np.int64), none)
    edge = Design(no_ids, np.zeros(2, np.int64), none, np.zeros(0, np.float32), layout)
    rows = (None, np.zeros(int(encoded.ptr[-1]) - len(encoded.ptr) + 1, np.int32))
    linked = replace(encoded, designs=(encoded.designs[0], edge), rows=rows)
    chain = replace(oracle, structure=SequenceStructure(labels), encoded=linked)
    return chain, [V[0], np.zeros((1, labels * labels))]
