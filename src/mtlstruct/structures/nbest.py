"""The N best label sequences of a sentence, exactly: Viterbi, then a lazy list of ever worse ways to each label.

The k-th best way to label y at t is the best of L candidates, one for each label before it: the best way there that
no better way to y has used. So one more result of the sentence asks for at most one more way at each token (the
recursive enumeration of Jiménez and Marzal, 1999). N results cost O(l·L² + N·l·L), and nothing is kept that was
not asked for.

Scores are sums in double from the first token to the last, so that adding a part to two ways never turns their
order, and the answer is that of sorting all labelings by these sums. Ties go to the labeling with the smaller
label at the last token where two differ, as Viterbi's do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.structures.base import IMPOSSIBLE, Outputs, Parts, Ptr, Span, Values

_OPEN, _DONE = -1, -2
"""What follows a way in its list: nobody has asked yet, nothing does."""


def nbest(
    parts: Parts,
    edge_row: NDArray[np.int32],
    ptr: Ptr,
    span: Span,
    labels: int,
    outputs: Outputs,
    values: Values,
) -> None:
    """Writes outputs[k, tokens] and values[sentences, k] of sentences first:last; values are −inf past the last."""
    edges = parts[1].reshape(-1, labels, labels)
    _nbest(*span, ptr, parts[0], edges, edge_row, IMPOSSIBLE, outputs, values)


# ---------------------------------------------------------------- kernels
# A *way* is a labeling of the tokens up to t, one entry of four arrays: its value, its label at t, the way that it
# prolongs (`came`), and the next best way to the same label (`after`). The best way to y at t is number t·L + y.


@kernel
def _nbest(first, last, ptr, nodes, edges, edge_row, impossible, outputs, values):  # type: ignore[no-untyped-def]
    L = edges.shape[1]
    N = len(outputs)
    heads = np.empty((64, L), np.int64)
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        size = n * L + N * n
        value = np.empty(size)
        label = np.empty(size, np.int64)
        came = np.empty(size, np.int64)
        after = np.full(size, _OPEN)
        newest = np.arange(n * L).reshape(n, L)  # the worst way to y at t that is known
        place = np.full((n, L), -1)  # the row of its candidates in `heads`, once more than one way is wanted
        path = np.empty(n, np.int64)
        edge_of = edge_row[start - i : start - i + n - 1]
        _viterbi(nodes[start : start + n], edges, edge_of, value, label, came)
        made, used = n * L, 0
        final = newest[n - 1].copy()
        values[i, :] = -np.inf
        for k in range(N):
            best = -1
            for y in range(L):
                at = final[y]
                if at >= 0 and value[at] > impossible and (best < 0 or value[at] > value[final[best]]):
                    best = y
            if best < 0:
                break
            at = final[best]
            values[i, k] = value[at]
            way = at
            for t in range(n - 1, -1, -1):
                outputs[k, start + t] = label[way]
                way = came[way]
            if k + 1 == N:
                break
            # From the earliest token on, one more way each, the best of its candidates.
            low = _descend(n - 1, best, newest, label, came, after, path)
            for t in range(low, n):
                y = path[t]
                old = newest[t, y]
                if place[t, y] < 0:
                    if used == len(heads):
                        heads = np.concatenate((heads, np.empty_like(heads)))
                    heads[used] = np.arange((t - 1) * L, t * L)
                    place[t, y] = used
                    used += 1
                head = heads[place[t, y]]
                head[label[came[old]]] = after[came[old]]
                e = edges[edge_of[t - 1]]
                z, top = -1, impossible
                for x in range(L):
                    if head[x] >= 0:
                        v = value[head[x]] + np.float64(e[x, y])
                        if v > top:
                            z, top = x, v
                if z < 0:
                    after[old] = _DONE
                    continue
                value[made] = top + np.float64(nodes[start + t, y])
                label[made] = y
                came[made] = head[z]
                after[old] = made
                newest[t, y] = made
                made += 1
            final[best] = after[at]


@kernel
def _viterbi(nodes, edges, edge_of, value, label, came):  # type: ignore[no-untyped-def]
    n, L = len(nodes), edges.shape[1]
    for t in range(n):
        for y in range(L):
            best, top = -1, 0.0
            if t > 0:
                e = edges[edge_of[t - 1]]
                best, top = (t - 1) * L, value[(t - 1) * L] + np.float64(e[0, y])
                for z in range(1, L):
                    v = value[(t - 1) * L + z] + np.float64(e[z, y])
                    if v > top:
                        best, top = (t - 1) * L + z, v
            value[t * L + y] = top + np.float64(nodes[t, y])
            label[t * L + y] = y
            came[t * L + y] = best


@kernel
def _descend(t, y, newest, label, came, after, path):  # type: ignore[no-untyped-def]
    """Fills path[low:t+1] with the labels that want one more way before label y at t can have one; returns low."""
    path[t] = y
    if t == 0:
        after[newest[0, y]] = _DONE  # there is but one way to a label at the first token
        return 1
    while True:
        before = came[newest[t, path[t]]]
        if t == 1 and after[before] == _OPEN:
            after[before] = _DONE
        if after[before] != _OPEN:
            return t
        t -= 1
        path[t] = label[before]
