"""A joint step of a sequence's dual: mass moves on many segments at once, in many sentences.

Visits take one sentence after the other (sequence_visit.py). Where tokens of two sentences look alike and their
labels contradict each other, each visit takes back most of what the visit to the other has gained, and both climb to
their bound in steps of 1/‖x‖²: the larger c, the more of them. So visits write down the segments on which they moved
mass, and a joint step moves mass θ_s on all of these, forth or back, where the dual along them,

    Σ_s θ_s·slope_s − ½ Σ_sr θ_s θ_r gram_sr,   −(mass on the high path) ≤ θ_s ≤ (mass on the low path),

is largest. `slope` and the bounds are those of the weights and the flow as they are now, `gram` holds the products of
the changes of features. No two of them share an edge, so the bounds of one do not depend on another.

It is for rows that are compared slot by slot and attributes with all labels: elsewhere nothing is written down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._kernels import lean_fast_kernel, lean_inner_kernel
from ..linear import Design
from .base import DualProblem
from .sequence_flow import TINY, Flow

LONG = 8
"""Longer segments are not written down: a joint step is for tokens that look alike, which are few in a row."""

MOST = 128
"""Segments in a joint step, those that gained most: the products of all pairs must cost less than visits do."""

ROOM = 4096
"""Segments that are written down between two joint steps."""

_HIGH, _LOW = np.int64(0), np.int64(1)  # not 0 and 1: numba would compile kernels for each of them

_SHAKY = 1e-7
"""What is added to the diagonal of `gram`, as a share of it: segments may depend on each other."""


class Segments:
    """What visits write down.

    rows    int32[room, 4 + 2·LONG]: first token, length, labels before and after (−1: the sentence begins or ends),
            then the labels of the high and the low path, token by token
    gains   float64[room + 1]: how many rows there are, then what each step gained
    """

    def __init__(self, room: int) -> None:
        self.rows = np.zeros((room, 4 + 2 * LONG), np.int32)
        self.gains = np.zeros(room + 1)

    def chosen(self) -> NDArray[np.int32]:
        """The rows that gained most, no two with an edge in common; forgets all."""
        order = np.argsort(-self.gains[1 : 1 + int(self.gains[0])], kind="stable")
        found = np.zeros(MOST, np.int64)
        kept = _choose(self.rows, order, found)
        self.gains[0] = 0
        return self.rows[found[:kept]]


NOTHING = Segments(0)
"""For visits that write nothing down."""


def joinable(node: Design, edge: Design) -> bool:
    """Whether there are joint steps for such rows."""
    return node.slotwise and edge.slotwise and node.support is None


def joint_step(
    rows: NDArray[np.int32],
    problem: DualProblem,
    flow: Flow,
    edge_row: NDArray[np.int32],
    mu: NDArray[np.float64],
    c: float,
) -> float:
    """Moves mass on segments; updates flow, V and N. Returns the change of the loss."""
    if len(rows) < 2:
        return 0.0
    node, edge = problem.encoded.designs
    values = node.values if len(node.values) > 0 else None
    x = (node.ids, values, len(node.blocks), node.null)
    edges = (edge_row, edge.ids, edge.ptr, edge.blocks, edge.null)
    costs = (problem.gold, problem.cost)
    some = len(rows)
    low, high, slope, loss, moved = np.zeros((5, some))
    gram = np.zeros((some, some))
    weighed = (low, high, slope, loss, gram)
    _weigh(rows, *flow.arrays, *x, *edges, *problem.V, *costs, node.scales(mu), mu, float(c), *weighed)
    theta = best_in_box(gram, slope, low, high)
    flow.make_room(1)
    _move(rows, theta, *flow.arrays, moved)
    _commit(rows, moved, *x, node.own, node.blocks, *edges, *problem.V, problem.N, float(c))
    return float(moved @ loss)


def best_in_box(
    gram: NDArray[Any], slope: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
) -> NDArray[np.float64]:
    """The θ that maximises slope·θ − ½ θᵀ·gram·θ between low ≤ 0 and high ≥ 0, by an active set, from θ = 0."""
    some = len(slope)
    theta, step = np.zeros(some), np.zeros(some)
    free, held, factor = np.zeros(some, np.int64), np.zeros(some, np.bool_), np.zeros((some, some))
    _climb(
        np.asarray(gram, np.float64),
        np.asarray(slope, np.float64),
        np.asarray(low, np.float64),
        np.asarray(high, np.float64),
        theta, step, np.array(slope, np.float64), free, held, factor,
    )  # fmt: skip
    return theta


# ---------------------------------------------------------------- kernels


@lean_fast_kernel
def _choose(rows, order, found):  # type: ignore[no-untyped-def]
    """Takes rows in this order, if they fit to those before. Returns how many were found."""
    kept = 0
    for i in order:
        if kept == len(found):
            break
        apart = True
        for k in range(kept):
            if not _apart(rows[i], rows[found[k]]):
                apart = False
                break
        if apart:
            found[kept] = i
            kept += 1
    return kept


@lean_inner_kernel
def _apart(a, b):  # type: ignore[no-untyped-def]
    """Whether two segments share no edge."""
    return a[0] + a[1] < b[0] or b[0] + b[1] < a[0]


@lean_inner_kernel
def _edges(row, t):  # type: ignore[no-untyped-def]
    """The edges of the high and of the low path into position t of a segment, or out of it behind the last."""
    up, down = (row[2], row[2]) if t == 0 else (row[2 + 2 * t], row[3 + 2 * t])
    y, z = (row[3], row[3]) if t == row[1] else (row[4 + 2 * t], row[5 + 2 * t])
    return up, y, down, z


@lean_inner_kernel
def _find(count, tail, head, t, z, y):  # type: ignore[no-untyped-def]
    """The entry of edge z to y at token t, or -1; a sentence is entered from label 0."""
    for k in range(count[t]):
        if head[t, k] == y and tail[t, k] == max(z, 0):
            return k
    return -1


@lean_inner_kernel
def _on_path(row, side, count, tail, head, mass):  # type: ignore[no-untyped-def]
    """The mass that flows along the high or the low path of a segment."""
    least = np.float32(2)
    for t in range(row[1] + 1):
        if t == row[1] and row[3] < 0:
            break
        up, y, down, z = _edges(row, t)
        k = (
            _find(count, tail, head, row[0] + t, up, y)
            if side == _HIGH
            else _find(count, tail, head, row[0] + t, down, z)
        )
        least = min(least, mass[row[0] + t, k] if k >= 0 else np.float32(0))
    return least if least > TINY else np.float32(0)


@lean_fast_kernel
def _weigh(  # type: ignore[no-untyped-def]
    rows, count, tail, head, mass, ids, values, slots, null, edge_row, edge_ids, edge_ptr, edge_blocks, edge_null,
    V, edge_V, gold, cost, scales, mu, c, low, high, slope, loss, gram,
):  # fmt: skip
    """Of each segment the bounds of its step, the slope of the dual, the change of the loss; and all products."""
    for s in range(len(rows)):
        row = rows[s]
        low[s] = -_on_path(row, _HIGH, count, tail, head, mass)
        high[s] = _on_path(row, _LOW, count, tail, head, mass)
        for t in range(row[1]):
            at, y, z = row[0] + t, row[4 + 2 * t], row[5 + 2 * t]
            loss[s] += np.float64(cost[gold[at], y]) - np.float64(cost[gold[at], z])
            entry = ids[at * slots : (at + 1) * slots]
            score = np.float32(0)
            for k in range(slots):
                v = V[np.uint64(entry[k])]
                x = values[at * slots + k] if values is not None else np.float32(1)
                score += scales[k] * x * (v[z] - v[y])
            slope[s] += score
        slope[s] += loss[s]
        for t in range(row[1] + 1):
            if (t == 0 and row[2] < 0) or (t == row[1] and row[3] < 0):
                continue
            up, y, down, z = _edges(row, t)
            first = edge_ptr[edge_row[row[0] + t]]
            for j in range(len(edge_blocks)):
                a = edge_ids[first + j]
                if a != edge_null:
                    L = cost.shape[1]
                    slope[s] += mu[edge_blocks[j]] * (edge_V[a, down * L + z] - edge_V[a, up * L + y])
        slope[s] *= c
        for r in range(s + 1):
            product = _nodes_alike(row, rows[r], ids, values, slots, null, scales)
            product += _edges_alike(row, rows[r], edge_row, edge_ids, edge_ptr, edge_blocks, edge_null, mu)
            gram[s, r] = gram[r, s] = c * c * product


@lean_inner_kernel
def _nodes_alike(row, other, ids, values, slots, null, scales):  # type: ignore[no-untyped-def]
    """The product of what two segments change at tokens, for mass one on each."""
    total = 0.0
    for t in range(row[1]):
        y, z = row[4 + 2 * t], row[5 + 2 * t]
        first = (row[0] + t) * slots
        entry = ids[first : first + slots]
        for u in range(other[1]):
            v, w = other[4 + 2 * u], other[5 + 2 * u]
            signs = int(y == v) - int(y == w) - int(z == v) + int(z == w)
            if signs == 0:
                continue
            second = (other[0] + u) * slots
            facing = ids[second : second + slots]
            alike = np.float32(0)
            if values is not None:
                for k in range(slots):
                    x = values[first + k] * values[second + k]
                    alike += scales[k] * x if entry[k] == facing[k] and entry[k] != null else np.float32(0)
            else:
                for k in range(slots):
                    alike += scales[k] if entry[k] == facing[k] and entry[k] != null else np.float32(0)
            total += signs * np.float64(alike)
    return total


@lean_inner_kernel
def _edges_alike(row, other, edge_row, ids, ptr, blocks, null, mu):  # type: ignore[no-untyped-def]
    """The same of what they change at edges."""
    total = 0.0
    for t in range(row[1] + 1):
        if (t == 0 and row[2] < 0) or (t == row[1] and row[3] < 0):
            continue
        a, y, b, z = _edges(row, t)
        first = ptr[edge_row[row[0] + t]]
        for u in range(other[1] + 1):
            if (u == 0 and other[2] < 0) or (u == other[1] and other[3] < 0):
                continue
            d, v, e, w = _edges(other, u)
            signs = (
                int(a == d and y == v)
                - int(a == e and y == w)
                - int(b == d and z == v)
                + int(b == e and z == w)
            )
            if signs == 0:
                continue
            second = ptr[edge_row[other[0] + u]]
            for j in range(len(blocks)):
                if ids[first + j] == ids[second + j] and ids[first + j] != null:
                    total += signs * mu[blocks[j]]
    return total


@lean_fast_kernel
def _climb(gram, slope, low, high, theta, step, rest, free, held, factor):  # type: ignore[no-untyped-def]
    """Newton steps on those that are free; one that meets its bound is held there, until it wants back."""
    some = len(slope)
    for i in range(some):
        held[i] = gram[i, i] <= 0 or (low[i] >= 0 and rest[i] <= 0) or (high[i] <= 0 and rest[i] >= 0)
    for _ in range(3 * some):
        n = np.int64(0)
        for i in range(some):
            if not held[i]:
                free[n] = i
                n += 1
        _solve(gram, rest, free, n, factor, step)
        share = 1.0
        met = -1
        for k in range(n):
            i = free[k]
            bound = high[i] if step[k] > 0 else low[i]
            if abs(step[k]) * share > abs(bound - theta[i]):
                share = (bound - theta[i]) / step[k]
                met = k
        for k in range(n):
            theta[free[k]] += share * step[k]
        if met >= 0:
            i = free[met]
            theta[i] = high[i] if step[met] > 0 else low[i]
            held[i] = True
        for i in range(some):
            rest[i] = slope[i]
            for k in range(some):
                rest[i] -= gram[i, k] * theta[k]
        if met < 0:
            wants = -1
            most = 1e-9
            for i in range(some):
                if held[i] and gram[i, i] > 0:
                    wish = rest[i] if theta[i] < high[i] else 0.0
                    wish = max(wish, -rest[i] if theta[i] > low[i] else 0.0) / np.sqrt(gram[i, i])
                    if wish > most:
                        most = wish
                        wants = i
            if wants < 0:
                break
            held[wants] = False


@lean_inner_kernel
def _solve(gram, rest, free, n, factor, step):  # type: ignore[no-untyped-def]
    """gram·step = rest on the first n of `free`, by Cholesky."""
    for i in range(n):
        for j in range(i + 1):
            value = gram[free[i], free[j]] * (1 + _SHAKY if i == j else 1.0)
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = np.sqrt(max(value, 0.5 * _SHAKY * gram[free[i], free[i]]))
            else:
                factor[i, j] = value / factor[j, j]
    for i in range(n):
        value = rest[free[i]]
        for k in range(i):
            value -= factor[i, k] * step[k]
        step[i] = value / factor[i, i]
    for i in range(n - 1, -1, -1):
        value = step[i]
        for k in range(i + 1, n):
            value -= factor[k, i] * step[k]
        step[i] = value / factor[i, i]


@lean_fast_kernel
def _move(rows, theta, count, tail, head, mass, moved):  # type: ignore[no-untyped-def]
    """Moves mass along the segments in turn, as far as there is some: `moved` on each."""
    for s in range(len(rows)):
        row = rows[s]
        most = _on_path(row, _LOW if theta[s] > 0 else _HIGH, count, tail, head, mass)
        step = np.float32(min(max(theta[s], -most), most))
        moved[s] = step
        if step == 0:
            continue
        for t in range(row[1] + 1):
            if t == row[1] and row[3] < 0:
                break
            up, y, down, z = _edges(row, t)
            _add_mass(count, tail, head, mass, row[0] + t, up, y, step)
            _add_mass(count, tail, head, mass, row[0] + t, down, z, -step)


@lean_inner_kernel
def _add_mass(count, tail, head, mass, t, z, y, step):  # type: ignore[no-untyped-def]
    k = _find(count, tail, head, t, z, y)
    if k < 0:
        k = count[t]
        count[t] += 1
        tail[t, k], head[t, k], mass[t, k] = max(z, 0), y, 0
    mass[t, k] += step
    if mass[t, k] <= 0:
        count[t] -= 1
        end = count[t]
        tail[t, k], head[t, k], mass[t, k] = tail[t, end], head[t, end], mass[t, end]


@lean_fast_kernel
def _commit(  # type: ignore[no-untyped-def]
    rows, moved, ids, values, slots, null, alone, blocks, edge_row, edge_ids, edge_ptr, edge_blocks, edge_null,
    V, edge_V, N, c,
):  # fmt: skip
    """Adds to V what the moves change, segment by segment, and follows N by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖²."""
    L = int(np.sqrt(edge_V.shape[1]))
    for s in range(len(rows)):
        if moved[s] == 0:
            continue
        row = rows[s]
        d = np.float32(c * moved[s])
        for t in range(row[1]):
            at, y, z = row[0] + t, row[4 + 2 * t], row[5 + 2 * t]
            for k in range(slots):
                a = ids[at * slots + k]
                if a == null:
                    continue
                x = d * values[at * slots + k] if values is not None else d
                N[blocks[k]] += 2.0 * x * (np.float64(V[a, y]) - np.float64(V[a, z]) + x)
                if a < alone:
                    V[a, y] += x
                    V[a, z] -= x
            if alone < null:  # attributes that fire here only share the weights of this row
                V[alone + at, y] += d
                V[alone + at, z] -= d
        for t in range(row[1] + 1):
            if (t == 0 and row[2] < 0) or (t == row[1] and row[3] < 0):
                continue
            up, y, down, z = _edges(row, t)
            first = edge_ptr[edge_row[row[0] + t]]
            for j in range(len(edge_blocks)):
                a = edge_ids[first + j]
                if a != edge_null:
                    e = np.float64(d)
                    N[edge_blocks[j]] += 2.0 * e * (edge_V[a, up * L + y] - edge_V[a, down * L + z] + e)
                    edge_V[a, up * L + y] += e
                    edge_V[a, down * L + z] -= e
