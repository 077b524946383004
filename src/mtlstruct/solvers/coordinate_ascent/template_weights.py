"""mu, the weight of each template, as it follows the block norms while the coordinate learner ascends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Kept
from mtlstruct.objective.regularizers import Regularizer


class TemplateWeights(Kept):
    """mu, following the block norms between visits.

    Where templates cannot drop out, the regularizer's own next mu is taken as it is. Where they can, that would be
    slow: mu_j moves a multiple (its rate) of the logarithmic step g_j instead, and the total goes where the
    regularizer puts it. After the warm-up each template has its own rate, which grows while g_j keeps its sign and
    halves on a flip. The dual answers a change of mu only after a pass, that is UPDATES updates: rates that grow too
    fast for that let mu and the norms chase each other (with 1.1 and 0.6 they do on small data, with many templates
    that can stand in for each other even so). It shows in a gap that grows again, and `calm` then lowers the ceiling
    of all rates. A gap that stays where it is is no chase: a template that has fallen too far has to come back, and
    under a low ceiling it never would. So each fall of the ceiling needs a growth of its own, and the ceiling rises
    again while there is none. For the same reason a total that depends on the norms (degree 1) moves once a pass.
    """

    kept = ("mu", "adaptive", "rate", "fastest", "mark", "previous")

    FLOOR = 1e-9
    GROW, SHRINK, SLOWEST, FASTEST = 1.02, 0.5, 0.02, 10.0
    GROWN, RELAX = 1.5, 1.2

    def __init__(self, regularizer: Regularizer, m: int) -> None:
        self.regularizer = regularizer
        self.mu = regularizer.start(m)
        self.adaptive = False
        self.rate = np.full(m, 2.0)
        self.fastest = self.FASTEST
        self.mark = np.inf
        self.previous = np.zeros(m)

    def begin(self, mu: NDArray[np.float64]) -> None:
        """From the mu of an earlier model, if it is learned at all; a template that it lacks begins at the mean."""
        total = self.mu.sum()
        if self.regularizer.sparse and mu.sum() > 0:
            known = np.where(mu > 0, mu, mu[mu > 0].mean())
            self.mu = known * total / known.sum()

    def follow(self, N: NDArray[np.float64]) -> None:
        """One update from the squared norms."""
        if not self.regularizer.sparse:
            self.mu = self._next(N)
        elif N.max(initial=0.0) > 0:
            self._step(self._next(N))

    def settle(self, N: NDArray[np.float64]) -> None:
        """At the end of a pass, even one without a visit: a total that no regularizer fixes takes a step, too."""
        self.follow(N)
        if self.regularizer.degree == 1:
            self.mu = self.mu * np.clip(self._next(N).sum() / self.mu.sum(), 0.5, 2.0)

    def calm(self, gap: float) -> None:
        """Halves the highest rate after one whose gap is well above the least since it last did; else raises it."""
        grown = self.adaptive and gap > self.GROWN * self.mark
        self.mark = gap if grown else min(self.mark, gap)
        if self.adaptive:
            self.fastest = float(
                np.clip(self.fastest * (0.5 if grown else self.RELAX), self.SLOWEST, self.FASTEST)
            )

    def _next(self, N: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.regularizer.follow(self.mu, np.sqrt(np.maximum(N, 0.0)))

    def _step(self, target: NDArray[np.float64]) -> None:
        total = self.mu.sum() if self.regularizer.degree == 1 else target.sum()
        g = np.log(np.maximum(target / self.mu, 1e-6))
        if self.adaptive:
            same = g * self.previous > 0
            self.rate = np.clip(
                self.rate * np.where(same, self.GROW, self.SHRINK), self.SLOWEST, self.fastest
            )
            step = np.clip(self.rate * g, -1.0, 0.4)
        else:
            step = self.rate * g
        self.previous = g
        mu = self.mu * np.exp(step)
        self.mu = np.maximum(mu / mu.sum(), self.FLOOR) * total  # a template at zero could never come back
