"""Block updates of the coordinate solver on spans of a sequence: gather scores, pairwise steps, scatter to V.

A block update gathers the part scores of the span's tokens, takes pairwise Frank–Wolfe steps on the edge marginals
(pairwise_step.py), and adds the change of the token marginals to V; N_j = ‖v_j‖² is kept exact. Templates whose
weight has all but vanished are not gathered, but V and N include them, so they can come back.

Where attributes have features with some labels only (linear.label_support), V is a list of features.
Arguments that a corpus does not need (`values`, `support`, `mark`) are None: numba drops their code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import LOOKAHEAD, Design, prefetch
from mtlstruct.linear.label_support import NEAR, lists
from mtlstruct.linear.weight_layout import padded
from mtlstruct.solvers.coordinate_ascent.dual_state import DualProblem
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


def update_spans(
    spans: NDArray[np.int64],
    starts: NDArray[np.bool_],
    problem: DualProblem,
    flow: Flow,
    edge_row: NDArray[np.int32],
    mu: NDArray[np.float64],
    step: Step,
) -> tuple[NDArray[np.float64], float]:
    """Update spans [k, 3] in order, with flow, V and N. Return their gaps before, and the change of the loss."""
    flow.make_room(step.rounds)  # a round brings a token at most one edge
    node, edge = problem.encoded.designs
    node_V, edge_V = problem.V
    support = None if node.support is None else FeatureLists(*lists(node.support))
    values = node.values if len(node.values) > 0 else None
    mark = None if node.slotwise else np.zeros(node.null + 1, np.float32)
    longest = int((spans[:, 1] - spans[:, 0]).max(initial=1))
    work = _workspace(longest, problem.cost.shape[1], node, edge.rows, step.rounds)
    gaps = np.zeros(len(spans))
    loss = _update_spans(
        spans, Labels(starts, problem.gold, problem.cost), flow.arrays, _node(node, node_V, mu), values, support,
        Edges(edge_row, edge.ids, edge.ptr, edge.blocks, edge.slotwise, edge.null, edge_V),
        Templates(mu, problem.N), step, work, mark, gaps,
    )  # fmt: skip
    return gaps, float(loss)


def _node(design: Design, V: NDArray[Any], mu: NDArray[np.float64]) -> Node:
    """Node features as kernels take them."""
    scales = design.scales(mu)
    alive = scales > DEAD
    far = LOOKAHEAD if design.support is None else NEAR
    ahead = np.ones(len(alive), np.bool_) if design.ragged else np.roll(alive, -far % max(1, len(alive)))
    return Node(
        design.ids, design.ptr, design.ragged, design.blocks, scales, ahead, V, design.null, design.own
    )


def _workspace(longest: int, labels: int, node: Design, edge_rows: int, rounds: int) -> Workspace:
    """Arrays for spans of at most `longest` tokens. Python makes them: allocation would be more to compile."""
    wide = padded(labels)
    rows = 1 if edge_rows == 1 else longest + 1  # with the bare transition alone there is one edge row
    kernels = 1 if node.support is None else 2 * rounds  # a round moves a token from one label to another
    changes = 2 * longest + 4
    slots = len(node.blocks) if node.slotwise else 0

    def zeros(*shape: int, kind: Any = np.float32) -> NDArray[Any]:
        return np.zeros(shape, kind)

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
    gram = Gram(
        K=zeros(longest * kernels, longest),
        place=zeros(longest, 1 if node.support is None else wide, kind=np.int64),
        tr=zeros(rows, labels, wide),
        most=zeros(rows, labels),
        edge_delta=zeros(rows, labels * labels, kind=np.float64),
        edge_K=zeros(rows, rows),
        touched=zeros(rounds * changes, 2, kind=np.int64),
        moved=zeros(changes, 3, kind=np.int64),
        turned=zeros(slots, longest, kind=node.ids.dtype),
        turned_values=zeros(slots if len(node.values) else 0, longest),
    )
    return Workspace(paths, gram)


# ---------------------------------------------------------------- kernels


@fast_kernel
def _update_spans(  # type: ignore[no-untyped-def]
    spans, labels, flow, node, values, support, edges, templates, step, work, mark, gaps
):
    """Update spans in turn; write the gap of each before its update to `gaps`. Return the change of the loss."""
    paths, gram = work
    if len(edges.ptr) == 2:
        edge_scores(np.int64(0), edges, templates.mu, gram.tr[0], gram.most[0])
    loss = 0.0
    for s in range(len(spans)):
        start, n = spans[s, 0], spans[s, 1] - spans[s, 0]
        gather(start, n, labels, node, values, support, paths.em)
        _prefetch_next_spans(s, spans, flow, node, support)
        for t in range(n):
            paths.delta[t, :] = 0
        gaps[s], change = improve(
            start, n, labels, flow, node, values, support, edges, templates, step, work, mark
        )
        scatter(start, n, paths.delta, node, values, support, templates.N)
        loss += change
    return loss


@inner_kernel
def _prefetch_next_spans(s, spans, flow, node, support):  # type: ignore[no-untyped-def]
    """Prefetch the start of the next spans, one stage a span: `ptr`, then `ids`, then weights and marginals.

    Gathering prefetches within a span only, and spans of the working set are short and lie anywhere.
    """
    if s + 3 < len(spans):
        prefetch(node.ptr, spans[s + 3, 0])
    if s + 2 < len(spans):
        prefetch(node.ids, node.ptr[spans[s + 2, 0]])
    if s + 1 < len(spans):
        start = spans[s + 1, 0]
        prefetch(flow.mass, start)
        prefetch(flow.head, start)
        prefetch(flow.tail, start)
        for k in range(node.ptr[start], node.ptr[start] + LOOKAHEAD):
            if support is None:
                prefetch(node.V, np.int64(node.ids[k]))
            else:
                prefetch(support.ptr, np.int64(node.ids[k]))


@inner_kernel
def gather(start, n, labels, node, values, support, em):  # type: ignore[no-untyped-def]
    """em[t] = cost − Σ_j mu_j v_j for the tokens of a span; weights are prefetched LOOKAHEAD entries ahead."""
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
def _gather_rows(first, size, node, values, total):  # type: ignore[no-untyped-def]
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + LOOKAHEAD]
    at = first if ragged else 0
    for k in range(size):
        if ahead[at + k]:
            prefetch(V, np.int64(entry[k + LOOKAHEAD]))
        x = scales[at + k]
        if x < DEAD:
            continue
        v = V[np.uint64(entry[k])]
        if values is not None:
            x *= values[first + k]
        for y in range(len(total)):
            total[y] -= x * v[y]


@inner_kernel
def _gather_listed(first, size, node, values, support, total):  # type: ignore[no-untyped-def]
    """Where attributes have features with some labels only: prefetched in two stages, the lists, then V."""
    ids, _, ragged, _, scales, ahead, V, _, _ = node
    entry = ids[first : first + size + LOOKAHEAD]
    at = first if ragged else 0
    for k in range(size):
        prefetch(support.ptr, np.int64(entry[k + LOOKAHEAD]))
        if ahead[at + k]:
            near = support.ptr[np.int64(entry[k + NEAR]), 0]
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
def scatter(start, n, delta, node, values, support, N):  # type: ignore[no-untyped-def]
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
def _add_listed(row, d, node, values, support, N):  # type: ignore[no-untyped-def]
    """Add to V on one row of A where attributes have features with some labels only."""
    start, stop = node.ptr[row], node.ptr[row + 1]
    V = node.V
    entry = node.ids[start : stop + LOOKAHEAD]
    for k in range(stop - start):
        prefetch(support.ptr, np.int64(entry[k + LOOKAHEAD]))
        near = support.ptr[np.int64(entry[k + NEAR]), 0]
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
def _add_row(row, d, node, values, N):  # type: ignore[no-untyped-def]
    """V[id] += x·d on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖².

    From id `own` on, attributes that fire here only share the weights of this row, which change once.
    """
    ids, ptr, ragged, blocks, _, _, V, null, own = node
    start, stop = ptr[row], ptr[row + 1]
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
        factor = x if entry[k] < own else np.float32(0)
        dot = np.float32(0)
        for y in range(W):
            dot += v[y] * d[y]
            v[y] += factor * d[y]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
    if own < null:
        for y in range(W):
            V[own + row, y] += d[y]
