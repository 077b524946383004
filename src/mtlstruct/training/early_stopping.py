"""Early stopping: score the model on held-out data after each pass, and keep the best one.

The best model is certified like any other: its objective is that of its weights, and the lower bound of the last
pass holds for all weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from mtlstruct.errors import IncompatibleError
from mtlstruct.solvers import Fit, Record
from mtlstruct.solvers.base import relative

Judge = Callable[[Fit], float]
"""The score of the weights of a fit; larger is better."""


@dataclass
class EarlyStop:
    """Keep the best weights; ask for the end after `patience` passes without a better score (None: never).

    C    c·n, for the epsilon of what is kept
    """

    judge: Judge
    patience: int | None
    C: float
    best: float = -np.inf
    kept: Fit | None = None
    scores: list[float] = field(default_factory=list)
    since: int = 0

    def see(self, record: Record) -> bool:
        """Score a pass; return whether to stop."""
        if record.now is None:
            raise IncompatibleError("this learner does not show its weights: there is nothing to validate")
        now = record.now()
        self.scores.append(self.judge(now))
        self.since += 1
        if self.scores[-1] > self.best:
            weights = [u.copy() for u in now.weights]  # the learner goes on with its own
            self.kept = replace(now, weights=weights, scale=now.scale.copy(), mu=now.mu.copy())
            self.best, self.since = self.scores[-1], 0
        return self.patience is not None and self.since >= self.patience

    def result(self, last: Fit) -> Fit:
        """Return the best fit with its certificate."""
        if self.kept is None or self.judge(last) >= self.best:
            return last
        distance = self.kept.objective - last.dual
        gap = relative(self.kept.objective, last.dual)
        return replace(self.kept, dual=last.dual, gap=gap, epsilon=distance / self.C, converged=False)
