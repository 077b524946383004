"""Marginals of the parts of a label sequence under p(y) ∝ exp(score of y), by forward-backward.

Messages are probabilities in double, scaled to sum to 1 at every token (Rabiner, 1989). That is
exact as long as the edge scores of a span lie within MAX_EDGE_RANGE of each other: then no label
with a noticeable probability can underflow, whatever the node scores are. Otherwise, as with
transitions that have the score −inf, the same recursions run on logarithms, at the cost of L²
exponentials per token.

Edges with the same observations share a row. Their marginals are summed on that row, for one span
of sentences at a time, so that the results of threads can be added in a fixed order.
"""

import numpy as np

from mtlstruct._numba.decorators import fast_kernel, kernel
from mtlstruct.structures.tree_decoding import longest_sentence

MAX_EDGE_RANGE = 150.0
"""The range of edge scores up to which messages are scaled: exp(2·150 − 700) is negligible."""


# The edge into token t > 0 of the k-th sentence of the span is site bounds[k] + t - k - 1.


@fast_kernel
def scaled_messages(bounds, nodes, edges, site_row, scale, node, edge, log_z):
    L = nodes.shape[1]
    longest = longest_sentence(0, len(bounds) - 1, bounds)
    weight = np.empty_like(edges)  # exp of an edge row, at most 1; `turned` is transposed
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
            for y in range(L):
                now[y] = 1.0 if t == 0 else 0.0
            if t > 0:
                r = site_row[start + t - k - 1]
                top += peak[r]
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
def logarithmic_messages(bounds, nodes, edges, site_row, scale, node, edge, log_z):
    L = nodes.shape[1]
    longest = longest_sentence(0, len(bounds) - 1, bounds)
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
def _log_sum(scores):
    top = scores.max()
    if top == -np.inf:
        return top
    return top + np.log(np.exp(scores - top).sum())


@kernel
def subtract_gold(bounds, gold, site_row, node, edge):
    for k in range(len(bounds) - 1):
        for t in range(bounds[k], bounds[k + 1]):
            node[t, gold[t]] -= 1.0
            if t > bounds[k]:
                edge[site_row[t - k - 1], gold[t - 1], gold[t]] -= 1.0
