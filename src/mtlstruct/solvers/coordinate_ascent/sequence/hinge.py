"""The dual of sequences with the hinge: pairwise Frank–Wolfe steps with exact line search.

Most tokens keep all their mass on one edge, few have more than ten, however many labels there are.
So a token has a short list of edges, each from label `tail` to label `head` with its mass; the
first token of a sentence is entered from label 0. All tokens have room for the same number of
edges, which grows when one needs more. Where a span does not begin or end with its sentence, the
label outside is held: paths run between the labels that carry most mass there. So a sentence of any
length is updated in spans of bounded size, and a span of tokens whose mass has left gold is updated
without the rest.

Mass moves from the worst path that carries flow to the best one. The two are cut where they agree,
and each maximal segment where they differ gets its own exact step: moving mass θ gains θ·df −
½cθ²·quad, most at θ = df/(c·quad), clipped at the segment's bottleneck. `quad`, and what the step
does to the scores of the span, come from the Gram matrix K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩, of which
only the rows of tokens that move are computed.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, kernel
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design
from mtlstruct.linear.weight_layout import padded
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.sequence.dual import SequenceDual, mark_of
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    Labels,
    Step,
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
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE

LEAST_MASS = np.float32(1e-6)
"""Mass below this is rounding: it is not moved, and a token with less off gold is not active."""

MIN_STORED_MASS = np.float32(1e-7)
"""Marginals below this are set to zero when the flow is made exact, to free entries."""

EDGE_CAPACITY = 8
"""Entries per token at the start of a run."""

INFINITE_SCORE = np.float32(1e30)
"""Larger than any score in absolute value."""

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


class Flow(NamedTuple):
    """size int32[T]; tail, head int16[T, capacity]; mass float32[T, capacity], up to size."""

    size: NDArray[np.int32]
    tail: NDArray[np.int16]
    head: NDArray[np.int16]
    mass: NDArray[np.float32]

    @classmethod
    def of_gold(cls, gold: NDArray[np.int32], ptr: NDArray[np.int64]) -> Flow:
        """Return the flow with all mass on the gold labels of sentences `ptr`."""
        tail = np.zeros((len(gold), EDGE_CAPACITY), np.int16)
        head, mass = np.zeros_like(tail), np.zeros(tail.shape, np.float32)
        tail[1:, 0], head[:, 0], mass[:, 0] = gold[:-1], gold, 1
        tail[ptr[:-1], 0] = 0
        return cls(np.ones(len(gold), np.int32), tail, head, mass)

    def with_room(self, entries: int) -> Flow:
        """Return the flow with room for so many more entries at any token."""
        wanted = int(self.size.max(initial=0)) + entries
        if wanted <= self.mass.shape[1]:
            return self
        more = ((0, 0), (0, wanted + EDGE_CAPACITY // 2 - self.mass.shape[1]))
        return Flow(self.size, np.pad(self.tail, more), np.pad(self.head, more), np.pad(self.mass, more))


class HingeDual(SequenceDual):
    """Edge marginals that are not zero as a dual state of the coordinate solver."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)

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

    def repair_kernel(self, *arguments: Any) -> None:
        """Remove rounding errors of some sentences."""
        repair_flow(*arguments)

    def count_kernel(self, *arguments: Any) -> None:
        """Add marginals less gold to tables."""
        count_flow(*arguments)

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
    """Update spans in turn; write their gaps before. Return the change of the loss."""
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


@inner_kernel
def held_label(flow, t, now):
    """The label that carries most mass at token t."""
    count, _, head, mass = flow
    for y in range(len(now)):
        now[y] = 0
    best = head[t, 0]
    for k in range(count[t]):
        y = head[t, k]
        now[y] += mass[t, k]
        if now[y] > now[best] or (now[y] == now[best] and y < best):
            best = y
    return np.int64(best)


@inner_kernel
def best_path(n, left, right, work):
    """Find the best path, in work.high; return its score. Skip labels with no edge that can win."""
    em, path, back, now, best, arg = work.em, work.high, work.back, work.now, work.best, work.arg
    at, tr, most = work.edges.at, work.edges.tr, work.edges.most
    L, W = tr.shape[1], em.shape[1]
    for y in range(W):
        now[y] = em[0, y]
        if left >= 0:
            now[y] += tr[at[0], left, y]
    for t in range(1, n):
        e = tr[at[t]]
        first = 0
        limit = -INFINITE_SCORE
        if L >= MIN_LABELS_TO_PRUNE:
            for z in range(1, L):
                first = z if now[z] > now[first] else first
            limit = INFINITE_SCORE
            for y in range(L):
                limit = min(limit, now[first] + e[first, y] - most[at[t], y])
        for y in range(W):
            best[y] = now[first] + e[first, y]
            arg[y] = first
        for z in range(L):
            dz = now[z]
            if z == first or dz < limit:
                continue
            for y in range(W):
                v = dz + e[z, y]
                better = v > best[y]
                best[y] = v if better else best[y]
                arg[y] = z if better else arg[y]
        for y in range(W):
            back[t, y] = arg[y]
            now[y] = best[y] + em[t, y]
    k = 0
    top = -INFINITE_SCORE
    for y in range(L):
        v = now[y]
        if right >= 0:
            v += tr[at[n], y, right]
        if v > top:
            top = v
            k = y
    for t in range(n - 1, -1, -1):
        path[t] = k
        if t > 0:
            k = back[t, k]
    return top


@inner_kernel
def worst_path(flow, start, n, left, right, work):
    """Find the lowest-scoring path with mass on all edges, in work.low; INFINITE_SCORE if none."""
    count, tail, head, mass = flow
    em, path, back, now, best = work.em, work.low, work.back, work.now, work.best
    at, tr = work.edges.at, work.edges.tr
    L = tr.shape[1]
    enter = max(left, 0)
    for y in range(L):
        now[y] = INFINITE_SCORE
    for k in range(count[start]):
        if mass[start, k] > LEAST_MASS and tail[start, k] == enter:
            y = head[start, k]
            now[y] = em[0, y] + (tr[at[0], left, y] if left >= 0 else np.float32(0))
    for t in range(1, n):
        e = tr[at[t]]
        for y in range(L):
            best[y] = INFINITE_SCORE
        for k in range(count[start + t]):
            z, y = tail[start + t, k], head[start + t, k]
            if mass[start + t, k] > LEAST_MASS and now[z] < INFINITE_SCORE:
                v = now[z] + e[z, y]
                if v < best[y]:
                    best[y] = v
                    back[t, y] = z
        for y in range(L):
            now[y] = best[y] + em[t, y] if best[y] < INFINITE_SCORE else INFINITE_SCORE
    last = -1
    low = INFINITE_SCORE
    if right < 0:
        for y in range(L):
            if now[y] < low:
                low = now[y]
                last = y
    else:
        for k in range(count[start + n]):
            y = tail[start + n, k]
            if head[start + n, k] == right and mass[start + n, k] > LEAST_MASS and now[y] < INFINITE_SCORE:
                v = now[y] + tr[at[n], y, right]
                if v < low:
                    low = v
                    last = y
    if last < 0:
        return INFINITE_SCORE
    for t in range(n - 1, -1, -1):
        path[t] = last
        if t > 0:
            last = back[t, last]
    return low


@inner_kernel
def expected(em, edges, flow, start, n, left, right):
    """The score of the flow inside the span, and the mass that enters it."""
    count, tail, head, mass = flow
    at, tr = edges.at, edges.tr
    total = 0.0
    entered = 0.0
    enter = max(left, 0)
    for k in range(count[start]):
        if tail[start, k] == enter:
            y = head[start, k]
            total += mass[start, k] * (em[0, y] + (tr[at[0], left, y] if left >= 0 else np.float32(0)))
            entered += mass[start, k]
    for t in range(1, n):
        e = tr[at[t]]
        for k in range(count[start + t]):
            y = head[start + t, k]
            total += np.float64(mass[start + t, k] * (em[t, y] + e[tail[start + t, k], y]))
    if right >= 0:
        for k in range(count[start + n]):
            if head[start + n, k] == right:
                total += mass[start + n, k] * tr[at[n], tail[start + n, k], right]
    return total, entered


@kernel
def count_flow(flow, gold, edge_row, node, edge):
    """Add marginals less gold."""
    for t in range(len(gold)):
        for k in range(flow.size[t]):
            count_edge(
                t, np.int64(flow.tail[t, k]), flow.head[t, k], flow.mass[t, k], gold, edge_row, node, edge
            )


@kernel
def repair_flow(first, last, ptr, flow, gold, arrived):
    """Push mass forward from the first token: in present shares, or to gold if none leaves a label.

    Loops clear arrays: `arrived[:] = 0` would be more to compile.
    """
    count, tail, head, mass = flow
    L = len(arrived)
    left = np.zeros(L)
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            if t == ptr[i]:
                for z in range(L):
                    arrived[z] = z == 0  # the first token is entered from label 0
            for z in range(L):
                left[z] = 0
            for k in range(count[t]):
                if mass[t, k] > MIN_STORED_MASS:
                    left[tail[t, k]] += mass[t, k]
            kept = 0
            for k in range(count[t]):
                z = tail[t, k]
                if mass[t, k] > MIN_STORED_MASS and arrived[z] > 0:
                    tail[t, kept], head[t, kept] = z, head[t, k]
                    mass[t, kept] = mass[t, k] * (arrived[z] / left[z])
                    kept += 1
            for z in range(L):
                if arrived[z] > 0 and left[z] <= 0 and kept < mass.shape[1]:
                    tail[t, kept], head[t, kept], mass[t, kept] = z, gold[t], arrived[z]
                    kept += 1
            count[t] = kept
            for y in range(L):
                arrived[y] = 0
            total = 0.0
            for k in range(kept):
                arrived[head[t, k]] += mass[t, k]
                total += mass[t, k]
            for y in range(L):
                arrived[y] /= total


@inner_kernel
def find(flow, t, z, y):
    """Return the entry of edge z to y at token t, or -1; a first token has z below 0."""
    count, tail, head, _ = flow
    for k in range(count[t]):
        if head[t, k] == y and tail[t, k] == max(z, 0):
            return k
    return -1


@inner_kernel
def add_mass(flow, t, z, y, step):
    """Add mass to edge z to y at token t within its capacity; remove an edge without mass."""
    count, tail, head, mass = flow
    k = find(flow, t, z, y)
    if k < 0:
        k = count[t]
        count[t] += 1
        tail[t, k], head[t, k], mass[t, k] = max(z, 0), y, 0
    mass[t, k] += step
    if mass[t, k] <= 0:
        count[t] -= 1
        end = count[t]
        tail[t, k], head[t, k], mass[t, k] = tail[t, end], head[t, end], mass[t, end]
