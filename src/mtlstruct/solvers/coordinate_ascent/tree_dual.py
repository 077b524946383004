"""The dual variables of trees, for the hinge and for the log loss.

The dual variables of a sentence are a distribution over its trees. With the hinge few trees ever
carry mass, so those are kept: gold to begin with, then what the search found to be violated. A
block update may search, once, and takes the found tree in; then mass moves from the worst tree to
the best by exact steps. A tree without mass is forgotten. (`tree_kernels`)

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

from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import Stateful
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step
from mtlstruct.solvers.coordinate_ascent.tree_kernels import (
    ArcDesign,
    Forest,
    Primal,
    add_arc,
    arc_counts,
    premultiply,
    score_arc,
    scratch,
    take_pairwise_steps,
)
from mtlstruct.structures.tree import arc_rows, arc_starts
from mtlstruct.structures.tree_marginals import inside_outside, matrix_tree

TREE_CAPACITY = 128
"""Trees kept of a sentence, at most: where data are few or c is large, long sentences come to have
mass on many, and with room for 32 they gave up what they had gained, again and again."""

GOLD_SCORE = 14.0
"""Score of gold's arcs to begin with, where all others have 0: gold, to within 1e-6 per arc."""

MIN_CHANGE = np.float32(1e-5)
"""Changes of a marginal below this are not added to V."""

MAX_HALVINGS = 4
"""Steps that are tried; after the last the sentence stays as it was."""

_NO_GOLD = np.zeros(0, np.int32)

Trees = namedtuple("Trees", "scores marginals entropy")
"""Arc scores float32[rows, 1], their marginals float64[rows, 1], entropies float64[sentences]."""

ArcScratch = namedtuple("ArcScratch", "ptr log_z theta mixed found applied buffer")
"""Workspace: bounds and log Z of one sentence, three tables of arcs, changes, and weights."""


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


class ArcDual(Stateful):
    """What the dual variables of trees with any loss have in common: arcs, V and spans."""

    state_fields = ("trees",)
    shares_singletons: ClassVar[bool] = False
    kernel: Any
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
        return gaps, float(self.kernel(spans, self.trees, *data, wrong, step, self.kind, self.work, gaps))


class TreeDual(ArcDual):
    """Trees with mass of all sentences as a dual state of the coordinate solver."""

    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    kernel = staticmethod(take_pairwise_steps)

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

    def active(self) -> NDArray[np.int64]:
        """Return the sentences that have several trees, not to be searched."""
        spans: NDArray[np.int64] = self.spans(0)[self.trees.kept > 1]
        spans[:, 3] = 0
        return spans

    def repair(self) -> None:
        """Mass sums to one again, whatever rounding has done."""
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
    kernel = staticmethod(take_gradient_steps)

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
