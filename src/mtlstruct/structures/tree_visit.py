"""One visit of the coordinate learner to a sentence with cached trees: the kernels.

Scores are sums of `product`, −mu·V, over the features of an arc. A step moves mass θ from the worst tree that has
some to the best one and gains θ·df − ½cθ²·quad, most at θ = df/(c·quad). quad = Σ_j mu_j ‖change of features‖² is
exact, since the changes of all arcs that differ are added up first. V, N and `product` follow at once, and then
only arcs on which the trees differ are scored anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import fast_kernel, kernel

FORGET = 3
"""A tree without mass is dropped after so many searches."""


class Forest(NamedTuple):
    """The trees of all sentences and the mass on them; S sentences, T tokens, at most `room` trees each.

    heads     int32[T·room]: the k-th tree of a sentence of n tokens from token a on is heads[a·room + k·n :][:n]
    mass      float64[S, room], summing to 1 in each row
    losses    float64[S, room]: what each tree costs
    idle      int64[S, room]: searches since it last had mass
    kept      int64[S]: how many trees there are
    """

    heads: NDArray[np.int32]
    mass: NDArray[np.float64]
    losses: NDArray[np.float64]
    idle: NDArray[np.int64]
    kept: NDArray[np.int64]


class Arcs(NamedTuple):
    """The data: A by rows, where sentences start in tokens and in rows, the template of each attribute, gold."""

    ids: NDArray[Any]
    ptr: NDArray[np.int64]
    sentence: NDArray[np.int64]
    first_row: NDArray[np.int64]
    block: NDArray[np.int32]
    gold: NDArray[np.int32]


class Primal(NamedTuple):
    """V, N_j = ‖v_j‖², and product = −mu·V, which may stay in the cache. The last attribute is the null one."""

    V: NDArray[np.float32]
    N: NDArray[np.float64]
    product: NDArray[np.float32]


class Scratch(NamedTuple):
    """Room to work in, all zero or whatever was left there.

    scores    float32[arcs of the longest sentence, 1]
    stamp     int64 beside scores: the time at which a score was right; clock int64[1] is the time now
    change    float32[attributes + 1], zero between visits
    moved     attributes that a step changes, amount float32 by how much
    loose     int64[longest]: the tokens on which trees differ
    value     float64[room]: scores of the trees on those tokens
    """

    scores: NDArray[np.float32]
    stamp: NDArray[np.int64]
    clock: NDArray[np.int64]
    change: NDArray[np.float32]
    moved: NDArray[Any]
    amount: NDArray[np.float32]
    loose: NDArray[np.int64]
    value: NDArray[np.float64]


# ---------------------------------------------------------------- kernels


@fast_kernel
def premultiply(block_ptr, templates, V, mu, product):  # type: ignore[no-untyped-def]
    """product = −mu·V."""
    for b in range(len(templates)):
        scale = np.float32(-mu[templates[b]])
        for a in range(block_ptr[b], block_ptr[b + 1]):
            product[a] = scale * V[a, 0]


@fast_kernel
def _score(ids, ptr, row, product):  # type: ignore[no-untyped-def]
    entry = ids[ptr[row] : ptr[row + 1]]
    total = np.float32(0)
    for k in range(len(entry)):
        total += product[np.uint64(entry[k])]
    return total


@fast_kernel
def score_arcs(first, rows, ids, ptr, product, scores):  # type: ignore[no-untyped-def]
    """scores[r, 0] of `rows` rows of A from `first` on."""
    for r in range(rows):
        scores[r, 0] = _score(ids, ptr, first + r, product)


@kernel
def loose_spans(sentences, sentence_ptr, forest, loose, spans):  # type: ignore[no-untyped-def]
    """The tokens from the first to the last on which the trees of a sentence differ."""
    for k in range(len(sentences)):
        i = sentences[k]
        start = sentence_ptr[i]
        count = _loosen(i, start, sentence_ptr[i + 1] - start, forest, loose)
        spans[k, 0] = start + (loose[0] if count > 0 else 0)
        spans[k, 1] = start + (loose[count - 1] + 1 if count > 0 else 0)
        spans[k, 2] = i


@kernel
def arc_counts(sentence_ptr, first_row, forest, gold, out):  # type: ignore[no-untyped-def]
    """The expected arcs of the dual, less those of gold."""
    room = forest.mass.shape[1]
    for i in range(len(sentence_ptr) - 1):
        start = sentence_ptr[i]
        n = sentence_ptr[i + 1] - start
        for t in range(n):
            row = first_row[i] + t * (n + 1)
            right = gold[start + t]
            for k in range(forest.kept[i]):
                head = forest.heads[start * room + k * n + t]
                if head != right:
                    out[row + head, 0] += forest.mass[i, k]
                    out[row + right, 0] -= forest.mass[i, k]


@kernel
def _loosen(i, start, n, forest, loose):  # type: ignore[no-untyped-def]
    """Lists the tokens on which the trees differ."""
    base = start * forest.mass.shape[1]
    count = 0
    for t in range(n):
        for k in range(1, forest.kept[i]):
            if forest.heads[base + k * n + t] != forest.heads[base + t]:
                loose[count] = t
                count += 1
                break
    return count


@kernel
def _search_gap(i, start, n, forest, gold, wrong, found, scores):  # type: ignore[no-untyped-def]
    """How much better the found tree is than the mass as it lies, and what it costs; all arcs have been scored."""
    base = start * forest.mass.shape[1]
    gap = 0.0
    loss = 0.0
    for t in range(n):
        row = t * (n + 1)
        gap += scores[row + found[t], 0]
        if found[t] != gold[start + t]:
            loss += wrong
    gap += loss
    for k in range(forest.kept[i]):
        if forest.mass[i, k] > 0:
            value = forest.losses[i, k]
            for t in range(n):
                value += scores[t * (n + 1) + forest.heads[base + k * n + t], 0]
            gap -= forest.mass[i, k] * value
    return gap, loss


@kernel
def _take_in(i, start, n, forest, found, loss):  # type: ignore[no-untyped-def]
    """Puts a tree into the next free place, unless it is there already or there is none."""
    base = start * forest.mass.shape[1]
    if forest.kept[i] == forest.mass.shape[1]:
        return
    for k in range(forest.kept[i]):
        same = True
        for t in range(n):
            if forest.heads[base + k * n + t] != found[t]:
                same = False
                break
        if same:
            return
    k = forest.kept[i]
    for t in range(n):
        forest.heads[base + k * n + t] = found[t]
    forest.mass[i, k] = 0.0
    forest.losses[i, k] = loss
    forest.idle[i, k] = 0
    forest.kept[i] += 1


@kernel
def _forget(i, start, n, forest, patience):  # type: ignore[no-untyped-def]
    """Drops trees that have been without mass for too long."""
    base = start * forest.mass.shape[1]
    kept = 0
    for k in range(forest.kept[i]):
        forest.idle[i, k] = 0 if forest.mass[i, k] > 0 else forest.idle[i, k] + 1
        if forest.idle[i, k] > patience:
            continue
        if kept < k:
            for t in range(n):
                forest.heads[base + kept * n + t] = forest.heads[base + k * n + t]
            forest.mass[i, kept] = forest.mass[i, k]
            forest.losses[i, kept] = forest.losses[i, k]
            forest.idle[i, kept] = forest.idle[i, k]
        kept += 1
    for k in range(kept, forest.kept[i]):
        forest.mass[i, k] = 0.0
    forest.kept[i] = kept


@fast_kernel
def _score_trees(i, start, n, count, forest, arcs, product, work):  # type: ignore[no-untyped-def]
    """value[k] of each tree on the loose tokens, with its cost; an arc is scored once a time."""
    base = start * forest.mass.shape[1]
    first = arcs.first_row[i]
    now = work.clock[0]
    for k in range(forest.kept[i]):
        total = forest.losses[i, k]
        for q in range(count):
            t = work.loose[q]
            at = t * (n + 1) + forest.heads[base + k * n + t]
            if work.stamp[at] != now:
                work.stamp[at] = now
                work.scores[at, 0] = _score(arcs.ids, arcs.ptr, first + at, product)
            total += work.scores[at, 0]
        work.value[k] = total


@fast_kernel
def _add_arc(ids, ptr, row, sign, change):  # type: ignore[no-untyped-def]
    entry = ids[ptr[row] : ptr[row + 1]]
    for k in range(len(entry)):
        change[np.uint64(entry[k])] += sign


@fast_kernel
def _collect_arc(ids, ptr, row, count, work):  # type: ignore[no-untyped-def]
    """Moves what has changed on an arc's features from `change` to the list behind its first `count` entries."""
    entry = ids[ptr[row] : ptr[row + 1]]
    for k in range(len(entry)):
        f = np.uint64(entry[k])
        z = work.change[f]
        if z != 0:
            work.change[f] = 0
            work.moved[count] = entry[k]
            work.amount[count] = z
            count += 1
    return count


@fast_kernel
def _difference(i, start, n, high, low, count, forest, arcs, work):  # type: ignore[no-untyped-def]
    """Lists the features of tree `high` less those of tree `low`; returns how many there are."""
    base = start * forest.mass.shape[1]
    for q in range(count):
        t = work.loose[q]
        row = arcs.first_row[i] + t * (n + 1)
        up, down = forest.heads[base + high * n + t], forest.heads[base + low * n + t]
        if up != down:
            _add_arc(arcs.ids, arcs.ptr, row + up, np.float32(1), work.change)
            _add_arc(arcs.ids, arcs.ptr, row + down, np.float32(-1), work.change)
    listed = 0
    for q in range(count):
        t = work.loose[q]
        row = arcs.first_row[i] + t * (n + 1)
        up, down = forest.heads[base + high * n + t], forest.heads[base + low * n + t]
        if up != down:
            listed = _collect_arc(arcs.ids, arcs.ptr, row + up, listed, work)
            listed = _collect_arc(arcs.ids, arcs.ptr, row + down, listed, work)
    return listed


@fast_kernel
def _curvature(listed, block, mu, work):  # type: ignore[no-untyped-def]
    quad = 0.0
    for k in range(listed):
        z = np.float64(work.amount[k])
        quad += mu[block[np.uint64(work.moved[k])]] * z * z
    return quad


@fast_kernel
def _move(listed, step, block, mu, primal, work):  # type: ignore[no-untyped-def]
    """Adds step·change to V; N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖², and the product, follow."""
    null = len(primal.product) - 1
    for k in range(listed):
        f = np.uint64(work.moved[k])
        if f == null:
            continue
        d = np.float32(step) * work.amount[k]
        j = block[f]
        v = primal.V[f, 0]
        primal.N[j] += np.float64(d) * (2.0 * np.float64(v) + np.float64(d))
        primal.V[f, 0] = v + d
        primal.product[f] = -np.float32(mu[j]) * (v + d)


@fast_kernel
def improve(  # type: ignore[no-untyped-def]
    i, found, forest, arcs, primal, work, mu, wrong, c, rounds, tolerance, enough
):
    """Takes `found` in if it is a tree (empty: there was no search) and steps. Gap before, change of loss, steps."""
    start = arcs.sentence[i]
    n = arcs.sentence[i + 1] - start
    room = forest.mass.shape[1]
    searched = len(found) > 0
    gap = 0.0
    work.clock[0] += 1
    if searched:
        gap, cost = _search_gap(i, start, n, forest, arcs.gold, wrong, found, work.scores)
        if gap < tolerance:
            return max(gap, 0.0), 0.0, 0
        _take_in(i, start, n, forest, found, cost)
        for at in range(n * (n + 1)):
            work.stamp[at] = work.clock[0]
    count = _loosen(i, start, n, forest, work.loose)
    _score_trees(i, start, n, count, forest, arcs, primal.product, work)
    value, mass = work.value, forest.mass[i]
    loss = 0.0
    steps = 0
    for _ in range(rounds):
        kept = forest.kept[i]
        high, low, least = 0, -1, -1
        current = 0.0
        for k in range(kept):
            if value[k] > value[high]:
                high = k
            if mass[k] > 0:
                current += mass[k] * value[k]
                if low < 0 or value[k] < value[low]:
                    low = k
                if least < 0 or mass[k] < mass[least]:
                    least = k
        if not searched and steps == 0:
            gap = value[high] - current
            if gap < tolerance:
                break
        df = value[high] - value[low]
        full = kept == room  # then the tree with the least mass gives way, whatever that gains
        if full and high != least:
            low = least
        elif df <= max(0.5 * tolerance, 0.2 * enough * gap):
            break
        listed = _difference(i, start, n, high, low, count, forest, arcs, work)
        quad = _curvature(listed, arcs.block, mu, work)
        step = mass[low]
        if not full and quad > 0 and df / (c * quad) < step:
            step = df / (c * quad)
        if mass[low] - step < 1e-9:
            step = mass[low]
        mass[low] -= step
        mass[high] += step
        loss += step * (forest.losses[i, high] - forest.losses[i, low])
        steps += 1
        _move(listed, c * step, arcs.block, mu, primal, work)
        if full:
            _forget(i, start, n, forest, 0)
        work.clock[0] += 1
        _score_trees(i, start, n, count, forest, arcs, primal.product, work)
    if searched:
        _forget(i, start, n, forest, FORGET)
    return max(gap, 0.0), loss, steps
