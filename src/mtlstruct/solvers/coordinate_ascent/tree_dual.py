"""The dual of a tree, kept as a few trees with mass on them; tree_kernels.py has the kernels.

The dual variables of a sentence are a distribution over its trees. Trees have no trellis to make it
a flow on, but few of them ever carry mass, so those are kept: gold to begin with, then what the
search found to be violated. A visit may search, once, and takes the found tree in; then mass moves
from the worst tree to the best by exact steps. A tree that has had no mass for a while is
forgotten.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Stateful
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.tree_kernels import (
    Forest,
    Scratch,
    arc_arrays,
    arc_counts,
    improve,
    premultiply,
    score_arcs,
)
from mtlstruct.structures.tree_decoding import best_nonprojective, best_projective

STEPS_PER_ROUND = 4
"""Pairwise steps for each round that the solver allows: they cost little beside the search."""

TREE_CAPACITY = 128
"""Trees kept of a sentence, at most: where data are few or c is large, long sentences come to have
mass on many, and with room for 32 they gave up what they had gained, again and again."""


class TreeDual(Stateful):
    """Trees with mass of all sentences as a dual state of the coordinate solver."""

    state_fields = ("forest",)
    shares_singletons: ClassVar[bool] = False
    losses: ClassVar[tuple[str, ...]] = ("hinge",)

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes of the trees, and three numbers for each, in sentences of six tokens."""
        return int(oracle.tokens) * TREE_CAPACITY * 8

    def __init__(self, oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> None:
        self.oracle = oracle
        (self.design,) = oracle.encoded.designs
        ptr = oracle.encoded.ptr
        self.forest = _gold_forest(oracle.gold, ptr)
        self.arcs, self.primal = arc_arrays(oracle, V, N)
        self.work = _scratch(int(np.diff(ptr).max(initial=1)))

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Return spans [k, 4] (start, stop, sentence, search): whole sentences."""
        ptr = self.arcs.sentence
        return np.stack([ptr[sentences], ptr[sentences + 1], sentences, np.ones_like(sentences)], axis=1)

    def active(self) -> NDArray[np.int64]:
        """Sentences that have several trees, not to be searched."""
        spans = self.spans(np.flatnonzero(self.forest.kept > 1), 0)
        spans[:, 3] = 0
        return spans

    def update(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> tuple[NDArray[np.float64], float]:
        """Update sentences in turn, each until its gap is below tolerance or `enough` of before."""
        premultiply(
            self.design.layout.block_ptr, self.design.layout.templates, self.primal.V, mu, self.primal.product
        )
        wrong = float(self.oracle.cost[0, 1])
        gaps = np.zeros(len(spans))
        loss = 0.0
        for number, (sentence, search) in enumerate(spans[:, 2:].tolist()):
            found = self._search(sentence, wrong) if search else _NONE
            gaps[number], change = improve(
                sentence, found, self.forest, self.arcs, self.primal, self.work, mu, wrong, float(c),
                STEPS_PER_ROUND * rounds, float(tolerance), float(enough),
            )  # fmt: skip
            loss += change
        return gaps, loss

    def _search(self, sentence: int, wrong: float) -> NDArray[np.int32]:
        """The most violated tree of a sentence; leaves its arc scores in the scratch."""
        start, stop = self.arcs.sentence[sentence : sentence + 2].tolist()
        n = stop - start
        first = int(self.arcs.first_row[sentence])
        score_arcs(first, n * (n + 1), self.arcs.ids, self.arcs.ptr, self.primal.product, self.work.scores)
        found, value = np.empty(n, np.int32), np.empty(1)
        kind: Any = self.oracle.structure
        search, gold = best_projective if kind.projective else best_nonprojective, self.arcs.gold[start:stop]
        scores, ptr = self.work.scores, np.array([0, n])
        search(0, 1, ptr, scores, 0, 1.0, gold, float(wrong), kind.single_root, found, value)
        return found

    def repair(self) -> None:
        """Mass sums to one again, whatever rounding has done."""
        mass = self.forest.mass
        np.maximum(mass, 0, out=mass)
        mass /= mass.sum(axis=1, keepdims=True)

    def counts(self) -> tuple[NDArray[np.float32]]:
        """Arc counts of (dual − gold). float32[rows, 1]"""
        out = np.zeros((self.design.rows, 1), np.float32)
        arc_counts(self.arcs.sentence, self.arcs.first_row, self.forest, self.arcs.gold, out)
        return (out,)

    def loss(self, arcs: NDArray[np.float32]) -> float:
        """Return the expected cost from the arc counts: the mass on arcs other than gold's."""
        return float(self.oracle.cost[0, 1]) * float(arcs[arcs > 0].sum(dtype=np.float64))


_NONE = np.zeros(0, np.int32)
"""No search was made."""


def _gold_forest(gold: NDArray[np.int32], ptr: NDArray[np.int64]) -> Forest:
    """One tree a sentence, with all the mass."""
    sentences = len(ptr) - 1
    heads = np.zeros(len(gold) * TREE_CAPACITY, np.int32)
    n = np.diff(ptr)
    heads[np.arange(len(gold)) + np.repeat(ptr[:-1] * (TREE_CAPACITY - 1), n)] = gold
    mass = np.zeros((sentences, TREE_CAPACITY))
    mass[:, 0] = 1
    idle = np.zeros((sentences, TREE_CAPACITY), np.int64)
    return Forest(heads, mass, np.zeros((sentences, TREE_CAPACITY)), idle, np.ones(sentences, np.int64))


def _scratch(longest: int) -> Scratch:
    return Scratch(
        scores=np.zeros((longest * (longest + 1), 1), np.float32),
        loose=np.zeros(longest, np.int64),
        arc=np.zeros((TREE_CAPACITY, longest), np.int64),
        row=np.zeros(TREE_CAPACITY * longest, np.int64),
        score=np.zeros(TREE_CAPACITY * longest),
        value=np.zeros(TREE_CAPACITY),
    )
