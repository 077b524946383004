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

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import disk_arrays, threads
from mtlstruct._system.stateful import Stateful
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.label_support import support_arrays
from mtlstruct.linear.weight_layout import WeightLayout, padded
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import (
    Flow,
    count_flow,
    find_loose_flow,
    flow_bytes,
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
    find_loose_tokens,
    repair_marginals,
    smooth_workspace,
)
from mtlstruct.structures.sequence import SequenceStructure

MAX_SPAN = 400
"""A span has at most this many tokens: the kernels of a span take 4·MAX_SPAN² bytes."""


Kernels = namedtuple("Kernels", "update find_loose count repair")
"""Kernels that work on one kind of marginals."""

PAIRWISE = Kernels(take_pairwise_steps, find_loose_flow, count_flow, repair_flow)
SMOOTH = Kernels(ascend_spans, find_loose_tokens, count_marginals, repair_marginals)


class SequenceDual(Stateful):
    """Edge marginals of all sentences as a dual state of the coordinate solver."""

    state_fields = ("marginals",)
    shares_singletons: ClassVar[bool] = True
    losses: ClassVar[tuple[str, ...]] = ("hinge", "log", "softmax-margin")

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes that the edge marginals of the data take."""
        if oracle.temperature == 0:
            return flow_bytes(oracle.tokens)
        if disk_arrays.on_disk():
            return 0
        return dense_bytes(oracle.encoded.ptr, oracle.structure.labels)

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        self.oracle, self.V, self.N = oracle, V, N
        self.labels, rows = oracle.structure.labels, oracle.encoded.rows[1]
        self.smooth, ptr = oracle.temperature > 0, oracle.encoded.ptr
        self.marginals: Flow | DenseMarginals = (
            DenseMarginals.of_gold(oracle.gold, ptr, self.labels)
            if self.smooth
            else Flow.of_gold(oracle.gold, ptr)
        )
        self.kernels = SMOOTH if self.smooth else PAIRWISE
        self.edge_row = np.full(oracle.tokens, -1, np.int32)
        assert rows is not None
        self.edge_row[oracle.structure.sites(ptr)[1].tokens] = rows
        self.starts = np.zeros(oracle.tokens + 1, np.bool_)
        self.starts[ptr] = True

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Return spans [k, 3] (start, stop, sentence); long sentences are cut at `shift`."""
        ptr = self.oracle.encoded.ptr
        whole = np.stack([ptr[sentences], ptr[sentences + 1], sentences], axis=1)
        return whole if self.smooth else _cut(whole, shift)

    def active(self) -> NDArray[np.int64]:
        """Return runs of tokens with mass off gold; with a smooth loss their sentences."""
        loose, ptr = np.zeros(self.oracle.tokens, np.bool_), self.oracle.encoded.ptr
        self.kernels.find_loose(self.marginals, self.oracle.gold, loose)
        if not self.smooth:
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
    ) -> tuple[NDArray[np.float64], float]:
        """Update spans in turn, each until its gap is below tolerance or `enough` of before."""
        step = Step(float(c), int(rounds), float(tolerance), float(enough), self.oracle.temperature)
        return self._update(spans, self.oracle.encoded, self.V, Templates(mu, self.N), step)

    def _update(
        self, spans: NDArray[np.int64], encoded: Encoded, V: Weights, templates: Templates, step: Step
    ) -> tuple[NDArray[np.float64], float]:
        """Update spans, V and N in order. Return gaps before, and the change of the loss."""
        node, edge = encoded.designs
        support = None if node.layout.support is None else FeatureLists(*support_arrays(node.layout.support))
        values = node.values if len(node.values) > 0 else None
        mark = None if node.slots_aligned else np.zeros(node.layout.null_row + 1, np.float32)
        longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
        if isinstance(self.marginals, Flow):
            self.marginals = self.marginals.with_room(step.rounds)  # a round brings a token at most one edge
            work = pairwise_workspace(longest, self.labels, node, edge.rows, step.rounds)
        else:
            work = smooth_workspace(longest, self.marginals.mass.shape[1:], node, edge.rows)
        gaps = np.zeros(len(spans))
        loss = self.kernels.update(
            spans, Labels(self.starts, self.oracle.gold, self.oracle.cost), self.marginals,
            node_features(node, V[0], templates.mu), values, support,
            Edges(self.edge_row, edge.ids, edge.ptr, edge.blocks, edge.slots_aligned, edge.layout.null_row, V[1]),
            templates, step, work, mark, gaps,
        )  # fmt: skip
        return gaps, float(loss)

    def set_distributions(self, parts: Sequence[NDArray[np.float32]]) -> None:
        """Set each distribution to exp(score / temperature), normalised, for part scores `parts`.

        Block updates do it, of a problem with c = 0 whose weights are the part scores: one
        attribute per row.
        """
        encoded = self.oracle.encoded
        edges = parts[1] if len(parts) > 1 else np.zeros((1, self.labels**2))
        missing = padded(self.labels) - parts[0].shape[1]
        V: Weights = [
            -np.pad(parts[0], ((0, 1), (0, missing))),
            -np.pad(edges.astype(np.float64), ((0, 1), (0, 0))),
        ]
        designs = tuple(_one_attribute_per_row(len(v) - 1, block) for block, v in enumerate(V))
        spans, step = (
            self.spans(np.arange(self.oracle.sentences), 0),
            Step(0.0, 1, 0.0, 0.0, self.oracle.temperature),
        )
        self._update(spans, replace(encoded, designs=designs), V, Templates(np.ones(2), np.zeros(2)), step)

    def repair(self) -> None:
        """Remove rounding errors of the marginals, from the first token on."""
        ptr, gold = self.oracle.encoded.ptr, self.oracle.gold

        def work(first: int, last: int) -> None:
            self.kernels.repair(first, last, ptr, self.marginals, gold, np.zeros(self.labels))

        threads.over_sentences(work, ptr)

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        node = np.zeros((self.oracle.tokens, self.labels), np.float32)
        edge = np.zeros((self.oracle.encoded.designs[1].rows, self.labels**2))
        self.kernels.count(self.marginals, self.oracle.gold, self.edge_row, node, edge)
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
