"""The dual variables of trees, for the hinge and for the log loss.

The dual variables of a sentence are a distribution over its trees. With the hinge few trees ever
carry mass, so those are kept: gold to begin with, then what the search found to be violated. A
block update may search, once, and takes the found tree in; then mass moves from the worst tree to
the best by exact steps. A tree without mass is forgotten. The trees of a sentence differ on few
tokens, the loose ones, and have few arcs there, whose inner products K[a, b] = Σ_j mu_j ⟨x_aj,
x_bj⟩ are all that steps need: mass θ gains θ·df − ½cθ²·quad, most at θ = df/(c·quad), where quad =
zᵀKz for the arcs z that come and go, and scores change by −cθ·Kz. Scores are sums of `product`,
−mu·V, over the features of an arc; V, N and `product` follow at the end, arc by arc.

With the log loss the distribution has an entropy, which is no closed function of its arc marginals.
So the dual variables are arc scores s with α ∝ exp(s), and a block update is a step of
exponentiated gradient: the marginals m and log Z come from the matrix-tree theorem or from
inside-outside, and H(α) = log Z(s) − ⟨m, s⟩. It

1. computes the scores θ of all arcs under w, and their log Z and marginals;
2. moves s ← (1 − γ)·s + γ·θ and adds the change of the marginals to V. γ is 2·gap / (2·gap + quad),
   with the curvature of the whole step, halved until the dual rises: N gives its change exactly;
3. returns the block's duality gap, log Z(θ) − ⟨m, θ⟩ − H(α) = KL(α ‖ p_w).

References
----------
Collins, Globerson, Koo, Carreras, Bartlett: Exponentiated gradient algorithms for conditional
random fields and max-margin Markov networks, JMLR 2008.
"""

from abc import ABC, abstractmethod
from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inlined_kernel, inner_kernel, kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import Stateful
from mtlstruct.linear.design import PREFETCH_DISTANCE, prefetch
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step
from mtlstruct.structures.tree import arc_rows, arc_starts
from mtlstruct.structures.tree_decoding import best_nonprojective, best_projective
from mtlstruct.structures.tree_marginals import inside_outside, matrix_tree

TREE_CAPACITY = 128
"""Trees kept of a sentence, at most: where data are few or c is large, long sentences come to have
mass on many, and with room for 32 they gave up what they had gained, again and again."""

GOLD_SCORE = 14.0
"""Score of gold's arcs to begin with, where all others have 0: gold, to within 1e-6 per arc."""

MIN_CHANGE = np.float32(1e-5)
"""Changes of a marginal below this are not added to V."""

MAX_HALVINGS = 4
"""Steps that are tried, each half of the one before; if none raises the dual, the sentence stays as
it was."""

_NO_GOLD = np.zeros(0, np.int32)

Trees = namedtuple("Trees", "scores marginals entropy")
"""Arc scores float32[rows, 1], their marginals float64[rows, 1], entropies float64[sentences]."""

ArcScratch = namedtuple("ArcScratch", "ptr log_z theta mixed found applied buffer")
"""Workspace: bounds and log Z of one sentence, three tables of arcs, changes, and weights."""

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


class ArcDual(Stateful, ABC):
    """Base of the dual variables of trees: arcs, V and spans."""

    state_fields = ("trees",)
    shares_singletons: ClassVar[bool] = False
    trees: Any
    work: Any

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        self.oracle, self.ptr = oracle, oracle.encoded.ptr
        structure: Any = oracle.structure
        (design,) = oracle.encoded.designs
        table = np.zeros((design.layout.attributes + 1, 2), np.int32)
        table[:, 1] = design.layout.attribute_blocks
        self.design = design
        self.arcs = ArcDesign(design.ids, design.ptr, self.ptr, arc_starts(self.ptr), oracle.gold)
        self.values = design.values if len(design.values) else None
        self.primal = Primal(V[0], N, np.zeros(len(table), np.float32), table)
        self.kind = structure.projective, structure.single_root

    def spans(self, shift: int) -> NDArray[np.int64]:
        """Return spans [k, 4] (start, stop, sentence, whether to search): whole sentences."""
        sentences = np.arange(len(self.ptr) - 1)
        return np.stack([self.ptr[:-1], self.ptr[1:], sentences, np.ones_like(sentences)], axis=1)

    def update(
        self, spans: NDArray[np.int64], mu: NDArray[np.float64], step: Step
    ) -> tuple[NDArray[np.float64], float]:
        """Update sentences in turn. Return the gap of each before, and the change of the loss."""
        layout, gaps = self.design.layout, np.zeros(len(spans))
        premultiply(layout.block_ptr, layout.templates, self.primal.V, mu, self.primal.product)
        wrong, data = float(self.oracle.cost[0, 1]), (self.arcs, self.values, self.primal, mu)
        return gaps, self.kernel(spans, self.trees, *data, wrong, step, self.kind, self.work, gaps)

    @abstractmethod
    def kernel(self, *arguments: Any) -> float:
        """Update sentences. Return the change of the loss."""


class TreeDual(ArcDual):
    """Trees with mass of all sentences as a dual state of the coordinate solver."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes of the trees, and three numbers for each, in sentences of six tokens."""
        return int(oracle.tokens) * TREE_CAPACITY * 8

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        super().__init__(oracle, V, N)
        n, shape = np.diff(self.ptr), (oracle.sentences, TREE_CAPACITY)
        heads = np.zeros(oracle.tokens * TREE_CAPACITY, np.int32)
        heads[np.arange(oracle.tokens) + np.repeat(self.ptr[:-1] * (TREE_CAPACITY - 1), n)] = oracle.gold
        self.trees = Forest(heads, np.zeros(shape), np.zeros(shape), np.ones(oracle.sentences, np.int64))
        self.trees.mass[:, 0] = 1
        self.work = scratch(int(n.max(initial=1)), TREE_CAPACITY)

    def kernel(self, *arguments: Any) -> float:
        """Update sentences. Return the change of the loss."""
        return float(take_pairwise_steps(*arguments))

    def active(self) -> NDArray[np.int64]:
        """Return the sentences that have several trees, not to be searched."""
        spans: NDArray[np.int64] = self.spans(0)[self.trees.kept > 1]
        spans[:, 3] = 0
        return spans

    def repair(self) -> None:
        """Make the mass of each sentence sum to one again after rounding."""
        mass = self.trees.mass
        np.maximum(mass, 0, out=mass)
        mass /= mass.sum(axis=1, keepdims=True)

    def counts(self) -> tuple[NDArray[np.float32]]:
        """Arc counts of (dual − gold). float32[rows, 1]"""
        out = np.zeros((self.design.rows, 1), np.float32)
        arc_counts(self.ptr, self.arcs.first_row, self.trees, self.arcs.gold, out)
        return (out,)

    def loss(self, arcs: NDArray[np.float32]) -> float:
        """Return the expected cost from the arc counts: the mass on arcs other than gold's."""
        return float(self.oracle.cost[0, 1]) * float(arcs[arcs > 0].sum(dtype=np.float64))


class SmoothTreeDual(ArcDual):
    """Arc scores and marginals of all sentences as a dual state of the coordinate solver."""

    losses: ClassVar[tuple[str, ...]] = ("log",)

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes of scores, marginals and part counts."""
        return 20 * oracle.encoded.designs[0].rows

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        super().__init__(oracle, V, N)
        self.first_arc = arc_rows(self.ptr)
        self.gold_arc = self.first_arc + oracle.gold
        rows, longest = self.design.rows, int(np.diff(self.ptr).max(initial=1))
        self.trees = Trees(np.zeros((rows, 1), np.float32), np.zeros((rows, 1)), np.zeros(oracle.sentences))
        self.trees.scores[self.gold_arc] = GOLD_SCORE
        self.trees.marginals[self.gold_arc] = 1
        theta, mixed, applied = np.zeros((3, longest * (longest + 1), 1), np.float32)
        buffer, found = np.zeros_like(self.primal.product), np.zeros(theta.shape)
        self.work = ArcScratch(np.zeros(2, np.int64), np.zeros(1), theta, mixed, found, applied, buffer)

    def kernel(self, *arguments: Any) -> float:
        """Update sentences. Return the change of the entropies."""
        return float(take_gradient_steps(*arguments))

    def set_distributions(self, parts: Any) -> None:
        """Set each distribution to exp(score), normalised, for part scores `parts`."""
        self.trees.scores[:] = parts[0]
        self.repair()

    def repair(self) -> None:
        """Recompute marginals and entropies from the scores."""
        scores, marginals, entropy = self.trees
        first_row, (projective, single) = self.arcs.first_row, self.kind
        log_z = np.zeros(len(entropy))

        def work(first: int, last: int) -> None:
            rows = slice(first_row[first], first_row[last])
            run = inside_outside if projective else matrix_tree
            run(first, last, self.ptr, scores[rows], 1.0, _NO_GOLD, single, marginals[rows], log_z)

        threads.over_sentences(work, self.ptr)
        expected = np.concatenate([[0.0], np.cumsum(marginals[:, 0] * scores[:, 0])])
        entropy[:] = log_z - np.diff(expected[first_row])

    def counts(self) -> tuple[NDArray[np.float32]]:
        """Return arc counts of (dual − gold), float32[rows, 1]; gold's arc has minus all others."""
        found = self.trees.marginals[:, 0].copy()
        found[self.gold_arc] = 0
        found[self.gold_arc] = -np.add.reduceat(found, self.first_arc) if len(found) else 0
        return (found.astype(np.float32)[:, None],)

    def loss(self, arcs: NDArray[np.float32]) -> float:
        """Return the sum of the entropies."""
        return float(self.trees.entropy.sum())


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
    """Write the expected arcs of the dual, less those of gold, to `out`."""
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


# ---------------------------------------------------------------- exponentiated gradient


@fast_kernel
def take_gradient_steps(spans, trees, arcs, values, primal, mu, wrong, step, kind, work, gaps):
    """Update sentences in turn; write gaps before. Return the change of the entropies."""
    total = 0.0
    c = step.c
    for k in range(len(spans)):
        i, n = spans[k, 2], spans[k, 1] - spans[k, 0]
        first, rows = arcs.first_row[i], n * (n + 1)
        s, m = trees.scores[first : first + rows], trees.marginals[first : first + rows]
        theta, mixed, found, applied = work.theta, work.mixed, work.found, work.applied
        gap = -trees.entropy[i]
        for r in range(rows):
            theta[r, 0] = score_arc(arcs.ids, arcs.ptr, values, first + r, primal.product)
            gap -= m[r, 0] * theta[r, 0]
        gap += _infer(n, theta, kind, found, work)
        gaps[k] = max(0.0, gap)
        if gap <= step.tolerance:
            continue
        for r in range(rows):
            applied[r, 0] = found[r, 0] - m[r, 0]
        curvature = _curvature(first, rows, arcs, values, primal, mu, applied, work.buffer)
        gamma = 2 * gap / (2 * gap + c * curvature)
        for r in range(rows):
            applied[r, 0] = 0
        change = 0.0
        rise = 0.0
        for trial in range(MAX_HALVINGS + 1):
            if trial == MAX_HALVINGS:
                gamma = 0.0
            for r in range(rows):
                mixed[r, 0] = (1 - gamma) * s[r, 0] + gamma * theta[r, 0]
            change = _infer(n, mixed, kind, found, work) - trees.entropy[i]
            for r in range(rows):
                change -= found[r, 0] * mixed[r, 0]
                d = np.float32(found[r, 0] - m[r, 0])
                d = d if abs(d) > MIN_CHANGE else np.float32(0)
                if d != applied[r, 0]:
                    rise += add_arc(first + r, np.float32(c) * (d - applied[r, 0]), arcs, values, primal, mu)
                    applied[r, 0] = d
            if c * change >= 0.5 * rise:
                break
            gamma *= 0.5
        for r in range(rows):
            s[r, 0], m[r, 0] = mixed[r, 0], found[r, 0]
        trees.entropy[i] += change
        total += change
    return total


@inner_kernel
def _infer(n, scores, kind, found, work):
    """Compute the marginals of a sentence of n tokens. Return log Z."""
    work.ptr[1] = n
    for r in range(n * (n + 1)):
        found[r, 0] = 0
    if kind[0]:
        inside_outside(0, 1, work.ptr, scores, 1.0, _NO_GOLD, kind[1], found, work.log_z)
    else:
        matrix_tree(0, 1, work.ptr, scores, 1.0, _NO_GOLD, kind[1], found, work.log_z)
    return work.log_z[0]


@inner_kernel
def _curvature(first, rows, arcs, values, primal, mu, delta, buffer):
    """Return Σ_j mu_j ‖Aᵀδ‖²_j; `buffer` is zero before and after."""
    null = len(primal.product) - 1
    for r in range(rows):
        if abs(delta[r, 0]) > MIN_CHANGE:
            for k in range(arcs.ptr[first + r], arcs.ptr[first + r + 1]):
                x = np.float32(1) if values is None else values[k]
                buffer[np.uint64(arcs.ids[k])] += x * delta[r, 0]
    total = 0.0
    for r in range(rows):
        if abs(delta[r, 0]) > MIN_CHANGE:
            for k in range(arcs.ptr[first + r], arcs.ptr[first + r + 1]):
                f = np.uint64(arcs.ids[k])
                if f != null:
                    total += mu[primal.table[f, 1]] * buffer[f] * buffer[f]
                buffer[f] = 0
    return total
