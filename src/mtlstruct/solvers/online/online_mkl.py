"""OnlineMKL (Martins and others 2010): a gradient step and a proximal step for each sentence, epoch after epoch.

    w ← w − η·(Φ(ŷ) − Φ(y_i)),  ŷ the most violated outputs of sentence i
    w ← argmin over w' of ½‖w' − w‖² + η·λ·Ω(w'),  λ = 1/(c·n)

Ω is a function of block norms, so the second step only shortens blocks. With w_j = scale_j·u_j it changes m numbers,
and the whole visit touches no more weights than the sentence has features. `dense` multiplies every weight instead,
as the paper counts the cost of this method.

η is the same throughout an epoch, η₀/√epoch. η₀ is the one of RATES that does best on the first sentences. The result
is the last w, not an average. It is not stopped by a gap, but it ends with one: the most violated outputs of the
later half of the epochs, each with the same weight, are a feasible point of the dual.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Keeper, Kept
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Proximable
from mtlstruct.solvers.base import (
    Callback,
    Fit,
    Record,
    Start,
    Stop,
    active_templates,
    check_finite,
    run_passes,
    score_bytes,
    table_bytes,
)

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The η₀ that are tried."""

SAMPLE = 1000
"""Sentences that each η₀ is tried on."""

SMALL = 1e-12
"""A scale below this is multiplied into the block, so that it cannot vanish."""

RECENT = 64
"""Visits that are remembered: a block that falls to zero is cleared where they touched it, if it is no older."""


@dataclass(frozen=True)
class Proximal:
    """The learner: `stop.max_passes` epochs. `rate` is η₀ (None: found by trial), `dense` the costly second step."""

    stop: Stop = field(default_factory=lambda: Stop(max_passes=20))
    seed: int = 0
    dense: bool = False
    rate: float | None = None
    needs: tuple[str, ...] = ("site_ptr", "prox")

    def memory(self, oracle: Oracle) -> int:
        """Weights, v of the certificate, part scores, and the outputs of half the epochs."""
        kept = (1 + self.stop.max_passes // 2) * oracle.gold.nbytes
        return 2 * table_bytes(oracle) + score_bytes(oracle) + kept

    def fit(
        self,
        oracle: Oracle,
        regularizer: Proximable,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Epochs over the sentences in random order."""
        run = Run(oracle, regularizer, c, self.dense, None if init is None else init.weights)
        course = _Course(run, self.seed)

        def epoch() -> Record:
            if course.rate is None:
                order = course.random.permutation(oracle.sentences)
                course.rate = self.rate or best_rate(oracle, regularizer, c, order[:SAMPLE])
            slack = course.epoch(course.rate)
            check_finite(course.epochs, sum_of_slacks=slack, norm=run.omega())
            return run.record(course.epochs, slack, self.stop)

        run_passes(course, epoch, lambda: course.epochs >= self.stop.max_passes, callback, checkpointer)
        return run.result(course.epochs, course.later, self.stop)


def best_rate(oracle: Oracle, regularizer: Proximable, c: float, some: NDArray[np.int64]) -> float:
    """The η₀ with the least objective after one visit to each of these sentences, by the slack of the later half."""

    def value(rate: float) -> float:
        run = Run(oracle, regularizer, c, dense=False)
        half = len(some) // 2
        run.epoch(some[:half], rate)
        slack = run.epoch(some[half:], rate)
        return run.omega() / (c * oracle.sentences) + slack / max(1, len(some) - half)

    return min(RATES, key=value)


class _Course(Kept):
    """The epochs so far: the random order, η₀, and the outputs of their later half."""

    kept = ("run", "random", "rate", "epochs", "later")

    def __init__(self, run: Run, seed: int) -> None:
        self.run, self.random = run, np.random.Generator(np.random.PCG64(seed))
        self.rate: float | None = None
        self.epochs = 0
        self.later: list[NDArray[np.int32]] = []

    def epoch(self, rate: float) -> float:
        """One more from this η₀; the sum of the slacks as they were met."""
        self.epochs += 1
        order = self.random.permutation(self.run.oracle.sentences)
        slack = self.run.epoch(order, rate / self.epochs**0.5)
        self.later = [*self.later, self.run.outputs.copy()][-(self.epochs + 1) // 2 :]
        return slack


class Run(Kept):
    """w as (u, scale), the squared norms of u, and the outputs of the last visits."""

    kept = ("u", "scale", "N", "outputs", "touched", "age")

    def __init__(
        self, oracle: Oracle, regularizer: Proximable, c: float, dense: bool, weights: Weights | None = None
    ) -> None:
        self.oracle, self.regularizer, self.c, self.dense = oracle, regularizer, c, dense
        self.u = oracle.zeros() if weights is None else weights
        self.scale = np.ones(oracle.templates)
        self.N = oracle.squared_norms(self.u)
        self.outputs = oracle.gold.copy()
        self.touched: deque[list[NDArray[np.integer]]] = deque(maxlen=RECENT)  # rows, for each kind
        self.age = np.full(oracle.templates, RECENT)

    def epoch(self, order: NDArray[np.int64], rate: float) -> float:
        """A visit to each sentence; the sum of the slacks as they were met."""
        step = rate / (self.c * self.oracle.sentences)
        return sum(self._visit(i, rate, step) for i in order.tolist())

    def _visit(self, sentence: int, rate: float, step: float) -> float:
        found = self.oracle.violated(sentence, self.u, self.scale)
        first, last = self.oracle.encoded.ptr[sentence : sentence + 2]
        self.outputs[first:last] = found.outputs
        self.oracle.step_scaled(found, rate / self.scale, self.u, self.N)
        self.touched.append([some.row for some in found.difference])
        self.age += 1
        before = self._own()
        after = self.regularizer.prox(before, step)
        self._shorten(np.divide(after, before, out=np.ones_like(before), where=before > 0))
        return max(0.0, found.loss - found.margin)

    def _shorten(self, factor: NDArray[np.float64]) -> None:
        """w_j ← factor_j·w_j."""
        self._clear(factor == 0)
        self.scale *= np.where(factor == 0, 1.0, factor)
        small = np.ones(len(factor), bool) if self.dense else self.scale < SMALL
        for j in np.flatnonzero(small).tolist():
            block = self.oracle.block(self.u, j)
            block *= block.dtype.type(self.scale[j])
            self.N[j] *= self.scale[j] ** 2
            self.scale[j] = 1.0

    def _clear(self, gone: NDArray[np.bool_]) -> None:
        """Sets blocks to zero; a young one only where the visits since its birth have touched it."""
        young = gone & (self.age < RECENT) & (not self.dense)
        for j in np.flatnonzero(gone & ~young).tolist():
            self.oracle.block(self.u, j)[:] = 0
        for age in range(1, 1 + int(self.age[young].max(initial=0))):
            self.oracle.clear(self.u, young & (self.age >= age), self.touched[-age])
        self.N[gone], self.scale[gone], self.age[gone] = 0.0, 1.0, 0

    def omega(self) -> float:
        """Ω(w)."""
        return self.regularizer.value(self._own())

    def record(self, epoch: int, slack: float, stop: Stop) -> Record:
        """The epoch as the log keeps it: its objective is made of slacks as they were met, so it is an estimate."""
        objective = self.omega() + self.c * slack
        active = active_templates(self._mu())
        now = partial(self.result, epoch, [], stop)
        return Record(epoch, objective, 0.0, 1.0, slack / self.oracle.sentences, active, False, now)

    def result(self, epochs: int, later: list[NDArray[np.int32]], stop: Stop) -> Fit:
        """The last w, and both bounds computed from scratch."""
        oracle, C = self.oracle, self.c * self.oracle.sentences
        objective = self.omega() + self.c * oracle.hinge(oracle.score(self.u, self.scale)).total
        dual = self._dual(later)
        converged = stop.reached(objective, dual, C)
        return Fit.bounded(self.u, self.scale, self._mu(), (objective, dual), C, epochs, converged)

    def _dual(self, later: list[NDArray[np.int32]]) -> float:
        """The dual at the mean of these outputs, shrunk towards gold as far as helps; 0 without any."""
        if not later:
            return 0.0
        oracle = self.oracle
        counts = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
        loss = 0.0
        for outputs in later:
            loss += oracle.loss(outputs) / len(later)
            for some, table in zip(oracle.indicator(outputs), counts, strict=True):
                some.add_to(table, self.c / len(later))
        v = oracle.zeros()
        oracle.count(counts, v)
        norms = np.sqrt(oracle.squared_norms(v))
        return max(0.0, self.regularizer.lower_bound(self.c * loss, norms))

    def _own(self) -> NDArray[np.float64]:
        return self.scale * np.sqrt(np.maximum(self.N, 0.0))

    def _mu(self) -> NDArray[np.float64]:
        own = self._own()
        return self.regularizer.weights(own) if own.any() else self.regularizer.start(len(own))
