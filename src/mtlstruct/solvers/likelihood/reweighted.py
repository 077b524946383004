"""Rounds of a quadratic Ω whose block weights follow from the last solution: IRW-CRF.

    w minimises ½ Σ_j ‖w_j‖²/mu_j + c·Σξ_i, beginning at the last w;  then mu_j = ‖w_j‖² + ε;  at most ten times

The first round is a plain CRF, mu = 1. No round raises ½ Σ_j log(1 + ‖w_j‖²/ε) + c·Σξ_i, whose tangent in ‖w_j‖²
the weighted squares are; but that is not convex. So the certificate of a run is that of its last round: it says how
near w is to the optimum for the mu it was given, not how good that mu is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Keeper, Kept, State
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import BlockL2, Quadratic
from mtlstruct.solvers.base import NO_CHECKPOINTS, Callback, Fit, Record, Start, Stop, table_bytes
from mtlstruct.solvers.likelihood.solver import LBFGS

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
        self,
        oracle: Oracle,
        regularizer: Quadratic,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Rounds until the weights of templates are steady."""
        rounds = _Rounds(regularizer.quadratic(oracle.templates), checkpointer)
        rounds.checkpointer.begin(rounds)
        ended = False

        def counted(record: Record) -> bool:
            nonlocal ended
            ended = callback is not None and bool(
                callback(replace(record, passes=rounds.passes + record.passes))
            )
            return ended

        while True:
            mu = rounds.mu
            stop = replace(self.stop, max_passes=self.stop.max_passes - rounds.passes)
            fit = LBFGS(stop).fit(oracle, BlockL2(mu), c, counted, init=init, checkpointer=rounds)
            init = Start(fit.weights, mu)
            rounds.next(fit.passes, oracle.squared_norms(fit.weights) + self.epsilon)
            steady = float(np.abs(rounds.mu / mu - 1).max()) < STEADY
            spent = rounds.passes >= self.stop.max_passes or rounds.number > self.rounds
            if ended or steady or spent:
                return replace(fit, mu=mu / mu.sum(), passes=rounds.passes)


class _Rounds(Keeper, Kept):
    """The rounds that are over, and the keeper of the present one: both are kept together.

    number      of the present round, from 0
    passes      of the rounds that are over
    mu          what the present one is given
    """

    kept = ("number", "passes", "mu", "run")

    def __init__(self, mu: NDArray[np.float64], checkpointer: Keeper | None) -> None:
        self.number, self.passes, self.mu = 0, 0, mu
        self.checkpointer = checkpointer or NO_CHECKPOINTS
        self.run = Kept()
        self._earlier: State | None = (
            None  # of the round that an earlier run was in, until that is made again
        )

    def next(self, passes: int, mu: NDArray[np.float64]) -> None:
        """A round is over."""
        self.number, self.passes, self.mu = self.number + 1, self.passes + passes, mu

    def begin(self, run: Kept) -> None:
        """The present round."""
        self.run = run
        if self._earlier is not None:
            run.unpack(self._earlier)
            self._earlier = None

    def safe(self, run: Kept) -> None:
        """All rounds can go on from where the present one can."""
        self.checkpointer.safe(self)

    def unpack(self, state: State) -> None:
        """What the present round is given comes first: it cannot be made without."""
        super().unpack({**state, "run": {}})
        self._earlier = state["run"]
