"""Features of a span of a sequence as kernels use them: scores, changes of V, inner products.

A block update gathers the part scores of its tokens, changes the marginals, and scatters the change
to V; N_j = ‖v_j‖² is kept exact. Templates whose weight has all but vanished are not gathered, but
V and N include them, so they can come back. The curvature of a step comes from rows of the Gram
matrix K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩.

Where attributes have features with some labels only (linear.label_support), V is a list of
features. Arguments that a corpus does not need (`values`, `support`, `mark`) are None: numba drops
their code.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, prefetch
from mtlstruct.linear.label_support import FEATURE_PREFETCH_DISTANCE, find_feature
from mtlstruct.linear.weight_layout import padded

MIN_TEMPLATE_WEIGHT = 1e-8
"""Least mu of a template that is scored: below it, a float32 score would not change."""

MIN_CHANGE = np.float32(1e-9)
"""Changes of the marginals of a token below this are rounding errors, and not added to V."""

Labels = namedtuple("Labels", "starts gold cost")
"""Where sentences start (bool[T + 1]), gold labels, and the cost of each pair of labels."""

Node = namedtuple("Node", "ids ptr ragged blocks scales ahead V null own")
"""Node features: the fields of their Design, mu and whether to prefetch by slot, and V."""

FeatureLists = namedtuple("FeatureLists", "ptr label")
"""Where the features of each attribute start, and the label of each feature; a column each."""

Edges = namedtuple("Edges", "row ids ptr blocks slotwise null V")
"""Edge features: row of each token (−1 at sentence starts), the fields of Design, and V."""

Templates = namedtuple("Templates", "mu N")
"""mu and N of each template."""

Step = namedtuple("Step", "c rounds tolerance enough temperature")
"""c; most steps; the gap, or share of the gap before, to stop at; temperature of the loss."""

EdgeScores = namedtuple("EdgeScores", "at rows tr most")
"""Workspace: the scores of the distinct edge rows of a span.

at, rows   which of them each position uses (int64[n + 1]), and their rows in the Design
tr, most   their scores float32[rows, L, ≥L], and the largest into each label
"""


def node_features(design: Design, V: NDArray[Any], mu: NDArray[np.float64]) -> Node:
    """Return node features as kernels take them."""
    scales = design.scales(mu)
    alive = scales > MIN_TEMPLATE_WEIGHT
    far = PREFETCH_DISTANCE if design.layout.support is None else FEATURE_PREFETCH_DISTANCE
    ahead = np.ones(len(alive), np.bool_) if design.ragged else np.roll(alive, -far % max(1, len(alive)))
    layout = design.layout
    entries = design.ids, design.ptr, design.ragged, design.blocks
    return Node(*entries, scales, ahead, V, layout.null_row, layout.n_own_rows)


def edge_workspace(longest: int, labels: int, rows: int) -> EdgeScores:
    """Return arrays for spans with at most so many distinct edge rows."""
    at, own = zeros(2, longest + 1, kind=np.int64)
    return EdgeScores(at, own, zeros(rows, labels, padded(labels)), zeros(rows, labels))


def zeros(*shape: int, kind: Any = np.float32) -> NDArray[Any]:
    """Return an array of zeros."""
    return np.zeros(shape, kind)


# ---------------------------------------------------------------- kernels


@inner_kernel
def gather(start, n, labels, node, values, support, em):
    """em[t] = cost − Σ_j mu_j v_j for the tokens of a span."""
    cost, gold = labels.cost, labels.gold
    if support is None:
        for k in range(PREFETCH_DISTANCE):
            prefetch(node.V, np.int64(node.ids[node.ptr[start] + k]))
    for t in range(n):
        total = em[t]
        for y in range(len(total)):
            total[y] = 0
        _gather_row(start + t, node, values, support, total)
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@inner_kernel
def _gather_row(row, node, values, support, total):
    ids, ptr, ragged, _, scales, ahead, V, _, _ = node
    first, last = ptr[row], ptr[row + 1]
    at = first if ragged else 0
    for k in range(last - first):
        _prefetch_weights(ids, first + k, PREFETCH_DISTANCE, ahead[at + k], V, support)
        x = scales[at + k]
        if x < MIN_TEMPLATE_WEIGHT:
            continue
        if values is not None:
            x *= values[first + k]
        a = np.uint64(ids[first + k])
        if support is not None:
            for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
                total[support.label[f, 0]] -= x * V[f, 0]
        else:
            for y in range(len(total)):
                total[y] -= x * V[a, y]


@inner_kernel
def _prefetch_weights(ids, k, far, wanted, V, support):
    """Prefetch weights of a later entry; with label supports in two stages, the lists before V."""
    if support is not None:
        prefetch(support.ptr, np.int64(ids[np.uint64(k + PREFETCH_DISTANCE)]))
        if wanted:
            near = support.ptr[np.int64(ids[np.uint64(k + FEATURE_PREFETCH_DISTANCE)]), 0]
            prefetch(V, near)
            prefetch(support.label, near)
    elif wanted:
        prefetch(V, np.int64(ids[np.uint64(k + far)]))


@inner_kernel
def scale_change(row, size, d, node):
    """Scale d by size, and change the weights that singletons of the row share, v += d.

    Return ‖d‖², 0 for a rounding error, and ⟨v, d⟩ before.
    """
    V, own = node.V, node.own
    most = np.float32(0)
    square = 0.0
    for y in range(len(d)):
        most = max(most, abs(d[y]))
        d[y] *= np.float32(size)
        square += np.float64(d[y]) * np.float64(d[y])
    dot = np.float32(0)
    if most <= MIN_CHANGE:
        square = 0.0
    elif own < node.null:
        v = V[own + row]
        for y in range(len(d)):
            dot += v[y] * d[y]
            v[y] += d[y]
    return square, dot


@inner_kernel
def add_row(start, t, slots, far, delta, square, own_dot, node, values, support, N):
    """V[id] += x·d on slots of a row, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    Attributes from id `own` on share the weights of the row, which have been changed. Weights are
    prefetched `far` entries ahead. V[a] is no view: numba would count references to V in one place,
    which all threads would write to.
    """
    ids, ptr, ragged, blocks, _, _, V, null, own = node
    first = ptr[start + t]
    for k in range(slots[0], slots[1]):
        _prefetch_weights(ids, first + k, far, True, V, support)
        id = ids[np.uint64(first + k)]
        if id == null:
            continue
        a = np.uint64(id)
        x = values[first + k] if values is not None else np.float32(1)
        change = 0.0
        if support is not None:
            for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
                dx = x * delta[t, support.label[f, 0]]
                change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
                V[f, 0] += dx
        else:
            dot = own_dot
            if id < own:
                dot = np.float32(0)
                for y in range(V.shape[1]):
                    dot += V[a, y] * delta[t, y]
                    V[a, y] += x * delta[t, y]
            change = 2.0 * x * dot + x * x * square
        N[blocks[first + k] if ragged else blocks[k]] += change


@inner_kernel
def add_edge(row, pair, d, edges, N):
    """Add d to V (double: edge weights are few and large) for a pair of an edge row; update N."""
    _, ids, ptr, blocks, _, null, V = edges
    start, stop = ptr[row], ptr[row + 1]
    for k in range(stop - start):
        a = ids[start + k]
        if a != null:
            N[blocks[k]] += d * (2.0 * V[a, pair] + d)
            V[a, pair] += d


@inner_kernel
def edge_scores(row, edges, mu, tr, most):
    """tr[z, y] of an edge row, and most[y], the largest of each column."""
    _, ids, ptr, blocks, _, null, V = edges
    L = tr.shape[0]
    for z in range(L):
        for y in range(L):
            tr[z, y] = 0
    for q in range(ptr[row], ptr[row + 1]):
        if ids[q] != null:
            x = mu[blocks[q - ptr[row]]]
            v = V[ids[q]]
            for z in range(L):
                for y in range(L):
                    tr[z, y] -= np.float32(x * v[z * L + y])
    for z in range(L):
        for y in range(L):
            most[y] = max(most[y], tr[z, y]) if z > 0 else tr[z, y]


@inner_kernel
def load_edges(start, n, left, right, edges, mu, found):
    """Score the distinct edge rows of a span. Return how many there are.

    Where the corpus has one edge row alone, its scores are kept from span to span: steps change
    them as they change V.
    """
    if len(edges.ptr) == 2:
        return 1
    count = 0
    for t in range(n + 1):
        if (t == 0 and left < 0) or (t == n and right < 0):
            continue
        row = np.int64(edges.row[start + t])
        k = 0
        while k < count and found.rows[k] != row:
            k += 1
        found.at[t] = k
        if k == count:
            found.rows[k] = row
            count += 1
            edge_scores(row, edges, mu, found.tr[k], found.most[k])
    return count


@inner_kernel
def edge_product(row, other, edges, mu):
    """Return Σ_j mu_j ⟨x_j, x'_j⟩ of two edge rows by comparing their ids."""
    _, ids, ptr, blocks, slotwise, null, _ = edges
    slots = len(blocks)
    total = 0.0
    for j in range(slots):
        x = ids[ptr[row] + j]
        if x != null:
            for i in range(j if slotwise else 0, j + 1 if slotwise else slots):
                if ids[ptr[other] + i] == x:
                    total += mu[blocks[j]]
    return total


@inner_kernel
def kernel_row(start, n, t, label, node, values, support, mark, room, out):
    """out[u] = Σ_j mu_j ⟨x_tj, x_uj⟩ for n tokens u from `start` on, over features with one label.

    Rows are compared slot by slot; `room` holds mu·x of token t by slot. Where attributes may stand
    anywhere in a row and repeat, `mark` holds it by attribute, and is zero before and after.
    """
    ids, ptr, ragged, _, scales, _, _, null, _ = node
    first, last = ptr[start + t], ptr[start + t + 1]
    for k in range(last - first):
        a = ids[first + k]
        x = scales[first + k if ragged else k]
        if a == null or x < MIN_TEMPLATE_WEIGHT or not has(support, a, label):
            x = np.float32(0)
        if values is not None:
            x *= values[first + k]
        if mark is None:
            room[k] = x
        else:
            mark[np.uint64(a)] += x
    for u in range(n):
        low, high = ptr[start + u], ptr[start + u + 1]
        total = np.float32(0)
        for k in range(high - low):
            a = ids[np.uint64(low + k)]
            same = room[k] if mark is None and a == ids[np.uint64(first + k)] else np.float32(0)
            x = same if mark is None else mark[np.uint64(a)]
            total += x * values[low + k] if values is not None else x
        out[u] = total
    if mark is not None:
        for k in range(first, last):
            mark[np.uint64(ids[k])] = 0


@inner_kernel
def has(support, a, y):
    """Return whether attribute a has a feature with label y."""
    return True if support is None else find_feature(support.ptr, support.label, a, y) >= 0


@inner_kernel
def count_edge(t, z, y, p, gold, edge_row, node, edge):
    """Add the marginal p of an edge, and subtract it from gold; 1 − mass on gold is too coarse."""
    if y != gold[t]:
        node[t, y] += p
        node[t, gold[t]] -= p
    row = edge_row[t]
    if row >= 0:
        L = node.shape[1]
        pair, right = z * L + y, np.int64(gold[t - 1]) * L + gold[t]
        if pair != right:
            edge[row, pair] += p
            edge[row, right] -= p
