"""Kernels of dual variables of trees: arcs, their features, and block updates with the hinge.

Scores are sums of `product`, −mu·V, over the features of an arc. The trees of a sentence differ on
few tokens, the loose ones, and have few arcs there. The inner products of those arcs, K[a, b] = Σ_j
mu_j ⟨x_aj, x_bj⟩, are all that steps need: one moves mass θ from the worst tree that has some to
the best one and gains θ·df − ½cθ²·quad, most at θ = df/(c·quad), where quad = zᵀKz for the arcs z
that come and go, and scores change by −cθ·Kz. At the end V, N and `product` follow, arc by arc.
"""

from collections import namedtuple

import numpy as np

from mtlstruct._numba.decorators import fast_kernel, inlined_kernel, inner_kernel, kernel
from mtlstruct.linear.design import PREFETCH_DISTANCE, prefetch
from mtlstruct.structures.tree_decoding import best_nonprojective, best_projective

STEPS_PER_ROUND = 4
"""Pairwise steps for each round that the solver allows: they cost little beside the search."""

Forest = namedtuple("Forest", "heads mass losses kept")
"""Trees and their mass; S sentences, T tokens, at most `capacity` trees per sentence.

heads     int32[T·capacity]: tree k of a sentence of n tokens from token a on is
          heads[a·capacity + k·n :][:n]
mass      float64[S, capacity], summing to 1 in each row
losses    float64[S, capacity]: what each tree costs
kept      int64[S]: how many trees there are
"""

ArcDesign = namedtuple("ArcDesign", "ids ptr sentence first_row gold")
"""The data: A by rows, where sentences start in tokens and in rows, and gold."""

Primal = namedtuple("Primal", "V N product table")
"""V, N_j = ‖v_j‖², and product = −mu·V, kept for the cache; the last attribute is null.

table   int32[attributes + 1, 2]: a mark (zero between updates), and the template
"""

Scratch = namedtuple("Scratch", "ptr scores found value arc row score")
"""Workspace of a block update; its contents are undefined in between.

ptr, scores, found, value   of the search: int64[2], float32[arcs of the longest sentence, 1],
            the heads int32[longest] and the score float64[1] of the most violated tree
arc         int64[capacity, longest]: which of the arcs below each tree has at each loose token
row         int64[capacity·longest]: the row of each arc; score float64 beside it
"""


def scratch(longest: int, capacity: int) -> Scratch:
    """Return the workspace for sentences of at most `longest` tokens."""
    return Scratch(
        ptr=np.zeros(2, np.int64),
        scores=np.zeros((longest * (longest + 1), 1), np.float32),
        found=np.zeros(longest, np.int32),
        value=np.zeros(1),
        arc=np.zeros((capacity, longest), np.int64),
        row=np.zeros(capacity * longest, np.int64),
        score=np.zeros(capacity * longest),
    )


# ---------------------------------------------------------------- arcs and their features


@fast_kernel
def premultiply(block_ptr, templates, V, mu, product):
    """product = −mu·V."""
    for b in range(len(templates)):
        scale = np.float32(-mu[templates[b]])
        for a in range(block_ptr[b], block_ptr[b + 1]):
            product[a] = scale * V[a, 0]


@inlined_kernel
def score_arc(ids, ptr, values, row, product):
    """Return the score of an arc: Σ x · product over its features."""
    first = ptr[row]
    entry = ids[first : ptr[row + 1]]
    total = np.float32(0)
    for k in range(len(entry)):
        x = np.float32(1) if values is None else values[first + k]
        total += x * product[np.uint64(entry[k])]
    return total


@inner_kernel
def add_arc(row, amount, arcs, values, primal, mu):
    """Add amount·x to V on features of an arc; update N, product. Return Σ_j mu_j·ΔN_j."""
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
        d = amount if values is None else amount * values[first + k]
        change = np.float64(d) * (2.0 * np.float64(v) + np.float64(d))
        primal.N[j] += change
        total += mu[j] * change
        primal.V[f, 0] = v + d
        primal.product[f] = -np.float32(mu[j]) * (v + d)
    return total


@inner_kernel
def _inner_products(count, row, ids, ptr, values, table, mu):
    """Compute K[a, b] = Σ mu·x_a·x_b over features that arcs a and b share, by chains of marks."""
    K = np.zeros((count, count))
    null = len(table) - 1
    total = 0
    for a in range(count):
        total += ptr[row[a] + 1] - ptr[row[a]]
    before = np.empty(total + 1, np.int32)  # the entry that had the feature before; entries count from 1
    owner = np.empty(total + 1, np.int32)
    amount = np.empty(0 if values is None else total + 1)
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
            x = 1.0 if values is None else np.float64(values[first + k])
            weight = x * mu[table[f, 1]]
            K[a, a] += x * weight
            other = table[f, 0]
            before[e] = other
            owner[e] = a
            if values is not None:
                amount[e] = x
            table[f, 0] = e
            while other > 0:
                b = owner[other]
                both = weight if values is None else weight * amount[other]
                K[a, b] += both
                K[b, a] += both
                other = before[other]
    for a in range(count):
        entry = ids[ptr[row[a]] : ptr[row[a] + 1]]
        for k in range(len(entry)):
            table[np.uint64(entry[k]), 0] = 0
    return K


# ---------------------------------------------------------------- trees with mass


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


@inner_kernel
def _search(i, start, n, forest, arcs, values, primal, wrong, kind, work):
    """Add the most violated tree without mass, unless it is there already or there are too many."""
    gold, scores, found = arcs.gold[start : start + n], work.scores, work.found
    work.ptr[1] = n
    for r in range(n * (n + 1)):
        scores[r, 0] = score_arc(arcs.ids, arcs.ptr, values, arcs.first_row[i] + r, primal.product)
    if kind[0]:
        best_projective(0, 1, work.ptr, scores, 0, 1.0, gold, wrong, kind[1], found, work.value)
    else:
        best_nonprojective(0, 1, work.ptr, scores, 0, 1.0, gold, wrong, kind[1], found, work.value)
    base = start * forest.mass.shape[1]
    new = forest.kept[i]
    for k in range(new):
        same = True
        for t in range(n):
            same &= forest.heads[base + k * n + t] == found[t]
        if same:
            return
    if new < forest.mass.shape[1]:
        forest.mass[i, new] = 0.0
        forest.losses[i, new] = 0.0
        for t in range(n):
            forest.heads[base + new * n + t] = found[t]
            forest.losses[i, new] += wrong if found[t] != gold[t] else 0.0
        forest.kept[i] += 1


@inner_kernel
def _forget(i, start, n, forest):
    """Drop the trees without mass."""
    base = start * forest.mass.shape[1]
    kept = 0
    for k in range(forest.kept[i]):
        if forest.mass[i, k] > 0:
            for t in range(n):
                forest.heads[base + kept * n + t] = forest.heads[base + k * n + t]
            forest.mass[i, kept] = forest.mass[i, k]
            forest.losses[i, kept] = forest.losses[i, k]
            kept += 1
    for k in range(kept, forest.kept[i]):
        forest.mass[i, k] = 0.0
    forest.kept[i] = kept


@inner_kernel
def _list_arcs(i, start, n, forest, first_row, work):
    """List the tokens on which trees differ, and their distinct arcs there. Return both numbers."""
    base = start * forest.mass.shape[1]
    loose = 0
    count = 0
    for t in range(n):
        differ = False
        for k in range(1, forest.kept[i]):
            differ |= forest.heads[base + k * n + t] != forest.heads[base + t]
        if not differ:
            continue
        for k in range(forest.kept[i]):
            head = forest.heads[base + k * n + t]
            work.arc[k, loose] = -1
            for e in range(k):
                if forest.heads[base + e * n + t] == head:
                    work.arc[k, loose] = work.arc[e, loose]
                    break
            if work.arc[k, loose] < 0:
                work.arc[k, loose] = count
                work.row[count] = first_row[i] + t * (n + 1) + head
                count += 1
        loose += 1
    return loose, count


@inner_kernel
def _choose(i, loose, forest, work):
    """Return the best tree and the worst with mass, their values, and the expected value."""
    high, low = 0, -1
    best = 0.0
    worst = 0.0
    current = 0.0
    for k in range(forest.kept[i]):
        value = forest.losses[i, k]
        for q in range(loose):
            value += work.score[work.arc[k, q]]
        if k == 0 or value > best:
            high, best = k, value
        if forest.mass[i, k] > 0:
            current += forest.mass[i, k] * value
            if low < 0 or value < worst:
                low, worst = k, value
    return high, low, best, worst, current


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
def _ascend(i, gap, loose, count, K, forest, work, coefficient, step):
    """Take pairwise steps. Return the change of the loss."""
    mass, c, tolerance = forest.mass[i], step.c, step.tolerance
    pull = np.empty(count)
    loss = 0.0
    for _ in range(STEPS_PER_ROUND * step.rounds):
        high, low, best, worst, _ = _choose(i, loose, forest, work)
        if best - worst <= max(0.5 * tolerance, 0.2 * step.enough * gap):
            break
        quad = _pull(high, low, loose, count, K, work, pull)
        theta = mass[low]
        if quad > 0:
            theta = min(theta, (best - worst) / (c * quad))
        if mass[low] - theta < 1e-9:
            theta = mass[low]
        mass[low] -= theta
        mass[high] += theta
        loss += theta * (forest.losses[i, high] - forest.losses[i, low])
        for a in range(count):
            work.score[a] -= c * theta * pull[a]
        for q in range(loose):
            if work.arc[high, q] != work.arc[low, q]:
                coefficient[work.arc[high, q]] += c * theta
                coefficient[work.arc[low, q]] -= c * theta
    return loss


@fast_kernel
def take_pairwise_steps(spans, forest, arcs, values, primal, mu, wrong, step, kind, work, gaps):
    """Update sentences in turn; write gaps before. Return the change of the loss."""
    total = 0.0
    for s in range(len(spans)):
        start, i, search = spans[s, 0], spans[s, 2], spans[s, 3] > 0
        n = spans[s, 1] - start
        if search:
            _search(i, start, n, forest, arcs, values, primal, wrong, kind, work)
        loose, count = _list_arcs(i, start, n, forest, arcs.first_row, work)
        for a in range(count):
            if search:  # all arcs have been scored
                work.score[a] = work.scores[work.row[a] - arcs.first_row[i], 0]
            else:
                work.score[a] = score_arc(arcs.ids, arcs.ptr, values, work.row[a], primal.product)
        _, _, best, _, current = _choose(i, loose, forest, work)
        gaps[s] = max(best - current, 0.0)
        if gaps[s] >= step.tolerance:
            K = _inner_products(count, work.row, arcs.ids, arcs.ptr, values, primal.table, mu)
            coefficient = np.zeros(count)
            total += _ascend(i, gaps[s], loose, count, K, forest, work, coefficient, step)
            for a in range(count):
                if np.float32(coefficient[a]) != 0:
                    add_arc(work.row[a], np.float32(coefficient[a]), arcs, values, primal, mu)
        if search:
            _forget(i, start, n, forest)
    return total
