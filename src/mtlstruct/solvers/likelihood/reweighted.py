"""IRW-CRF: rounds of a quadratic Ω whose template weights follow from the solution of the round before.

    w minimises ½ Σ_j ‖w_j‖²/mu_j + c·Σξ_i, from the last w;  then mu_j = ‖w_j‖² + ε;  at most ten times

The first round is a plain CRF, mu = 1. No round raises ½ Σ_j log(1 + ‖w_j‖²/ε) + c·Σξ_i, whose tangent in
‖w_j‖² is the weighted square; but that is not convex. So the certificate of a run is that of its last
round: it bounds the distance to the optimum for the given mu, and says nothing of that mu.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import BlockL2, Regularizer
from mtlstruct.solvers.base import Fit, Start
from mtlstruct.solvers.likelihood.lbfgs import LBFGSRun
from mtlstruct.solvers.likelihood.run import QuasiNewton, change_variables

STEADY_CHANGE = 0.01
"""Rounds end when no mu_j changes by more than this share."""


class _ReweightedRun(LBFGSRun):
    """All rounds. Bounds and the trace of the objective are those of the present round."""

    state_fields = (*LBFGSRun.state_fields, "rounds", "round_start")

    def __init__(
        self, solver: Reweighted, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        super().__init__(solver, oracle, regularizer, c, init)
        self.max_rounds, self.epsilon = solver.rounds, solver.epsilon
        self.rounds = self.round_start = 0

    def step(self) -> bool:
        """Make one step, the first of a new round if the present one is over."""
        if self._round_over(self.passes - 1):
            self.rounds, self.round_start = self.rounds + 1, self.passes - 1
            ratio = self.problem.rescale(self.curvature, self._reweighted())
            self.problem.map_blocks(change_variables, self.x, self.gradient, ratio)
            self.pairs.order.clear()  # Ω has changed
            self.set_gradient()
            self.quadratic = self._bound() + self.c * self.risk * self.problem.oracle.sentences
            self.objective, self.dual, self.trace = self.quadratic, 0.0, [self.quadratic]
        return super().step()

    def ended(self) -> bool:
        """Return whether the last round is over, or no pass is left."""
        if self.passes >= self.stop.max_passes:
            return True
        if not self._round_over(self.passes):
            return False
        change = float(np.abs(self._reweighted() / self.problem.mu - 1).max())
        return self.rounds >= self.max_rounds or change < STEADY_CHANGE

    def result(self) -> Fit:
        """Return the weights of the present round; mu sums to one."""
        mu = self.problem.mu
        self.regularizer = BlockL2(mu)
        return replace(super().result(), mu=mu / mu.sum())

    def _round_over(self, passes: int) -> bool:
        return passes > self.round_start and (self.near() or not self.moved)

    def _reweighted(self) -> NDArray[np.float64]:
        return np.asarray(self.problem.mu**2 * self.sums[0] + self.epsilon)


@dataclass(frozen=True)
class Reweighted(QuasiNewton):
    """Solver of IRW-CRF: `rounds` after the plain one, `epsilon` as in the paper."""

    run = _ReweightedRun
    rounds: int = 10
    epsilon: float = 0.001
    needs: tuple[str, ...] = ("marginals", "quadratic")
