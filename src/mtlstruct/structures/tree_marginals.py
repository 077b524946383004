"""Probabilities of a dependency tree's arcs, p(tree) ∝ exp(score of the tree), and log Z.

Non-projective trees are summed by the matrix-tree theorem. The determinant is found by taking tokens out one by one:
every pair of arcs h → k → m through the token k that goes becomes a part of the arc h → m, and Z is the product of
what entered each token when it went. (This is Gaussian elimination of the Laplacian in which no number is ever
subtracted, so small probabilities keep their digits.) With one token under the root, the root's arcs count for
the last token only. Probabilities are the derivatives of log Z, by running the same steps backwards, O(n³).

Projective trees are summed by Eisner's spans, with sums for maxima, and taken back from the outside in, O(n³).

A score more than FARTHEST below the best of its token counts as if it were just that far.
"""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import kernel
from mtlstruct.structures.base import Outputs, Parts, Ptr, RowCounts, Span, Values
from mtlstruct.structures.tree_decoding import longest_sentence

FARTHEST = 300.0
"""exp(−300) of a probability is nothing; and a product of two such weights can still be written."""


def marginals(
    parts: Parts,
    ptr: Ptr,
    span: Span,
    first_row: int,
    log_partition: Values,
    scale: float,
    gold: Outputs | None,
    projective: bool,
    single_root: bool,
) -> tuple[RowCounts]:
    """Arc probabilities of sentences first:last (less the arcs of gold), and log Z of each."""
    first, last = span
    lengths = np.diff(ptr[first : last + 1])
    rows = int((lengths * (lengths + 1)).sum())
    out = np.zeros((rows, 1))
    right = np.zeros(0, np.int32) if gold is None else gold
    run = _inside_outside if projective else _matrix_tree
    scores = parts[0][first_row : first_row + rows]
    run(first, last, ptr, scores, float(scale), right, single_root, out, log_partition)
    return (RowCounts(slice(first_row, first_row + rows), out.astype(np.float32)),)


# ---------------------------------------------------------------- kernels


@kernel
def _load(n, scores, row, scale, s):  # type: ignore[no-untyped-def]
    """s[m, h] from −FARTHEST to 0, 0 the best head of each token; returns what was taken off, summed."""
    total = 0.0
    for m in range(1, n + 1):
        top = -np.inf
        for h in range(n + 1):
            if h != m:
                top = max(top, scale * scores[row + h, 0])
        for h in range(n + 1):
            s[m, h] = max(scale * scores[row + h, 0] - top, -FARTHEST)
        total += top
        row += n + 1
    return total


@kernel
def _store(n, p, row, gold, start, out):  # type: ignore[no-untyped-def]
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                out[row + h, 0] = p[m, h]
        if len(gold) > 0:
            out[row + gold[start + m - 1], 0] -= 1.0
        row += n + 1
    return row


@kernel
def _matrix_tree(first, last, ptr, scores, scale, gold, single, out, log_z):  # type: ignore[no-untyped-def]
    n = longest_sentence(first, last, ptr)
    w = np.empty((n + 1, n + 1))
    p = np.empty((n + 1, n + 1))
    mean = np.empty(n + 1)
    row = 0
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        log_z[i] = _load(n, scores, row, scale, w)
        for m in range(1, n + 1):
            for h in range(n + 1):
                w[m, h] = np.exp(w[m, h])
        log_z[i] += _take_out(n, w, single)
        _put_back(n, w, single, p, mean)
        # the first entries of w are those of the whole sentence again
        _load(n, scores, row, scale, w)
        for m in range(1, n + 1):
            for h in range(n + 1):
                p[m, h] *= np.exp(w[m, h])
        row = _store(n, p, row, gold, start, out)


@kernel
def _take_out(n, w, single):  # type: ignore[no-untyped-def]
    """Takes tokens n, n − 1, ... out. w[m, h] is left as it was when the later of h and m went; w[k, k] is what
    entered k then."""
    total = 0.0
    for k in range(n, 0, -1):
        enters = 0.0
        for h in range(1 if single and k > 1 else 0, k):
            enters += w[k, h]
        w[k, k] = enters
        total += np.log(enters)
        for m in range(1, k):
            through = w[m, k] / enters
            for h in range(k):
                if h != m:
                    w[m, h] += w[k, h] * through
    return total


@kernel
def _put_back(n, w, single, p, mean):  # type: ignore[no-untyped-def]
    """p[m, h] becomes the derivative of log Z by the weight of the arc at first, the steps of _take_out undone.

    With g = p before k comes back, D what entered it and share_h = w[k, h] / D, the derivative by w[m, k] is
    mean_m = Σ_h share_h·g[m, h], and that by w[k, h] is (1 + Σ_m w[m, k]·(g[m, h] − mean_m)) / D, where −mean_m
    is left out for the root if it did not count.
    """
    for k in range(1, n + 1):
        enters = w[k, k]
        lowest = 1 if single and k > 1 else 0
        for h in range(k):
            p[k, h] = 1.0 / enters if h >= lowest else 0.0
        for m in range(1, k):
            total = 0.0
            for h in range(k):
                if h != m:
                    total += w[k, h] * p[m, h]
            p[m, k] = total / enters
            through = w[m, k] / enters
            for h in range(k):
                change = p[m, h] if h != m else 0.0
                if h >= lowest:
                    change -= p[m, k]
                p[k, h] += through * change


@kernel
def _log_add(a, b):  # type: ignore[no-untyped-def]
    if a < b:
        a, b = b, a
    return a + np.log1p(np.exp(b - a)) if b > -np.inf else a


@kernel
def _log_split(a, b, low, high):  # type: ignore[no-untyped-def]
    """log Σ exp(a[r] + b[r]), low ≤ r < high."""
    top = -np.inf
    for r in range(low, high):
        top = max(top, a[r] + b[r])
    if top == -np.inf:
        return top
    total = 0.0
    for r in range(low, high):
        total += np.exp(a[r] + b[r] - top)
    return top + np.log(total)


@kernel
def _share_split(a, b, low, high, total, mass, to_a, to_b):  # type: ignore[no-untyped-def]
    """Hands the mass of a span to the splits it was summed from."""
    if mass == 0.0:
        return
    for r in range(low, high):
        part = mass * np.exp(a[r] + b[r] - total)
        to_a[r] += part
        to_b[r] += part


@kernel
def _inside_outside(first, last, ptr, scores, scale, gold, single, out, log_z):  # type: ignore[no-untyped-def]
    n = longest_sentence(first, last, ptr)
    s = np.empty((n + 1, n + 1))
    p = np.empty((n + 1, n + 1))
    inside = np.empty((6, n + 1, n + 1))
    mass = np.empty((6, n + 1, n + 1))
    row = 0
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        taken_off = _load(n, scores, row, scale, s)
        _inside(n, s, 1 if single else 0, inside)
        total = inside[0, 0, n]
        if single:
            total = -np.inf
            for m in range(1, n + 1):
                total = _log_add(total, inside[2, m, 1] + s[m, 0] + inside[0, m, n])
        log_z[i] = taken_off + total
        _outside(n, s, single, total, inside, mass, p)
        row = _store(n, p, row, gold, start, out)


@kernel
def _inside(n, s, lowest, spans):  # type: ignore[no-untyped-def]
    """Sums over spans, in the tables of tree_decoding.py: right, turned, left, turned, arcs to the right and left."""
    for r in range(lowest, n + 1):
        for k in range(4):
            spans[k, r, r] = 0.0
        for l in range(r - 1, lowest - 1, -1):  # noqa: E741
            inner = _log_split(spans[0, l], spans[2, r, 1:], l, r)
            spans[4, l, r] = inner + s[r, l]
            spans[5, r, l] = inner + s[l, r] if l > 0 else -np.inf
            spans[0, l, r] = spans[1, r, l] = _log_split(spans[4, l], spans[1, r], l + 1, r + 1)
            spans[2, r, l] = spans[3, l, r] = _log_split(spans[3, l], spans[5, r], l, r)


@kernel
def _outside(n, s, single, total, spans, mass, p):  # type: ignore[no-untyped-def]
    """mass: the probability that a span is used, for the tables of _inside; where a table is kept both ways, mass
    goes to either and is added up when the span's turn comes. p[m, h] the probability of an arc."""
    lowest = 1 if single else 0
    for k in range(6):
        for a in range(n + 1):
            for b in range(n + 1):
                mass[k, a, b] = 0.0
    if single:
        for m in range(1, n + 1):
            p[m, 0] = np.exp(spans[2, m, 1] + s[m, 0] + spans[0, m, n] - total)
            mass[2, m, 1] += p[m, 0]
            mass[0, m, n] += p[m, 0]
    else:
        mass[0, 0, n] = 1.0
    for r in range(n, lowest - 1, -1):
        for l in range(lowest, r):  # noqa: E741
            whole = mass[2, r, l] + mass[3, l, r]
            _share_split(spans[3, l], spans[5, r], l, r, spans[2, r, l], whole, mass[3, l], mass[5, r])
            whole = mass[0, l, r] + mass[1, r, l]
            _share_split(
                spans[4, l], spans[1, r], l + 1, r + 1, spans[0, l, r], whole, mass[4, l], mass[1, r]
            )
            p[r, l] = mass[4, l, r]
            if l > 0:
                p[l, r] = mass[5, r, l]
            arcs = mass[4, l, r] + (mass[5, r, l] if l > 0 else 0.0)
            inner = spans[4, l, r] - s[r, l]
            _share_split(spans[0, l], spans[2, r, 1:], l, r, inner, arcs, mass[0, l], mass[2, r, 1:])
