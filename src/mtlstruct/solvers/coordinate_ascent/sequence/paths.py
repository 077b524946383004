"""Kernels on a span of a sequence: the best path, and the worst path with mass."""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import inner_kernel
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import LEAST_MASS
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE

INFINITE_SCORE = np.float32(1e30)
"""Further than any score."""


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
def best_path(em, tr, most, er, n, L, left, right, back, now, best, arg, path):
    """Return the best path and its score; skip labels from which no edge can be best."""
    W = em.shape[1]
    for y in range(W):
        now[y] = em[0, y]
        if left >= 0:
            now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
        first = 0
        limit = -INFINITE_SCORE
        if L >= MIN_LABELS_TO_PRUNE:
            for z in range(1, L):
                first = z if now[z] > now[first] else first
            limit = INFINITE_SCORE
            for y in range(L):
                limit = min(limit, now[first] + e[first, y] - most[er[t], y])
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
            v += tr[er[n], y, right]
        if v > top:
            top = v
            k = y
    for t in range(n - 1, -1, -1):
        path[t] = k
        if t > 0:
            k = back[t, k]
    return top


@inner_kernel
def worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, path):
    """The lowest-scoring path whose edges all carry flow; INFINITE_SCORE if there is none."""
    count, tail, head, mass = flow
    enter = max(left, 0)
    for y in range(L):
        now[y] = INFINITE_SCORE
    for k in range(count[start]):
        if mass[start, k] > LEAST_MASS and tail[start, k] == enter:
            y = head[start, k]
            now[y] = em[0, y]
            if left >= 0:
                now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
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
                v = now[y] + tr[er[n], y, right]
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
def expected(em, tr, er, flow, start, n, left, right):
    """The score of the flow inside the span, and the mass that enters it."""
    count, tail, head, mass = flow
    total = 0.0
    entered = 0.0
    enter = max(left, 0)
    for k in range(count[start]):
        if tail[start, k] == enter:
            y = head[start, k]
            s = em[0, y]
            if left >= 0:
                s += tr[er[0], left, y]
            total += mass[start, k] * s
            entered += mass[start, k]
    for t in range(1, n):
        e = tr[er[t]]
        for k in range(count[start + t]):
            y = head[start + t, k]
            total += np.float64(mass[start + t, k] * (em[t, y] + e[tail[start + t, k], y]))
    if right >= 0:
        for k in range(count[start + n]):
            if head[start + n, k] == right:
                total += mass[start + n, k] * tr[er[n], tail[start + n, k], right]
    return total, entered
