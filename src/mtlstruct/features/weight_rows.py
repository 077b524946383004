"""Part scores of a corpus from weights that are stored by value.

A value of a node (see `plan`), such as a pair of adjacent cells, is seen by several templates, each
from another token. Here, its weights for all of them lie side by side, so that one lookup of the
value and one row of memory serve them all. Rows are prefetched for a whole sentence before they are
summed. Sums are those of a design matrix, bit by bit: they have the same terms in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inlined_kernel, kernel
from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.direct import RowEncoder, find_values
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.linear.design import prefetch

LANES = 8
"""Labels that a kernel sums at a time; it may read as many weights beyond a row."""

CACHE_LINE = 16
"""Weights in a cache line."""


class WeightRows:
    """The weights of node templates by value, for the encoder of a model.

    lines     int64[lines, 4]: node, distance from the first place of a token's window, first
              weight and size of its rows; the node after the last one has the value 0 everywhere
    nodes     int64[nodes, 3]: node, first weight and size of its rows
    """

    def __init__(self, encoder: RowEncoder, weights: NDArray[np.float32]) -> None:
        self._encoder, self._labels = encoder, weights.shape[1]
        lines, maps, nodes, size = encoder.node_lines, encoder.node_maps, [], 0
        self._lines = np.empty((len(lines), 4), np.int64)
        for node in dict.fromkeys(lines[:, 0].tolist()):
            users = np.flatnonzero(lines[:, 0] == node)
            width = len(users) * self._labels
            place = (encoder.nodes, 0) if node == ABSENT else (node, encoder.plan[0])
            self._lines[users] = [
                (place[0], place[1] + lines[k, 1], size + n * self._labels, width)
                for n, k in enumerate(users.tolist())
            ]
            nodes.append((place[0], size, width))
            size += width * (len(maps[users[0]]) - 1)
        self._nodes = np.array(nodes, np.int64).reshape(-1, 3)
        self._rows = np.empty(size + LANES, np.float32)
        for (_, _, begin, width), (*_, first), map_ in zip(
            self._lines.tolist(), lines.tolist(), maps, strict=True
        ):
            known = map_[:-1].astype(np.int64)
            known = np.where(known >= 0, first + known, len(weights) - 1)
            shape, steps = (len(known), self._labels), (4 * width, 4)
            as_strided(self._rows[begin:], shape, steps)[:] = weights[known]

    def score(self, corpus: Corpus) -> NDArray[np.float32]:
        """Return the scores of all labels at each token of a corpus without missing cells."""
        cells, ptr, encoder = self._encoder.cells(corpus), corpus.ptr, self._encoder
        out = np.empty((corpus.tokens, self._labels), np.float32)

        def work(first: int, last: int) -> None:
            longest = int(np.diff(ptr[first : last + 1]).max())
            values = np.zeros((encoder.nodes + 1, longest + sum(encoder.plan[:2])), np.int32)
            todo = np.empty((values.shape[1], 4), np.int64)
            tables = (self._lines, self._nodes, self._rows)
            _score(first, last, ptr, cells, encoder.plan, *tables, values, todo, out)

        threads.over_sentences(work, ptr)
        return out


# ---------------------------------------------------------------- kernels


@kernel
def _score(first, last, ptr, cells, plan, lines, nodes, rows, values, todo, out):
    before, after, reach, marks, absolute, joins = plan
    streams, L = len(marks), out.shape[1]
    at, sums = np.empty(len(lines), np.uint64), np.empty(LANES, np.float32)
    for i in range(first, last):
        start, n = ptr[i], ptr[i + 1] - ptr[i]
        own, width = cells[start * streams : (start + n) * streams], n + before + after
        find_values(own, n, before, reach, marks, absolute, joins, values[:, :width], todo)
        for j in range(len(nodes)):
            for place in range(width):
                value = np.int64(values[nodes[j, 0], place])
                if value >= 0:
                    row = nodes[j, 1] + value * nodes[j, 2]
                    for offset in range(0, nodes[j, 2], CACHE_LINE):
                        prefetch(rows, row + offset)
                    prefetch(rows, row + nodes[j, 2] - 1)
        for t in range(n):
            known = np.uint64(0)
            for k in range(len(lines)):
                value = np.int64(values[np.uint64(lines[k, 0]), np.uint64(t + lines[k, 1])])
                at[known] = np.uint64(lines[k, 2] + value * lines[k, 3])
                known += np.uint64(value >= 0)
            for y in range(0, L, LANES):
                if L - y > 4:
                    _sum_eight(rows, at, known, np.uint64(y), sums)
                else:
                    _sum_four(rows, at, known, np.uint64(y), sums)
                for z in range(min(LANES, L - y)):
                    out[start + t, y + z] = sums[z]


# Sums stay in registers. Those of labels beyond the last are of other weights and are dropped.


@inlined_kernel
def _sum_four(rows, at, known, y, sums):
    a = b = c = d = np.float32(0)
    for k in range(known):
        w = at[k] + y
        a += rows[w]
        b += rows[w + np.uint64(1)]
        c += rows[w + np.uint64(2)]
        d += rows[w + np.uint64(3)]
    sums[0], sums[1], sums[2], sums[3] = a, b, c, d


@inlined_kernel
def _sum_eight(rows, at, known, y, sums):
    a = b = c = d = e = f = g = h = np.float32(0)
    for k in range(known):
        w = at[k] + y
        a += rows[w]
        b += rows[w + np.uint64(1)]
        c += rows[w + np.uint64(2)]
        d += rows[w + np.uint64(3)]
        e += rows[w + np.uint64(4)]
        f += rows[w + np.uint64(5)]
        g += rows[w + np.uint64(6)]
        h += rows[w + np.uint64(7)]
    sums[0], sums[1], sums[2], sums[3] = a, b, c, d
    sums[4], sums[5], sums[6], sums[7] = e, f, g, h
