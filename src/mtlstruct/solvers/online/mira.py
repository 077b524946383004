"""MIRA, MSTParser's learner: one sentence after the other, each time the least change that puts gold ahead.

For the output ŷ that is best now, loss added, w moves to the nearest point at which gold scores better than ŷ by
at least the loss: w += τ·δ with δ = Φ(y) − Φ(ŷ) and τ = (Δ − w·δ)/‖δ‖², at most c. What is returned is the average
of w over all visits, which is what makes it work. (The 1-best form; it asks the oracle for nothing else, so it learns
whatever has a search.)

It minimises no objective, and nothing about its weights is proved: the result comes with the value of the SVM's
objective at them and the lower bound 0, so with a gap of 100 %, and is never called converged.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from mtlstruct._system.stateful import Keeper, Kept
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Callback,
    Fit,
    Record,
    Start,
    check_finite,
    relative,
    run_passes,
    score_bytes,
    table_bytes,
)


@dataclass(frozen=True)
class Mira:
    """The learner. `epochs` passes over the data, in an order that `seed` draws."""

    epochs: int = 10
    seed: int = 0
    needs: tuple[str, ...] = ("site_ptr",)

    def memory(self, oracle: Oracle) -> int:
        """w, the sum that its average is made of, room for a difference, and the part scores."""
        return 3 * table_bytes(oracle) + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Regularizer,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """All epochs, or as many as the callback allows."""
        random = np.random.Generator(np.random.PCG64(self.seed))
        run = _Run(oracle, c, random, None if init is None else init.weights)

        def epoch() -> Record:
            record = _record(run, regularizer, run.epoch())
            check_finite(run.epochs, objective=record.objective)
            return record

        run_passes(run, epoch, lambda: run.epochs >= self.epochs, callback, checkpointer)
        return _result(run.epochs, oracle, run.average(), regularizer, c)


class _Run(Kept):
    """w, and late = Σ (visits before a change)·(change): the average of w over the visits is w − late/visits."""

    kept = ("w", "late", "random", "visits", "epochs")

    def __init__(
        self, oracle: Oracle, c: float, random: np.random.Generator, weights: Weights | None = None
    ) -> None:
        self.oracle, self.c, self.random = oracle, c, random
        self.w = oracle.zeros() if weights is None else weights
        self.late, self.room = oracle.zeros(), oracle.zeros()
        self.visits = self.epochs = 0

    def epoch(self) -> float:
        """One pass; returns the hinges that were met, summed."""
        self.epochs += 1
        return sum(self.visit(i) for i in self.random.permutation(self.oracle.sentences).tolist())

    def visit(self, sentence: int) -> float:
        """One sentence; returns its hinge before the step."""
        found = self.oracle.violated(sentence, self.w)
        short = found.loss - found.margin
        distance = self.oracle.squared_distance(found, self.room) if short > 0 else 0.0
        if distance > 0:
            size = min(self.c, short / distance)
            self.oracle.step(found, size, self.w)
            self.oracle.step(found, size * self.visits, self.late)
        self.visits += 1
        return max(0.0, short)

    def average(self) -> Weights:
        """The mean of w over all visits; ends the run."""
        for u, late in zip(self.w, self.late, strict=True):
            late /= self.visits
            u -= late
        return self.w

    def __copy__(self) -> _Run:
        other = _Run.__new__(_Run)
        other.__dict__.update(self.__dict__)
        other.w, other.late = [u.copy() for u in self.w], [late.copy() for late in self.late]
        return other


def _record(run: _Run, regularizer: Regularizer, risk: float) -> Record:
    """An epoch as the log keeps it: the hinges are those met on the way, so nothing is certified."""
    oracle, epoch = run.oracle, run.epochs
    objective = regularizer.value(np.sqrt(oracle.squared_norms(run.w))) + run.c * risk
    gap, mean, active = relative(objective, 0.0), risk / oracle.sentences, oracle.templates

    def now() -> Fit:
        return _result(epoch, oracle, copy(run).average(), regularizer, run.c)

    return Record(epoch, objective, 0.0, gap, mean, active, False, now)


def _result(epoch: int, oracle: Oracle, w: Weights, regularizer: Regularizer, c: float) -> Fit:
    """The weights with the objective that they do not minimise; 0 is below every objective, and no more is known."""
    ones = np.ones(oracle.templates)
    value = regularizer.value(np.sqrt(oracle.squared_norms(w)))
    objective = value + c * oracle.hinge(oracle.score(w, ones)).total
    return Fit.bounded(w, ones, ones, (objective, 0.0), c * oracle.sentences, epoch, False)
