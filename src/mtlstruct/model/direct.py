"""Best labels and part scores of single sentences, without a corpus (see `features.direct`).

Labels and scores are those of `Model.lattice`: the same kernels sum the same weights in the same
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.corpus import Corpus
from mtlstruct.features.direct import DictEncoder, Entries, RowEncoder, first_attributes
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.features.weight_rows import WeightRows
from mtlstruct.linear.design import BY_SLOT, PREFETCH_DISTANCE
from mtlstruct.linear.label_support import support_arrays
from mtlstruct.linear.products import score_rows, score_supported_rows
from mtlstruct.model.lattice import Lattice
from mtlstruct.structures import SequenceStructure
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE, ViterbiWorkspace, viterbi

MAX_SENTENCES = 16
"""The largest number of sentences that take this path: more are faster together, on all threads."""

WEIGHTS_PER_TERM = 8
"""Weights that WeightRows copy in the time that they save at one term of a token's score."""

MAX_GROWTH = 4
"""The largest size of WeightRows, as a multiple of the weights."""


class DirectScorer:
    """Scorer of single sentences for one label-sequence model."""

    def __init__(
        self,
        structure: SequenceStructure,
        index: FeatureIndex,
        weights: Sequence[NDArray[np.float32]],
        encoder: DictEncoder | RowEncoder,
    ) -> None:
        self._structure, self._encoder = structure, encoder
        self._rows: WeightRows | None = None
        self._tokens = 0
        L = structure.labels
        some = index.support
        self._support = (None, None) if some is None else tuple(_fixed(a) for a in support_arrays(some))
        self._node, self._edge = map(_fixed, weights)
        edges = np.zeros((1, L, L), np.float32)
        first = first_attributes(index)
        for use, map_, j in zip(index.plan.uses, index.maps, index.plan.template_of, strict=True):
            if index.templates[j].kind == "B" and use.node == ABSENT and map_[0] != ABSENT:
                edges += weights[1][first[j] + map_[0]].reshape(L, L)
        prune = L >= MIN_LABELS_TO_PRUNE
        self._edges, self._largest = edges, edges[0].max(axis=0) if prune else np.zeros(0, np.float32)

    def best(self, sentence: Any) -> list[int]:
        """Return the labels of the best path through a sentence."""
        if not len(sentence):
            return []
        found = self._encoder.encode(sentence)
        edges, rows, largest = self._edge_scores(found)
        outputs = np.empty(len(found.sizes), np.int32)
        _best(found.ids, found.sizes, found.values, self._node, *self._support, edges, rows, largest, outputs)
        return outputs.tolist()

    def lattice(self, sentence: Any) -> Lattice:
        """Return the part scores of a sentence that is not empty."""
        found = self._encoder.encode(sentence)
        edges, rows, _ = self._edge_scores(found)
        n, L = len(found.sizes), self._structure.labels
        nodes = np.empty((n, L), np.float32)
        _node_scores(found.ids, found.sizes, found.values, self._node, *self._support, nodes)
        parts = nodes, edges.reshape(-1, L * L)
        return Lattice(self._structure, parts, (None, rows), np.array([0, n], np.int64))

    def corpus_lattice(self, corpus: Corpus) -> Lattice | None:
        """Return the part scores of a corpus without missing cells; None if the index finds them.

        WeightRows are made after as many tokens as repay it.
        """
        encoder, columns = self._encoder, corpus.columns
        if not isinstance(encoder, RowEncoder) or not encoder.simple or self._support[0] is not None:
            return None
        if not len(corpus) or not all(c.ptr is None and c.ids.min(initial=0) >= 0 for c in columns):
            return None
        size = self._structure.labels * sum(len(map_) - 1 for map_ in encoder.node_maps)
        self._tokens += corpus.tokens
        lines = len(encoder.node_lines)
        if self._tokens * lines * WEIGHTS_PER_TERM < size or size > MAX_GROWTH * self._node.size:
            return None
        if self._rows is None:
            self._rows = WeightRows(encoder, self._node)
        L, edges = self._structure.labels, np.zeros(corpus.tokens - len(corpus), np.int32)
        parts = self._rows.score(corpus), self._edges.reshape(1, L * L)
        return Lattice(self._structure, parts, (None, edges), corpus.ptr)

    def _edge_scores(
        self, found: Entries
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """Return the scores of edges, the row of each edge, and the largest score into a label."""
        edges, n = found.edges, len(found.sizes) - 1
        if edges is None:
            return self._edges, np.zeros(n, np.int32), self._largest
        L = self._structure.labels
        scores = np.empty((n, L * L), np.float32)
        sizes = np.full(n, edges.shape[1], np.int32)
        _node_scores(edges.ravel(), sizes, found.values, self._edge, None, None, scores)
        return scores.reshape(n, L, L), np.arange(n, dtype=np.int32), self._largest[:0]


def _fixed(weights: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that kernels are compiled for one type of array."""
    view = np.ascontiguousarray(weights).view()
    view.flags.writeable = False
    return view


# ---------------------------------------------------------------- kernels


@inner_kernel
def _add_node_scores(ids, sizes, values, weights, support_ptr, support_labels, out):
    """Write the sum of weights of each token, in the order of attributes as in a design matrix."""
    tokens, total = len(sizes), 0
    for t in range(tokens):
        total += sizes[t]
    null = np.int32(len(weights) - 1)
    if support_ptr is not None:
        null = np.int32(len(support_ptr) - 2)
    entry = np.full(total + PREFETCH_DISTANCE, null, np.int32)
    value = values.copy()
    ptr = np.zeros(tokens + 1, np.int64)
    for t in range(tokens):
        start = ptr[t]
        ptr[t + 1] = start + sizes[t]
        for k in range(start, ptr[t + 1]):
            a = ids[k] if ids[k] >= 0 else null
            at = k
            while at > start and entry[at - 1] > a:
                entry[at] = entry[at - 1]
                if len(value) > 0:
                    value[at] = value[at - 1]
                at -= 1
            entry[at] = a
            if len(value) > 0:
                value[at] = values[k]
    if support_ptr is None:
        blocks, work = np.empty(0, np.int32), np.empty(weights.shape[1], np.float32)
        score_rows(None, 0, tokens, entry, ptr, value, None, BY_SLOT, blocks, weights, work, out)
    else:
        scales = np.empty(0, np.float32)
        score_supported_rows(
            0, tokens, entry, ptr, True, value, scales, support_ptr, support_labels, weights, out
        )


@fast_kernel
def _node_scores(ids, sizes, values, weights, support_ptr, support_labels, out):
    _add_node_scores(ids, sizes, values, weights, support_ptr, support_labels, out)


@fast_kernel
def _best(ids, sizes, values, weights, support_ptr, support_labels, edges, edge_row, largest_edge, outputs):
    tokens, L = len(sizes), edges.shape[1]
    nodes = np.empty((tokens, L), np.float32)
    _add_node_scores(ids, sizes, values, weights, support_ptr, support_labels, nodes)
    back, arg = np.empty((tokens, L), np.int32), np.empty(L, np.int32)
    work = ViterbiWorkspace(largest_edge, back, np.empty(L, np.float32), np.empty(L, np.float32), arg)
    ptr = np.array([0, tokens], np.int64)
    gold, cost, total = np.empty(0, np.int32), np.zeros((1, L), np.float32), np.empty(1, np.float64)
    viterbi(0, 1, ptr, nodes, edges, edge_row, np.float32(1), gold, cost, work, outputs, total)
