"""The dual of a sequence, kept as a flow over edges, and the visit that improves it.

The dual variables of a sentence are a distribution over its labelings. Only its edge marginals matter:
flow[t, z, y] is the mass of labelings with label z at t-1 and y at t (the first token of a sentence uses row 0).
They form a unit flow through the trellis, gold to begin with.

A visit looks at a span of tokens, gathers its part scores, then moves mass from the worst path that carries
flow to the best path. The two are cut where they agree, and each maximal segment where they differ gets its own
exact step: the gain of moving mass θ is θ·df − ½cθ²·quad, maximal at df/(c·quad), clipped at the segment's
bottleneck flow. `quad` and the effect of the step on the scores of the span come from small kernels
K[t, u] = Σ_j mu_j ⟨x_tj, x_uj⟩ that are made only for tokens that move. At the end of a visit the change of the
token marginals is added to V, and N_j = ‖v_j‖² follows exactly.

Where a span does not begin or end with its sentence, the label outside is held: paths run between the labels
that carry most mass there. So a sentence of any length is visited in spans of bounded size, and a span of tokens
whose mass has left gold is visited without the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .. import threads
from ..linear import LOOKAHEAD, prefetch
from .base import DualProblem

LONGEST = 400
"""A span has at most this many tokens: the kernels of a span take 4·LONGEST² bytes."""

TINY = np.float32(1e-6)
"""Mass below this is rounding: it is not moved, and a token with less off gold is not active."""


@dataclass
class Visits:
    """What came of a round of visits: each span's gap before it, the change of the loss, steps taken."""

    gaps: NDArray[np.float64]
    loss: float
    steps: int


class SequenceDual:
    """Edge marginals of all sentences, and the operations the coordinate learner asks of a dual state."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        L = problem.structure.labels
        tokens = int(problem.encoded.ptr[-1])
        self.flow = np.zeros((tokens, L, L), np.float32)
        first = problem.encoded.ptr[:-1]
        previous = np.zeros(tokens, np.int32)
        previous[1:] = problem.gold[:-1]
        previous[first] = 0
        self.flow[np.arange(tokens), previous, problem.gold] = 1
        self.edge_row = np.full(tokens, -1, np.int32)
        inner = problem.structure.sites(problem.encoded.ptr)[1].tokens
        self.edge_row[inner] = problem.encoded.rows[1]
        self.starts = np.zeros(tokens + 1, np.bool_)
        self.starts[problem.encoded.ptr] = True

    @staticmethod
    def memory(tokens: int, labels: int) -> int:
        """Bytes the state takes."""
        return tokens * labels * labels * 4

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Spans [k, 3] (start, stop, sentence) that cover these sentences; long ones in pieces cut at `shift`."""
        ptr = self.problem.encoded.ptr
        start, stop = ptr[sentences], ptr[sentences + 1]
        whole = np.stack([start, stop, sentences], axis=1)
        long = np.flatnonzero(stop - start > LONGEST)
        if len(long) == 0:
            return whole
        pieces = [_pieces(*whole[i].tolist(), shift) for i in long]
        return np.concatenate([np.delete(whole, long, axis=0), *pieces])

    def active(self) -> NDArray[np.int64]:
        """Runs of tokens with mass off gold, as spans."""
        loose = _loose(self.flow, self.problem.gold)
        return _runs(loose, self.starts, self.problem.encoded.ptr)

    def visit(
        self, spans: NDArray[np.int64], mu: NDArray[np.float64], c: float, rounds: int, tolerance: float
    ) -> Visits:
        """Improves the dual on each span in turn; updates V and N of the problem."""
        p = self.problem
        node, edge = p.encoded.designs
        gaps = np.zeros(len(spans))
        loss, steps = _visit(
            spans,
            self.starts,
            p.gold,
            p.cost,
            self.flow,
            node.ids,
            node.ptr,
            node.ragged,
            node.slotwise,
            node.blocks,
            node.values,
            p.V[0],
            node.attributes,
            edge.ids,
            edge.ptr,
            edge.blocks,
            p.V[1],
            edge.attributes,
            self.edge_row,
            mu,
            p.N,
            float(c),
            int(rounds),
            float(tolerance),
            gaps,
        )
        return Visits(gaps, float(loss), int(steps))

    def repair(self) -> None:
        """Makes the flow exact again: rounding leaks are closed by pushing mass forward from the first token."""
        ptr = self.problem.encoded.ptr

        def work(first: int, last: int) -> None:
            _repair(first, last, ptr, self.flow, self.problem.gold)

        threads.over_sentences(work, ptr)

    def counts(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Part counts of (dual − gold): node float32[T, L], edge float32[rows, L·L]."""
        p = self.problem
        L = p.structure.labels
        node = np.zeros((len(p.gold), L), np.float32)
        edge = np.zeros((p.encoded.designs[1].rows, L * L))
        _marginals(self.flow, p.gold, self.edge_row, node, edge)
        return node, edge.astype(np.float32)

    def loss(self, node: NDArray[np.float32]) -> float:
        """The expected cost Σ_t Σ_y marginal·cost, from the node counts (gold costs nothing)."""
        return float(np.einsum("ty,ty->", node, self.problem.cost[self.problem.gold], dtype=np.float64))


def _pieces(start: int, stop: int, sentence: int, shift: int) -> NDArray[np.int64]:
    cuts = np.arange(start - shift % LONGEST, stop + LONGEST, LONGEST).clip(start, stop)
    cuts = np.unique(cuts)
    return np.stack([cuts[:-1], cuts[1:], np.full(len(cuts) - 1, sentence)], axis=1)


def _runs(
    loose: NDArray[np.bool_], starts: NDArray[np.bool_], ptr: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Maximal runs of loose tokens that stay in one sentence and within LONGEST."""
    joined = loose[1:] & loose[:-1] & ~starts[1:-1]
    begins = np.flatnonzero(loose & ~np.concatenate([[False], joined]))
    ends = np.flatnonzero(loose & ~np.concatenate([joined, [False]])) + 1
    sentence = np.searchsorted(ptr, begins, side="right") - 1
    spans = np.stack([begins, ends, sentence], axis=1)
    long = np.flatnonzero(ends - begins > LONGEST)
    if len(long) == 0:
        return spans
    pieces = [_pieces(*spans[i].tolist(), 0) for i in long]
    return np.concatenate([np.delete(spans, long, axis=0), *pieces])


# ---------------------------------------------------------------- kernels

_FAST = {"cache": True, "nogil": True, "fastmath": True, "error_model": "numpy"}
_FAR = np.float32(1e30)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _loose(flow, gold):  # type: ignore[no-untyped-def]
    T, L = flow.shape[0], flow.shape[1]
    out = np.zeros(T, np.bool_)
    for t in range(T):
        off = np.float32(0)
        for z in range(L):
            for y in range(L):
                if y != gold[t]:
                    off += flow[t, z, y]
        out[t] = off > TINY
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _marginals(flow, gold, edge_row, node, edge):  # type: ignore[no-untyped-def]
    L = flow.shape[1]
    for t in range(len(gold)):
        row = edge_row[t]
        for z in range(L):
            for y in range(L):
                f = flow[t, z, y]
                if f != 0:
                    node[t, y] += f
                    if row >= 0:
                        edge[row, z * L + y] += f
        node[t, gold[t]] -= np.float32(1)
        if row >= 0:
            edge[row, gold[t - 1] * L + gold[t]] -= 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _repair(first, last, ptr, flow, gold):  # type: ignore[no-untyped-def]
    L = flow.shape[1]
    mass = np.zeros(L)
    fresh = np.zeros(L)
    for i in range(first, last):
        for t in range(ptr[i], ptr[i + 1]):
            if t == ptr[i]:
                mass[:] = 0
                mass[0] = 1  # the first token is entered from row 0
            fresh[:] = 0
            for z in range(L):
                total = 0.0
                for y in range(L):
                    total += flow[t, z, y]
                if mass[z] <= 0:
                    for y in range(L):
                        flow[t, z, y] = 0
                elif total <= 0:
                    flow[t, z, gold[t]] = mass[z]
                    fresh[gold[t]] += mass[z]
                else:
                    for y in range(L):
                        flow[t, z, y] = flow[t, z, y] * (mass[z] / total)
                        fresh[y] += flow[t, z, y]
            total = 0.0
            for y in range(L):
                total += fresh[y]
            for y in range(L):
                mass[y] = fresh[y] / total


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _held_label(flow, t, L):  # type: ignore[no-untyped-def]
    """The label that carries most mass at token t."""
    best = 0
    most = np.float32(-1)
    for y in range(L):
        mass = np.float32(0)
        for z in range(L):
            mass += flow[t, z, y]
        if mass > most:
            most = mass
            best = y
    return best


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _best_path(em, tr, er, n, L, left, right, back, now, best, arg, path):  # type: ignore[no-untyped-def]
    W = em.shape[1]
    for y in range(W):
        now[y] = em[0, y]
        if left >= 0:
            now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
        for y in range(W):
            best[y] = now[0] + e[0, y]
            arg[y] = 0
        for z in range(1, L):
            dz = now[z]
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


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, arg, path):  # type: ignore[no-untyped-def]
    """The lowest-scoring path whose edges all carry flow; _FAR if there is none."""
    enter = max(left, 0)
    for y in range(L):
        now[y] = _FAR
        if flow[start, enter, y] > TINY:
            now[y] = em[0, y]
            if left >= 0:
                now[y] += tr[er[0], left, y]
    for t in range(1, n):
        e = tr[er[t]]
        for y in range(L):
            best[y] = _FAR
            arg[y] = 0
        for z in range(L):
            dz = now[z]
            if dz >= _FAR:
                continue
            f = flow[start + t, z]
            for y in range(L):
                v = dz + e[z, y] if f[y] > TINY else _FAR
                better = v < best[y]
                best[y] = v if better else best[y]
                arg[y] = z if better else arg[y]
        for y in range(L):
            back[t, y] = arg[y]
            now[y] = best[y] + em[t, y] if best[y] < _FAR else _FAR
    k = -1
    low = _FAR
    for y in range(L):
        v = now[y]
        if right >= 0 and v < _FAR:
            v = v + tr[er[n], y, right] if flow[start + n, y, right] > TINY else _FAR
        if v < low:
            low = v
            k = y
    if k < 0:
        return _FAR
    for t in range(n - 1, -1, -1):
        path[t] = k
        if t > 0:
            k = back[t, k]
    return low


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _expected(em, tr, er, flow, start, n, L, left, right):  # type: ignore[no-untyped-def]
    """The score of the flow inside the span, and the mass that enters it."""
    total = 0.0
    mass = 0.0
    enter = max(left, 0)
    for y in range(L):
        f = flow[start, enter, y]
        if f > 0:
            s = em[0, y]
            if left >= 0:
                s += tr[er[0], left, y]
            total += f * s
            mass += f
    for t in range(1, n):
        e = tr[er[t]]
        part = np.float32(0)
        for z in range(L):
            for y in range(L):
                part += flow[start + t, z, y] * (em[t, y] + e[z, y])
        total += part
    if right >= 0:
        for y in range(L):
            total += flow[start + n, y, right] * tr[er[n], y, right]
    return total, mass


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _transpose(ids, start, slots, n, out):  # type: ignore[no-untyped-def]
    """The span's ids slot by slot, so that one token is compared with all others in one run through memory."""
    for t in range(n):
        row = ids[start + t * slots : start + t * slots + slots]
        for k in range(slots):
            out[k, t] = row[k]


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _kernel_row(turned, scales, slots, n, t, null, out):  # type: ignore[no-untyped-def]
    """out[u] = Σ_j mu_j [x_tj = x_uj] for all tokens u of the span."""
    for u in range(n):
        out[u] = 0
    for k in range(slots):
        here = turned[k, t]
        s = scales[k]
        if here == null or s < 1e-8:
            continue
        row = turned[k]
        for u in range(n):
            out[u] += s if row[u] == here else np.float32(0)


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _inner_product(ids, values, blocks, ragged, mu, null, a0, a1, b0, b1):  # type: ignore[no-untyped-def]
    """Σ_j mu_j ⟨x_aj, x_bj⟩ of two sorted rows of A, in which ids may repeat."""
    total = np.float32(0)
    real = len(values) > 0
    i, j = a0, b0
    while i < a1 and j < b1:
        if ids[i] < ids[j]:
            i += 1
        elif ids[i] > ids[j]:
            j += 1
        else:
            here = ids[i]
            left = np.float32(0)
            right = np.float32(0)
            m = mu[blocks[i] if ragged else blocks[i - a0]]
            while i < a1 and ids[i] == here:
                left += values[i] if real else np.float32(1)
                i += 1
            while j < b1 and ids[j] == here:
                right += values[j] if real else np.float32(1)
                j += 1
            if here != null:
                total += np.float32(m) * left * right
    return total


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _add_row(ids, values, blocks, ragged, null, start, stop, d, V, N):  # type: ignore[no-untyped-def]
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖²."""
    W = V.shape[1]
    square = 0.0
    for y in range(W):
        square += np.float64(d[y]) * np.float64(d[y])
    real = len(values) > 0
    entry = ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(V, np.int64(entry[k + LOOKAHEAD]))
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        x = values[start + k] if real else np.float32(1)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += x * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _add_edges(ids, start, stop, blocks, null, d, V, N):  # type: ignore[no-untyped-def]
    """The same for an edge row; edge weights are few and heavy, so they are doubles."""
    for k in range(stop - start):
        a = ids[start + k]
        if a == null:
            continue
        change = 0.0
        for y in range(V.shape[1]):
            change += d[y] * (2.0 * V[a, y] + d[y])
            V[a, y] += d[y]
        N[blocks[k]] += change


@njit(**_FAST)  # type: ignore[untyped-decorator]
def _visit(  # type: ignore[no-untyped-def]
    spans, starts, gold, cost, flow,
    ids, ptr, ragged, slotwise, blocks, values, V, null,
    edge_ids, edge_ptr, edge_blocks, edge_V, edge_null, edge_row,
    mu, N, c, rounds, tolerance, gaps,
):  # fmt: skip
    L = flow.shape[1]
    W = V.shape[1]
    longest = 1
    for s in range(len(spans)):
        longest = max(longest, spans[s, 1] - spans[s, 0])
    scales = mu[blocks].astype(np.float32)
    em = np.zeros((longest, W), np.float32)  # part scores of the span's nodes, cost added
    delta = np.zeros((longest, W), np.float32)  # change of token marginals
    K = np.zeros((longest, longest), np.float32)
    slots = len(blocks) if slotwise else 0
    turned = np.zeros((slots, longest), ids.dtype)
    known = np.zeros(longest, np.bool_)
    back = np.zeros((longest, W), np.int32)
    now = np.zeros(W, np.float32)
    best = np.zeros(W, np.float32)
    arg = np.zeros(W, np.int32)
    high = np.zeros(longest, np.int64)
    low = np.zeros(longest, np.int64)
    er = np.zeros(longest + 1, np.int64)  # local edge row of each position
    local = np.zeros(longest + 1, np.int64)  # local edge row -> edge row
    one_row = len(edge_ptr) == 2
    room = 1 if one_row else longest + 1
    tr = np.zeros((room, L, W), np.float32)
    tr_delta = np.zeros((room, L * L))
    edge_K = np.zeros((room, room), np.float32)
    # the edges that a segment changes: local row, pair of labels, sign
    moved = np.zeros((2 * longest + 4, 3), np.int64)
    total_loss = 0.0
    steps = 0
    for s in range(len(spans)):
        start = spans[s, 0]
        n = spans[s, 1] - start
        left = -1 if starts[start] else _held_label(flow, start - 1, L)
        right = -1 if starts[start + n] else _held_label(flow, start + n, L)

        # gather: em = −Σ mu_j v_j + cost, tr likewise on the distinct edge rows of the span
        for t in range(n):
            a = ptr[start + t]
            size = ptr[start + t + 1] - a
            entry = ids[a : a + size + LOOKAHEAD]
            at = a if ragged else 0
            total = em[t]
            total[:] = 0
            for k in range(size):
                prefetch(V, np.int64(entry[k + LOOKAHEAD]))
                v = V[np.uint64(entry[k])]
                x = np.float32(mu[blocks[at + k]]) if ragged else scales[k]
                if len(values) > 0:
                    x *= values[a + k]
                for y in range(W):
                    total[y] -= x * v[y]
            for y in range(L):
                total[y] += cost[gold[start + t], y]
            known[t] = False
            delta[t, :] = 0
        rows = 0
        for t in range(n + 1):
            if (t == 0 and left < 0) or (t == n and right < 0):
                continue
            row = edge_row[start + t]
            k = 0
            while k < rows and local[k] != row:
                k += 1
            if k == rows:
                local[k] = row
                rows += 1
                tr_delta[k, :] = 0
                tr[k, :, :] = 0
                for q in range(edge_ptr[row], edge_ptr[row + 1]):
                    x = mu[edge_blocks[q - edge_ptr[row]]]
                    if edge_ids[q] != edge_null:
                        for z in range(L):
                            for y in range(L):
                                tr[k, z, y] -= np.float32(x * edge_V[edge_ids[q], z * L + y])
            er[t] = k
        have_edge_K = False
        have_turned = False

        gap = -1.0
        changed = False
        for _ in range(rounds):
            top = _best_path(em, tr, er, n, L, left, right, back, now, best, arg, high)
            current, mass = _expected(em, tr, er, flow, start, n, L, left, right)
            g = top * mass - current
            if gap < 0:
                gap = max(g, 0.0)
            # inside a long sentence the span's mass may enter by other labels too: there only paths count
            if g < tolerance and (left < 0 or mass > 0.999):
                break
            bottom = _worst_path(em, tr, er, flow, start, n, L, left, right, back, now, best, arg, low)
            if bottom >= _FAR or top - bottom < tolerance:
                break
            any_step = False
            a = 0
            while a < n:
                if high[a] == low[a]:
                    a += 1
                    continue
                e = a
                while e + 1 < n and high[e + 1] != low[e + 1]:
                    e += 1
                # the segment a..e, between labels on which both paths agree
                before = high[a - 1] if a > 0 else left
                after = high[e + 1] if e + 1 < n else right
                df = 0.0
                bottleneck = np.float32(2)
                count = 0
                pb = before
                pw = before
                for t in range(a, e + 2):
                    if t <= e:
                        yb = high[t]
                        yw = low[t]
                        df += em[t, yb] - em[t, yw]
                    elif after < 0:
                        break
                    else:
                        yb = after
                        yw = after
                    bottleneck = min(bottleneck, flow[start + t, max(pw, 0), yw])
                    if pb >= 0:
                        df += tr[er[t], pb, yb] - tr[er[t], pw, yw]
                        moved[count, 0] = er[t]
                        moved[count, 1] = pb * L + yb
                        moved[count, 2] = 1
                        moved[count + 1, 0] = er[t]
                        moved[count + 1, 1] = pw * L + yw
                        moved[count + 1, 2] = -1
                        count += 2
                    pb = yb
                    pw = yw
                if df > 0.1 * tolerance and bottleneck > 0:
                    quad = 0.0
                    for t in range(a, e + 1):
                        if not known[t]:
                            known[t] = True
                            if slotwise:
                                if not have_turned:
                                    have_turned = True
                                    _transpose(ids, ptr[start], slots, n, turned)
                                _kernel_row(turned, scales, slots, n, t, null, K[t])
                            else:
                                for u in range(n):
                                    K[t, u] = _inner_product(
                                        ids, values, blocks, ragged, mu, null,
                                        ptr[start + t], ptr[start + t + 1],
                                        ptr[start + u], ptr[start + u + 1],
                                    )  # fmt: skip
                        quad += 2.0 * K[t, t]
                        for u in range(a, t):
                            if K[t, u] != 0:
                                q = 0
                                q += 1 if high[t] == high[u] else 0
                                q -= 1 if high[t] == low[u] else 0
                                q -= 1 if low[t] == high[u] else 0
                                q += 1 if low[t] == low[u] else 0
                                quad += 2.0 * K[t, u] * q
                    if not have_edge_K:
                        have_edge_K = True
                        for k in range(rows):
                            for q in range(k + 1):
                                edge_K[k, q] = 0
                                for j in range(len(edge_blocks)):
                                    x = edge_ids[edge_ptr[local[k]] + j]
                                    if x == edge_ids[edge_ptr[local[q]] + j] and x != edge_null:
                                        edge_K[k, q] += np.float32(mu[edge_blocks[j]])
                                edge_K[q, k] = edge_K[k, q]
                    for x in range(count):
                        for y in range(count):
                            if moved[x, 1] == moved[y, 1]:
                                sign = moved[x, 2] * moved[y, 2]
                                quad += sign * edge_K[moved[x, 0], moved[y, 0]]
                    step = np.float64(bottleneck)
                    if quad > 0 and df / (c * quad) < step:
                        step = df / (c * quad)
                    if step > 1e-8:
                        any_step = True
                        changed = True
                        steps += 1
                        theta = np.float32(step)
                        push = np.float32(c * step)
                        pb = before
                        pw = before
                        for t in range(a, e + 2):
                            if t <= e:
                                yb = high[t]
                                yw = low[t]
                            elif after < 0:
                                break
                            else:
                                yb = after
                                yw = after
                            f = flow[start + t]
                            f[max(pw, 0), yw] = max(np.float32(0), f[max(pw, 0), yw] - theta)
                            f[max(pb, 0), yb] += theta
                            pb = yb
                            pw = yw
                        for t in range(a, e + 1):
                            yb = high[t]
                            yw = low[t]
                            delta[t, yb] += theta
                            delta[t, yw] -= theta
                            for u in range(n):
                                k = K[t, u]
                                if k != 0:
                                    em[u, yb] -= push * k
                                    em[u, yw] += push * k
                        for x in range(count):
                            tr_delta[moved[x, 0], moved[x, 1]] += step * moved[x, 2]
                            z = moved[x, 1] // L
                            y = moved[x, 1] % L
                            for k in range(rows):
                                tr[k, z, y] -= push * moved[x, 2] * edge_K[moved[x, 0], k]
                a = e + 1
            if not any_step:
                break
        gaps[s] = gap

        if changed:  # commit: V, N and the loss
            for t in range(n):
                most = np.float32(0)
                for y in range(L):
                    most = max(most, abs(delta[t, y]))
                if most < 1e-9:
                    continue
                for y in range(L):
                    total_loss += np.float64(delta[t, y]) * cost[gold[start + t], y]
                    delta[t, y] *= np.float32(c)
                _add_row(
                    ids, values, blocks, ragged, null, ptr[start + t], ptr[start + t + 1], delta[t], V, N
                )
            for k in range(rows):
                for y in range(L * L):
                    tr_delta[k, y] *= c
                row = local[k]
                _add_edges(
                    edge_ids, edge_ptr[row], edge_ptr[row + 1], edge_blocks, edge_null, tr_delta[k], edge_V, N
                )
    return total_loss, steps
