"""One visit of the coordinate learner to a span of a sequence: the kernels.

A visit gathers the part scores of the span's tokens, then moves mass from the worst path that carries flow to the
best path. The two are cut where they agree, and each maximal segment where they differ gets its own exact step:
moving mass θ gains θ·df − ½cθ²·quad, most at θ = df/(c·quad), clipped at the segment's bottleneck flow. `quad`,
and what the step does to the scores of the span, come from small kernels K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩ that are
made only for tokens that move. At the end the change of the token marginals is added to V, and N_j = ‖v_j‖²
follows exactly. Templates whose weight has all but vanished are not gathered, but V and N include them, so they
can come back.

Where attributes have features with some labels only (support.py), V is a list, the kernel of a token is that of a
token with a label, and attributes without a feature for the label have no part in it.

Gathering, steps and adding are three jobs, and two threads can share them: while one takes the steps of a span, the
other adds to V what the span before has changed, then gathers for the span after. The scores it gathers lack the
changes of the span that is being worked on; these are made up for exactly, by the kernels between the tokens of the
two spans. One thread does the same in turn, so the bits are the same. Where attributes may stand anywhere in a row or
have features with some labels only, such kernels are dear, and every span waits for the one before.

Words used below: `em` node scores with the cost added, `tr` edge scores on the distinct edge rows of the span,
`er` which of those a position uses, `high` and `low` the best and the worst path, `own` where the features of each
attribute begin, `of` the label of each (both None where every attribute has all labels), `lag` 1 where spans are
gathered ahead, `mark` the room that rows need in which an attribute may stand anywhere (None where it may not).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import threads
from .._kernels import lean_fast_kernel, lean_inner_kernel, make_meeting
from ..linear import LOOKAHEAD, Design, padded, prefetch
from ..support import NEAR, lists
from .sequence import CROWD
from .sequence_flow import TINY, Flow
from .sequence_room import Edges, make_room
from .sequence_segments import NOTHING, Segments

DEAD = 1e-8
"""Templates below this weight add nothing to a score that a float32 would notice."""

FEW = 8
"""Spans for which a second thread is not worth waking."""

MANY = 40
"""Templates from which on it pays to gather ahead: what has changed since then is found by comparing tokens."""

_FAR = np.float32(1e30)
tell, wait = make_meeting()
_BOTH, _STEPS = threads.BOTH, threads.FIRST
_GATHERED, _DONE = np.int64(0), np.int64(1)


def visit(
    spans: NDArray[np.int64],
    starts: NDArray[np.bool_],
    gold: NDArray[np.int32],
    cost: NDArray[np.float32],
    flow: Flow,
    edge_row: NDArray[np.int32],
    node: Design,
    edge: Design,
    node_V: NDArray[Any],
    edge_V: NDArray[Any],
    N: NDArray[np.float64],
    mu: NDArray[np.float64],
    c: float,
    rounds: int,
    tolerance: float,
    enough: float,
    notes: Segments = NOTHING,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Visits spans [k, 3] in order; updates flow, V and N. Returns gaps before, gains, change of the loss.

    What was moved is written down in `notes`, as far as it has room.
    """
    flow.make_room(rounds)  # a round brings a token at most one edge
    lengths = spans[:, 1] - spans[:, 0]
    piped = node.slotwise and node.support is None and len(node.values) == 0 and len(node.blocks) >= MANY
    # spans of about the same length follow each other, so that two threads seldom wait
    order = np.argsort(lengths, kind="stable") if piped else np.arange(len(spans))
    spans, came = spans[order], np.zeros((len(spans), 2))
    scales = node.scales(mu)
    alive = scales > DEAD
    far = LOOKAHEAD if node.support is None else NEAR
    ahead = np.ones(len(alive), np.bool_) if node.ragged else np.roll(alive, -far % max(1, len(alive)))
    places = (2, int(lengths.max(initial=1)), padded(cost.shape[1]))
    em, delta = np.zeros(places, np.float32), np.zeros(places, np.float32)
    # what a corpus has nothing of is None: the kernel that is compiled for it has no part for that
    own, of = (None, None) if node.support is None else lists(node.support)
    values = node.values if len(node.values) > 0 else None
    turned = np.zeros((len(node.blocks) if node.slotwise else 0, places[1]), node.ids.dtype)
    turned_values = None if values is None else np.zeros(turned.shape, np.float32)
    mark = None if node.slotwise else np.zeros(node.null + 1, np.float32)
    edges = Edges(edge_row, edge.ids, edge.ptr, edge.blocks, edge.slotwise, edge.null, edge_V)

    def work(role: int, meeting: NDArray[np.int64]) -> float:
        longest = places[1] if role <= _STEPS else 1
        room = make_room(longest, cost.shape[1], len(turned), rounds, edge.rows, own is None)
        change: float = _visit(
            role, meeting, int(piped), spans, starts, gold, cost, flow.arrays,
            node.ids, node.ptr, node.ragged, node.blocks, values, node_V, node.null, node.own,
            own, of, em, delta, turned, turned_values, mark, edges, room,
            scales, ahead, mu, N, float(c), int(rounds), float(tolerance), float(enough),
            notes.rows, notes.gains, came,
        )  # fmt: skip
        return change

    shared = piped and len(spans) >= FEW
    loss = threads.in_step(work) if shared else work(threads.BOTH, threads.NO_MEETING)
    found = np.empty_like(came)
    found[order] = came
    return found[:, 0], found[:, 1], float(loss)


# ---------------------------------------------------------------- kernels


@lean_inner_kernel
def _held_label(flow, t, now):  # type: ignore[no-untyped-def]
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


@lean_inner_kernel
def _find(flow, t, z, y):  # type: ignore[no-untyped-def]
    """The entry of edge z to y at token t, or -1."""
    count, tail, head, _ = flow
    for k in range(count[t]):
        if head[t, k] == y and tail[t, k] == z:
            return k
    return -1


@lean_inner_kernel
def _has(own, of, a, y):  # type: ignore[no-untyped-def]
    """Whether attribute a has a feature with label y; its labels rise."""
    if own is None:
        return True
    low, high = own[a, 0], own[a + 1, 0]
    while low < high:
        middle = (low + high) // 2
        if of[middle, 0] < y:
            low = middle + 1
        else:
            high = middle
    return low < own[a + 1, 0] and of[low, 0] == y


@lean_inner_kernel
def _load_nodes(start, n, ids, ptr, ragged, values, scales, ahead, V, gold, cost, em):  # type: ignore[no-untyped-def]
    """em[t] = cost − Σ_j mu_j v_j, the weights fetched LOOKAHEAD entries before they are needed."""
    W = V.shape[1]
    for t in range(n):
        first = ptr[start + t]
        size = ptr[start + t + 1] - first
        entry = ids[first : first + size + LOOKAHEAD]
        at = first if ragged else 0
        total = em[t]
        for y in range(W):
            total[y] = 0
        for k in range(size):
            if ahead[at + k]:
                prefetch(V, np.int64(entry[k + LOOKAHEAD]))
            x = scales[at + k]
            if x < DEAD:
                continue
            v = V[np.uint64(entry[k])]
            if values is not None:
                x *= values[first + k]
            for y in range(W):
                total[y] -= x * v[y]
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@lean_inner_kernel
def _load_listed(  # type: ignore[no-untyped-def]
    start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em
):
    """_load_nodes where attributes have features with some labels only: fetched in two stages, the lists, then V."""
    for t in range(n):
        first = ptr[start + t]
        size = ptr[start + t + 1] - first
        entry = ids[first : first + size + LOOKAHEAD]
        at = first if ragged else 0
        total = em[t]
        total[:] = 0
        for k in range(size):
            prefetch(own, np.int64(entry[k + LOOKAHEAD]))
            if ahead[at + k]:
                near = own[np.int64(entry[k + NEAR]), 0]
                prefetch(V, near)
                prefetch(of, near)
            x = scales[at + k]
            if x < DEAD:
                continue
            if values is not None:
                x *= values[first + k]
            a = np.uint64(entry[k])
            for f in range(own[a, 0], own[a + np.uint64(1), 0]):
                total[of[f, 0]] -= x * V[f, 0]
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@lean_inner_kernel
def _edge_scores(row, edges, mu, tr, most):  # type: ignore[no-untyped-def]
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


@lean_inner_kernel
def _load_edges(start, n, left, right, edges, mu, er, local, tr, most):  # type: ignore[no-untyped-def]
    """tr on the distinct edge rows of the span; er says which one each position uses. Returns how many.

    Where the corpus has one edge row alone, its tr is kept from span to span: steps change it as they change V.
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
        _edge_scores(row, edges, mu, tr[k], most[k])
    return rows


@lean_inner_kernel
def _edge_kernels(rows, local, edges, mu, K):  # type: ignore[no-untyped-def]
    """K[k, q] = Σ_j mu_j ⟨x_kj, x_qj⟩ of edge rows: templates on which they agree, or pairs of equal entries."""
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


@lean_inner_kernel
def _best_path(em, tr, most, er, n, L, left, right, back, now, best, arg, path):  # type: ignore[no-untyped-def]
    """The best path and its score. With many labels, those are passed over from which no edge can be the best."""
    W = em.shape[1]
    for y in range(W):
        now[y] = em[0, y]
        if left >= 0:
            now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
        first = 0
        limit = -_FAR
        if L >= CROWD:
            for z in range(1, L):
                first = z if now[z] > now[first] else first
            limit = _FAR
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
    top = -_FAR
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


@lean_inner_kernel
def _worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, path):  # type: ignore[no-untyped-def]
    """The lowest-scoring path whose edges all carry flow; _FAR if there is none."""
    count, tail, head, mass = flow
    enter = max(left, 0)
    for y in range(L):
        now[y] = _FAR
    for k in range(count[start]):
        if mass[start, k] > TINY and tail[start, k] == enter:
            y = head[start, k]
            now[y] = em[0, y]
            if left >= 0:
                now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
        for y in range(L):
            best[y] = _FAR
        for k in range(count[start + t]):
            z, y = tail[start + t, k], head[start + t, k]
            if mass[start + t, k] > TINY and now[z] < _FAR:
                v = now[z] + e[z, y]
                if v < best[y]:
                    best[y] = v
                    back[t, y] = z
        for y in range(L):
            now[y] = best[y] + em[t, y] if best[y] < _FAR else _FAR
    last = -1
    low = _FAR
    if right < 0:
        for y in range(L):
            if now[y] < low:
                low = now[y]
                last = y
    else:
        for k in range(count[start + n]):
            y = tail[start + n, k]
            if head[start + n, k] == right and mass[start + n, k] > TINY and now[y] < _FAR:
                v = now[y] + tr[er[n], y, right]
                if v < low:
                    low = v
                    last = y
    if last < 0:
        return _FAR
    for t in range(n - 1, -1, -1):
        path[t] = last
        if t > 0:
            last = back[t, last]
    return low


@lean_inner_kernel
def _expected(em, tr, er, flow, start, n, left, right):  # type: ignore[no-untyped-def]
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


@lean_inner_kernel
def _transpose(ids, start, slots, n, out):  # type: ignore[no-untyped-def]
    """Ids or values of the span slot by slot: one token is compared with all others in one run through memory."""
    for t in range(n):
        row = ids[start + t * slots : start + t * slots + slots]
        for k in range(slots):
            out[k, t] = row[k]


@lean_inner_kernel
def _kernel_row(turned, turned_values, scales, slots, n, t, null, own, of, label, out):  # type: ignore[no-untyped-def]
    """out[u] = Σ_j mu_j ⟨x_tj, x_uj⟩ for all tokens u of the span, of features with one label."""
    for u in range(n):
        out[u] = 0
    for k in range(slots):
        here = turned[k, t]
        s = scales[k]
        if here == null or s < DEAD or not _has(own, of, here, label):
            continue
        row = turned[k]
        if turned_values is not None:
            x = turned_values[k]
            s *= x[t]
            for u in range(n):
                out[u] += s * x[u] if row[u] == here else np.float32(0)
        else:
            for u in range(n):
                out[u] += s if row[u] == here else np.float32(0)


@lean_inner_kernel
def _catch_up(start, n, before, delta, ids, slots, scales, null, mine, em):  # type: ignore[no-untyped-def]
    """em of a span, gathered before V had the changes of an earlier one, whose tokens begin at `before`."""
    for t in range(len(delta)):
        d = delta[t]
        some = False
        for y in range(len(d)):
            some |= d[y] != 0
        if not some:
            continue
        entry = ids[(before + t) * slots : (before + t + 1) * slots]
        for k in range(slots):
            mine[k] = scales[k] if entry[k] != null and scales[k] >= DEAD else np.float32(0)
        for u in range(n):
            other = ids[(start + u) * slots : (start + u + 1) * slots]
            alike = np.float32(0)
            for k in range(slots):
                alike += mine[k] if entry[k] == other[k] else np.float32(0)
            for y in range(len(d)):
                em[u, y] -= alike * d[y]


@lean_inner_kernel
def _ragged_row(start, n, t, ids, ptr, ragged, values, scales, null, own, of, label, room, out):  # type: ignore[no-untyped-def]
    """The same where an attribute may stand anywhere in a row, and more than once.

    room [attributes + 1] is zero before and after: in between it holds mu·x of token t.
    """
    first, last = ptr[start + t], ptr[start + t + 1]
    for k in range(first, last):
        s = scales[k if ragged else k - first]
        if ids[k] != null and s >= DEAD and _has(own, of, ids[k], label):
            room[np.uint64(ids[k])] += s * values[k] if values is not None else s
    for u in range(n):
        low, high = ptr[start + u], ptr[start + u + 1]
        entry = ids[low:high]
        total = np.float32(0)
        for k in range(high - low):
            x = room[np.uint64(entry[k])]
            total += x * values[low + k] if values is not None else x
        out[u] = total
    for k in range(first, last):
        room[np.uint64(ids[k])] = 0


@lean_inner_kernel
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
        k = _find(flow, start + t, max(down, 0), z)
        bottleneck = min(bottleneck, mass[start + t, k] if k >= 0 else np.float32(0))
        if up >= 0:
            df += tr[er[t], up, y] - tr[er[t], down, z]
            moved[edges, 0] = moved[edges + 1, 0] = er[t]
            moved[edges, 1], moved[edges, 2] = up * L + y, 1
            moved[edges + 1, 1], moved[edges + 1, 2] = down * L + z, -1
            edges += 2
        up, down = y, z
    return df, bottleneck, edges


@lean_inner_kernel
def _seat(place, t, y):  # type: ignore[no-untyped-def]
    """Where token t with label y has its number in `place`; one serves all labels where attributes have all."""
    return t, min(y, place.shape[1] - 1)


@lean_inner_kernel
def _curvature(a, e, high, low, K, place, count, moved, edge_K):  # type: ignore[no-untyped-def]
    """‖Σ_j √mu_j (change of features)‖² for one unit of mass moved on the segment."""
    quad = 0.0
    for t in range(a, e + 1):
        up = K[place[_seat(place, t, high[t])]]
        down = K[place[_seat(place, t, low[t])]]
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


@lean_inner_kernel
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


@lean_inner_kernel
def _shift_flow(a, e, before, after, high, low, flow, start, theta):  # type: ignore[no-untyped-def]
    """Moves mass theta from the low path to the high one."""
    count, tail, head, mass = flow
    up = before
    down = before
    for t in range(a, e + 2):
        if t <= e:
            y, z = high[t], low[t]
        elif after < 0:
            break
        else:
            y, z = after, after
        s = start + t
        k = _find(flow, s, max(down, 0), z)
        mass[s, k] -= theta
        if mass[s, k] <= 0:
            count[s] -= 1
            end = count[s]
            tail[s, k], head[s, k], mass[s, k] = tail[s, end], head[s, end], mass[s, end]
        k = _find(flow, s, max(up, 0), y)
        if k < 0:
            k = count[s]
            count[s] += 1
            tail[s, k], head[s, k], mass[s, k] = max(up, 0), y, 0
        mass[s, k] += theta
        up, down = y, z


@lean_inner_kernel
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
        up = K[place[_seat(place, t, y)]]
        down = K[place[_seat(place, t, z)]]
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


@lean_inner_kernel
def _add_listed(ids, values, blocks, ragged, start, stop, d, V, own, of, N):  # type: ignore[no-untyped-def]
    """_add_row where attributes have features with some labels only."""
    entry = ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(own, np.int64(entry[k + LOOKAHEAD]))
        near = own[np.int64(entry[k + NEAR]), 0]
        prefetch(V, near)
        prefetch(of, near)
        a = np.uint64(entry[k])
        x = values[start + k] if values is not None else np.float32(1)
        change = 0.0
        for f in range(own[a, 0], own[a + np.uint64(1), 0]):
            dx = x * d[of[f, 0]]
            change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
            V[f, 0] += dx
        N[blocks[start + k] if ragged else blocks[k]] += change


@lean_inner_kernel
def _add_row(ids, values, blocks, ragged, null, alone, row, start, stop, d, V, N):  # type: ignore[no-untyped-def]
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    From id `alone` on, attributes that fire here only share the weights of this row, which change once.
    """
    W = V.shape[1]
    square = 0.0
    for y in range(W):
        square += np.float64(d[y]) * np.float64(d[y])
    entry = ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(V, np.int64(entry[k + LOOKAHEAD]))
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        x = values[start + k] if values is not None else np.float32(1)
        own = x if entry[k] < alone else np.float32(0)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += own * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
    if alone < null:
        for y in range(W):
            V[alone + row, y] += d[y]


@lean_inner_kernel
def _add_edge(row, pair, d, edges, N):  # type: ignore[no-untyped-def]
    """The same for one pair of an edge row; edge weights are few and heavy, so they are doubles."""
    _, ids, ptr, blocks, _, null, V = edges
    start, stop = ptr[row], ptr[row + 1]
    for k in range(stop - start):
        a = ids[start + k]
        if a != null:
            N[blocks[k]] += d * (2.0 * V[a, pair] + d)
            V[a, pair] += d


@lean_inner_kernel
def _gather(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em):  # type: ignore[no-untyped-def]
    """em of a span."""
    if own is not None:
        _load_listed(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em)
    else:
        _load_nodes(start, n, ids, ptr, ragged, values, scales, ahead, V, gold, cost, em)


@lean_inner_kernel
def _improve(  # type: ignore[no-untyped-def]
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
    left = -1 if starts[start] else _held_label(flow, start - 1, now)
    right = -1 if starts[start + n] else _held_label(flow, start + n, now)
    rows = _load_edges(start, n, left, right, edges, mu, er, local, tr, most)
    many = np.int64(0)  # as what it becomes: else kernels are compiled for a literal 0, too
    known = 0
    for t in range(n):
        for y in range(place.shape[1]):
            place[t, y] = -1
    prepared = False
    gap = -1.0
    for _ in range(rounds):
        top = _best_path(em, tr, most, er, n, L, left, right, back, now, best, arg, high)
        current, entered = _expected(em, tr, er, flow, start, n, left, right)
        g = top * entered - current
        if gap < 0:
            gap = max(g, 0.0)
        # inside a long sentence mass may enter the span by other labels too: there only paths count
        if g < max(tolerance, enough * gap) and (left < 0 or entered > 0.999):
            break
        bottom = _worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, low)
        if bottom >= _FAR or top - bottom < tolerance:
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
                _edge_kernels(rows, local, edges, mu, edge_K)
                if mark is None:
                    _transpose(ids, ptr[start], slots, n, turned)
                    if values is not None:
                        _transpose(values, ptr[start], slots, n, turned_values)
            for t in range(a, e + 1):
                for y in (high[t], low[t]):
                    seat = _seat(place, t, y)
                    if place[seat] >= 0:
                        continue
                    place[seat] = known
                    row = K[known]
                    known += 1
                    if mark is None:
                        _kernel_row(turned, turned_values, scales, slots, n, t, null, own, of, y, row)
                    else:
                        _ragged_row(
                            start, n, t, ids, ptr, ragged, values, scales, null, own, of, y, mark, row
                        )
            quad = _curvature(a, e, high, low, K, place, changes, moved, edge_K)
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
        _add_edge(local[k], pair, c * edge_delta[k, pair], edges, N)
        edge_delta[k, pair] = 0
    return gap, gained, _settle(start, n, c, gold, cost, delta)


@lean_inner_kernel
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


@lean_inner_kernel
def _commit(start, n, delta, ids, ptr, ragged, blocks, values, V, null, alone, own, of, N):  # type: ignore[no-untyped-def]
    """Adds delta to V, and follows N."""
    for t in range(n):
        some = False
        for y in range(delta.shape[1]):
            some |= delta[t, y] != 0
        if not some:
            continue
        first, last = ptr[start + t], ptr[start + t + 1]
        if own is not None:
            _add_listed(ids, values, blocks, ragged, first, last, delta[t], V, own, of, N)
        else:
            _add_row(ids, values, blocks, ragged, null, alone, start + t, first, last, delta[t], V, N)


@lean_inner_kernel
def _look_ahead(s, spans, flow, ids, ptr, V, own):  # type: ignore[no-untyped-def]
    """Asks the cache for what the next spans begin with, one stage a span: `ptr`, then `ids`, then weights and flow.

    Gathering asks ahead within a span only, and active spans are short and lie anywhere.
    """
    if s + 3 < len(spans):
        prefetch(ptr, spans[s + 3, 0])
    if s + 2 < len(spans):
        prefetch(ids, ptr[spans[s + 2, 0]])
    if s + 1 < len(spans):
        start = spans[s + 1, 0]
        prefetch(flow.mass, start)
        prefetch(flow.head, start)
        prefetch(flow.tail, start)
        for k in range(ptr[start], ptr[start] + LOOKAHEAD):
            if own is None:
                prefetch(V, np.int64(ids[k]))
            else:
                prefetch(own, np.int64(ids[k]))


@lean_fast_kernel
def _visit(  # type: ignore[no-untyped-def]
    role, meeting, lag, spans, starts, gold, cost, flow,
    ids, ptr, ragged, blocks, values, V, null, alone, own, of, all_em, all_delta, turned, turned_values, mark,
    edges, room, scales, ahead, mu, N, c, rounds, tolerance, enough, segments, gains, came,
):  # fmt: skip
    """Both jobs, or one: steps, or all that has to do with V. Spans take turns at the two places of em and delta.

    What came of each span, its gap before and its gain, goes to came[spans, 2]. Returns the change of the loss.
    """
    if len(edges.ptr) == 2 and role <= _STEPS:
        _edge_scores(np.int64(0), edges, mu, room.tr[0], room.most[0])
    loss = 0.0
    for s in range(len(spans) + 1 + lag):
        if role != _STEPS:
            late = s - 1 - lag
            if late >= 0:
                if role != _BOTH:
                    wait(meeting, _DONE, late + 1)
                start, n = spans[late, 0], spans[late, 1] - spans[late, 0]
                late_delta = all_delta[late % 2]
                _commit(start, n, late_delta, ids, ptr, ragged, blocks, values, V, null, alone, own, of, N)
            if s < len(spans):
                start, n, em = spans[s, 0], spans[s, 1] - spans[s, 0], all_em[s % 2]
                _gather(start, n, ids, ptr, ragged, values, scales, ahead, V, own, of, gold, cost, em)
                _look_ahead(s, spans, flow, ids, ptr, V, own)
                if role != _BOTH:
                    tell(meeting, _GATHERED, s + 1)
        if role <= _STEPS and s < len(spans):
            if role == _STEPS:
                wait(meeting, _GATHERED, s + 1)
            start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
            em, delta = all_em[s % 2], all_delta[s % 2]
            for t in range(n):
                delta[t, :] = 0
            if lag > 0 and s > 0:
                before = spans[s - 1, 0]
                done = all_delta[(s - 1) % 2, : spans[s - 1, 1] - before]
                _catch_up(start, n, before, done, ids, len(turned), scales, null, room.mine, em)
            came[s, 0], came[s, 1], change = _improve(
                start, n, starts, gold, cost, flow, ids, ptr, ragged, values, null, own, of, em, delta, turned,
                turned_values, mark, edges, room, scales, mu, N, c, rounds, tolerance, enough, segments, gains,
            )  # fmt: skip
            loss += change
            if role == _STEPS:
                tell(meeting, _DONE, s + 1)
    return loss
