"""Marginals of arcs under p(tree) ∝ exp(score of the tree), and log Z.

Non-projective trees are summed by the matrix-tree theorem (Koo et al., 2007). The determinant of
the Laplacian comes from GTH elimination (Grassmann, Taksar and Heyman, 1985): Gaussian elimination
without subtractions, so small probabilities keep their digits. Eliminating token k adds the weight
of each path h → k → m to the arc h → m, and Z is the product of the total weights that enter the
tokens when they are eliminated. With one token under the root, the arcs of the root count for the
last token only. Marginals are the derivatives of log Z, by reverse-mode differentiation of the
elimination, O(n³).

Projective trees are summed by the inside-outside algorithm on Eisner's spans, O(n³).

Scores are raised to at least MAX_SCORE_DROP below the best of their token.
"""

import numpy as np

from mtlstruct._numba.decorators import kernel
from mtlstruct.structures.tree_decoding import fill_spans, log_split, longest_sentence

MAX_SCORE_DROP = 300.0
"""A probability of exp(−300) is negligible, and a product of two does not underflow."""


@kernel
def _load(n, scores, row, scale, s):
    """Fill s[m, h] with scores relative to the best head of m; return the sum of the best."""
    total = 0.0
    for m in range(1, n + 1):
        top = -np.inf
        for h in range(n + 1):
            if h != m:
                top = max(top, scale * scores[row + h, 0])
        for h in range(n + 1):
            s[m, h] = max(scale * scores[row + h, 0] - top, -MAX_SCORE_DROP)
        total += top
        row += n + 1
    return total


@kernel
def _store(n, p, row, gold, start, out):
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                out[row + h, 0] = p[m, h]
        if len(gold) > 0:
            out[row + gold[start + m - 1], 0] -= 1.0
        row += n + 1
    return row


@kernel
def matrix_tree(first, last, ptr, scores, scale, gold, single, out, log_z):
    n = longest_sentence(first, last, ptr)
    w = np.empty((n + 1, n + 1))
    p = np.empty((n + 1, n + 1))
    row = 0
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        log_z[i] = _load(n, scores, row, scale, w)
        for m in range(1, n + 1):
            for h in range(n + 1):
                w[m, h] = np.exp(w[m, h])
        log_z[i] += _eliminate(n, w, single)
        _differentiate(n, w, single, p)
        # load the weights again, which the elimination has changed
        _load(n, scores, row, scale, w)
        for m in range(1, n + 1):
            for h in range(n + 1):
                p[m, h] *= np.exp(w[m, h])
        row = _store(n, p, row, gold, start, out)


@kernel
def _eliminate(n, w, single):
    """Eliminate tokens n, n − 1, ...; return log Z.

    Leaves w[m, h] as it was when the later of h and m was eliminated; w[k, k] is the total weight
    of the arcs that entered k then.
    """
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
def _differentiate(n, w, single, p):
    """Fill p[m, h] with the derivative of log Z by the first weight of the arc, undoing _eliminate.

    With g = p before step k is undone, D = w[k, k] and share_h = w[k, h] / D, the derivative by
    w[m, k] is mean_m = Σ_h share_h·g[m, h], and that by w[k, h] is
    (1 + Σ_m w[m, k]·(g[m, h] − mean_m)) / D, without −mean_m for a root that does not count.
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
def _share_split(a, b, low, high, total, mass, to_a, to_b):
    """Add the probability of a span to those of the splits that it was summed from."""
    if mass == 0.0:
        return
    for r in range(low, high):
        part = mass * np.exp(a[r] + b[r] - total)
        to_a[r] += part
        to_b[r] += part


@kernel
def inside_outside(first, last, ptr, scores, scale, gold, single, out, log_z):
    n = longest_sentence(first, last, ptr)
    s = np.empty((n + 1, n + 1))
    p = np.empty((n + 1, n + 1))
    inside = np.empty((6, n + 1, n + 1))
    mass = np.empty((6, n + 1, n + 1))
    row = 0
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        best = _load(n, scores, row, scale, s)
        fill_spans(n, s, single, True, inside)
        total = inside[0, 0, n]
        if single:
            total = log_split(inside[3, 1, 1 : n + 1] + s[1 : n + 1, 0], inside[1, n, 1:], 0, n)
        log_z[i] = best + total
        _outside(n, s, single, total, inside, mass, p)
        row = _store(n, p, row, gold, start, out)


@kernel
def _outside(n, s, single, total, spans, mass, p):
    """Fill `mass` with the probabilities of spans, in the tables of fill_spans, and p of arcs.

    Where a table is stored both ways, the two masses are summed when the span is processed.
    """
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
