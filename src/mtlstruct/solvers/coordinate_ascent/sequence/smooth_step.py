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

Threads share the gathering of scores, by tokens, the Gram matrix, by rows, and the scattering to V,
by templates. Each number is computed by one thread, and by the same machine code in all of them, so
the bits do not depend on who computes it. All threads run `ascend_spans`; the first leads: it cuts
a phase into tasks, takes tasks like the others, and does alone what lies between the phases. The
others wait actively, for at most MAX_SPINS reads. A thread that comes late or never costs nothing.

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

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, kernel, make_atomic
from mtlstruct._system import disk_arrays
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.weight_layout import padded
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    add_edge,
    add_row,
    count_edge,
    edge_product,
    edge_scores,
    edge_workspace,
    gather,
    kernel_row,
    load_edges,
    scale_change,
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

MAX_TASKS, SCATTER_TASKS = 8, 4
"""Tasks of a phase, at most. There are fewer of scattering: each of them reads all rows."""

MIN_TASK_TOKENS = 4
"""Tokens whose scores a task gathers, at least."""

MAX_SPINS = 1 << 18
"""Reads of the ticket (about 1 ms) after which a thread that found no task leaves."""

LONG_WAIT, MAX_LONG_WAITS = 1 << 16, 10
"""Reads of `done` (about 0.2 ms) after which the first thread takes another to be suspended, and
how often that may happen in a call before it works alone."""

GATHER, CURVATURE, SCATTER, END = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
"""Phases of a block update."""

_load, _add, _store = make_atomic("load"), make_atomic("add"), make_atomic("xchg")

Team = namedtuple("Team", "ticket done closed job slots")
"""What the threads of `ascend_spans` share.

ticket    int64[16], cache lines of its own: phase << 32 | tasks << 16 | tasks taken
done      int64[16]: tasks done
closed    int64[16]: 1 if the first thread works alone, from the beginning or from now on, else 0
job       int64[2]: first token and number of tokens of the sentence
slots     int64[k, 2]: ranges of slots, each with all slots of its templates, that are added to V by
          different threads; empty where rows are not divided
"""

Messages = namedtuple(
    "Messages",
    "scores delta square own_dot quad edges emit forward norm weight peak alpha direction beta behind edge_sum "
    "K room team",
)
"""Workspace of forward-backward, and of the direction β − α.

scores          float32[n, ≥L]: node scores with the cost added
delta           float32[n, ≥L]: the change of the node marginals
square, own_dot float64[n], float32[n]: what `scale_change` returns of each token
quad            float64[n]: the share of each token in the curvature
edges           EdgeScores
emit, forward   float64[n, L]: exp of node scores, and scaled messages
norm            float64[n]: the inverse sum of each message before scaling
weight, peak    float64[rows, L, L]: exp of edge scores, at most 1; float64[rows]: the largest score
alpha           float32[n, L]: node marginals of α
direction       float32[n, L·L]: β − α of the edges into each token
beta, behind    float64[L]: messages backward
edge_sum        float64[rows, L·L]: the direction summed over edges that share a row
K, room         a row of the Gram matrix, and what it is computed from; each thread has its own
team            Team
"""


class DenseMarginals(NamedTuple):
    """Edge marginals float32[T, L·L] of (previous, current) labels, and the entropy of each token.

    The first token of a sentence has its node marginals in the first L. Where there are no edges,
    the shape is [T, L]. `entropy` float64[T] is H(edge t) − H(node t − 1), the entropy of a label
    given the one before.
    """

    mass: NDArray[np.float32]
    entropy: NDArray[np.float64]

    @classmethod
    def of_gold(cls, gold: NDArray[np.int32], ptr: NDArray[np.int64], labels: int) -> DenseMarginals:
        """Return the marginals of the gold labels of sentences `ptr`."""
        mass = disk_arrays.zeros((len(gold), _edges(ptr, labels) * labels), np.float32)
        before = np.roll(gold, 1)
        before[ptr[:-1]] = 0
        mass[np.arange(len(gold)), before * labels + gold] = 1
        return cls(mass, np.zeros(len(gold)))


def dense_bytes(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the bytes of dense marginals of sentences `ptr`."""
    return int(ptr[-1]) * (4 * _edges(ptr, labels) * labels + 8)


def _edges(ptr: NDArray[np.int64], labels: int) -> int:
    """Return the labels that a token may follow: one where all sentences have one token."""
    return 1 if len(ptr) - 1 == ptr[-1] else labels


def smooth_workspace(longest: int, labels: int, pairs: int, node: Design, edge_rows: int) -> Any:
    """Return Messages for sentences of at most `longest` tokens."""
    rows = 1 if edge_rows == 1 else longest
    emit, forward = zeros(2, longest, labels, kind=np.float64)
    beta, behind = zeros(2, labels, kind=np.float64)
    ticket, done, closed = zeros(3, 16, kind=np.int64)
    return Messages(
        scores=zeros(longest, padded(labels)),
        delta=zeros(longest, padded(labels)),
        square=zeros(longest, kind=np.float64),
        own_dot=zeros(longest),
        quad=zeros(longest, kind=np.float64),
        edges=edge_workspace(longest, labels, rows),
        emit=emit,
        forward=forward,
        norm=zeros(longest, kind=np.float64),
        weight=zeros(rows, labels, labels, kind=np.float64),
        peak=zeros(rows, kind=np.float64),
        alpha=zeros(longest, labels),
        direction=zeros(longest, pairs),
        beta=beta,
        behind=behind,
        edge_sum=zeros(rows, labels * labels, kind=np.float64),
        **own_workspace(longest, node),
        team=Team(ticket, done, closed, zeros(2, kind=np.int64), _slots(node)),
    )


def own_workspace(longest: int, node: Design) -> dict[str, NDArray[np.float32]]:
    """Return the fields of Messages that each thread has for itself."""
    return {"K": zeros(min(longest, CURVATURE_TOKENS)), "room": zeros(len(node.blocks))}


def _slots(node: Design) -> NDArray[np.int64]:
    """Return ranges of slots that share no template, about equally long; none for ragged rows."""
    begins = np.flatnonzero(np.diff(node.blocks, prepend=-1))
    contiguous = len(begins) == len(np.unique(node.blocks)) > 0
    if node.layout.support is not None or not (node.slots_aligned and contiguous):
        return np.zeros((0, 2), np.int64)
    goals = np.arange(SCATTER_TASKS) * len(node.blocks) // SCATTER_TASKS
    cuts = np.unique(begins[np.searchsorted(begins, goals, side="right") - 1])
    return np.stack([cuts, np.append(cuts[1:], len(node.blocks))], axis=1)


# ---------------------------------------------------------------- kernels


@fast_kernel
def ascend_spans(rank, spans, labels, dual, node, values, support, edges, templates, step, work, mark, gaps):
    """Update sentences in turn; write their gaps before. Return the change of the loss.

    All threads run this at once; `rank` is 0 in the first, which alone returns the change.
    """
    ticket, done, closed, job, slots = work.team
    T, c, none = step.temperature, step.c, np.int64(-1)
    start, n, rows, s = np.int64(0), np.int64(0), np.int64(0), np.int64(-1)
    gap, slope, change = 0.0, 0.0, 0.0
    waited, long_waits = 0, 0
    if rank == 0:
        if len(edges.ptr) == 2:
            edge_scores(np.int64(0), edges, templates.mu, work.edges.tr[0], work.edges.most[0])
        _store(ticket, 0, SCATTER << 32)  # as if a sentence had been done
    while True:
        word = _load(ticket, 0, 0)
        phase, tasks = word >> 32, (word >> 16) & 0xFFFF
        if word & 0xFFFF < tasks and (rank == 0 or _load(closed, 0, 0) == 0):
            word = _add(ticket, 0, 1)
            phase, tasks, task = word >> 32, (word >> 16) & 0xFFFF, word & 0xFFFF
            if task < tasks:
                waited = 0
                _run_task(
                    phase, task, tasks, job[0], job[1], labels, node, values, support, templates.N, work, mark
                )
                _add(done, 0, 1)
            continue
        if rank > 0:
            waited += 1
            if phase == END or waited > MAX_SPINS or _load(closed, 0, 0) > 0:
                return change
            continue
        if _load(done, 0, 0) < tasks:  # another thread has not finished its task
            waited += 1
            if waited == LONG_WAIT:
                long_waits += 1
                if long_waits == MAX_LONG_WAITS:
                    _store(closed, 0, 1)
            continue
        waited = 0
        if phase == SCATTER:
            s += 1
            if s == len(spans):
                _store(ticket, 0, END << 32)
                return change
            start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
            job[0], job[1] = start, n
            phase, tasks = GATHER, max(np.int64(1), n // MIN_TASK_TOKENS)
        elif phase == GATHER:
            rows = load_edges(start, n, none, none, edges, templates.mu, work.edges)
            if n == 1:
                rows = 0  # a single token has no edges
            log_z = _forward(n, T, rows, work)
            current, slope = _backward(start, n, dual.mass, work)
            gap = T * log_z - current
            for t in range(n):
                gap -= T * dual.entropy[start + t]
            gaps[s] = gap = max(0.0, gap)
            phase, tasks = (CURVATURE, n) if gap > step.tolerance else (SCATTER, np.int64(0))
        else:
            quad = c * _curvature(n, rows, edges, templates.mu, work)
            gamma = _line_search(start, n, T, slope, quad, gap, dual.mass, work)
            change += _move(start, n, gamma, T, labels, dual, work)
            _add_edges(rows, c * gamma, edges, templates, work)
            for t in range(n):
                work.square[t], work.own_dot[t] = scale_change(start + t, c * gamma, work.delta[t], node)
            phase, tasks = SCATTER, max(1, len(slots))
        most = MAX_TASKS if _load(closed, 0, 0) == 0 else 1
        _store(done, 0, 0)
        _store(ticket, 0, phase << 32 | min(tasks, most) << 16)


@inner_kernel
def _run_task(phase, task, tasks, start, n, labels, node, values, support, N, work, mark):
    """Do a part of a phase."""
    slots = work.team.slots
    if phase == GATHER:
        first, last = n * task // tasks, n * (task + 1) // tasks
        gather(start + first, last - first, labels, node, values, support, work.scores[first:])
    elif phase == CURVATURE:
        for t in range(task, n, tasks):
            work.quad[t] = _token_curvature(start, t, node, values, support, work, mark)
    else:
        for t in range(n):
            if work.square[t] > 0:
                width = node.ptr[start + t + 1] - node.ptr[start + t]
                part, far = (np.int64(0), width), np.int64(PREFETCH_DISTANCE)
                if tasks > 1:
                    part = slots[task, 0], slots[task, 1]
                    far = width if t < n - 1 else far
                square, dot = work.square[t], work.own_dot[t]
                add_row(start, t, part, far, work.delta, square, dot, node, values, support, N)


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
        for z in range(direction.shape[1] // L):
            first = t == 0 and z == 0  # a first token is entered from label 0, without an edge
            before = forward[t - 1, z] if t > 0 else np.float64(first)
            total = 0.0
            for y in range(L):
                ahead = weight[k, z, y] * behind[y] if t > 0 else behind[y]
                total += ahead
                edge = tr[k, z, y] if t > 0 else np.float32(0)
                now = mass[start + t, z * L + y]
                change = np.float32(before * ahead - now)
                direction[t, z * L + y] = change
                delta[t, y] += change
                alpha[t, y] += now
                current += now * (scores[t, y] + edge)
                slope += change * edge
            beta[z] = total
        for y in range(L):
            slope += delta[t, y] * scores[t, y]
    return current, slope


@inner_kernel
def _curvature(n, rows, edges, mu, work):
    """Return a bound of ‖Σ_j √mu_j (features of β − features of α)‖², exact for short sentences."""
    edge_sum, at, local = work.edge_sum, work.edges.at, work.edges.rows
    nodes = 0.0
    for t in range(n):
        nodes += work.quad[t]
    pairs = work.direction.shape[1]
    for k in range(rows):
        for i in range(pairs):
            edge_sum[k, i] = 0
    for t in range(1, n):
        for i in range(pairs):
            edge_sum[at[t], i] += work.direction[t, i]
    total = 0.0
    for k in range(rows):
        for q in range(k - k % CURVATURE_TOKENS, k + 1):
            product = edge_product(local[k], local[q], edges, mu)
            if product != 0:
                dot = 0.0
                for i in range(pairs):
                    dot += edge_sum[k, i] * edge_sum[q, i]
                total += product * dot * (1.0 if q == k else 2.0)
    return nodes * -(-n // CURVATURE_TOKENS) + total * -(-rows // CURVATURE_TOKENS)


@inner_kernel
def _token_curvature(start, t, node, values, support, work, mark):
    """Return the inner products of the change at a token with itself and, twice, earlier ones."""
    L, K, delta = work.emit.shape[1], work.K, work.delta
    first = t - t % CURVATURE_TOKENS
    quad = 0.0
    for label in range(1 if support is None else L):
        low, high = (label, label + 1) if support is not None else (0, L)
        most = np.float32(0)
        for y in range(low, high):
            most = max(most, abs(delta[t, y]))
        if most < MIN_CHANGE:
            continue
        kernel_row(start + first, t - first + 1, t - first, label, node, values, support, mark, work.room, K)
        for u in range(t - first + 1):
            if K[u] != 0:
                dot = np.float32(0)
                for y in range(low, high):
                    dot += delta[t, y] * delta[first + u, y]
                quad += np.float64(K[u] * dot) * (1.0 if first + u == t else 2.0)
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
    x = np.float32(gamma)
    first = 0.0
    second = 0.0
    for t in range(n):
        slopes = _mixed_slopes(mass[start + t], work.direction[t], work.direction.shape[1], x)
        first -= slopes[0]
        second -= slopes[1]
        if t < n - 1:
            slopes = _mixed_slopes(work.alpha[t], work.delta[t], work.alpha.shape[1], x)
            first += slopes[0]
            second += slopes[1]
    return first, second


@inner_kernel
def _mixed_slopes(alpha, direction, size, x):
    """Return Σ d·log p and Σ d²/p for p = α + x·d."""
    first = np.float32(0)
    second = np.float32(0)
    for k in range(size):
        p = alpha[k] + x * direction[k]
        d = direction[k] if p > MIN_MASS else np.float32(0)
        p = max(p, MIN_MASS)
        first += d * log(p)
        second += d * d / p
    return np.float64(first), np.float64(second)


@inner_kernel
def _move(start, n, gamma, T, labels, dual, work):
    """Move α along the direction. Return the change of expected cost and of entropy, times T."""
    alpha, delta, entropy = work.alpha, work.delta, dual.entropy
    L = work.emit.shape[1]
    x = np.float32(gamma)
    change = 0.0
    for t in range(n):
        mass, direction = dual.mass[start + t], work.direction[t]
        total = np.float32(0)
        for k in range(len(direction)):
            mass[k] = max(mass[k] + x * direction[k], np.float32(0))
            total -= p_log_p(mass[k])
        for y in range(L):
            if t > 0:
                total += p_log_p(alpha[t - 1, y] + x * delta[t - 1, y])
            change += np.float64(x * delta[t, y]) * labels.cost[labels.gold[start + t], y]
        change += T * (np.float64(total) - entropy[start + t])
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
    return p * log(max(p, MIN_MASS)) if p > MIN_MASS else np.float32(0)


@inner_kernel
def log(x):
    """Return the natural logarithm of a positive float32, to within its precision.

    Unlike the library's, it is inlined, so that loops over it use vector instructions. The
    polynomial is that of Cephes (Moshier 1989).
    """
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23)  # of x / √½
    m = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32) - np.float32(1)
    y = np.float32(7.0376836292e-2)
    y = y * m - np.float32(1.1514610310e-1)
    y = y * m + np.float32(1.1676998740e-1)
    y = y * m - np.float32(1.2420140846e-1)
    y = y * m + np.float32(1.4249322787e-1)
    y = y * m - np.float32(1.6668057665e-1)
    y = y * m + np.float32(2.0000714765e-1)
    y = y * m - np.float32(2.4999993993e-1)
    y = y * m + np.float32(3.3333331174e-1)
    return m + (y * m - np.float32(0.5)) * m * m + np.float32(exponent) * np.float32(0.6931471805599453)


@kernel
def count_marginals(dual, gold, edge_row, node, edge):
    """Add marginals less gold."""
    mass, L = dual.mass, node.shape[1]
    for t in range(len(gold)):
        for k in range(mass.shape[1]):
            count_edge(t, k // L, k % L, mass[t, k], gold, edge_row, node, edge)


@kernel
def repair_marginals(first, last, ptr, dual, gold, arrived):
    """Scale marginals until inflow equals outflow at each label; recompute the entropy."""
    mass, entropy = dual
    L = len(arrived)
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            total = 0.0
            for z in range(mass.shape[1] // L):
                p = mass[t, z * L : (z + 1) * L]
                enters = arrived[z] if t > ptr[i] else np.float64(z == 0)
                total += p_log_p(np.float32(enters))
                leaves = 0.0
                for y in range(L):
                    leaves += p[y]
                if leaves <= 0 and enters > 0:
                    p[gold[t]] = enters
                for y in range(L):
                    if leaves > 0:
                        p[y] = p[y] * (enters / leaves)
                    total -= p_log_p(p[y])
            entropy[t] = total
            for y in range(L):
                arrived[y] = 0
                for z in range(mass.shape[1] // L):
                    arrived[y] += mass[t, z * L + y]
