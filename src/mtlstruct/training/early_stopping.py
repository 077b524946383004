"""Early stopping: score the model on held-out data after each pass, and return the best one.

The certificate of the best model is valid: its objective is that of its weights, and the lower
bound of the last pass holds for all weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mtlstruct.errors import IncompatibleError
from mtlstruct.solvers import Callback, Fit, Record
from mtlstruct.solvers.base import relative


@dataclass
class EarlyStop:
    """Callback that stores the best weights and stops after `patience` passes without progress.

    Attributes
    ----------
    score : callable
        Returns the score of the weights of a fit; larger is better.
    patience : int or None
        None: never stop.
    C : float
        c·n, for the epsilon of the best fit.
    callback : callable or None
        Called after each pass, too.
    """

    score: Callable[[Fit], float]
    patience: int | None
    C: float
    callback: Callback | None = None
    best_score: float = -np.inf
    best: Fit | None = None
    passes_since: int = 0

    def __call__(self, record: Record) -> bool:
        """Score a pass; return whether to stop."""
        if record.now is None:
            raise IncompatibleError("this solver does not show its weights: there is nothing to validate")
        now = record.now()
        score = self.score(now)
        self.passes_since += 1
        if score > self.best_score:
            weights = [u.copy() for u in now.weights]  # the solver overwrites its own
            self.best = replace(now, weights=weights, scale=now.scale.copy(), mu=now.mu.copy())
            self.best_score, self.passes_since = score, 0
        stop = self.callback is not None and bool(self.callback(record))
        return stop or (self.patience is not None and self.passes_since >= self.patience)

    def result(self, last: Fit) -> Fit:
        """Return the best fit with its certificate."""
        if self.best is None or self.score(last) >= self.best_score:
            return last
        objective, dual = self.best.objective, last.dual
        gap, epsilon = relative(objective, dual), (objective - dual) / self.C
        return replace(self.best, dual=dual, gap=gap, epsilon=epsilon, converged=False)
