"""The dual of sequences with the hinge: pairwise Frank–Wolfe steps with exact line search.

Few edge marginals are not zero; `edge_marginals` stores those. Where a span does not begin or end
with its sentence, the label outside is held: paths run between the labels that carry most mass
there. So a sentence of any length is updated in spans of bounded size, and a span of tokens whose
mass has left gold is updated without the rest.

Mass moves from the worst path that carries flow to the best one. The two are cut where they agree,
and each maximal segment where they differ gets its own exact step: moving mass θ gains θ·df −
½cθ²·quad, most at θ = df/(c·quad), clipped at the segment's bottleneck. `quad`, and what the step
does to the scores of the span, come from the Gram matrix K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩, of which
only the rows of tokens that move are computed.
"""

from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.weight_layout import padded
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.sequence.dual import SequenceDual, mark_of
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import (
    EDGE_CAPACITY,
    INFINITE_SCORE,
    LEAST_MASS,
    Flow,
    add_mass,
    best_path,
    count_flow,
    expected,
    find,
    held_label,
    repair_flow,
    worst_path,
)
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    Labels,
    Step,
    add_edge,
    add_row,
    edge_product,
    edge_scores,
    edge_workspace,
    gather,
    kernel_row,
    load_edges,
    scale_change,
    zeros,
)

MAX_SPAN = 400
"""A span has at most this many tokens: the kernels of a span take 4·MAX_SPAN² bytes."""

Paths = namedtuple(
    "Paths", "em delta edges high low back now best arg K place room edge_K edge_delta touched moved"
)
"""Workspace of scores, paths and inner products.

em          float32[n, ≥L]: node scores with the cost added
delta       float32[n, ≥L]: the change of the token marginals
edges       EdgeScores
high, low   the best path, and the worst that carries flow
back, now, best, arg   of the Viterbi recursion
K, place    known rows of the Gram matrix; which of them is that of a token (and label)
room        what a row of it is computed from
edge_K      the Gram matrix of edge rows
edge_delta  the change of the edge marginals; `touched` lists its nonzero (row, pair)
moved       (token, label before, label, sign) of the edges that a segment changes
"""


class HingeDual(SequenceDual):
    """Edge marginals that are not zero as a dual state of the coordinate solver."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    repair_kernel: ClassVar[Any] = staticmethod(repair_flow)
    count_kernel: ClassVar[Any] = staticmethod(count_flow)

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes that the edge marginals of the data take."""
        return int(oracle.tokens) * (4 + EDGE_CAPACITY * 8)

    def at_gold(self) -> Flow:
        """Return the marginals of the gold labels."""
        return Flow.of_gold(self.oracle.gold, self.ptr)

    def spans(self, shift: int) -> NDArray[np.int64]:
        """Return the sentences as spans; long ones are cut at `shift`."""
        return _cut(super().spans(shift), shift)

    def active(self) -> NDArray[np.int64]:
        """Return the runs of tokens whose mass has left gold."""
        size, _, head, mass = self.marginals
        off = (head != self.oracle.gold[:, None]) & (np.arange(head.shape[1]) < size[:, None])
        loose = np.where(off, mass, 0).sum(axis=1) > LEAST_MASS
        joined = loose[1:] & loose[:-1] & ~self.starts[1:-1]
        begins = np.flatnonzero(loose & ~np.concatenate([[False], joined]))
        ends = np.flatnonzero(loose & ~np.concatenate([joined, [False]])) + 1
        sentence = np.searchsorted(self.ptr, begins, side="right") - 1
        return _cut(np.stack([begins, ends, sentence], axis=1), 0)

    def run(self, spans: Any, labels: Labels, features: Any, step: Step, gaps: Any) -> float:
        """Run the kernel on spans. Return the change of the loss."""
        node, edge = self.oracle.encoded.designs
        self.marginals = self.marginals.with_room(step.rounds)  # a round brings a token at most one edge
        longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
        work = pairwise_workspace(longest, self.labels, node, edge.rows, step.rounds)
        arguments = self.marginals, *features, step, work, mark_of(node), gaps
        return float(take_pairwise_steps(spans, labels, *arguments))

    def entropy(self) -> float:
        """Return 0: the hinge has no entropy."""
        return 0.0


def _cut(spans: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return spans of at most MAX_SPAN tokens; `shift` says where long ones are cut."""
    long = np.flatnonzero(spans[:, 1] - spans[:, 0] > MAX_SPAN)
    pieces = [np.delete(spans, long, axis=0)]
    for start, stop, sentence in spans[long].tolist():
        cuts = np.unique(np.arange(start - shift % MAX_SPAN, stop + MAX_SPAN, MAX_SPAN).clip(start, stop))
        pieces.append(np.stack([cuts[:-1], cuts[1:], np.full(len(cuts) - 1, sentence)], axis=1))
    return np.concatenate(pieces)


def pairwise_workspace(longest: int, labels: int, node: Design, edge_rows: int, rounds: int) -> Any:
    """Make arrays for spans of at most `longest` tokens, in Python to compile less."""
    wide, listed = padded(labels), node.layout.support is not None
    rows = 1 if edge_rows == 1 else longest + 1  # with the bare transition alone there is one edge row
    changes = 2 * longest + 4
    high, low = zeros(2, longest, kind=np.int64)
    now, best = zeros(2, wide)
    return Paths(
        em=zeros(longest, wide),
        delta=zeros(longest, wide),
        edges=edge_workspace(longest, labels, rows),
        high=high,
        low=low,
        back=zeros(longest, wide, kind=np.int32),
        now=now,
        best=best,
        arg=zeros(wide, kind=np.int32),
        K=zeros(longest * (2 * rounds if listed else 1), longest),  # a round moves a token once
        place=zeros(longest, wide if listed else 1, kind=np.int64),
        room=zeros(len(node.blocks)),
        edge_K=zeros(rows, rows),
        edge_delta=zeros(rows, labels * labels, kind=np.float64),
        touched=zeros(rounds * changes, 2, kind=np.int64),
        moved=zeros(changes, 4, kind=np.int64),
    )


# ---------------------------------------------------------------- kernels


@fast_kernel
def take_pairwise_steps(spans, labels, flow, node, values, support, edges, templates, step, work, mark, gaps):
    """Update spans in turn; write gaps before to `gaps`. Return the change of the loss."""
    if len(edges.ptr) == 2:
        edge_scores(np.int64(0), edges, templates.mu, work.edges.tr[0], work.edges.most[0])
    loss = 0.0
    for s in range(len(spans)):
        start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
        gather(start, n, labels, node, values, support, work.em)
        gaps[s], change = improve(
            start, n, labels, flow, node, values, support, edges, templates, step, work, mark
        )
        scatter(start, n, step.c, work.delta, node, values, support, templates.N)
        loss += change
    return loss


@inner_kernel
def scatter(start, n, size, delta, node, values, support, N):
    """Add size·delta of a span to V, and update N; delta is scaled."""
    for t in range(n):
        square, dot = scale_change(start + t, size, delta[t], node)
        if square > 0:
            slots = np.int64(0), node.ptr[start + t + 1] - node.ptr[start + t]
            add_row(start, t, slots, PREFETCH_DISTANCE, delta, square, dot, node, values, support, N)


@inner_kernel
def improve(start, n, labels, flow, node, values, support, edges, templates, step, work, mark):
    """Take steps on a span. Return the gap before, and the change of the loss."""
    em, high, low, now, moved = work.em, work.high, work.low, work.now, work.moved
    c, tolerance = step.c, step.tolerance
    left = -1 if labels.starts[start] else held_label(flow, start - 1, now)
    right = -1 if labels.starts[start + n] else held_label(flow, start + n, now)
    rows = load_edges(start, n, left, right, edges, templates.mu, work.edges)
    for t in range(n):
        for y in range(work.delta.shape[1]):
            work.delta[t, y] = 0
        for y in range(work.place.shape[1]):
            work.place[t, y] = -1
    many = np.int64(0)  # as what it becomes: else kernels are compiled for a literal 0, too
    known = np.int64(0)
    gap = -1.0
    for _ in range(step.rounds):
        top = best_path(n, left, right, work)
        current, entered = expected(em, work.edges, flow, start, n, left, right)
        g = top * entered - current
        if gap < 0:
            gap = max(g, 0.0)
        # inside a long sentence mass may enter the span by other labels too: there only paths count
        if g < max(tolerance, step.enough * gap) and (left < 0 or entered > 0.999):
            break
        bottom = worst_path(flow, start, n, left, right, work)
        if bottom >= INFINITE_SCORE or top - bottom < tolerance:
            break
        moves = 0
        e = -1
        while True:
            a = e + 1
            while a < n and high[a] == low[a]:
                a += 1
            if a >= n:
                break
            e = a
            while e + 1 < n and high[e + 1] != low[e + 1]:
                e += 1
            before = high[a - 1] if a > 0 else left
            after = high[e + 1] if e + 1 < n else right
            df, bottleneck, changes = _measure(a, e, before, after, flow, start, work)
            if df <= 0.1 * tolerance or bottleneck <= 0:
                continue
            if known == 0:
                _edge_products(rows, edges, templates.mu, work)
            known = _add_kernel_rows(a, e, start, n, known, node, values, support, mark, work)
            quad = curvature(a, e, changes, work)
            theta = np.float64(bottleneck)
            if quad > 0 and df / (c * quad) < theta:
                theta = df / (c * quad)
            if theta <= 1e-8:
                continue
            moves += 1
            for i in range(changes):
                add_mass(flow, start + moved[i, 0], moved[i, 1], moved[i, 2], np.float32(theta * moved[i, 3]))
            many = _shift_scores(a, e, n, rows, changes, theta, np.float32(c * theta), work, many)
        if moves == 0:
            break
    for i in range(many):
        k, pair = work.touched[i, 0], work.touched[i, 1]
        add_edge(work.edges.rows[k], pair, c * work.edge_delta[k, pair], edges, templates.N)
        work.edge_delta[k, pair] = 0
    change = 0.0
    for t in range(n):
        for y in range(labels.cost.shape[1]):
            change += np.float64(work.delta[t, y]) * labels.cost[labels.gold[start + t], y]
    return gap, change


@inner_kernel
def _edge_products(rows, edges, mu, work):
    """Compute the Gram matrix of the edge rows of a span."""
    local, edge_K = work.edges.rows, work.edge_K
    for k in range(rows):
        for q in range(k + 1):
            edge_K[k, q] = edge_K[q, k] = np.float32(edge_product(local[k], local[q], edges, mu))


@inner_kernel
def _add_kernel_rows(a, e, start, n, known, node, values, support, mark, work):
    """Compute missing Gram rows of a segment's tokens. Return how many are known."""
    for t in range(a, e + 1):
        for y in (work.high[t], work.low[t]):
            at = place_of(work.place, t, y)
            if work.place[at] < 0:
                work.place[at] = known
                kernel_row(start, n, t, y, node, values, support, mark, work.room, work.K[known])
                known += 1
    return known


@inner_kernel
def _measure(a, e, before, after, flow, start, work):
    """Return gain and bottleneck of segment a..e, and the number of changed edges, in `moved`."""
    em, high, low, moved, at, tr = work.em, work.high, work.low, work.moved, work.edges.at, work.edges.tr
    df = 0.0
    bottleneck = np.float32(2)
    count = 0
    up = before
    down = before
    for t in range(a, e + 2 if after >= 0 else e + 1):
        y, z = (high[t], low[t]) if t <= e else (after, after)
        if t <= e:
            df += em[t, y] - em[t, z]
        if up >= 0:
            df += tr[at[t], up, y] - tr[at[t], down, z]
        k = find(flow, start + t, down, z)
        bottleneck = min(bottleneck, flow.mass[start + t, k] if k >= 0 else np.float32(0))
        moved[count, 0], moved[count, 1], moved[count, 2], moved[count, 3] = t, down, z, -1
        moved[count + 1, 0], moved[count + 1, 1], moved[count + 1, 2], moved[count + 1, 3] = t, up, y, 1
        count += 2
        up, down = y, z
    return df, bottleneck, count


@inner_kernel
def _shift_scores(a, e, n, rows, count, theta, push, work, many):
    """Update the scores of the span after a step, and the marginals that will be added to V.

    touched lists (edge row, pair) of edge_delta, the first `many` of it; returns how many there are
    now.
    """
    em, delta, K, place, edge_K, touched = work.em, work.delta, work.K, work.place, work.edge_K, work.touched
    tr, most = work.edges.tr, work.edges.most
    single = np.float32(theta)
    for t in range(a, e + 1):
        y, z = work.high[t], work.low[t]
        delta[t, y] += single
        delta[t, z] -= single
        up = K[place[place_of(place, t, y)]]
        down = K[place[place_of(place, t, z)]]
        for u in range(n):
            em[u, y] -= push * up[u]
            em[u, z] += push * down[u]
    for i in range(count):
        t, z, y, sign = work.moved[i, 0], work.moved[i, 1], work.moved[i, 2], work.moved[i, 3]
        if z < 0:
            continue
        row, pair = work.edges.at[t], z * tr.shape[1] + y
        work.edge_delta[row, pair] += theta * sign
        touched[many, 0], touched[many, 1] = row, pair
        many += 1
        for k in range(rows):
            tr[k, z, y] -= push * sign * edge_K[row, k]
            most[k, y] = max(most[k, y], tr[k, z, y])
    return many


@inner_kernel
def place_of(place, t, y):
    """Return the index of (t, y) in `place`; labels share one if attributes have all labels."""
    return t, min(y, place.shape[1] - 1)


@inner_kernel
def curvature(a, e, count, work):
    """‖Σ_j √mu_j (change of features)‖² for one unit of mass moved on the segment."""
    K, place, edge_K, moved, high, low = work.K, work.place, work.edge_K, work.moved, work.high, work.low
    quad = 0.0
    for t in range(a, e + 1):
        up = K[place[place_of(place, t, high[t])]]
        down = K[place[place_of(place, t, low[t])]]
        quad += np.float64(up[t]) + np.float64(down[t])
        for u in range(a, t):
            if up[u] != 0 or down[u] != 0:
                both = np.float32(0)
                both += up[u] if high[t] == high[u] else np.float32(0)
                both -= up[u] if high[t] == low[u] else np.float32(0)
                both -= down[u] if low[t] == high[u] else np.float32(0)
                both += down[u] if low[t] == low[u] else np.float32(0)
                quad += 2.0 * both
    for i in range(count):
        for j in range(count):
            if moved[i, 1] == moved[j, 1] >= 0 and moved[i, 2] == moved[j, 2]:
                product = edge_K[work.edges.at[moved[i, 0]], work.edges.at[moved[j, 0]]]
                quad += moved[i, 3] * moved[j, 3] * product
    return quad
