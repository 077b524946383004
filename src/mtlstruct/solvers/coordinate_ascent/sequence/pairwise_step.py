"""Kernels of a visit to a span of a sequence: its steps. `sequence_visit` says what the letters are.

Mass moves from the worst path that carries flow to the best one. The two are cut where they agree, and each maximal
segment where they differ gets its own exact step.
"""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import inner_kernel
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import add_mass, find
from mtlstruct.solvers.coordinate_ascent.sequence.gather import load_edges
from mtlstruct.solvers.coordinate_ascent.sequence.gram import (
    curvature,
    edge_kernels,
    kernel_row,
    ragged_row,
    seat_of,
    transpose,
)
from mtlstruct.solvers.coordinate_ascent.sequence.paths import (
    FAR,
    best_path,
    expected,
    held_label,
    worst_path,
)
from mtlstruct.solvers.coordinate_ascent.sequence.scatter import add_edge


@inner_kernel
def improve(  # type: ignore[no-untyped-def]
    start, n, starts, gold, cost, flow, ids, ptr, ragged, values, null, own, of, em, delta, turned, turned_values,
    mark, edges, room, scales, mu, N, c, rounds, tolerance, enough, segments, gains,
):  # fmt: skip
    """Takes steps on a span; delta becomes the change of V. Returns the gap before, the gain, the change of loss."""
    K, place, _, tr, most, edge_delta, edge_K, touched, moved, er, local, high, low, back, now, best, arg = (
        room
    )
    L = cost.shape[1]
    slots = len(turned)
    gained = 0.0
    left = -1 if starts[start] else held_label(flow, start - 1, now)
    right = -1 if starts[start + n] else held_label(flow, start + n, now)
    rows = load_edges(start, n, left, right, edges, mu, er, local, tr, most)
    many = np.int64(0)  # as what it becomes: else kernels are compiled for a literal 0, too
    known = 0
    for t in range(n):
        for y in range(place.shape[1]):
            place[t, y] = -1
    prepared = False
    gap = -1.0
    for _ in range(rounds):
        top = best_path(em, tr, most, er, n, L, left, right, back, now, best, arg, high)
        current, entered = expected(em, tr, er, flow, start, n, left, right)
        g = top * entered - current
        if gap < 0:
            gap = max(g, 0.0)
        # inside a long sentence mass may enter the span by other labels too: there only paths count
        if g < max(tolerance, enough * gap) and (left < 0 or entered > 0.999):
            break
        bottom = worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, low)
        if bottom >= FAR or top - bottom < tolerance:
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
                edge_kernels(rows, local, edges, mu, edge_K)
                if mark is None:
                    transpose(ids, ptr[start], slots, n, turned)
                    if values is not None:
                        transpose(values, ptr[start], slots, n, turned_values)
            for t in range(a, e + 1):
                for y in (high[t], low[t]):
                    seat = seat_of(place, t, y)
                    if place[seat] >= 0:
                        continue
                    place[seat] = known
                    row = K[known]
                    known += 1
                    if mark is None:
                        kernel_row(turned, turned_values, scales, slots, n, t, null, own, of, y, row)
                    else:
                        ragged_row(start, n, t, ids, ptr, ragged, values, scales, null, own, of, y, mark, row)
            quad = curvature(a, e, high, low, K, place, changes, moved, edge_K)
            step = np.float64(bottleneck)
            if quad > 0 and df / (c * quad) < step:
                step = df / (c * quad)
            if step <= 1e-8:
                continue
            moves += 1
            gain = step * (df - 0.5 * c * quad * step)
            gained += gain
            _note(start, a, e, before, after, high, low, gain, segments, gains)
            _shift_flow(a, e, before, after, high, low, flow, start, np.float32(step))
            many = _shift_scores(
                a, e, n, rows, high, low, K, place, changes, moved, edge_K, step, np.float32(c * step), em, tr, most,
                delta, edge_delta, touched, many,
            )  # fmt: skip
        if moves == 0:
            break
    if not prepared:
        return gap, 0.0, 0.0
    for i in range(many):
        k, pair = touched[i, 0], touched[i, 1]
        add_edge(local[k], pair, c * edge_delta[k, pair], edges, N)
        edge_delta[k, pair] = 0
    return gap, gained, _settle(start, n, c, gold, cost, delta)


@inner_kernel
def _measure(a, e, before, after, high, low, em, tr, er, flow, start, moved):  # type: ignore[no-untyped-def]
    """Segment a..e: what mass would gain on it, its bottleneck flow, and the edges it changes (row, pair, sign)."""
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
def _note(start, a, e, before, after, high, low, gain, segments, gains):  # type: ignore[no-untyped-def]
    """Writes a segment down, as sequence_segments.py has them, if there is room."""
    size = e - a + 1
    at = np.int64(gains[0])
    if at >= len(segments) or 4 + 2 * size > segments.shape[1]:
        return
    row = segments[at]
    row[0], row[1], row[2], row[3] = start + a, size, before, after
    for t in range(size):
        row[4 + 2 * t], row[5 + 2 * t] = high[a + t], low[a + t]
    gains[at + 1] = gain
    gains[0] += 1


@inner_kernel
def _shift_flow(a, e, before, after, high, low, flow, start, theta):  # type: ignore[no-untyped-def]
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
def _shift_scores(  # type: ignore[no-untyped-def]
    a, e, n, rows, high, low, K, place, count, moved, edge_K, step, push, em, tr, most, delta, edge_delta, touched,
    many,
):  # fmt: skip
    """What the step does to the scores of the span, and to the marginals that will be committed.

    touched lists (edge row, pair) of edge_delta, the first `many` of it; returns how many there are now.
    """
    L = tr.shape[1]
    theta = np.float32(step)
    for t in range(a, e + 1):
        y, z = high[t], low[t]
        delta[t, y] += theta
        delta[t, z] -= theta
        up = K[place[seat_of(place, t, y)]]
        down = K[place[seat_of(place, t, z)]]
        for u in range(n):
            em[u, y] -= push * up[u]
            em[u, z] += push * down[u]
    for i in range(count):
        row, pair, sign = moved[i, 0], moved[i, 1], moved[i, 2]
        edge_delta[row, pair] += step * sign
        touched[many, 0], touched[many, 1] = row, pair
        many += 1
        z, y = pair // L, pair % L
        for k in range(rows):
            tr[k, z, y] -= push * sign * edge_K[row, k]
            most[k, y] = max(most[k, y], tr[k, z, y])
    return many


@inner_kernel
def _settle(start, n, c, gold, cost, delta):  # type: ignore[no-untyped-def]
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
