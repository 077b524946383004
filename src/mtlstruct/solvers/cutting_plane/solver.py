"""The paper's Algorithm 1: one-slack cutting planes with a restricted master problem.

    w = 0, W = ∅
    repeat: find the most violated outputs; add their cut to W; w from the master over W
    until R_emp(w) − R_s(w) < ε

Joachims, Finley and Yu, "Cutting-plane training of structural SVMs" (Machine Learning 2009); Teo et
al., "Bundle methods for regularized risk minimization" (BMRM, JMLR 2010). The dual value of the
master is a lower bound of the objective, and the best w an upper bound, so every run ends with a
certificate. Cuts that have had no weight for `patience` solves are dropped.

With `line_search` the next cut is made near the best point so far instead of at the solution of the
master, as in OCAS (Franc and Sonnenburg, JMLR 2009). This needs a second copy of the weights and
saves most iterations.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mtlstruct._system.stateful import State
from mtlstruct.errors import IncompatibleError, SolverError
from mtlstruct.objective.oracle import Hinge, Oracle, Weights
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
    golden_section,
    relative,
    score_bytes,
    table_bytes,
)
from mtlstruct.solvers.cutting_plane import MASTERS
from mtlstruct.solvers.cutting_plane.bundle import Bundle
from mtlstruct.solvers.cutting_plane.master import Dual, products
from mtlstruct.structures.base import Parts


@dataclass(frozen=True)
class CuttingPlane(Solver):
    """Solver by cutting planes.

    With a line search, the next cut is made at the share `towards` of the way from the best point
    to the solution of the master.
    """

    stop: Stop = field(default_factory=Stop)
    line_search: bool = False
    patience: int = 20
    towards: float = 0.1
    needs: tuple[str, ...] = ("decode", "indicator", "conjugate")

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of the weights, of those of the best point, and of the part scores."""
        return (2 if self.line_search else 1) * table_bytes(oracle) + score_bytes(oracle)

    def start(
        self, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> _CuttingPlaneRun:
        """Return the run before the first cut."""
        kind = _LineSearchRun if self.line_search else _CuttingPlaneRun
        run = kind(self, oracle, regularizer, c)
        if init is not None:
            run.hinge = oracle.hinge(oracle.score(init.weights, np.ones(oracle.templates)))
        return run

    def fit(self, *args: Any, **options: Any) -> Fit:
        """Iterate until the bounds meet, with one BLAS thread: bits must not vary."""
        with threadpool_limits(1, "blas"):
            return super().fit(*args, **options)


class _CuttingPlaneRun(SolverRun):
    """Run of Algorithm 1 as printed: each cut is made at the solution of the master."""

    state_fields: ClassVar[tuple[str, ...]] = (
        *("passes", "bundle", "weights", "mu", "dual", "hinge", "objective", "risk", "bundle_risk"),
    )

    def __init__(self, solver: CuttingPlane, oracle: Oracle, regularizer: Regularizer, c: float) -> None:
        if type(regularizer) not in MASTERS:
            known = ", ".join(sorted(kind.__name__ for kind in MASTERS))
            raise IncompatibleError(
                f"no master solves the subproblem of {type(regularizer).__name__}; there is one for {known}"
            )
        self.solver, self.stop, self.master = solver, solver.stop, MASTERS[type(regularizer)]
        self.oracle, self.regularizer, self.C = oracle, regularizer, c * oracle.sentences
        self.passes, self.bundle = 0, Bundle(oracle)
        self.weights: Weights = oracle.zeros()
        self.mu = regularizer.start(oracle.templates)
        self.dual = Dual(np.zeros(0), self.mu, 0.0, 0.0, 0.0)
        self.hinge: Hinge = oracle.hinge(oracle.score(self.weights, self.mu))
        self.objective = self.risk = self.bundle_risk = np.inf

    def advance(self) -> Record:
        """Add a cut, solve the master, and measure its w."""
        self.passes += 1
        self.bundle.add(self.hinge.outputs, self.hinge.loss, self.weights)  # lines 4 and 5
        check_finite(self.passes, norm_of_the_cut=float(self.bundle.gram[:, -1].sum()))
        self.solve(self.solver.patience)
        self.move(self.solver.towards)
        check_finite(self.passes, objective=self.objective, lower_bound=self.dual.objective)
        gap, active = relative(self.objective, self.dual.objective), active_templates(self.mu)
        figures = self.objective, self.dual.objective, gap, self.risk, active, True
        return Record(self.passes, *figures, lambda: copy(self).result())

    def ended(self) -> bool:
        """Return whether to stop: risk gap below epsilon, small duality gap, or no pass left."""
        return self.passes == self.stop.max_passes or self._reached()

    def _reached(self) -> bool:
        if self.passes == 0:
            return False
        if self.stop.epsilon is not None:
            return self.risk - self.bundle_risk < self.stop.epsilon
        return self.stop.reached(self.objective, self.dual.objective, self.C)

    def solve(self, patience: int) -> None:
        """Solve the master over the working set (line 6), and drop idle cuts."""
        start = np.append(self.dual.alpha, 0.0)
        try:
            self.dual = self.master(self.bundle.gram, self.bundle.q, self.C, self.regularizer, start=start)
        except SolverError as error:
            raise SolverError(f"pass {self.passes}: {error}", error.gap) from None
        self.mu = self.dual.mu
        dots = self.mu @ products(self.bundle.gram, self.dual.alpha)
        self.bundle_risk = float(np.max(self.bundle.q - dots, initial=0.0))  # R_s(w) = max_r (q_r + w·p^r)
        alpha = self.bundle.prune(self.dual.alpha, patience)
        self.dual = Dual(alpha, self.mu, max(self.dual.objective, 0.0), self.dual.primal, self.dual.gap)
        self.bundle.cuts.combine(alpha, self.weights)

    def move(self, towards: float) -> None:
        """Compute the risk of the new w and the outputs it violates most."""
        parts = self.oracle.score(self.weights, -self.mu)
        self.hinge = self.oracle.hinge(parts)
        self.risk = self.hinge.total / self.oracle.sentences
        self.objective = self._value(self._norms(), self.hinge)

    def result(self) -> Fit:
        """Return the last w and its certificate, without the templates of negligible mu."""
        reached = self._reached()
        if self.regularizer.sparse:
            self.mu = np.where(self.mu < self.stop.drop * self.mu.sum(), 0.0, self.mu)
            self.objective = self._value(
                self._norms(), self.oracle.hinge(self.oracle.score(self.weights, -self.mu))
            )
        return self._fit(self.weights, -self.mu, reached)

    def _fit(self, weights: Weights, scale: NDArray[np.float64], converged: bool) -> Fit:
        bounds = self.objective, self.dual.objective
        return Fit.bounded(weights, scale, self.mu, bounds, self.C, self.passes, converged)

    def _norms(self) -> NDArray[np.float64]:
        return self.mu * np.sqrt(self.oracle.squared_norms(self.weights))

    def _value(self, norms: NDArray[np.float64], hinge: Hinge) -> float:
        return self.regularizer.value(norms) + self.C * hinge.total / self.oracle.sentences


class _LineSearchRun(_CuttingPlaneRun):
    """Run with cuts made near the best point, whose w is stored as a dense array."""

    state_fields = (*_CuttingPlaneRun.state_fields, "best", "best_squares")

    def __init__(self, solver: CuttingPlane, oracle: Oracle, regularizer: Regularizer, c: float) -> None:
        super().__init__(solver, oracle, regularizer, c)
        self.best: Weights = oracle.zeros()
        self.best_parts = self._score_best()
        self.best_squares = np.zeros(oracle.templates)
        self.objective = self._value(self.best_squares, self.hinge)

    def load_state_dict(self, state: State) -> None:
        """Restore the state; the part scores of the best point follow from its w."""
        super().load_state_dict(state)
        self.best_parts = self._score_best()

    def move(self, towards: float) -> None:
        """Move to the best point on the line from the best so far to the w of the master."""
        parts = self.oracle.score(self.weights, -self.mu)
        squares = self.mu**2 * self.oracle.squared_norms(self.weights)
        cross = -self.mu * self._cross()

        def norms(k: float) -> NDArray[np.float64]:
            square = (1 - k) ** 2 * self.best_squares + 2 * k * (1 - k) * cross + k * k * squares
            return np.sqrt(np.maximum(square, 0.0))

        def value(k: float) -> float:
            return self._value(norms(k), self.oracle.hinge(self._mixed(parts, k)))

        k = golden_section(value, self.objective)
        if k > 0:
            self._move_best(k)
            moved = norms(k)  # computed from the squares that change next
            self.best_squares = moved**2
            self.best_parts = self._score_best()
            self.objective = self._value(moved, self.oracle.hinge(self.best_parts))
        self.hinge = self.oracle.hinge(self._mixed(parts, towards))
        self.risk = (self.objective - self.regularizer.value(np.sqrt(self.best_squares))) / self.C
        self.bundle_risk = self.risk - (self.objective - self.dual.objective) / self.C

    def result(self) -> Fit:
        """Return the best point, with the mu that belongs to its norms."""
        reached = self._reached()
        norms, scale = np.sqrt(self.best_squares), np.ones(self.oracle.templates)
        if norms.any():
            self.mu = self.regularizer.weights(norms)
        if self.regularizer.sparse and norms.any():
            kept = self.mu >= self.stop.drop * self.mu.sum()
            self.mu, scale = np.where(kept, self.mu, 0.0), np.where(kept, 1.0, 0.0)
            hinge = self.oracle.hinge(self.oracle.score(self.best, scale))
            self.objective = self._value(scale * norms, hinge)
        return self._fit(self.best, scale, reached)

    def _score_best(self) -> Parts:
        return self.oracle.score(self.best, np.ones(self.oracle.templates))

    def _mixed(self, parts: Parts, k: float) -> Parts:
        return self.oracle.mix(1 - k, self.best_parts, k, parts)

    def _cross(self) -> NDArray[np.float64]:
        """Return ⟨best_j, v_j⟩ of each template."""
        own = [[self.oracle.block(u, j) for u in (self.best, self.weights)] for j in range(len(self.mu))]
        return np.array([np.einsum("ay,ay->", a, b, dtype=np.float64) for a, b in own])

    def _move_best(self, k: float) -> None:
        for j, mu in enumerate(self.mu):
            block = self.oracle.block(self.best, j)
            block *= 1 - k
            if mu > 0:
                block -= k * mu * self.oracle.block(self.weights, j)
