"""One visit of the coordinate solver to a sentence with cached trees: the kernels.

Scores are sums of `product`, −mu·V, over the features of an arc. The trees of a sentence differ on
few tokens, the loose ones, and have few arcs there. The inner products of those arcs, K[a, b] = Σ_j
mu_j ⟨x_aj, x_bj⟩, are all that steps need: one moves mass θ from the worst tree that has some to
the best one and gains θ·df − ½cθ²·quad, most at θ = df/(c·quad), where quad = zᵀKz for the arcs z
that come and go, and scores change by −cθ·Kz. At the end V, N and `product` follow, arc by arc.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inlined_kernel, inner_kernel, kernel
from mtlstruct.errors import IncompatibleError
from mtlstruct.linear.design import PREFETCH_DISTANCE, prefetch
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.structures.tree import arc_starts

MAX_IDLE_SEARCHES = 3
"""Searches after which a tree without mass is dropped."""

Forest = namedtuple("Forest", "heads mass losses idle kept")
"""Trees and their mass; S sentences, T tokens, at most `capacity` trees per sentence.

heads     int32[T·capacity]: tree k of a sentence of n tokens from token a on is
          heads[a·capacity + k·n :][:n]
mass      float64[S, capacity], summing to 1 in each row
losses    float64[S, capacity]: what each tree costs
idle      int64[S, capacity]: searches since it last had mass
kept      int64[S]: how many trees there are
"""

ArcDesign = namedtuple("ArcDesign", "ids ptr sentence first_row gold")
"""The data: A by rows, where sentences start in tokens and in rows, and gold."""

Primal = namedtuple("Primal", "V N product table")
"""V, N_j = ‖v_j‖², and product = −mu·V, kept for the cache; the last attribute is null.

table   int32[attributes + 1, 2]: a mark (zero between updates), and the template
"""

Scratch = namedtuple("Scratch", "scores loose arc row score value")
"""Workspace of a block update; its contents are undefined in between.

scores      float32[arcs of the longest sentence, 1]
loose       int64[longest]: the tokens on which trees differ
arc         int64[capacity, longest]: which of the arcs below each tree has at each of them
row         int64[capacity·longest]: the row of each arc; score float64 beside it
value       float64[capacity]: scores of the trees on the loose tokens, cost added
"""


def arc_arrays(oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> tuple[Any, Any]:
    """Return ArcDesign and Primal of the data; raise an error if features have real values."""
    (design,), ptr = oracle.encoded.designs, oracle.encoded.ptr
    if len(design.values):
        raise IncompatibleError("trees take features that fire or do not, not real values")
    table = np.zeros((design.layout.attributes + 1, 2), np.int32)
    table[:, 1] = design.layout.attribute_blocks
    arcs = ArcDesign(design.ids, design.ptr, ptr, arc_starts(ptr), oracle.gold)
    return arcs, Primal(V[0], N, np.zeros(len(table), np.float32), table)


# ---------------------------------------------------------------- kernels


@fast_kernel
def premultiply(block_ptr, templates, V, mu, product):
    """product = −mu·V."""
    for b in range(len(templates)):
        scale = np.float32(-mu[templates[b]])
        for a in range(block_ptr[b], block_ptr[b + 1]):
            product[a] = scale * V[a, 0]


@inlined_kernel
def score_arc(ids, ptr, row, product):
    """Return the score of an arc: Σ product over its features."""
    entry = ids[ptr[row] : ptr[row + 1]]
    total = np.float32(0)
    for k in range(len(entry)):
        total += product[np.uint64(entry[k])]
    return total


@fast_kernel
def score_arcs(first, rows, ids, ptr, product, scores):
    """scores[r, 0] of `rows` rows of A from `first` on."""
    for r in range(rows):
        scores[r, 0] = score_arc(ids, ptr, first + r, product)


@kernel
def arc_counts(sentence_ptr, first_row, forest, gold, out):
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
def _loosen(i, start, n, forest, loose):
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
def _search_gap(i, start, n, forest, gold, wrong, found, scores):
    """Return the gap between the found tree and the present mass, and its cost."""
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
def _take_in(i, start, n, forest, found, loss):
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
def _forget(i, start, n, forest, patience):
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


@kernel
def _list_arcs(i, start, n, loose, forest, first_row, work):
    """Lists the distinct arcs of the trees on the loose tokens; returns how many there are."""
    base = start * forest.mass.shape[1]
    count = 0
    for q in range(loose):
        t = work.loose[q]
        for k in range(forest.kept[i]):
            head = forest.heads[base + k * n + t]
            work.arc[k, q] = -1
            for e in range(k):
                if forest.heads[base + e * n + t] == head:
                    work.arc[k, q] = work.arc[e, q]
                    break
            if work.arc[k, q] < 0:
                work.arc[k, q] = count
                work.row[count] = first_row[i] + t * (n + 1) + head
                count += 1
    return count


@inner_kernel
def _inner_products(count, row, ids, ptr, table, mu):
    """Compute K[a, b] = Σ mu over features that arcs a and b share, by chains of marks."""
    K = np.zeros((count, count))
    null = len(table) - 1
    total = 0
    for a in range(count):
        total += ptr[row[a] + 1] - ptr[row[a]]
    before = np.empty(
        total + 1, np.int32
    )  # the entry that had the feature before, or 0; entries count from 1
    owner = np.empty(total + 1, np.int32)
    e = 0
    for a in range(count):
        first = ptr[row[a]]
        size = ptr[row[a] + 1] - first
        entry = ids[first : first + size + PREFETCH_DISTANCE]
        for k in range(size):
            prefetch(table, np.int64(entry[k + PREFETCH_DISTANCE]))
            f = np.uint64(entry[k])
            if f == null:
                continue
            e += 1
            weight = mu[table[f, 1]]
            K[a, a] += weight
            other = table[f, 0]
            before[e] = other
            owner[e] = a
            table[f, 0] = e
            while other > 0:
                b = owner[other]
                K[a, b] += weight
                K[b, a] += weight
                other = before[other]
    for a in range(count):
        entry = ids[ptr[row[a]] : ptr[row[a] + 1]]
        for k in range(len(entry)):
            table[np.uint64(entry[k]), 0] = 0
    return K


@inner_kernel
def add_arc(row, d, arcs, primal, mu):
    """Add d to V on the features of an arc; update N and the product. Return Σ_j mu_j·ΔN_j."""
    null = len(primal.product) - 1
    first = arcs.ptr[row]
    size = arcs.ptr[row + 1] - first
    entry = arcs.ids[first : first + size + PREFETCH_DISTANCE]
    total = 0.0
    for k in range(size):
        prefetch(primal.V, np.int64(entry[k + PREFETCH_DISTANCE]))
        f = np.uint64(entry[k])
        if f == null:
            continue
        j = primal.table[f, 1]
        v = primal.V[f, 0]
        change = np.float64(d) * (2.0 * np.float64(v) + np.float64(d))
        primal.N[j] += change
        total += mu[j] * change
        primal.V[f, 0] = v + d
        primal.product[f] = -np.float32(mu[j]) * (v + d)
    return total


@kernel
def _score_trees(i, loose, forest, work):
    for k in range(forest.kept[i]):
        total = forest.losses[i, k]
        for q in range(loose):
            total += work.score[work.arc[k, q]]
        work.value[k] = total


@kernel
def _choose(kept, mass, value):
    """Return the best tree, the worst and the lightest with mass, and the expected score."""
    high, low, light = 0, -1, -1
    current = 0.0
    for k in range(kept):
        if value[k] > value[high]:
            high = k
        if mass[k] > 0:
            current += mass[k] * value[k]
            if low < 0 or value[k] < value[low]:
                low = k
            if light < 0 or mass[k] < mass[light]:
                light = k
    return high, low, light, current


@inner_kernel
def _pull(high, low, loose, count, K, work, pull):
    """pull = K·(arcs of `high` − arcs of `low`); returns quad."""
    for a in range(count):
        pull[a] = 0.0
    for q in range(loose):
        up, down = work.arc[high, q], work.arc[low, q]
        if up != down:
            for a in range(count):
                pull[a] += K[up, a] - K[down, a]
    quad = 0.0
    for q in range(loose):
        quad += pull[work.arc[high, q]] - pull[work.arc[low, q]]
    return quad


@inner_kernel
def _ascend(i, gap, loose, count, K, forest, work, coefficient, c, rounds, tolerance, enough):
    """Take pairwise steps; at capacity the lightest tree first gives up all its mass."""
    value, mass = work.value, forest.mass[i]
    full = forest.kept[i] == len(mass)
    pull = np.empty(count)
    loss = 0.0
    for _ in range(rounds):
        _score_trees(i, loose, forest, work)
        high, low, light, current = _choose(forest.kept[i], mass, value)
        if gap < 0:
            gap = value[high] - current
        if full and high != light:
            low = light
        elif gap < tolerance or value[high] - value[low] <= max(0.5 * tolerance, 0.2 * enough * gap):
            break
        quad = _pull(high, low, loose, count, K, work, pull)
        step = mass[low]
        if not full and quad > 0:
            step = min(step, (value[high] - value[low]) / (c * quad))
        if mass[low] - step < 1e-9:
            step = mass[low]
        full = False
        mass[low] -= step
        mass[high] += step
        loss += step * (forest.losses[i, high] - forest.losses[i, low])
        for a in range(count):
            work.score[a] -= c * step * pull[a]
        for q in range(loose):
            if work.arc[high, q] != work.arc[low, q]:
                coefficient[work.arc[high, q]] += c * step
                coefficient[work.arc[low, q]] -= c * step
    return gap, loss


@fast_kernel
def improve(i, found, forest, arcs, primal, work, mu, wrong, c, rounds, tolerance, enough):
    """Add `found` (empty: no search) and take steps. Return gap before, change of loss."""
    start = arcs.sentence[i]
    n = arcs.sentence[i + 1] - start
    searched = len(found) > 0
    gap = -1.0
    if searched:
        gap, cost = _search_gap(i, start, n, forest, arcs.gold, wrong, found, work.scores)
        if gap < tolerance:
            return max(gap, 0.0), 0.0
        _take_in(i, start, n, forest, found, cost)
    loose = _loosen(i, start, n, forest, work.loose)
    count = _list_arcs(i, start, n, loose, forest, arcs.first_row, work)
    for a in range(count):
        if searched:  # all arcs have been scored
            work.score[a] = work.scores[work.row[a] - arcs.first_row[i], 0]
        else:
            work.score[a] = score_arc(arcs.ids, arcs.ptr, work.row[a], primal.product)
    K = _inner_products(count, work.row, arcs.ids, arcs.ptr, primal.table, mu)
    coefficient = np.zeros(count)
    full = forest.kept[i] == forest.mass.shape[1]
    gap, loss = _ascend(i, gap, loose, count, K, forest, work, coefficient, c, rounds, tolerance, enough)
    for a in range(count):
        if np.float32(coefficient[a]) != 0:
            add_arc(work.row[a], np.float32(coefficient[a]), arcs, primal, mu)
    if searched:
        _forget(i, start, n, forest, 0 if full else MAX_IDLE_SEARCHES)
    return max(gap, 0.0), loss
