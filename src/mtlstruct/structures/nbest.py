"""The N best label sequences of a sentence by the recursive enumeration algorithm, exactly.

The k-th best path to label y at token t is the best of L candidates, one for each previous label:
the best path there that no better path to y extends. So each further result needs at most one more
path per token, computed when needed. N results cost O(l·L² + N·l·L).

Scores are summed in double from the first token to the last, so adding a part to two paths does not
change their order, and the result equals sorting all labelings by these sums. Ties go to the
labeling with the smaller label at the last token where two differ, as in the Viterbi algorithm.

Reference: V. M. Jiménez, A. Marzal: Computing the K shortest paths: a new algorithm and an
experimental comparison. WAE 1999.
"""

import numpy as np

from mtlstruct._numba.decorators import kernel

_UNKNOWN, _NONE = -1, -2
"""The successor of a path in the list of its label: not computed yet, or none."""


# A *path* is a labeling of the tokens up to t, one entry of four arrays: value, label at t, the
# path that it extends (`prefix`), the next best path to the same label (`after`). The best path to
# y at t has the index t·L + y.


@kernel
def best_sequences(first, last, ptr, nodes, edges, edge_row, impossible, outputs, values):
    """Write outputs[k, tokens] and values[sentences, k] of sentences first:last."""
    L = edges.shape[1]
    N = len(outputs)
    heads = np.empty((64, L), np.int64)
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        size = n * L + N * n
        value = np.empty(size)
        label = np.empty(size, np.int64)
        prefix = np.empty(size, np.int64)
        after = np.full(size, _UNKNOWN)
        newest = np.arange(n * L).reshape(n, L)  # the last path to y at t that is known
        place = np.full((n, L), -1)  # the row of its candidates in `heads`, once a second path is needed
        chain = np.empty(n, np.int64)
        edge_of = edge_row[start - i : start - i + n - 1]
        _viterbi(nodes[start : start + n], edges, edge_of, value, label, prefix)
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
            path = at
            for t in range(n - 1, -1, -1):
                outputs[k, start + t] = label[path]
                path = prefix[path]
            if k + 1 == N:
                break
            # From the earliest token on, extend each list by the best of its candidates.
            low = _descend(n - 1, best, newest, label, prefix, after, chain)
            for t in range(low, n):
                y = chain[t]
                old = newest[t, y]
                if place[t, y] < 0:
                    if used == len(heads):
                        heads = np.concatenate((heads, np.empty_like(heads)))
                    heads[used] = np.arange((t - 1) * L, t * L)
                    place[t, y] = used
                    used += 1
                head = heads[place[t, y]]
                head[label[prefix[old]]] = after[prefix[old]]
                e = edges[edge_of[t - 1]]
                z, top = -1, impossible
                for x in range(L):
                    if head[x] >= 0:
                        v = value[head[x]] + np.float64(e[x, y])
                        if v > top:
                            z, top = x, v
                if z < 0:
                    after[old] = _NONE
                    continue
                value[made] = top + np.float64(nodes[start + t, y])
                label[made] = y
                prefix[made] = head[z]
                after[old] = made
                newest[t, y] = made
                made += 1
            final[best] = after[at]


@kernel
def _viterbi(nodes, edges, edge_of, value, label, prefix):
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
            prefix[t * L + y] = best


@kernel
def _descend(t, y, newest, label, prefix, after, chain):
    """Write to chain[low:t+1] the labels whose lists must grow before that of y; return low."""
    chain[t] = y
    if t == 0:
        after[newest[0, y]] = _NONE  # a label at the first token has one path
        return 1
    while True:
        before = prefix[newest[t, chain[t]]]
        if t == 1 and after[before] == _UNKNOWN:
            after[before] = _NONE
        if after[before] != _UNKNOWN:
            return t
        t -= 1
        chain[t] = label[before]
