"""MIRA, as in MSTParser: per sentence the least change of w that puts gold ahead.

Crammer and Singer, "Ultraconservative online algorithms for multiclass problems" (JMLR 2003);
McDonald, Crammer and Pereira, "Online large-margin training of dependency parsers" (ACL 2005); the
1-best form. For the best output ŷ with its loss added, w moves to the nearest point at which gold
scores better than ŷ by at least the loss: w += τ·δ with δ = Φ(y) − Φ(ŷ) and τ = (Δ − w·δ)/‖δ‖², at
most c. The result is the average of w over all updates.

MIRA minimises no objective and has no certificate: the result has the objective of the SVM at its
weights and the lower bound 0, so a gap of 100 %, and never counts as converged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Fit,
    Record,
    Solver,
    SolverRun,
    Start,
    check_finite,
    relative,
    score_bytes,
    table_bytes,
)


@dataclass(frozen=True)
class Mira(Solver):
    """Solver by MIRA: `epochs` passes over the data, in a random order drawn from `seed`."""

    epochs: int = 10
    seed: int = 0
    needs: tuple[str, ...] = ("site_ptr",)

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of w, its average and sum, a workspace, and the part scores."""
        return 4 * table_bytes(oracle) + score_bytes(oracle)

    def start(self, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None) -> _MiraRun:
        """Return the run before the first epoch."""
        return _MiraRun(self, oracle, regularizer, c, init)


class _MiraRun(SolverRun):
    """w and delayed = Σ (updates before)·(change): the average of w is w − delayed/updates."""

    state_fields = ("w", "delayed", "random", "updates", "epochs")

    def __init__(
        self, solver: Mira, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        self.solver, self.oracle, self.regularizer, self.c = solver, oracle, regularizer, c
        self.random = np.random.Generator(np.random.PCG64(solver.seed))
        self.w = oracle.zeros() if init is None else init.weights
        self.delayed, self.workspace = oracle.zeros(), oracle.zeros()
        self.updates = self.epochs = 0

    def advance(self) -> Record:
        """Run one epoch. Hinges are of changing weights, so the record is not certified."""
        self.epochs += 1
        order = self.random.permutation(self.oracle.sentences).tolist()
        hinges = sum(self.update(sentence) for sentence in order)
        objective, oracle = self._omega(self.w) + self.c * hinges, self.oracle
        check_finite(self.epochs, objective=objective)
        gap, mean = relative(objective, 0.0), hinges / oracle.sentences
        return Record(self.epochs, objective, 0.0, gap, mean, oracle.templates, False, self.result)

    def ended(self) -> bool:
        """Return whether all epochs are over."""
        return self.epochs >= self.solver.epochs

    def update(self, sentence: int) -> float:
        """Update w on one sentence; return its hinge before the update."""
        found = self.oracle.violated(sentence, self.w)
        hinge = found.loss - found.margin
        distance = self.oracle.squared_distance(found, self.workspace) if hinge > 0 else 0.0
        if distance > 0:
            size = min(self.c, hinge / distance)
            self.oracle.step(found, size, self.w)
            self.oracle.step(found, size * self.updates, self.delayed)
        self.updates += 1
        return max(0.0, hinge)

    def average(self) -> Weights:
        """Return the mean of w over all updates."""
        return [u - delayed / self.updates for u, delayed in zip(self.w, self.delayed, strict=True)]

    def result(self) -> Fit:
        """Return the average with the objective of the SVM and the trivial lower bound 0."""
        oracle, w, ones = self.oracle, self.average(), np.ones(self.oracle.templates)
        objective = self._omega(w) + self.c * oracle.hinge(oracle.score(w, ones)).total
        return Fit.bounded(w, ones, ones, (objective, 0.0), self.c * oracle.sentences, self.epochs, False)

    def _omega(self, w: Weights) -> float:
        return self.regularizer.value(np.sqrt(self.oracle.squared_norms(w)))
