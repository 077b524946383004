"""Joint steps of a sequence's dual: mass moves on several segments at once, in several sentences.

Visits take one sentence after the other (sequence_visit.py). Where tokens of two sentences look alike and their
labels contradict each other, each visit takes back most of what the visit to the other has gained, and both climb to
their bound in steps of 1/‖x‖²: the larger c, the more of them. So visits write down the segments on which they moved
mass, and a joint step moves mass θ_s on some of these, forth or back, where the dual along them,

    Σ_s θ_s·slope_s − ½ Σ_sr θ_s θ_r gram_sr,   −(mass on the high path) ≤ θ_s ≤ (mass on the low path),

is largest. `slope` and the bounds are those of the weights and the flow as they are now, `gram` holds the products of
the changes of features. Two kinds of step are taken: for each pair that quarrels (sequence_twins.py) one of its own,
then one for those that gained most, whatever they have to do with each other (box.py). No two segments of a step
share an edge, so the bounds of one do not depend on another.

It is for rows that are compared slot by slot and attributes with all labels: elsewhere nothing is written down.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import Design
from mtlstruct.solvers.coordinate_ascent.sequence.box_qp import best_in_box
from mtlstruct.solvers.coordinate_ascent.sequence.conflicts import opposed
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import TINY, Flow, add_mass, find
from mtlstruct.solvers.coordinate_ascent.sequence.workspace import Edges
from mtlstruct.structures.base import DualProblem

LONG = 8
"""Longer segments are not written down: a joint step is for tokens that look alike, which are few in a row."""

MOST = 128
"""Segments in the last step, those that gained most: the products of all pairs must cost less than visits do."""

ROOM = 1 << 18
"""Segments that are written down between two joint steps, at most; 80 bytes each, where they are."""

_HIGH, _LOW = np.int64(0), np.int64(1)  # not 0 and 1: numba would compile kernels for each of them


class Segments:
    """What visits write down.

    rows    int32[room, 4 + 2·LONG]: first token, length, labels before and after (−1: the sentence begins or ends),
            then the labels of the high and the low path, token by token
    gains   float64[room + 1]: how many rows there are, then what each step gained
    """

    def __init__(self, room: int) -> None:
        self.rows = np.zeros((room, 4 + 2 * LONG), np.int32)
        self.gains = np.zeros(room + 1)

    def taken(self) -> NDArray[np.int32]:
        """All rows, those that gained most first; forgets them."""
        some = int(self.gains[0])
        self.gains[0] = 0
        return self.rows[np.argsort(-self.gains[1 : 1 + some], kind="stable")]


NOTHING = Segments(0)
"""For visits that write nothing down."""


def joinable(node: Design, edge: Design) -> bool:
    """Whether there are joint steps for such rows."""
    return node.slotwise and edge.slotwise and node.support is None


class Nodes(NamedTuple):
    """What kernels know of tokens: their rows of `slots` attributes, weights, and what a wrong label costs."""

    ids: NDArray[Any]
    slots: int
    null: int
    alone: int
    blocks: NDArray[np.int32]
    scales: NDArray[np.float32]
    V: NDArray[np.float32]
    gold: NDArray[np.int32]
    cost: NDArray[np.float32]


def joint_step(
    rows: NDArray[np.int32],
    problem: DualProblem,
    flow: Flow,
    edge_row: NDArray[np.int32],
    mu: NDArray[np.float64],
    c: float,
    salt: int,
) -> float:
    """Moves mass on segments, the first of which gained most; updates flow, V and N. Returns the change of the loss.

    salt decides by what pairs that are not quite alike are found.
    """
    if len(rows) < 2:
        return 0.0
    nodes, values, edges = seen(problem, edge_row, mu)
    pairs = opposed(rows, problem.encoded.designs[0], nodes.scales, salt)
    flow.make_room(2)
    loss = float(_by_pairs(rows, pairs, flow.arrays, nodes, values, edges, mu, problem.N, float(c)))
    best = np.zeros(MOST, np.int64)
    first = rows[best[: _choose(rows[: 16 * MOST], best)]]
    flow.make_room(1)
    return loss + _together(first, flow, nodes, values, edges, mu, problem.N, float(c))


def seen(
    problem: DualProblem, edge_row: NDArray[np.int32], mu: NDArray[np.float64]
) -> tuple[Nodes, NDArray[np.float32] | None, Edges]:
    """Tokens and edges as kernels see them, and the values of features: None, by itself, where all are 1."""
    node, edge = problem.encoded.designs
    values = node.values if len(node.values) > 0 else None
    (V, edge_V), slots, scales = problem.V, len(node.blocks), node.scales(mu)
    costs = problem.gold, problem.cost
    nodes = Nodes(node.ids, slots, node.null, node.own, node.blocks, scales, V, *costs)
    return nodes, values, Edges(edge_row, edge.ids, edge.ptr, edge.blocks, edge.slotwise, edge.null, edge_V)


def _together(
    rows: NDArray[np.int32],
    flow: Flow,
    nodes: Nodes,
    values: NDArray[np.float32] | None,
    edges: Edges,
    mu: NDArray[np.float64],
    N: NDArray[np.float64],
    c: float,
) -> float:
    """The best step along all of these; the change of the loss."""
    low, high, slope, loss = np.zeros((4, len(rows)))
    gram = np.zeros((len(rows), len(rows)))
    _weigh(rows, flow.arrays, nodes, values, edges, mu, c, low, high, slope, loss, gram)
    theta = best_in_box(gram, slope, low, high)
    return float(_move(rows, theta, loss, flow.arrays, nodes, values, edges, N, c))


# ---------------------------------------------------------------- kernels


@fast_kernel
def _choose(rows, found):  # type: ignore[no-untyped-def]
    """Takes rows in order, if they share no edge with those before. Returns how many were found."""
    kept = 0
    for i in range(len(rows)):
        if kept == len(found):
            break
        apart = True
        for k in range(kept):
            other = rows[found[k]]
            if rows[i, 0] + rows[i, 1] >= other[0] and other[0] + other[1] >= rows[i, 0]:
                apart = False
                break
        if apart:
            found[kept] = i
            kept += 1
    return kept


@inner_kernel
def _edges(row, t):  # type: ignore[no-untyped-def]
    """The edges of the high and of the low path into position t of a segment, or out of it behind the last."""
    up, down = (row[2], row[2]) if t == 0 else (row[2 + 2 * t], row[3 + 2 * t])
    y, z = (row[3], row[3]) if t == row[1] else (row[4 + 2 * t], row[5 + 2 * t])
    return up, y, down, z


@inner_kernel
def _outside(row, t):  # type: ignore[no-untyped-def]
    """Whether there is no edge into position t: the sentence begins or ends there."""
    return (t == 0 and row[2] < 0) or (t == row[1] and row[3] < 0)


@inner_kernel
def _on_path(row, side, flow):  # type: ignore[no-untyped-def]
    """The mass that flows along the high or the low path of a segment."""
    least = np.float32(2)
    for t in range(row[1] + 1):
        if t == row[1] and row[3] < 0:
            break
        up, y, down, z = _edges(row, t)
        k = find(flow, row[0] + t, up, y) if side == _HIGH else find(flow, row[0] + t, down, z)
        least = min(least, flow.mass[row[0] + t, k] if k >= 0 else np.float32(0))
    return least if least > TINY else np.float32(0)


@inner_kernel
def _promise(row, nodes, values, edges, mu):  # type: ignore[no-untyped-def]
    """The slope of the dual along a segment over c, and the change of the loss."""
    slope = 0.0
    loss = 0.0
    L = nodes.cost.shape[1]
    for t in range(row[1]):
        at, y, z = row[0] + t, row[4 + 2 * t], row[5 + 2 * t]
        loss += np.float64(nodes.cost[nodes.gold[at], y]) - np.float64(nodes.cost[nodes.gold[at], z])
        entry = nodes.ids[at * nodes.slots : (at + 1) * nodes.slots]
        score: Any = np.float32(0)
        for k in range(nodes.slots):
            v = nodes.V[np.uint64(entry[k])]
            x = values[at * nodes.slots + k] if values is not None else np.float32(1)
            score += nodes.scales[k] * x * (v[z] - v[y])
        slope += score
    for t in range(row[1] + 1):
        if _outside(row, t):
            continue
        up, y, down, z = _edges(row, t)
        first = edges.ptr[edges.row[row[0] + t]]
        for j in range(len(edges.blocks)):
            a = edges.ids[first + j]
            if a != edges.null:
                slope += mu[edges.blocks[j]] * (edges.V[a, down * L + z] - edges.V[a, up * L + y])
    return slope + loss, loss


@inner_kernel
def _product(row, other, nodes, values, edges, mu):  # type: ignore[no-untyped-def]
    """The product of what two segments change, for mass one on each."""
    total = 0.0
    for t in range(row[1]):
        y, z = row[4 + 2 * t], row[5 + 2 * t]
        first = (row[0] + t) * nodes.slots
        entry = nodes.ids[first : first + nodes.slots]
        for u in range(other[1]):
            v, w = other[4 + 2 * u], other[5 + 2 * u]
            signs = int(y == v) - int(y == w) - int(z == v) + int(z == w)
            if signs == 0:
                continue
            second = (other[0] + u) * nodes.slots
            facing = nodes.ids[second : second + nodes.slots]
            alike = np.float32(0)
            for k in range(nodes.slots):
                x = nodes.scales[k]
                if values is not None:
                    x *= values[first + k] * values[second + k]
                alike += x if entry[k] == facing[k] and entry[k] != nodes.null else np.float32(0)
            total += signs * np.float64(alike)
    return total + _edge_product(row, other, edges, mu)


@inner_kernel
def _edge_product(row, other, edges, mu):  # type: ignore[no-untyped-def]
    """The part of it that edges have."""
    total = 0.0
    for t in range(row[1] + 1):
        if _outside(row, t):
            continue
        a, y, b, z = _edges(row, t)
        first = edges.ptr[edges.row[row[0] + t]]
        for u in range(other[1] + 1):
            if _outside(other, u):
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
            second = edges.ptr[edges.row[other[0] + u]]
            for j in range(len(edges.blocks)):
                if edges.ids[first + j] == edges.ids[second + j] and edges.ids[first + j] != edges.null:
                    total += signs * mu[edges.blocks[j]]
    return total


@fast_kernel
def _weigh(rows, flow, nodes, values, edges, mu, c, low, high, slope, loss, gram):  # type: ignore[no-untyped-def]
    """Of each segment the bounds of its step, the slope of the dual, the change of the loss; and all products."""
    for s in range(len(rows)):
        low[s], high[s] = -_on_path(rows[s], _HIGH, flow), _on_path(rows[s], _LOW, flow)
        slope[s], loss[s] = _promise(rows[s], nodes, values, edges, mu)
        slope[s] *= c
        for r in range(s + 1):
            gram[s, r] = gram[r, s] = c * c * _product(rows[s], rows[r], nodes, values, edges, mu)


@fast_kernel
def _move(rows, theta, loss, flow, nodes, values, edges, N, c):  # type: ignore[no-untyped-def]
    """Moves mass along the segments in turn, as far as there is some. Returns the change of the loss."""
    change = 0.0
    for s in range(len(rows)):
        change += loss[s] * _shift(rows[s], theta[s], flow, nodes, values, edges, N, c)
    return change


@fast_kernel
def _by_pairs(rows, pairs, flow, nodes, values, edges, mu, N, c):  # type: ignore[no-untyped-def]
    """The best step of each pair in turn. Returns the change of the loss."""
    change = 0.0
    for i in range(len(pairs)):
        row, other = rows[pairs[i, 0]], rows[pairs[i, 1]]
        if not (_has_room(row, flow) and _has_room(other, flow)):
            continue
        slope, loss = _promise(row, nodes, values, edges, mu)
        other_slope, other_loss = _promise(other, nodes, values, edges, mu)
        theta, eta = _best_two(
            slope,
            other_slope,
            c * _product(row, row, nodes, values, edges, mu),
            c * _product(row, other, nodes, values, edges, mu),
            c * _product(other, other, nodes, values, edges, mu),
            -_on_path(row, _HIGH, flow),
            _on_path(row, _LOW, flow),
            -_on_path(other, _HIGH, flow),
            _on_path(other, _LOW, flow),
        )
        change += loss * _shift(row, theta, flow, nodes, values, edges, N, c)
        change += other_loss * _shift(other, eta, flow, nodes, values, edges, N, c)
    return change


@inner_kernel
def _has_room(row, flow):  # type: ignore[no-untyped-def]
    """Whether every token of a segment can have two edges more."""
    most = 0
    for t in range(row[1] + (row[3] >= 0)):
        most = max(most, flow.counts[row[0] + t])
    return most + 2 <= flow.mass.shape[1]


@inner_kernel
def _best_two(s, r, ss, sr, rr, low, high, lower, higher):  # type: ignore[no-untyped-def]
    """The best (θ, η) of sθ + rη − ½(ss·θ² + 2sr·θη + rr·η²) in a box that has (0, 0): inside it, or on a side."""
    theta, eta, most = 0.0, 0.0, 0.0
    if ss <= 0 or rr <= 0:
        return theta, eta
    singular = ss * rr - sr * sr
    if singular > 1e-9 * ss * rr:
        x, y = (rr * s - sr * r) / singular, (ss * r - sr * s) / singular
        if low <= x <= high and lower <= y <= higher:
            return x, y
    for side in range(4):
        if side < 2:
            x = low if side == 0 else high
            y = min(max((r - sr * x) / rr, lower), higher)
        else:
            y = lower if side == 2 else higher
            x = min(max((s - sr * y) / ss, low), high)
        value = s * x + r * y - 0.5 * (ss * x * x + 2.0 * sr * x * y + rr * y * y)
        if value > most:
            theta, eta, most = np.float64(x), np.float64(y), value
    return theta, eta


@inner_kernel
def _shift(row, theta, flow, nodes, values, edges, N, c):  # type: ignore[no-untyped-def]
    """Moves mass theta from the low path to the high one, as far as there is some; V and N follow. What was moved."""
    most = _on_path(row, _LOW if theta > 0 else _HIGH, flow)
    step = np.float32(min(max(theta, -most), most))
    if step == 0:
        return step
    for t in range(row[1] + (row[3] >= 0)):
        up, y, down, z = _edges(row, t)
        add_mass(flow, row[0] + t, up, y, step)
        add_mass(flow, row[0] + t, down, z, -step)
    _commit(row, np.float32(c * step), nodes, values, edges, N)
    return step


@inner_kernel
def _commit(row, d, nodes, values, edges, N):  # type: ignore[no-untyped-def]
    """Adds to V what a move by d/c changes, and follows N by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖²."""
    ids, slots, null, alone, blocks, _, V, _, cost = nodes
    L = cost.shape[1]
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
        if _outside(row, t):
            continue
        up, y, down, z = _edges(row, t)
        first = edges.ptr[edges.row[row[0] + t]]
        for j in range(len(edges.blocks)):
            a = edges.ids[first + j]
            if a != edges.null:
                e = np.float64(d)
                N[edges.blocks[j]] += 2.0 * e * (edges.V[a, up * L + y] - edges.V[a, down * L + z] + e)
                edges.V[a, up * L + y] += e
                edges.V[a, down * L + z] -= e
