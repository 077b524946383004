"""Features of a span of a sequence as kernels use them: scores, changes of V, inner products.

A block update gathers the part scores of its tokens, changes the marginals, and scatters the change
to V; N_j = ‖v_j‖² is kept exact. Templates whose weight has all but vanished are not gathered, but
V and N include them, so they can come back. The curvature of a step comes from the Gram matrix K[t,
u] = Σ_j mu_j ⟨x_tj, x_uj⟩, of which only the rows of tokens that change are computed.

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

Gram = namedtuple("Gram", "K place tr most edge_delta edge_K touched moved turned turned_values")
"""Workspace of inner products.

K, place        rows of the Gram matrix that are known, and where that of a token (and label) is
tr, most        scores of the distinct edge rows, and the largest into each label
edge_delta      the change of the edge marginals; `touched` lists its nonzero (row, pair)
edge_K          the Gram matrix of edge rows
moved           (row, pair, sign) of the edges that a segment changes
turned, turned_values   ids and values of the span slot by slot
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


def gram_workspace(longest: int, labels: int, node: Design, rows: int, rounds: int) -> Gram:
    """Arrays for inner products of the features of a span; 0 rounds: one row of them at a time."""
    wide = padded(labels)
    # a round moves a token from one label to another
    kernels = longest * (1 if node.layout.support is None else 2 * rounds) if rounds else 1
    changes = 2 * longest + 4
    slots = len(node.blocks) if node.slots_aligned else 0
    return Gram(
        K=zeros(kernels, longest),
        place=zeros(longest, 1 if node.layout.support is None else wide, kind=np.int64),
        tr=zeros(rows, labels, wide),
        most=zeros(rows, labels),
        edge_delta=zeros(rows, labels * labels, kind=np.float64),
        edge_K=zeros(min(rows, longest + 1), min(rows, longest + 1)),
        touched=zeros(rounds * changes, 2, kind=np.int64),
        moved=zeros(changes, 3, kind=np.int64),
        turned=zeros(slots, longest, kind=node.ids.dtype),
        turned_values=zeros(slots if len(node.values) else 0, longest),
    )


def zeros(*shape: int, kind: Any = np.float32) -> NDArray[Any]:
    """Return an array of zeros."""
    return np.zeros(shape, kind)


# ---------------------------------------------------------------- kernels


@inner_kernel
def gather(start, n, labels, node, values, support, em):
    """em[t] = cost − Σ_j mu_j v_j for the tokens of a span; weights are prefetched."""
    cost, gold = labels.cost, labels.gold
    for t in range(n):
        first = node.ptr[start + t]
        size = node.ptr[start + t + 1] - first
        total = em[t]
        for y in range(len(total)):
            total[y] = 0
        if support is not None:
            _gather_listed(first, size, node, values, support, total)
        else:
            _gather_rows(first, size, node, values, total)
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@inner_kernel
def _gather_rows(first, size, node, values, total):
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + PREFETCH_DISTANCE]
    at = first if ragged else 0
    for k in range(size):
        if ahead[at + k]:
            prefetch(V, np.int64(entry[k + PREFETCH_DISTANCE]))
        x = scales[at + k]
        if x < MIN_TEMPLATE_WEIGHT:
            continue
        v = V[np.uint64(entry[k])]
        if values is not None:
            x *= values[first + k]
        for y in range(len(total)):
            total[y] -= x * v[y]


@inner_kernel
def _gather_listed(first, size, node, values, support, total):
    """Prefetch label supports in two stages: the lists, then V."""
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + PREFETCH_DISTANCE]
    at = first if ragged else 0
    for k in range(size):
        prefetch(support.ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
        if ahead[at + k]:
            near = support.ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
            prefetch(V, near)
            prefetch(support.label, near)
        x = scales[at + k]
        if x < MIN_TEMPLATE_WEIGHT:
            continue
        if values is not None:
            x *= values[first + k]
        a = np.uint64(entry[k])
        for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
            total[support.label[f, 0]] -= x * V[f, 0]


@inner_kernel
def scatter(start, n, delta, node, values, support, N):
    """Add delta of a span to V, and update N."""
    for t in range(n):
        some = False
        for y in range(delta.shape[1]):
            some |= delta[t, y] != 0
        if not some:
            continue
        if support is not None:
            _add_listed(start + t, delta[t], node, values, support, N)
        else:
            _add_row(start + t, delta[t], node, values, N)


@inner_kernel
def _add_listed(row, d, node, values, support, N):
    """Add to V on one row of A where attributes have features with some labels only."""
    start, stop = node.ptr[row], node.ptr[row + 1]
    V = node.V
    entry = node.ids[start : stop + PREFETCH_DISTANCE]
    for k in range(stop - start):
        prefetch(support.ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
        near = support.ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
        prefetch(V, near)
        prefetch(support.label, near)
        a = np.uint64(entry[k])
        x = values[start + k] if values is not None else np.float32(1)
        change = 0.0
        for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
            dx = x * d[support.label[f, 0]]
            change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
            V[f, 0] += dx
        N[node.blocks[start + k] if node.ragged else node.blocks[k]] += change


@inner_kernel
def _add_row(row, d, node, values, N):
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    From id `own` on, attributes that fire here only share the weights of this row, which change
    once.
    """
    ids, ptr, ragged, blocks, _, _, V, null, own = node
    start, stop = ptr[row], ptr[row + 1]
    W = V.shape[1]
    square = 0.0
    for y in range(W):
        square += np.float64(d[y]) * np.float64(d[y])
    entry = ids[start : stop + PREFETCH_DISTANCE]
    for k in range(stop - start):
        prefetch(V, np.int64(entry[k + PREFETCH_DISTANCE]))
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        x = values[start + k] if values is not None else np.float32(1)
        factor = x if entry[k] < own else np.float32(0)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += factor * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
    if own < null:
        for y in range(W):
            V[own + row, y] += d[y]


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
    for y in range(L):
        most[y] = tr[0, y]
    for z in range(1, L):
        for y in range(L):
            most[y] = max(most[y], tr[z, y])


@inner_kernel
def load_edges(start, n, left, right, edges, mu, er, local, tr, most):
    """Score the distinct edge rows of the span into tr; er maps positions. Return the count.

    Where the corpus has one edge row alone, its tr is kept from span to span: steps change it as
    they change V.
    """
    if len(edges.ptr) == 2:
        for t in range(n + 1):
            er[t] = 0
        local[0] = 0
        return 1
    rows = 0
    for t in range(n + 1):
        if (t == 0 and left < 0) or (t == n and right < 0):
            continue
        row = np.int64(edges.row[start + t])
        k = 0
        while k < rows and local[k] != row:
            k += 1
        er[t] = k
        if k < rows:
            continue
        local[k] = row
        rows += 1
        edge_scores(row, edges, mu, tr[k], most[k])
    return rows


@inner_kernel
def edge_kernels(rows, local, edges, mu, K):
    """Compute K[k, q] = Σ_j mu_j ⟨x_kj, x_qj⟩ of edge rows by comparing their ids."""
    _, ids, ptr, blocks, slotwise, null, _ = edges
    slots = len(blocks)
    for k in range(rows):
        for q in range(k + 1):
            total = 0.0
            for j in range(slots):
                x = ids[ptr[local[k]] + j]
                if x == null:
                    continue
                other = ptr[local[q]]
                for i in range(j if slotwise else 0, j + 1 if slotwise else slots):
                    if ids[other + i] == x:
                        total += mu[blocks[j]]
            K[k, q] = K[q, k] = np.float32(total)


@inner_kernel
def transpose(ids, start, slots, n, out):
    """Transpose ids or values of the span, so that comparing tokens reads memory in order."""
    for t in range(n):
        row = ids[start + t * slots : start + t * slots + slots]
        for k in range(slots):
            out[k, t] = row[k]


@inner_kernel
def kernel_row(n, t, label, node, values, support, gram, out):
    """out[u] = Σ_j mu_j ⟨x_tj, x_uj⟩ for all tokens u of the span, over features with one label."""
    scales, null, turned = node.scales, node.null, gram.turned
    for u in range(n):
        out[u] = 0
    for k in range(len(turned)):
        here = turned[k, t]
        s = scales[k]
        if here == null or s < MIN_TEMPLATE_WEIGHT or not has(support, here, label):
            continue
        row = turned[k]
        if values is not None:
            x = gram.turned_values[k]
            s *= x[t]
            for u in range(n):
                out[u] += s * x[u] if row[u] == here else np.float32(0)
        else:
            for u in range(n):
                out[u] += s if row[u] == here else np.float32(0)


@inner_kernel
def ragged_row(start, n, t, label, node, values, support, mark, out):
    """kernel_row where an attribute may stand anywhere in a row, and more than once.

    mark [attributes + 1] is zero before and after: in between it holds mu·x of token t.
    """
    ids, ptr, ragged, _, scales, _, _, null, _ = node
    first, last = ptr[start + t], ptr[start + t + 1]
    for k in range(first, last):
        s = scales[k if ragged else k - first]
        if ids[k] != null and s >= MIN_TEMPLATE_WEIGHT and has(support, ids[k], label):
            mark[np.uint64(ids[k])] += s * values[k] if values is not None else s
    for u in range(n):
        low, high = ptr[start + u], ptr[start + u + 1]
        entry = ids[low:high]
        total = np.float32(0)
        for k in range(high - low):
            x = mark[np.uint64(entry[k])]
            total += x * values[low + k] if values is not None else x
        out[u] = total
    for k in range(first, last):
        mark[np.uint64(ids[k])] = 0


@inner_kernel
def has(support, a, y):
    """Return whether attribute a has a feature with label y."""
    return True if support is None else find_feature(support.ptr, support.label, a, y) >= 0
