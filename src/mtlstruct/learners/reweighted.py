"""Rounds of a quadratic Ω whose block weights follow from the last solution: IRW-CRF.

    w minimises ½ Σ_j ‖w_j‖²/mu_j + c·Σξ_i, beginning at the last w;  then mu_j = ‖w_j‖² + ε;  at most ten times

The first round is a plain CRF, mu = 1. No round raises ½ Σ_j log(1 + ‖w_j‖²/ε) + c·Σξ_i, whose tangent in ‖w_j‖²
the weighted squares are; but that is not convex. So the certificate of a run is that of its last round: it says how
near w is to the optimum for the mu it was given, not how good that mu is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..oracle import Oracle
from ..regularizers import BlockL2, Quadratic
from .base import Fit, Record, Start, Stop, Watch, table_bytes
from .lbfgs import LBFGS

STEADY = 0.01
"""Rounds end when no template's weight changes by more than this share."""


@dataclass(frozen=True)
class Reweighted:
    """The learner: `rounds` after the plain one, `epsilon` as in the paper. Passes are counted over all rounds."""

    stop: Stop = field(default_factory=Stop)
    rounds: int = 10
    epsilon: float = 0.001
    needs: tuple[str, ...] = ("marginals", "quadratic")

    def memory(self, oracle: Oracle) -> int:
        """That of a round, and the weights it begins with."""
        return LBFGS(self.stop).memory(oracle) + table_bytes(oracle)

    def fit(
        self, oracle: Oracle, regularizer: Quadratic, c: float, watch: Watch, start: Start | None = None
    ) -> Fit:
        """Rounds until the weights of templates are steady."""
        mu, passes, ended = regularizer.quadratic(oracle.templates), 0, False

        def counted(record: Record) -> bool:
            nonlocal ended
            ended = watch(replace(record, passes=passes + record.passes))
            return ended

        for _ in range(1 + self.rounds):
            stop = replace(self.stop, max_passes=self.stop.max_passes - passes)
            fit = LBFGS(stop).fit(oracle, BlockL2(mu), c, counted, start)
            passes += fit.passes
            start, before = Start(fit.weights, mu), mu
            mu = oracle.squared_norms(fit.weights) + self.epsilon
            steady = float(np.abs(mu / before - 1).max()) < STEADY
            if ended or steady or passes >= self.stop.max_passes:
                break
        return replace(fit, mu=before / before.sum(), passes=passes)
