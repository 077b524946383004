"""Block updates on spans of a sequence: gather scores, take steps, scatter to V.

A block update gathers the part scores of the span's tokens, takes pairwise Frank–Wolfe steps on the
edge marginals (pairwise_step.py), and adds the change of the token marginals to V; N_j = ‖v_j‖² is
kept exact. Templates whose weight has all but vanished are not gathered, but V and N include them,
so they can come back.

Where attributes have features with some labels only (linear.label_support), V is a list of
features. Arguments that a corpus does not need (`values`, `support`, `mark`) are None: numba drops
their code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, prefetch
from mtlstruct.linear.label_support import FEATURE_PREFETCH_DISTANCE, support_arrays
from mtlstruct.linear.weight_layout import padded
from mtlstruct.solvers.coordinate_ascent.dual_state import DualProblem
from mtlstruct.solvers.coordinate_ascent.sequence.dense_marginals import DenseMarginals
from mtlstruct.solvers.coordinate_ascent.sequence.edge_marginals import Flow
from mtlstruct.solvers.coordinate_ascent.sequence.pairwise_step import (
    DEAD,
    Edges,
    FeatureLists,
    Gram,
    Labels,
    Node,
    Paths,
    Step,
    Templates,
    Workspace,
    edge_scores,
    improve,
)
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import (
    CURVATURE_TOKENS,
    Messages,
    SmoothWork,
    ascend,
)


def update_spans(
    spans: NDArray[np.int64],
    starts: NDArray[np.bool_],
    problem: DualProblem,
    dual: Flow | DenseMarginals,
    edge_row: NDArray[np.int32],
    mu: NDArray[np.float64],
    step: Step,
) -> tuple[NDArray[np.float64], float]:
    """Update spans [k, 3], V and N in order. Return gaps before, and the change of the loss."""
    node, edge = problem.encoded.designs
    node_V, edge_V = problem.V
    support = None if node.layout.support is None else FeatureLists(*support_arrays(node.layout.support))
    values = node.values if len(node.values) > 0 else None
    mark = None if node.slots_aligned else np.zeros(node.layout.null_row + 1, np.float32)
    longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
    work: Any
    if isinstance(dual, Flow):
        dual.make_room(step.rounds)  # a round brings a token at most one edge
        update, work = (
            _take_pairwise_steps,
            _workspace(longest, problem.cost.shape[1], node, edge.rows, step.rounds),
        )
    else:
        update, work = _ascend, _smooth_workspace(longest, dual.mass.shape[1:], node, edge.rows)
    gaps = np.zeros(len(spans))
    loss = update(
        spans, Labels(starts, problem.gold, problem.cost), dual.arrays, _node(node, node_V, mu), values, support,
        Edges(edge_row, edge.ids, edge.ptr, edge.blocks, edge.slots_aligned, edge.layout.null_row, edge_V),
        Templates(mu, problem.N), step, work, mark, gaps,
    )  # fmt: skip
    return gaps, float(loss)


def _node(design: Design, V: NDArray[Any], mu: NDArray[np.float64]) -> Node:
    """Node features as kernels take them."""
    scales = design.scales(mu)
    alive = scales > DEAD
    far = PREFETCH_DISTANCE if design.layout.support is None else FEATURE_PREFETCH_DISTANCE
    ahead = np.ones(len(alive), np.bool_) if design.ragged else np.roll(alive, -far % max(1, len(alive)))
    return Node(
        design.ids,
        design.ptr,
        design.ragged,
        design.blocks,
        scales,
        ahead,
        V,
        design.layout.null_row,
        design.layout.n_own_rows,
    )


def _workspace(longest: int, labels: int, node: Design, edge_rows: int, rounds: int) -> Workspace:
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
    return Workspace(paths, _gram(longest, labels, node, rows, rounds))


def _smooth_workspace(longest: int, shape: tuple[int, ...], node: Design, edge_rows: int) -> SmoothWork:
    """Arrays for block updates with a smooth loss, for sentences of at most `longest` tokens."""
    before, labels = shape
    rows, one = 1 if edge_rows == 1 else longest, zeros(longest, labels, kind=np.float64)
    gram = _gram(min(longest, CURVATURE_TOKENS), labels, node, rows, 0)
    messages = Messages(
        scores=zeros(longest, padded(labels)),
        delta=zeros(longest, padded(labels)),
        er=zeros(longest + 1, kind=np.int64),
        local=zeros(longest + 1, kind=np.int64),
        emit=one,
        forward=one.copy(),
        norm=zeros(longest, kind=np.float64),
        weight=zeros(rows, labels, labels, kind=np.float64),
        peak=zeros(rows, kind=np.float64),
        alpha=zeros(longest, labels),
        direction=zeros(longest, before, labels),
        beta=zeros(labels, kind=np.float64),
        behind=zeros(labels, kind=np.float64),
        edge_sum=zeros(rows, labels * labels, kind=np.float64),
    )
    return SmoothWork(messages, gram)


def _gram(longest: int, labels: int, node: Design, rows: int, rounds: int) -> Gram:
    """Arrays for inner products of the features of a span; 0 rounds: one row of them at a time."""
    wide = padded(labels)
    # a round moves a token from one label to another
    kernels = longest * (1 if node.layout.support is None else 2 * rounds) if rounds else 1
    changes = 2 * longest + 4
    slots = len(node.blocks) if node.slots_aligned else 0
    return Gram(
        K=zeros(kernels, longest),
        place=zeros(longest, 1 if node.layout.support is None else wide, kind=np.int64),
        tr=zeros(rows, labels, wide),
        most=zeros(rows, labels),
        edge_delta=zeros(rows, labels * labels, kind=np.float64),
        edge_K=zeros(min(rows, longest + 1), min(rows, longest + 1)),
        touched=zeros(rounds * changes, 2, kind=np.int64),
        moved=zeros(changes, 3, kind=np.int64),
        turned=zeros(slots, longest, kind=node.ids.dtype),
        turned_values=zeros(slots if len(node.values) else 0, longest),
    )


def zeros(*shape: int, kind: Any = np.float32) -> NDArray[Any]:
    """Return an array of zeros."""
    return np.zeros(shape, kind)


# ---------------------------------------------------------------- kernels


@fast_kernel
def _take_pairwise_steps(
    spans, labels, flow, node, values, support, edges, templates, step, work, mark, gaps
):
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


@fast_kernel
def _ascend(spans, labels, dual, node, values, support, edges, templates, step, work, mark, gaps):
    """Update spans in turn with a smooth loss. Return the change of expected cost and entropy."""
    messages, gram = work
    if len(edges.ptr) == 2:
        edge_scores(np.int64(0), edges, templates.mu, gram.tr[0], gram.most[0])
    change = 0.0
    for s in range(len(spans)):
        start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
        gather(start, n, labels, node, values, support, messages.scores)
        gaps[s], gain = ascend(
            start, n, labels, dual, node, values, support, edges, templates, step, work, mark
        )
        scatter(start, n, messages.delta, node, values, support, templates.N)
        change += gain
    return change


@inner_kernel
def gather(start, n, labels, node, values, support, em):
    """em[t] = cost − Σ_j mu_j v_j for the tokens of a span; weights are prefetched."""
    cost, gold = labels.cost, labels.gold
    for t in range(n):
        first = node.ptr[start + t]
        size = node.ptr[start + t + 1] - first
        total = em[t]
        for y in range(len(total)):
            total[y] = 0
        if support is not None:
            _gather_listed(first, size, node, values, support, total)
        else:
            _gather_rows(first, size, node, values, total)
        for y in range(cost.shape[1]):
            total[y] += cost[gold[start + t], y]


@inner_kernel
def _gather_rows(first, size, node, values, total):
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + PREFETCH_DISTANCE]
    at = first if ragged else 0
    for k in range(size):
        if ahead[at + k]:
            prefetch(V, np.int64(entry[k + PREFETCH_DISTANCE]))
        x = scales[at + k]
        if x < DEAD:
            continue
        v = V[np.uint64(entry[k])]
        if values is not None:
            x *= values[first + k]
        for y in range(len(total)):
            total[y] -= x * v[y]


@inner_kernel
def _gather_listed(first, size, node, values, support, total):
    """Prefetch label supports in two stages: the lists, then V."""
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + PREFETCH_DISTANCE]
    at = first if ragged else 0
    for k in range(size):
        prefetch(support.ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
        if ahead[at + k]:
            near = support.ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
            prefetch(V, near)
            prefetch(support.label, near)
        x = scales[at + k]
        if x < DEAD:
            continue
        if values is not None:
            x *= values[first + k]
        a = np.uint64(entry[k])
        for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
            total[support.label[f, 0]] -= x * V[f, 0]


@inner_kernel
def scatter(start, n, delta, node, values, support, N):
    """Add delta of a span to V, and update N."""
    for t in range(n):
        some = False
        for y in range(delta.shape[1]):
            some |= delta[t, y] != 0
        if not some:
            continue
        if support is not None:
            _add_listed(start + t, delta[t], node, values, support, N)
        else:
            _add_row(start + t, delta[t], node, values, N)


@inner_kernel
def _add_listed(row, d, node, values, support, N):
    """Add to V on one row of A where attributes have features with some labels only."""
    start, stop = node.ptr[row], node.ptr[row + 1]
    V = node.V
    entry = node.ids[start : stop + PREFETCH_DISTANCE]
    for k in range(stop - start):
        prefetch(support.ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
        near = support.ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
        prefetch(V, near)
        prefetch(support.label, near)
        a = np.uint64(entry[k])
        x = values[start + k] if values is not None else np.float32(1)
        change = 0.0
        for f in range(support.ptr[a, 0], support.ptr[a + np.uint64(1), 0]):
            dx = x * d[support.label[f, 0]]
            change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
            V[f, 0] += dx
        N[node.blocks[start + k] if node.ragged else node.blocks[k]] += change


@inner_kernel
def _add_row(row, d, node, values, N):
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    From id `own` on, attributes that fire here only share the weights of this row, which change
    once.
    """
    ids, ptr, ragged, blocks, _, _, V, null, own = node
    start, stop = ptr[row], ptr[row + 1]
    W = V.shape[1]
    square = 0.0
    for y in range(W):
        square += np.float64(d[y]) * np.float64(d[y])
    entry = ids[start : stop + PREFETCH_DISTANCE]
    for k in range(stop - start):
        prefetch(V, np.int64(entry[k + PREFETCH_DISTANCE]))
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        x = values[start + k] if values is not None else np.float32(1)
        factor = x if entry[k] < own else np.float32(0)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += factor * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
    if own < null:
        for y in range(W):
            V[own + row, y] += d[y]
