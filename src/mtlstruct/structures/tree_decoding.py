"""The best dependency tree of a sentence: Chu-Liu-Edmonds and Eisner.

Arc scores of a sentence of n tokens are s[m, h] with modifier m and head h, 0 the root; row 0 and
the score of a token under itself are not used. Non-projective trees are found by the
Chu-Liu-Edmonds algorithm in the dense form of Tarjan (1977), O(n²): each token takes its best head,
and a cycle is contracted to one node. Projective trees are found by Eisner's algorithm (1996),
O(n³).

With one token under the root, non-projective arcs from the root get a penalty larger than any gain
of a second one; in Eisner's algorithm the root is outside of the spans and takes one span that
covers the sentence. Ties are broken deterministically: between heads the smaller one wins.
"""

from __future__ import annotations

import numpy as np

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, kernel

_LOWEST_SCORE = -1e300


@kernel
def _load(n, scores, row, scale, gold, start, wrong, s):
    """Fill s[m, h] with scale · score plus the cost; return the row after the sentence."""
    for m in range(1, n + 1):
        right = gold[start + m - 1] if len(gold) > 0 else -1
        for h in range(n + 1):
            s[m, h] = scale * scores[row + h, 0]
            if right >= 0 and h != right:
                s[m, h] += wrong
        row += n + 1
    return row


@kernel
def _value(n, s, heads, start):
    total = 0.0
    for m in range(1, n + 1):
        total += s[m, heads[start + m - 1]]
    return total


@kernel
def longest_sentence(first, last, ptr):
    """Return the most tokens that a sentence has, at least 1."""
    longest = 1
    for i in range(first, last):
        longest = max(longest, ptr[i + 1] - ptr[i])
    return longest


@kernel
def best_nonprojective(first, last, ptr, scores, row, scale, gold, wrong, single, outputs, values):
    """Write heads and values of sentences first:last, whose scores begin at `row`.

    If gold is not empty, `wrong` is added to the score of every other head.
    """
    n = longest_sentence(first, last, ptr)
    s = np.empty((n + 1, n + 1))
    W = np.empty((n + 1, n + 1))
    arc = np.empty((n + 1, n + 1), np.int32)
    small = np.empty((6, 2 * n + 2), np.int64)
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        row = _load(n, scores, row, scale, gold, start, wrong, s)
        penalty = 0.0
        for m in range(1, n + 1):
            best, worst = -1, -1
            for h in range(n + 1):
                if h != m:
                    if best < 0 or s[m, h] > s[m, best]:
                        best = h
                    if worst < 0 or s[m, h] < s[m, worst]:
                        worst = h
            outputs[start + m - 1] = best
            penalty += s[m, best] - s[m, worst]
        if _has_cycle(n, outputs, start, small[0]):
            _contract(n, s, 0.0, W, arc, small, outputs, start)
        if single and (outputs[start : start + n] == 0).sum() > 1:
            _contract(n, s, penalty + 1.0, W, arc, small, outputs, start)
        values[i] = _value(n, s, outputs, start)


@kernel
def _has_cycle(n, heads, start, seen):
    """Return whether the heads of some token do not lead to the root."""
    for v in range(n + 1):
        seen[v] = 0
    for token in range(1, n + 1):
        v = token
        while v > 0 and seen[v] == 0:
            seen[v] = token
            v = heads[start + v - 1]
        if v > 0 and seen[v] == token:
            return True
    return False


@kernel
def _contract(n, s, penalty, W, arc, small, heads, start):
    """Write the best heads by the Chu-Liu-Edmonds algorithm.

    W[v, u] is the best score of an arc from place u to place v, arc[v, u] which one it is, and W[v,
    v] the score of the arc that v has taken. A place holds a node: a token, or a contracted cycle
    (indices from n + 1 on). A path is extended by the best head of its last node until it reaches
    the root or a node connected to it; where it reaches itself, the cycle is contracted into one
    place.
    """
    N = n + 1
    parent, choice, state, path, alive, node = small[0], small[1], small[2], small[3], small[4], small[5]
    for m in range(1, N):
        for h in range(N):
            W[m, h] = s[m, h]
            arc[m, h] = h * N + m
        W[m, 0] -= penalty
    for v in range(N):
        state[v], alive[v], node[v] = 0, v, v
    state[0] = 2
    living, nodes = N, N
    for begin in range(1, N):
        if state[begin] != 0:
            continue
        size = 1
        path[0] = begin
        state[begin] = 1
        while size > 0:
            v = path[size - 1]
            u = -1
            for k in range(living):
                if alive[k] != v and (u < 0 or W[v, alive[k]] > W[v, u]):
                    u = alive[k]
            choice[node[v]] = arc[v, u]
            W[v, v] = W[v, u]
            if state[u] == 0:
                state[u] = 1
                path[size] = u
                size += 1
            elif state[u] == 2:
                for k in range(size):
                    state[path[k]] = 2
                size = 0
            else:
                # the cycle is the path from u on; it becomes node `nodes`, in the place of u
                bottom = size - 1
                while path[bottom] != u:
                    bottom -= 1
                for k in range(bottom, size):
                    x = path[k]
                    state[x] = 3
                    parent[node[x]] = nodes
                _join(bottom, size, path, living, alive, state, W, arc)
                state[u] = 1
                node[u] = nodes
                nodes += 1
                kept = 0
                for k in range(living):
                    if state[alive[k]] != 3:
                        alive[kept] = alive[k]
                        kept += 1
                living = kept
                size = bottom + 1
    for v in range(nodes - 1, N - 1, -1):  # an arc into a cycle replaces that of one member
        u = choice[v] % N
        while parent[u] != v:
            u = parent[u]
        choice[u] = choice[v]
    for m in range(1, N):
        heads[start + m - 1] = choice[m] // N


@kernel
def _join(bottom, size, path, living, alive, state, W, arc):
    """Set the arcs into a contracted cycle, by the gain over the arc of a member, and out of it."""
    u = path[bottom]
    for k in range(bottom, size):
        x = path[k]
        for j in range(living):
            y = alive[j]
            if state[y] == 3:
                continue
            gain = W[x, y] - W[x, x]
            if k == bottom or gain > W[u, y]:
                W[u, y] = gain
                arc[u, y] = arc[x, y]
            if k > bottom and y > 0 and W[y, x] > W[y, u]:
                W[y, u] = W[y, x]
                arc[y, u] = arc[y, x]


@kernel
def best_projective(first, last, ptr, scores, row, scale, gold, wrong, single, outputs, values):
    n = longest_sentence(first, last, ptr)
    s = np.empty((n + 1, n + 1))
    spans = np.empty((6, n + 1, n + 1))
    stack = np.empty((2 * n + 4, 3), np.int64)
    for i in range(first, last):
        start = ptr[i]
        n = ptr[i + 1] - start
        row = _load(n, scores, row, scale, gold, start, wrong, s)
        fill_spans(n, s, single, False, spans)
        _read_spans(n, single, s, spans, stack, outputs, start)
        values[i] = _value(n, s, outputs, start)


@fast_kernel
def _best_split(a, b, low, high):
    """Return the largest a[r] + b[r], low ≤ r < high."""
    best = _LOWEST_SCORE
    for r in range(low, high):
        best = max(best, a[r] + b[r])
    return best


@kernel
def log_split(a, b, low, high):
    """Return log Σ exp(a[r] + b[r]), low ≤ r < high."""
    top = _best_split(a, b, low, high)
    total = 0.0
    for r in range(low, high):
        total += np.exp(a[r] + b[r] - top)
    return top + np.log(total)


@inner_kernel
def _split(a, b, low, high, summed):
    return log_split(a, b, low, high) if summed else _best_split(a, b, low, high)


@kernel
def fill_spans(n, s, single, summed, spans):
    """Fill the span tables of Eisner's algorithm with the best scores, or with logarithms of sums.

    Two tables are stored both ways, for contiguous splits.
    right[l, r] and left[r, l]: complete spans l..r with the head at the left or at the right end;
    turned_right[r, l] and turned_left[l, r] are their transposes; arc_right[l, r] and arc_left[r,
    l]: spans whose ends are head and modifier.
    """
    right, turned_right, left, turned_left = spans[0], spans[1], spans[2], spans[3]
    arc_right, arc_left = spans[4], spans[5]
    lowest = 1 if single else 0
    for r in range(lowest, n + 1):
        right[r, r] = turned_right[r, r] = left[r, r] = turned_left[r, r] = 0.0
        for l in range(r - 1, lowest - 1, -1):  # noqa: E741
            inner = _split(right[l], left[r, 1:], l, r, summed)
            arc_right[l, r] = inner + s[r, l]
            arc_left[r, l] = inner + s[l, r] if l > 0 else _LOWEST_SCORE
            right[l, r] = turned_right[r, l] = _split(arc_right[l], turned_right[r], l + 1, r + 1, summed)
            left[r, l] = turned_left[l, r] = _split(turned_left[l], arc_left[r], l, r, summed)


@kernel
def _best_split_at(a, b, low, high):
    """Return the first r with the largest a[r] + b[r]."""
    at = low
    for r in range(low + 1, high):
        if a[r] + b[r] > a[at] + b[at]:
            at = r
    return at


@kernel
def _read_spans(n, single, s, spans, stack, heads, start):
    """Backtrack the best splits. Stack entries: (0 complete or 1 arc span, head, other end)."""
    right, turned_right, left, turned_left = spans[0], spans[1], spans[2], spans[3]
    arc_right, arc_left = spans[4], spans[5]
    size = 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, n
    if single:
        root = 1 + _best_split_at(turned_left[1, 1 : n + 1] + s[1 : n + 1, 0], turned_right[n, 1:], 0, n)
        heads[start + root - 1] = 0
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, root, 1
        stack[1, 0], stack[1, 1], stack[1, 2] = 0, root, n
        size = 2
    while size > 0:
        size -= 1
        kind, head, end = stack[size, 0], stack[size, 1], stack[size, 2]
        if head == end:
            continue
        if kind == 1:
            heads[start + end - 1] = head
            a, b = min(head, end), max(head, end)
            r = _best_split_at(right[a], left[b, 1:], a, b)
            stack[size, 0], stack[size, 1], stack[size, 2] = 0, a, r
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 0, b, r + 1
        else:
            if head < end:
                r = _best_split_at(arc_right[head], turned_right[end], head + 1, end + 1)
            else:
                r = _best_split_at(turned_left[end], arc_left[head], end, head)
            stack[size, 0], stack[size, 1], stack[size, 2] = 1, head, r
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = 0, r, end
        size += 2
