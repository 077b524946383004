"""Probabilities of a label sequence's parts: forward-backward, p(y) ∝ exp(score of y).

Messages are kept as probabilities in double, scaled to sum to one at every token. That is exact as long as the
edge scores of a stretch of text lie within SAFE of each other: then no label that matters can underflow, whatever
the node scores are (its probability is at most exp(2·SAFE − what was lost)). Where they do not, as with transitions
that are forbidden by a score of −inf, the same recursions run on logarithms, which costs L² exponentials a token.

Edges with the same observations share a row. Their probabilities are summed on that row, for a span of sentences
at a time, so that what threads compute can be added up in a fixed order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, kernel
from mtlstruct.structures.base import Outputs, Parts, Ptr, RowCounts, Span, Values

SAFE = 150.0
"""How far apart edge scores may be for scaled messages: exp(2·150 − 700) is nothing."""


def marginals(
    parts: Parts,
    edge_row: NDArray[np.int32],
    ptr: Ptr,
    span: Span,
    labels: int,
    log_partition: Values,
    scale: float,
    gold: Outputs | None,
) -> tuple[RowCounts, RowCounts]:
    """Node and edge probabilities of sentences first:last (less the parts of gold), and log Z of each."""
    first, last = span
    start, stop = int(ptr[first]), int(ptr[last])
    rows, site_row = np.unique(edge_row[start - first : stop - last], return_inverse=True)
    nodes = parts[0][start:stop, :labels]
    edges = scale * parts[1][rows].reshape(-1, labels, labels).astype(np.float64)
    node = np.zeros((stop - start, labels))
    edge = np.zeros_like(edges)
    bounds = ptr[first : last + 1] - start
    spread = float(np.ptp(edges)) if edges.size else 0.0
    run = _scaled if spread <= SAFE else _logarithmic
    run(bounds, nodes, edges, site_row.astype(np.int64), scale, node, edge, log_partition[first:last])
    if gold is not None:
        _less_gold(bounds, gold[start:stop], site_row.astype(np.int64), node, edge)
    return (
        RowCounts(slice(start, stop), node),
        RowCounts(rows.astype(np.int32), edge.reshape(len(rows), labels * labels)),
    )


# ---------------------------------------------------------------- kernels
# Edge site of token t > 0 in the k-th sentence of the span is number bounds[k] + t - k - 1.


@fast_kernel
def _scaled(bounds, nodes, edges, site_row, scale, node, edge, log_z):  # type: ignore[no-untyped-def]
    L = nodes.shape[1]
    longest = 1
    for k in range(len(bounds) - 1):
        longest = max(longest, bounds[k + 1] - bounds[k])
    weight = np.empty_like(edges)  # exp of an edge row, largest 1; and the same transposed
    turned = np.empty_like(edges)
    peak = np.empty(len(edges))
    for r in range(len(edges)):
        peak[r] = edges[r].max()
        for z in range(L):
            for y in range(L):
                weight[r, z, y] = np.exp(edges[r, z, y] - peak[r])
                turned[r, y, z] = weight[r, z, y]
    forward = np.empty((longest, L))
    emit = np.empty((longest, L))
    norm = np.empty(longest)
    beta = np.empty(L)
    behind = np.empty(L)
    for k in range(len(bounds) - 1):
        start = bounds[k]
        n = bounds[k + 1] - start
        total_log = 0.0
        for t in range(n):
            now = forward[t]
            top = scale * np.float64(nodes[start + t, 0])
            for y in range(1, L):
                top = max(top, scale * np.float64(nodes[start + t, y]))
            for y in range(L):
                emit[t, y] = np.exp(scale * np.float64(nodes[start + t, y]) - top)
            if t == 0:
                for y in range(L):
                    now[y] = 1.0
            else:
                r = site_row[start + t - k - 1]
                top += peak[r]
                for y in range(L):
                    now[y] = 0.0
                for z in range(L):
                    mass = forward[t - 1, z]
                    for y in range(L):
                        now[y] += mass * weight[r, z, y]
            total = 0.0
            for y in range(L):
                now[y] *= emit[t, y]
                total += now[y]
            norm[t] = 1.0 / total
            for y in range(L):
                now[y] *= norm[t]
            total_log += top + np.log(total)
        log_z[k] = total_log
        for y in range(L):
            beta[y] = 1.0
        for t in range(n - 1, -1, -1):
            for y in range(L):
                node[start + t, y] = forward[t, y] * beta[y]
            if t == 0:
                break
            r = site_row[start + t - k - 1]
            for y in range(L):
                behind[y] = emit[t, y] * beta[y] * norm[t]
                beta[y] = 0.0
            for z in range(L):
                mass = forward[t - 1, z]
                for y in range(L):
                    edge[r, z, y] += mass * behind[y]
            for y in range(L):
                for z in range(L):
                    beta[z] += turned[r, y, z] * behind[y]
    for r in range(len(edges)):
        for z in range(L):
            for y in range(L):
                edge[r, z, y] *= weight[r, z, y]


@kernel
def _logarithmic(bounds, nodes, edges, site_row, scale, node, edge, log_z):  # type: ignore[no-untyped-def]
    L = nodes.shape[1]
    longest = 1
    for k in range(len(bounds) - 1):
        longest = max(longest, bounds[k + 1] - bounds[k])
    forward = np.empty((longest, L))
    beta = np.empty(L)
    ahead = np.empty(L)
    for k in range(len(bounds) - 1):
        start = bounds[k]
        n = bounds[k + 1] - start
        for t in range(n):
            for y in range(L):
                score = scale * np.float64(nodes[start + t, y])
                if t > 0:
                    score += _log_sum(forward[t - 1] + edges[site_row[start + t - k - 1], :, y])
                forward[t, y] = score
        log_z[k] = _log_sum(forward[n - 1])
        beta[:] = 0.0
        for t in range(n - 1, -1, -1):
            for y in range(L):
                node[start + t, y] = np.exp(forward[t, y] + beta[y] - log_z[k])
            if t == 0:
                break
            r = site_row[start + t - k - 1]
            for y in range(L):
                ahead[y] = scale * np.float64(nodes[start + t, y]) + beta[y]
            for z in range(L):
                for y in range(L):
                    edge[r, z, y] += np.exp(forward[t - 1, z] + edges[r, z, y] + ahead[y] - log_z[k])
                beta[z] = _log_sum(edges[r, z] + ahead)


@kernel
def _log_sum(scores):  # type: ignore[no-untyped-def]
    top = scores.max()
    if top == -np.inf:
        return top
    return top + np.log(np.exp(scores - top).sum())


@kernel
def _less_gold(bounds, gold, site_row, node, edge):  # type: ignore[no-untyped-def]
    for k in range(len(bounds) - 1):
        for t in range(bounds[k], bounds[k + 1]):
            node[t, gold[t]] -= 1.0
            if t > bounds[k]:
                edge[site_row[t - k - 1], gold[t - 1], gold[t]] -= 1.0
