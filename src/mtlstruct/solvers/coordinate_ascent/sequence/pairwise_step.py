"""Pairwise Frank–Wolfe steps on the edge marginals of a span, with exact line search.

Mass moves from the worst path that carries flow to the best one. The two are cut where they agree,
and each maximal segment where they differ gets its own exact step: moving mass θ gains θ·df −
½cθ²·quad, most at θ = df/(c·quad), clipped at the segment's bottleneck. `quad`, and what the step
does to the scores of the span, come from the Gram matrix K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩, of which
only the rows of tokens that move are computed.
"""

from collections import namedtuple
from typing import Any

import numpy as np

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import Design
from mtlstruct.linear.weight_layout import padded
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import (
    INFINITE_SCORE,
    add_mass,
    best_path,
    expected,
    find,
    held_label,
    worst_path,
)
from mtlstruct.solvers.coordinate_ascent.sequence.features import (
    add_edge,
    edge_kernels,
    edge_scores,
    gather,
    gram_workspace,
    kernel_row,
    load_edges,
    ragged_row,
    scatter,
    transpose,
    zeros,
)

Paths = namedtuple("Paths", "em delta er local high low back now best arg")
"""Workspace of scores and paths.

em          float32[n, ≥L]: node scores with the cost added
delta       float32[n, ≥L]: the change of the token marginals
er, local   the distinct edge row that each position uses; their rows in the Design
high, low   the best path, and the worst that carries flow
back, now, best, arg   of the Viterbi recursion
"""


def pairwise_workspace(
    longest: int, labels: int, node: Design, edge_rows: int, rounds: int
) -> tuple[Any, Any]:
    """Make arrays for spans of at most `longest` tokens, in Python to compile less."""
    wide = padded(labels)
    paths = Paths(
        em=zeros(longest, wide),
        delta=zeros(longest, wide),
        er=zeros(longest + 1, kind=np.int64),
        local=zeros(longest + 1, kind=np.int64),
        high=zeros(longest, kind=np.int64),
        low=zeros(longest, kind=np.int64),
        back=zeros(longest, wide, kind=np.int32),
        now=zeros(wide),
        best=zeros(wide),
        arg=zeros(wide, kind=np.int32),
    )
    rows = 1 if edge_rows == 1 else longest + 1  # with the bare transition alone there is one edge row
    return paths, gram_workspace(longest, labels, node, rows, rounds)


# ---------------------------------------------------------------- kernels


@fast_kernel
def take_pairwise_steps(spans, labels, flow, node, values, support, edges, templates, step, work, mark, gaps):
    """Update spans in turn; write gaps before to `gaps`. Return the change of the loss."""
    paths, gram = work
    if len(edges.ptr) == 2:
        edge_scores(np.int64(0), edges, templates.mu, gram.tr[0], gram.most[0])
    loss = 0.0
    for s in range(len(spans)):
        start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
        gather(start, n, labels, node, values, support, paths.em)
        for t in range(n):
            paths.delta[t, :] = 0
        gaps[s], change = improve(
            start, n, labels, flow, node, values, support, edges, templates, step, work, mark
        )
        scatter(start, n, paths.delta, node, values, support, templates.N)
        loss += change
    return loss


@inner_kernel
def improve(start, n, labels, flow, node, values, support, edges, templates, step, work, mark):
    """Take steps on a span; delta becomes the change of V. Return gap before, change of loss."""
    paths, gram = work
    em, _, er, local, high, low, back, now, best, arg = paths
    tr, most, moved = gram.tr, gram.most, gram.moved
    c, tolerance = step.c, step.tolerance
    L = labels.cost.shape[1]
    left = -1 if labels.starts[start] else held_label(flow, start - 1, now)
    right = -1 if labels.starts[start + n] else held_label(flow, start + n, now)
    rows = load_edges(start, n, left, right, edges, templates.mu, er, local, tr, most)
    many = np.int64(0)  # as what it becomes: else kernels are compiled for a literal 0, too
    known = np.int64(0)
    for t in range(n):
        for y in range(gram.place.shape[1]):
            gram.place[t, y] = -1
    prepared = False
    gap = -1.0
    for _ in range(step.rounds):
        top = best_path(em, tr, most, er, n, L, left, right, back, now, best, arg, high)
        current, entered = expected(em, tr, er, flow, start, n, left, right)
        g = top * entered - current
        if gap < 0:
            gap = max(g, 0.0)
        # inside a long sentence mass may enter the span by other labels too: there only paths count
        if g < max(tolerance, step.enough * gap) and (left < 0 or entered > 0.999):
            break
        bottom = worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, low)
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
            df, bottleneck, changes = _measure(a, e, before, after, high, low, em, tr, er, flow, start, moved)
            if df <= 0.1 * tolerance or bottleneck <= 0:
                continue
            if not prepared:
                prepared = True
                edge_kernels(rows, local, edges, templates.mu, gram.edge_K)
                if mark is None:
                    transpose(node.ids, node.ptr[start], len(gram.turned), n, gram.turned)
                    if values is not None:
                        transpose(values, node.ptr[start], len(gram.turned), n, gram.turned_values)
            known = _add_kernel_rows(a, e, start, n, known, node, values, support, mark, work)
            quad = curvature(a, e, high, low, gram, changes)
            theta = np.float64(bottleneck)
            if quad > 0 and df / (c * quad) < theta:
                theta = df / (c * quad)
            if theta <= 1e-8:
                continue
            moves += 1
            _shift_flow(a, e, before, after, high, low, flow, start, np.float32(theta))
            many = _shift_scores(a, e, n, rows, changes, theta, np.float32(c * theta), work, many)
        if moves == 0:
            break
    if not prepared:
        return gap, 0.0
    for i in range(many):
        k, pair = gram.touched[i, 0], gram.touched[i, 1]
        add_edge(local[k], pair, c * gram.edge_delta[k, pair], edges, templates.N)
        gram.edge_delta[k, pair] = 0
    return gap, _settle(start, n, c, labels.gold, labels.cost, paths.delta)


@inner_kernel
def _add_kernel_rows(a, e, start, n, known, node, values, support, mark, work):
    """Compute missing Gram rows of a segment's tokens. Return how many are known."""
    (_, _, _, _, high, low, _, _, _, _), gram = work
    for t in range(a, e + 1):
        for y in (high[t], low[t]):
            at = place_of(gram.place, t, y)
            if gram.place[at] >= 0:
                continue
            gram.place[at] = known
            row = gram.K[known]
            known += 1
            if mark is None:
                kernel_row(n, t, y, node, values, support, gram, row)
            else:
                ragged_row(start, n, t, y, node, values, support, mark, row)
    return known


@inner_kernel
def _measure(a, e, before, after, high, low, em, tr, er, flow, start, moved):
    """Return gain, bottleneck and changed edges (row, pair, sign) of segment a..e."""
    mass = flow.mass
    L = tr.shape[1]
    df = 0.0
    bottleneck = np.float32(2)
    edges = 0
    up = before
    down = before
    for t in range(a, e + 2):
        if t <= e:
            y, z = high[t], low[t]
            df += em[t, y] - em[t, z]
        elif after < 0:
            break
        else:
            y, z = after, after
        k = find(flow, start + t, down, z)
        bottleneck = min(bottleneck, mass[start + t, k] if k >= 0 else np.float32(0))
        if up >= 0:
            df += tr[er[t], up, y] - tr[er[t], down, z]
            moved[edges, 0] = moved[edges + 1, 0] = er[t]
            moved[edges, 1], moved[edges, 2] = up * L + y, 1
            moved[edges + 1, 1], moved[edges + 1, 2] = down * L + z, -1
            edges += 2
        up, down = y, z
    return df, bottleneck, edges


@inner_kernel
def _shift_flow(a, e, before, after, high, low, flow, start, theta):
    """Moves mass theta from the low path to the high one."""
    up = before
    down = before
    for t in range(a, e + 2):
        if t <= e:
            y, z = high[t], low[t]
        elif after < 0:
            break
        else:
            y, z = after, after
        add_mass(flow, start + t, down, z, -theta)
        add_mass(flow, start + t, up, y, theta)
        up, down = y, z


@inner_kernel
def _shift_scores(a, e, n, rows, count, theta, push, work, many):
    """Update the scores of the span after a step, and the marginals that will be added to V.

    touched lists (edge row, pair) of edge_delta, the first `many` of it; returns how many there are
    now.
    """
    (em, delta, _, _, high, low, _, _, _, _), gram = work
    K, place, tr, most, edge_delta, edge_K, touched, moved, _, _ = gram
    L = tr.shape[1]
    single = np.float32(theta)
    for t in range(a, e + 1):
        y, z = high[t], low[t]
        delta[t, y] += single
        delta[t, z] -= single
        up = K[place[place_of(place, t, y)]]
        down = K[place[place_of(place, t, z)]]
        for u in range(n):
            em[u, y] -= push * up[u]
            em[u, z] += push * down[u]
    for i in range(count):
        row, pair, sign = moved[i, 0], moved[i, 1], moved[i, 2]
        edge_delta[row, pair] += theta * sign
        touched[many, 0], touched[many, 1] = row, pair
        many += 1
        z, y = pair // L, pair % L
        for k in range(rows):
            tr[k, z, y] -= push * sign * edge_K[row, k]
            most[k, y] = max(most[k, y], tr[k, z, y])
    return many


@inner_kernel
def _settle(start, n, c, gold, cost, delta):
    """delta becomes what V changes by. Returns the change of the loss."""
    loss = 0.0
    for t in range(n):
        most = np.float32(0)
        for y in range(cost.shape[1]):
            loss += np.float64(delta[t, y]) * cost[gold[start + t], y]
            most = max(most, abs(delta[t, y]))
        scale = np.float32(c) if most > 1e-9 else np.float32(0)
        for y in range(cost.shape[1]):
            delta[t, y] *= scale
    return loss


@inner_kernel
def place_of(place, t, y):
    """Return the index of (t, y) in `place`; labels share one if attributes have all labels."""
    return t, min(y, place.shape[1] - 1)


@inner_kernel
def curvature(a, e, high, low, gram, count):
    """‖Σ_j √mu_j (change of features)‖² for one unit of mass moved on the segment."""
    K, place, edge_K, moved = gram.K, gram.place, gram.edge_K, gram.moved
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
            if moved[i, 1] == moved[j, 1]:
                quad += moved[i, 2] * moved[j, 2] * edge_K[moved[i, 0], moved[j, 0]]
    return quad
