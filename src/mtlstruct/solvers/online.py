"""Online methods, which update w after each sentence: OnlineMKL and MIRA.

OnlineMKL takes a subgradient step and a proximal step per sentence (Martins, Smith, Xing, Aguiar
and Figueiredo, "Online multiple kernel learning for structured prediction", 2010).

    w ← w − η·(Φ(ŷ) − Φ(y_i)),  ŷ the most violated outputs of sentence i
    w ← argmin over w' of ½‖w' − w‖² + η·λ·Ω(w'),  λ = 1/(c·n)

Ω is a function of block norms, so the proximal step only shortens blocks. With w_j = scale_j·u_j it
changes m numbers, and an update touches no more weights than the sentence has features. `dense`
multiplies every weight instead, as the paper counts the cost of this method.

η is η₀/√epoch; η₀ is the one of RATES that does best on the first sentences. The result is the last
w, not an average. No gap stops the run, but it ends with one: the most violated outputs of the
later half of the epochs, equally weighted, are a feasible point of the dual.

MIRA takes per sentence the least change of w that puts gold ahead (Crammer and Singer,
"Ultraconservative online algorithms for multiclass problems", JMLR 2003; McDonald, Crammer and
Pereira, "Online large-margin training of dependency parsers", ACL 2005; the 1-best form of
MSTParser). For the best output ŷ with its loss added, w moves to the nearest point at which gold
scores better than ŷ by at least the loss: w += τ·δ with δ = Φ(y) − Φ(ŷ) and τ = (Δ − w·δ)/‖δ‖², at
most c. The result is the average of w over all updates. MIRA minimises no objective and has no
certificate: the result has the objective of the SVM at its weights and the lower bound 0, so a gap
of 100 %, and never counts as converged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.objective.oracle import Oracle, Violation, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Fit,
    Record,
    Solver,
    SolverRun,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
    score_bytes,
    table_bytes,
)

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Values of η₀ that are tried."""

RATE_SENTENCES = 1000
"""Sentences on which each η₀ is tried."""

MIN_SCALE = 1e-12
"""A scale below this is multiplied into the block, so that it cannot underflow."""


@dataclass(frozen=True)
class Proximal(Solver):
    """Solver by OnlineMKL: `stop.max_passes` epochs with η₀ = `rate` (None: chosen by trial)."""

    stop: Stop = field(default_factory=lambda: Stop(max_passes=20))
    seed: int = 0
    dense: bool = False
    rate: float | None = None
    needs: tuple[str, ...] = ("site_ptr", "prox")

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of weights, certificate, part scores, and outputs of half the epochs."""
        stored = (1 + self.stop.max_passes // 2) * oracle.gold.nbytes
        return 2 * table_bytes(oracle) + score_bytes(oracle) + stored

    def start(self, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None) -> _ProximalRun:
        """Return the run before the first epoch."""
        return _ProximalRun(self, oracle, regularizer, c, init)

    def best_rate(self, oracle: Oracle, regularizer: Any, c: float, some: NDArray[np.int64]) -> float:
        """Return the η₀ with the least objective after one epoch on some sentences.

        The slack is estimated by that of the later half.
        """

        def value(rate: float) -> float:
            run, half = _ProximalRun(self, oracle, regularizer, c, None), len(some) // 2
            run.epoch(some[:half], rate)
            slack = run.epoch(some[half:], rate)
            return run.omega() / (c * oracle.sentences) + slack / max(1, len(some) - half)

        return min(RATES, key=value)


class _OnlineRun(SolverRun):
    """Epochs over the sentences in random orders, and the weights u that they update."""

    def __init__(
        self, solver: Any, oracle: Oracle, regularizer: Any, c: float, init: Start | None, most: int
    ) -> None:
        self.solver, self.oracle, self.regularizer, self.c = solver, oracle, regularizer, c
        self.u = oracle.zeros() if init is None else init.weights
        self.random = np.random.Generator(np.random.PCG64(solver.seed))
        self.epochs, self.max_epochs = 0, most

    def ended(self) -> bool:
        """Return whether all epochs are over."""
        return self.epochs >= self.max_epochs


class _ProximalRun(_OnlineRun):
    """w as (u, scale), squared norms of u, and outputs of the last update of each sentence."""

    state_fields = ("u", "scale", "squares", "outputs", "random", "rate", "epochs", "later_outputs")

    def __init__(
        self, solver: Proximal, oracle: Oracle, regularizer: Any, c: float, init: Start | None
    ) -> None:
        super().__init__(solver, oracle, regularizer, c, init, solver.stop.max_passes)
        self.scale = np.ones(oracle.templates)
        self.squares = oracle.squared_norms(self.u)
        self.outputs = oracle.gold.copy()
        self.rate: float | None = None
        self.later_outputs: list[NDArray[np.int32]] = []  # of the later half of the epochs

    def advance(self) -> Record:
        """Run one epoch, after the choice of η₀. Slacks are of changing weights: an estimate."""
        oracle, c = self.oracle, self.c
        if self.rate is None:
            sample = self.random.permutation(oracle.sentences)[:RATE_SENTENCES]
            self.rate = self.solver.rate or self.solver.best_rate(oracle, self.regularizer, c, sample)
        self.epochs += 1
        slack = self.epoch(self.random.permutation(oracle.sentences), self.rate / self.epochs**0.5)
        omega = self.omega()
        check_finite(self.epochs, sum_of_slacks=slack, norm=omega)
        self.later_outputs = [*self.later_outputs, self.outputs.copy()][-(self.epochs + 1) // 2 :]
        figures = omega + c * slack, 0.0, 1.0, slack / oracle.sentences, active_templates(self._mu())
        return Record(self.epochs, *figures, False, partial(self._fit, []))

    def result(self) -> Fit:
        """Return the last w, with the certificate of the outputs of the later half."""
        return self._fit(self.later_outputs)

    def epoch(self, order: NDArray[np.int64], rate: float) -> float:
        """Update on each sentence; return the sum of the slacks before the updates."""
        step = rate / (self.c * self.oracle.sentences)
        return sum(self._update(i, rate, step) for i in order.tolist())

    def omega(self) -> float:
        """Return Ω(w)."""
        return float(self.regularizer.value(self._norms()))

    def _update(self, sentence: int, rate: float, step: float) -> float:
        found = self.oracle.violated(sentence, self.u, self.scale)
        first, last = self.oracle.encoded.ptr[sentence : sentence + 2]
        self.outputs[first:last] = found.outputs
        self.oracle.step(found, rate / self.scale, self.u, self.squares)
        before = self._norms()
        after = self.regularizer.prox(before, step)
        self._shorten(np.divide(after, before, out=np.ones_like(before), where=before > 0))
        return max(0.0, found.loss - found.margin)

    def _shorten(self, factor: NDArray[np.float64]) -> None:
        """Multiply w_j by factor_j."""
        self.scale *= factor
        due = self.solver.dense | (self.scale < MIN_SCALE)
        for j in np.flatnonzero(due).tolist():
            block = self.oracle.block(self.u, j)
            block *= block.dtype.type(self.scale[j])
            self.squares[j] *= self.scale[j] ** 2
            self.scale[j] = 1.0

    def _fit(self, outputs: list[NDArray[np.int32]]) -> Fit:
        """Return the last w, and both bounds computed from scratch."""
        oracle, C = self.oracle, self.c * self.oracle.sentences
        objective = self.omega() + self.c * oracle.hinge(oracle.score(self.u, self.scale)).total
        dual = self._dual(outputs)
        converged = self.solver.stop.reached(objective, dual, C)
        return Fit.bounded(self.u, self.scale, self._mu(), (objective, dual), C, self.epochs, converged)

    def _dual(self, outputs: list[NDArray[np.int32]]) -> float:
        """Return the dual at the mean of these outputs, scaled towards gold; 0 without any."""
        if not outputs:
            return 0.0
        oracle, share = self.oracle, self.c / len(outputs)
        counts = [np.zeros(shape, np.float32) for shape in oracle.part_shapes()]
        for cut in outputs:
            for triplets, table in zip(oracle.indicator(cut), counts, strict=True):
                triplets.add_to(table, share)
        v = oracle.zeros()
        oracle.count(counts, v)
        gain = share * sum(map(oracle.loss, outputs))
        return max(0.0, float(self.regularizer.lower_bound(gain, np.sqrt(oracle.squared_norms(v)))))

    def _norms(self) -> NDArray[np.float64]:
        return self.scale * np.sqrt(np.maximum(self.squares, 0.0))

    def _mu(self) -> NDArray[np.float64]:
        norms = self._norms()
        return np.asarray(
            self.regularizer.weights(norms) if norms.any() else self.regularizer.start(len(norms))
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


class _MiraRun(_OnlineRun):
    """u and delayed = Σ (updates before)·(change): the average of u is u − delayed/updates."""

    state_fields = ("u", "delayed", "random", "updates", "epochs")

    def __init__(
        self, solver: Mira, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        super().__init__(solver, oracle, regularizer, c, init, solver.epochs)
        self.delayed, self.workspace, self.ones = oracle.zeros(), oracle.zeros(), np.ones(oracle.templates)
        self.updates = 0

    def advance(self) -> Record:
        """Run one epoch. Hinges are of changing weights, so the record is not certified."""
        self.epochs += 1
        order = self.random.permutation(self.oracle.sentences).tolist()
        hinges = sum(self.update(sentence) for sentence in order)
        objective, oracle = self._omega(self.u) + self.c * hinges, self.oracle
        check_finite(self.epochs, objective=objective)
        gap, mean = relative(objective, 0.0), hinges / oracle.sentences
        return Record(self.epochs, objective, 0.0, gap, mean, oracle.templates, False, self.result)

    def update(self, sentence: int) -> float:
        """Update w on one sentence; return its hinge before the update."""
        found = self.oracle.violated(sentence, self.u)
        hinge = found.loss - found.margin
        if hinge > 0 and (distance := self.squared_distance(found)) > 0:
            size = min(self.c, hinge / distance)
            self.oracle.step(found, size * self.ones, self.u, self.ones.copy())
            self.oracle.step(found, size * self.updates * self.ones, self.delayed, self.ones.copy())
        self.updates += 1
        return max(0.0, hinge)

    def squared_distance(self, found: Violation) -> float:
        """Return ‖features of gold − of the output‖²."""
        squares = np.zeros_like(self.ones)
        self.oracle.step(found, self.ones, self.workspace, squares)
        distance = float(squares.sum())
        self.oracle.step(found, -self.ones, self.workspace, squares)
        return distance

    def average(self) -> Weights:
        """Return the mean of w over all updates."""
        return [u - delayed / self.updates for u, delayed in zip(self.u, self.delayed, strict=True)]

    def result(self) -> Fit:
        """Return the average with the objective of the SVM and the trivial lower bound 0."""
        oracle, w, ones = self.oracle, self.average(), self.ones
        objective = self._omega(w) + self.c * oracle.hinge(oracle.score(w, ones)).total
        return Fit.bounded(w, ones, ones, (objective, 0.0), self.c * oracle.sentences, self.epochs, False)

    def _omega(self, w: Weights) -> float:
        return float(self.regularizer.value(np.sqrt(self.oracle.squared_norms(w))))
