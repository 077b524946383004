"""The paper's Algorithm 1: cutting planes in the primal, with the QCQP (or any other) master.

    w = 0, W = ∅
    repeat: find the most violated outputs; add their cut to W; w from the master over W
    until R_emp(w) − R_s(w) < ε

The master's dual value is a lower bound of the whole objective, the best w seen an upper bound, so every run ends
with a certificate. Cuts that have had no weight for `patience` solves are dropped. With `line_search` the next
cut is made near the best point so far instead of at the master's (Franc and Sonnenburg's OCAS), which needs a
second copy of the weights and saves most iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mtlstruct._system.stateful import Keeper, Kept, State
from mtlstruct.errors import SolverError
from mtlstruct.objective.oracle import Hinge, Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Callback,
    Fit,
    Record,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
    run_passes,
    score_bytes,
    table_bytes,
)
from mtlstruct.solvers.cutting_plane import Dual, master_for
from mtlstruct.solvers.cutting_plane.bundle import Bundle
from mtlstruct.solvers.cutting_plane.master import products
from mtlstruct.structures.base import Parts


@dataclass(frozen=True)
class CuttingPlane:
    """The learner. `towards` is how far from the best point to the master's the next cut is made (line search)."""

    stop: Stop = field(default_factory=Stop)
    line_search: bool = False
    patience: int = 20
    towards: float = 0.1
    needs: tuple[str, ...] = ("decode", "indicator", "conjugate")

    def memory(self, oracle: Oracle) -> int:
        """Weights, those of the best point if there is a line search, and the part scores."""
        return (2 if self.line_search else 1) * table_bytes(oracle) + score_bytes(oracle)

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
        """Iterates until the bounds meet. One BLAS thread: the master is small, and bits must not vary."""
        run = _LineSearch(oracle, regularizer, c) if self.line_search else _Run(oracle, regularizer, c)
        if init is not None:
            run.begin(init.weights)

        def advance() -> Record:
            run.passes += 1
            run.add_cut()
            check_finite(run.passes, norm_of_the_cut=float(run.bundle.gram[:, -1].sum()))
            run.solve(self.patience)
            run.move(self.towards)
            check_finite(run.passes, objective=run.objective, lower_bound=run.dual.objective)
            return run.record(self.stop)

        def ended() -> bool:
            return self._reached(run) or run.passes == self.stop.max_passes

        with threadpool_limits(1, "blas"):
            run_passes(run, advance, ended, callback, checkpointer)
            return run.result(self.stop, self._reached(run))

    def _reached(self, run: _Run) -> bool:
        """The paper's rule where epsilon is given: R_emp − R_s at the current w; else the relative gap."""
        if run.passes == 0:
            return False
        if self.stop.epsilon is not None:
            return run.risk - run.bundle_risk < self.stop.epsilon
        return self.stop.reached(run.objective, run.dual.objective, run.C)


class _Run(Kept):
    """Algorithm 1 as printed: each cut is made at the master's solution."""

    kept: ClassVar[tuple[str, ...]] = (
        *("passes", "bundle", "weights", "mu", "dual", "hinge", "objective", "risk", "bundle_risk"),
    )

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float) -> None:
        self.oracle, self.regularizer, self.C = oracle, regularizer, c * oracle.sentences
        self.passes = 0
        self.bundle = Bundle(oracle)
        self.weights: Weights = oracle.zeros()
        self.mu = regularizer.start(oracle.templates)
        self.dual = Dual(np.zeros(0), self.mu, 0.0, 0.0, 0.0, 0)
        self.hinge: Hinge = oracle.hinge(oracle.score(self.weights, self.mu))
        self.objective = np.inf
        self.risk = self.bundle_risk = np.inf

    def begin(self, weights: Weights) -> None:
        """The first cut is made at these weights instead of at zero."""
        self.hinge = self.oracle.hinge(self.oracle.score(weights, np.ones(self.oracle.templates)))

    def add_cut(self) -> None:
        """Line 4 and 5: the most violated outputs join the working set."""
        self.bundle.add(self.hinge.outputs, self.hinge.loss, self.weights)

    def solve(self, patience: int) -> None:
        """Line 6: the master over the working set, certified; idle cuts go."""
        start = np.append(self.dual.alpha, 0.0)
        solve = master_for(self.regularizer)
        try:
            self.dual = solve(self.bundle.gram, self.bundle.q, self.C, self.regularizer, start=start)
        except SolverError as error:
            raise SolverError(f"pass {self.passes}: {error}", error.gap) from None
        self.mu = self.dual.mu
        dots = self.mu @ products(self.bundle.gram, self.dual.alpha)
        self.bundle_risk = float(np.max(self.bundle.q - dots, initial=0.0))  # R_s(w) = max_r (q_r + w·p^r)
        alpha = self.bundle.prune(self.dual.alpha, patience)
        self.dual = Dual(alpha, self.mu, max(self.dual.objective, 0.0), self.dual.primal, self.dual.gap, 0)
        self.bundle.cuts.combine(alpha, self.weights)

    def move(self, towards: float) -> None:
        """The new w, its risk, and the outputs it violates most."""
        parts = self.oracle.score(self.weights, -self.mu)
        self.hinge = self.oracle.hinge(parts)
        self.risk = self.hinge.total / self.oracle.sentences
        self.objective = self._value(self._norms(), self.hinge)

    def record(self, stop: Stop) -> Record:
        """The iteration as the log keeps it."""
        dual, active = self.dual.objective, active_templates(self.mu)

        def now() -> Fit:
            return copy(self).result(stop, False)

        gap = relative(self.objective, dual)
        return Record(self.passes, self.objective, dual, gap, self.risk, active, True, now)

    def result(self, stop: Stop, converged: bool) -> Fit:
        """The last w and its certificate, both without the templates that the master left at next to nothing."""
        if self.regularizer.sparse:
            self.mu = np.where(self.mu < stop.drop * self.mu.sum(), 0.0, self.mu)
            self.objective = self._value(
                self._norms(), self.oracle.hinge(self.oracle.score(self.weights, -self.mu))
            )
        return self._fit(self.weights, -self.mu, converged)

    def _fit(self, weights: Weights, scale: NDArray[np.float64], converged: bool) -> Fit:
        bounds = self.objective, self.dual.objective
        return Fit.bounded(weights, scale, self.mu, bounds, self.C, self.passes, converged)

    def _norms(self) -> NDArray[np.float64]:
        return self.mu * np.sqrt(self.oracle.squared_norms(self.weights))

    def _value(self, norms: NDArray[np.float64], hinge: Hinge) -> float:
        return self.regularizer.value(norms) + self.C * hinge.total / self.oracle.sentences


class _LineSearch(_Run):
    """The same, with cuts made near the best point, whose w is kept as a dense array."""

    kept = (*_Run.kept, "best", "best_squares")

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float) -> None:
        super().__init__(oracle, regularizer, c)
        self.best: Weights = oracle.zeros()
        self.best_parts = self._score_best()
        self.best_squares = np.zeros(oracle.templates)
        self.objective = self._value(self.best_squares, self.hinge)

    def unpack(self, state: State) -> None:
        """Restore the state; the part scores of the best point follow from its w."""
        super().unpack(state)
        self.best_parts = self._score_best()

    def move(self, towards: float) -> None:
        """The best point on the line from the best so far to the master's w; the next cut a little beyond it."""
        parts = self.oracle.score(self.weights, -self.mu)
        squares = self.mu**2 * self.oracle.squared_norms(self.weights)
        cross = -self.mu * self._cross()

        def norms(k: float) -> NDArray[np.float64]:
            square = (1 - k) ** 2 * self.best_squares + 2 * k * (1 - k) * cross + k * k * squares
            return np.sqrt(np.maximum(square, 0.0))

        def value(k: float) -> float:
            return self._value(norms(k), self.oracle.hinge(self._mixed(parts, k)))

        k = _golden(value, self.objective)
        if k > 0:
            self._move_best(k)
            moved = norms(k)  # before the squares it is made from change
            self.best_squares = moved**2
            self.best_parts = self._score_best()
            self.objective = self._value(moved, self.oracle.hinge(self.best_parts))
        self.hinge = self.oracle.hinge(self._mixed(parts, towards))
        self.risk = (self.objective - self.regularizer.value(np.sqrt(self.best_squares))) / self.C
        self.bundle_risk = self.risk - (self.objective - self.dual.objective) / self.C

    def result(self, stop: Stop, converged: bool) -> Fit:
        """The best point. Its norms, not the last master's mu, say what each template weighs."""
        norms, scale = np.sqrt(self.best_squares), np.ones(self.oracle.templates)
        if norms.any():
            self.mu = self.regularizer.weights(norms)
        if self.regularizer.sparse and norms.any():
            kept = self.mu >= stop.drop * self.mu.sum()
            self.mu, scale = np.where(kept, self.mu, 0.0), np.where(kept, 1.0, 0.0)
            hinge = self.oracle.hinge(self.oracle.score(self.best, scale))
            self.objective = self._value(scale * norms, hinge)
        return self._fit(self.best, scale, converged)

    def _score_best(self) -> Parts:
        return self.oracle.score(self.best, np.ones(self.oracle.templates))

    def _mixed(self, parts: Parts, k: float) -> Parts:
        return self.oracle.mix(1 - k, self.best_parts, k, parts)

    def _cross(self) -> NDArray[np.float64]:
        """⟨best_j, v_j⟩ of each template."""
        out = np.zeros(self.oracle.templates)
        for j in range(self.oracle.templates):
            a, b = self.oracle.block(self.best, j), self.oracle.block(self.weights, j)
            out[j] = np.einsum("ay,ay->", a, b, dtype=np.float64)
        return out

    def _move_best(self, k: float) -> None:
        for j, mu in enumerate(self.mu):
            block = self.oracle.block(self.best, j)
            block *= 1 - k
            if mu > 0:
                block -= k * mu * self.oracle.block(self.weights, j)


def _golden(value: Callable[[float], float], at_zero: float, steps: int = 8) -> float:
    """The k in [0, 1] with the least value of a convex function, by golden sections; 0 unless it improves."""
    ratio = (5**0.5 - 1) / 2
    low, high = 0.0, 1.0
    a, b = high - ratio, low + ratio
    fa, fb = value(a), value(b)
    best = min((at_zero, 0.0), (fa, a), (fb, b), (value(1.0), 1.0))
    for _ in range(steps):
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = value(a)
            best = min(best, (fa, a))
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = value(b)
            best = min(best, (fb, b))
    return best[1]
