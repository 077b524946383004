"""Dual coordinate ascent for smooth losses: block updates on the edge marginals of a sentence.

With temperature T > 0 the loss of a sentence is T·log Σ_y exp((w·Φ(y) + cost(y)) / T) − w·Φ(gold):
the log loss (T = 1, no cost) or a softmax-margin. Its dual adds the entropy T·H(α_i). A block
update

1. computes the distribution β ∝ exp(score / T) by forward-backward;
2. moves the dual variables towards it, α ← α + γ·(β − α), with γ by an exact line search: the dual
   along γ is a quadratic, whose curvature comes from the Gram matrix, plus the entropy of the mixed
   edge marginals;
3. returns the block's duality gap, T·KL(α ‖ β).

For a chain H(α) = Σ_t H(edge t) − H(node t − 1). The curvature of k·CURVATURE_TOKENS tokens is
bounded by k times the sum over k pieces, so that its cost is linear in the length of a sentence.

References
----------
Le Priol, Piché, Lacoste-Julien: Adaptive stochastic dual coordinate ascent for conditional random
fields, UAI 2018. Gimpel, Smith: Softmax-margin CRFs, NAACL 2010.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, kernel
from mtlstruct._system import disk_arrays
from mtlstruct.linear.design import Design
from mtlstruct.linear.weight_layout import padded
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    add_edge,
    count_edge,
    edge_product,
    edge_scores,
    edge_workspace,
    gather,
    kernel_row,
    load_edges,
    scatter,
    zeros,
)

MIN_MASS = np.float32(1e-9)
"""Probabilities below this have no share in an entropy."""

MIN_CHANGE = np.float32(1e-7)
"""Changes of a probability below this have no share in a slope or a curvature."""

MIN_POTENTIAL = 1e-100
"""The least potential of an edge relative to the largest, so that no message vanishes."""

NEWTON_STEPS = 8
"""Newton steps of a line search, at most."""

CURVATURE_TOKENS = 400
"""Tokens, or distinct edge rows, among which all inner products are computed."""

Messages = namedtuple(
    "Messages", "scores delta edges emit forward norm weight peak alpha direction beta behind edge_sum K room"
)
"""Workspace of forward-backward, and of the direction β − α.

scores          float32[n, ≥L]: node scores with the cost added
delta           float32[n, ≥L]: the change of the node marginals
edges           EdgeScores
emit, forward   float64[n, L]: exp of node scores, and scaled messages
norm            float64[n]: the inverse sum of each message before scaling
weight, peak    float64[rows, L, L]: exp of edge scores, at most 1; float64[rows]: the largest score
alpha           float32[n, L]: node marginals of α
direction       float32[n, L, L]: β − α of the edges into each token
beta, behind    float64[L]: messages backward
edge_sum        float64[rows, L·L]: the direction summed over edges that share a row
K, room         a row of the Gram matrix, and what it is computed from
"""


class DenseMarginals(NamedTuple):
    """Edge marginals float32[T, L, L] of (previous, current) labels, and the entropy of each token.

    The first token of a sentence has its node marginals in row 0. Where there are no edges, the
    shape is [T, 1, L]. `entropy` float64[T] is H(edge t) − H(node t − 1), the entropy of a label
    given the one before.
    """

    mass: NDArray[np.float32]
    entropy: NDArray[np.float64]

    @classmethod
    def of_gold(cls, gold: NDArray[np.int32], ptr: NDArray[np.int64], labels: int) -> DenseMarginals:
        """Return the marginals of the gold labels of sentences `ptr`."""
        mass = disk_arrays.zeros((len(gold), _edges(ptr, labels), labels), np.float32)
        before = np.roll(gold, 1)
        before[ptr[:-1]] = 0
        mass[np.arange(len(gold)), before, gold] = 1
        return cls(mass, np.zeros(len(gold)))


def dense_bytes(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the bytes of dense marginals of sentences `ptr`."""
    return int(ptr[-1]) * (4 * _edges(ptr, labels) * labels + 8)


def _edges(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the labels that a token may follow: one where all sentences have one token."""
    return 1 if len(ptr) - 1 == ptr[-1] else labels


def smooth_workspace(longest: int, shape: tuple[int, ...], node: Design, edge_rows: int) -> Any:
    """Return Messages for sentences of at most `longest` tokens."""
    before, labels = shape
    rows = 1 if edge_rows == 1 else longest
    emit, forward = zeros(2, longest, labels, kind=np.float64)
    beta, behind = zeros(2, labels, kind=np.float64)
    return Messages(
        scores=zeros(longest, padded(labels)),
        delta=zeros(longest, padded(labels)),
        edges=edge_workspace(longest, labels, rows),
        emit=emit,
        forward=forward,
        norm=zeros(longest, kind=np.float64),
        weight=zeros(rows, labels, labels, kind=np.float64),
        peak=zeros(rows, kind=np.float64),
        alpha=zeros(longest, labels),
        direction=zeros(longest, before, labels),
        beta=beta,
        behind=behind,
        edge_sum=zeros(rows, labels * labels, kind=np.float64),
        K=zeros(min(longest, CURVATURE_TOKENS)),
        room=zeros(len(node.blocks)),
    )


# ---------------------------------------------------------------- kernels


@fast_kernel
def ascend_spans(spans, labels, dual, node, values, support, edges, templates, step, work, mark, gaps):
    """Update sentences in turn; write gaps before. Return change of expected cost and entropy."""
    if len(edges.ptr) == 2:
        edge_scores(np.int64(0), edges, templates.mu, work.edges.tr[0], work.edges.most[0])
    change = 0.0
    for s in range(len(spans)):
        start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
        gather(start, n, labels, node, values, support, work.scores)
        gaps[s], gamma, gain = ascend(
            start, n, labels, dual, node, values, support, edges, templates, step, work, mark
        )
        scatter(start, n, step.c * gamma, work.delta, node, values, support, templates.N)
        change += gain
    return change


@inner_kernel
def ascend(start, n, labels, dual, node, values, support, edges, templates, step, work, mark):
    """Update a sentence. Return the gap before, γ, and the change of the loss."""
    T, c = step.temperature, step.c
    none = np.int64(-1)
    rows = load_edges(start, n, none, none, edges, templates.mu, work.edges)
    if n == 1:
        rows = 0  # a single token has no edges
    log_z = _forward(n, T, rows, work)
    current, slope = _backward(start, n, dual.mass, work)
    gap = T * log_z - current
    for t in range(n):
        gap -= T * dual.entropy[start + t]
    gap = max(0.0, gap)
    gamma = 0.0
    change = 0.0
    if gap > step.tolerance:
        quad = c * _curvature(start, n, rows, node, values, support, edges, templates.mu, work, mark)
        gamma = _line_search(start, n, T, slope, quad, gap, dual.mass, work)
        change = _move(start, n, gamma, T, labels, dual, work)
        _add_edges(rows, c * gamma, edges, templates, work)
    return gap, gamma, change


@inner_kernel
def _forward(n, T, rows, work):
    """Scaled messages forward. Return log Z."""
    scores, emit, forward, weight, tr = work.scores, work.emit, work.forward, work.weight, work.edges.tr
    L = emit.shape[1]
    for k in range(rows):
        peak = tr[k, 0, 0]
        for z in range(L):
            for y in range(L):
                peak = max(peak, tr[k, z, y])
        work.peak[k] = peak / T
        for z in range(L):
            for y in range(L):
                weight[k, z, y] = max(np.exp((tr[k, z, y] - peak) / T), MIN_POTENTIAL)
    log_z = 0.0
    for t in range(n):
        now = forward[t]
        top = scores[t, 0]
        for y in range(1, L):
            top = max(top, scores[t, y])
        log_z += top / T
        for y in range(L):
            emit[t, y] = np.exp((scores[t, y] - top) / T)
            now[y] = 0.0 if t > 0 else 1.0
        if t > 0:
            k = work.edges.at[t]
            log_z += work.peak[k]
            for z in range(L):
                before = forward[t - 1, z]
                for y in range(L):
                    now[y] += before * weight[k, z, y]
        total = 0.0
        for y in range(L):
            now[y] *= emit[t, y]
            total += now[y]
        work.norm[t] = 1.0 / total
        for y in range(L):
            now[y] *= work.norm[t]
        log_z += np.log(total)
    return log_z


@inner_kernel
def _backward(start, n, mass, work):
    """Compute β − α on edges and nodes. Return the expected score of α, and the slope to β."""
    scores, delta, emit, forward, weight = work.scores, work.delta, work.emit, work.forward, work.weight
    alpha, direction, beta, behind, tr = work.alpha, work.direction, work.beta, work.behind, work.edges.tr
    L = emit.shape[1]
    current = 0.0
    slope = 0.0
    for y in range(L):
        beta[y] = 1.0
    for t in range(n - 1, -1, -1):
        for y in range(L):
            behind[y] = emit[t, y] * beta[y] * work.norm[t]
            delta[t, y] = alpha[t, y] = 0
        k = work.edges.at[t]
        for z in range(direction.shape[1]):
            first = t == 0 and z == 0  # a first token is entered from label 0, without an edge
            before = forward[t - 1, z] if t > 0 else np.float64(first)
            total = 0.0
            for y in range(L):
                ahead = weight[k, z, y] * behind[y] if t > 0 else behind[y]
                total += ahead
                edge = tr[k, z, y] if t > 0 else np.float32(0)
                now = mass[start + t, z, y]
                change = np.float32(before * ahead - now)
                direction[t, z, y] = change
                delta[t, y] += change
                alpha[t, y] += now
                current += now * (scores[t, y] + edge)
                slope += change * edge
            beta[z] = total
        for y in range(L):
            slope += delta[t, y] * scores[t, y]
    return current, slope


@inner_kernel
def _curvature(start, n, rows, node, values, support, edges, mu, work, mark):
    """Return a bound of ‖Σ_j √mu_j (features of β − features of α)‖², exact for short sentences."""
    nodes = 0.0
    for first in range(0, n, CURVATURE_TOKENS):
        size = min(CURVATURE_TOKENS, n - first)
        nodes += _node_curvature(start + first, size, node, values, support, work.delta[first:], work, mark)
    edge_sum, at, local = work.edge_sum, work.edges.at, work.edges.rows
    L = work.emit.shape[1]
    for k in range(rows):
        for i in range(L * L):
            edge_sum[k, i] = 0
    for t in range(1, n):
        for z in range(L):
            for y in range(L):
                edge_sum[at[t], z * L + y] += work.direction[t, z, y]
    pairs = 0.0
    for k in range(rows):
        for q in range(k - k % CURVATURE_TOKENS, k + 1):
            product = edge_product(local[k], local[q], edges, mu)
            if product != 0:
                dot = 0.0
                for i in range(L * L):
                    dot += edge_sum[k, i] * edge_sum[q, i]
                pairs += product * dot * (1.0 if q == k else 2.0)
    return nodes * -(-n // CURVATURE_TOKENS) + pairs * -(-rows // CURVATURE_TOKENS)


@inner_kernel
def _node_curvature(start, n, node, values, support, delta, work, mark):
    """Return the squared norm of the node features of n tokens whose marginals change by delta."""
    L, K = work.emit.shape[1], work.K
    quad = 0.0
    for t in range(n):
        for label in range(1 if support is None else L):
            low, high = (label, label + 1) if support is not None else (0, L)
            most = np.float32(0)
            for y in range(low, high):
                most = max(most, abs(delta[t, y]))
            if most < MIN_CHANGE:
                continue
            kernel_row(start, t + 1, t, label, node, values, support, mark, work.room, K)
            for u in range(t + 1):
                if K[u] != 0:
                    dot = np.float32(0)
                    for y in range(low, high):
                        dot += delta[t, y] * delta[u, y]
                    quad += np.float64(K[u] * dot) * (1.0 if u == t else 2.0)
    return quad


@inner_kernel
def _line_search(start, n, T, slope, quad, gap, mass, work):
    """Return the γ in (0, 1] that maximises γ·slope − ½γ²·quad + T·H(α + γ·direction).

    Newton steps within an interval that contains γ, from 2·gap / (2·gap + quad), which is exact
    near the optimum.
    """
    low, high = 0.0, 1.0
    gamma = 2 * gap / (2 * gap + quad)
    for _ in range(NEWTON_STEPS):
        first, second = _entropy_slopes(start, n, gamma, mass, work)
        first = slope - gamma * quad + T * first
        second = T * second - quad
        if first > 0:
            low = gamma
        else:
            high = gamma
        step = -first / second if second < 0 else 0.0
        if abs(step) < 0.02 * gamma or (gamma == 1.0 and first > 0):
            break
        gamma = min(gamma + step, 1.0)
        if gamma <= low or gamma > high:
            gamma = 0.5 * (low + high)
    return gamma


@inner_kernel
def _entropy_slopes(start, n, gamma, mass, work):
    """Return the first and second derivative of H(α + γ·direction) in γ."""
    alpha, delta, direction = work.alpha, work.delta, work.direction
    L = work.emit.shape[1]
    x = np.float32(gamma)
    first = 0.0
    second = 0.0
    for t in range(n):
        for z in range(mass.shape[1]):
            for y in range(L):
                d = direction[t, z, y]
                p = mass[start + t, z, y] + x * d
                if abs(d) > MIN_CHANGE and p > MIN_MASS:
                    first -= d * np.log(p)
                    second -= d * d / p
        for y in range(L if t < n - 1 else 0):
            d = delta[t, y]
            p = alpha[t, y] + x * d
            if abs(d) > MIN_CHANGE and p > MIN_MASS:
                first += d * np.log(p)
                second += d * d / p
    return first, second


@inner_kernel
def _move(start, n, gamma, T, labels, dual, work):
    """Move α along the direction. Return the change of expected cost and of entropy, times T."""
    alpha, delta, direction = work.alpha, work.delta, work.direction
    mass, entropy = dual.mass, dual.entropy
    L = work.emit.shape[1]
    x = np.float32(gamma)
    change = 0.0
    for t in range(n):
        total = 0.0
        for z in range(mass.shape[1]):
            for y in range(L):
                p = max(mass[start + t, z, y] + x * direction[t, z, y], np.float32(0))
                mass[start + t, z, y] = p
                total -= p_log_p(p)
        for y in range(L):
            if t > 0:
                total += p_log_p(alpha[t - 1, y] + x * delta[t - 1, y])
            change += np.float64(x * delta[t, y]) * labels.cost[labels.gold[start + t], y]
        change += T * (total - entropy[start + t])
        entropy[start + t] = total
    return change


@inner_kernel
def _add_edges(rows, size, edges, templates, work):
    """Add the step to edge weights, and to the scores if there is one edge row."""
    edge_sum, tr, local = work.edge_sum, work.edges.tr, work.edges.rows
    L = work.emit.shape[1]
    single = edge_product(0, 0, edges, templates.mu) if len(edges.ptr) == 2 else 0.0
    for k in range(rows):
        for pair in range(L * L):
            d = size * edge_sum[k, pair]
            if d != 0:
                add_edge(local[k], pair, d, edges, templates.N)
                tr[k, pair // L, pair % L] -= np.float32(d * single)


@inner_kernel
def p_log_p(p):
    """Return p·log p, and 0 where p is next to 0."""
    return p * np.log(p) if p > MIN_MASS else 0.0


@kernel
def count_marginals(dual, gold, edge_row, node, edge):
    """Add marginals less gold."""
    mass = dual.mass
    for t in range(len(gold)):
        for z in range(mass.shape[1]):
            for y in range(mass.shape[2]):
                count_edge(t, z, y, mass[t, z, y], gold, edge_row, node, edge)


@kernel
def repair_marginals(first, last, ptr, dual, gold, arrived):
    """Scale marginals until inflow equals outflow at each label; recompute the entropy."""
    mass, entropy = dual
    L = mass.shape[2]
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            total = 0.0
            for z in range(mass.shape[1]):
                enters = arrived[z] if t > ptr[i] else np.float64(z == 0)
                total += p_log_p(enters)
                leaves = 0.0
                for y in range(L):
                    leaves += mass[t, z, y]
                if leaves <= 0 and enters > 0:
                    mass[t, z, gold[t]] = enters
                for y in range(L):
                    if leaves > 0:
                        mass[t, z, y] = mass[t, z, y] * (enters / leaves)
                    total -= p_log_p(mass[t, z, y])
            entropy[t] = total
            for y in range(L):
                arrived[y] = 0
                for z in range(mass.shape[1]):
                    arrived[y] += mass[t, z, y]
