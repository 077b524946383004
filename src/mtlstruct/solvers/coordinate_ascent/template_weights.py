"""Template weights mu during block-coordinate ascent, and their update from the block norms."""

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Stateful
from mtlstruct.objective.regularizers import Regularizer

MIN_RATE, MAX_RATE = 0.02, 2.0
"""Bounds of the rate (starts at the upper): mu_j *= ((next mu_j) / mu_j) ** rate."""

GAP_GROWTH, RATE_GROWTH = 1.5, 1.2
"""Times the least gap from which on a cycle halves the rate; other cycles multiply the rate."""

MIN_MU_SHARE = 1e-9
"""The least part of the total that a template has: one at zero could never come back."""


class TemplateWeights(Stateful):
    """Template weights mu and their update from the block norms.

    If the regularizer cannot drop templates, mu is set to `Regularizer.next_mu`, else it moves
    there multiplicatively. The norms follow a change of mu only after a pass. Where templates are
    badly scaled both then oscillate, and the gap grows: `adapt` lowers the rate.
    """

    state_fields = ("mu", "rate", "least_gap")

    def __init__(self, regularizer: Regularizer, m: int) -> None:
        self.regularizer = regularizer
        self.mu = regularizer.start(m)
        self.rate, self.least_gap = MAX_RATE, np.inf

    def begin(self, mu: NDArray[np.float64]) -> None:
        """Start from the mu of an earlier model, if it is learned; new templates get the mean."""
        total = self.mu.sum()
        if self.regularizer.sparse and mu.sum() > 0:
            known = np.where(mu > 0, mu, mu[mu > 0].mean())
            self.mu = known * total / known.sum()

    def update(self, norms: NDArray[np.float64]) -> None:
        """Update mu from the block norms ‖v_j‖."""
        target = self.regularizer.next_mu(self.mu, norms)
        if not self.regularizer.sparse:
            self.mu = target
        elif norms.max(initial=0.0) > 0:
            total = self.mu.sum() if self.regularizer.degree == 1 else target.sum()
            mu = self.mu * np.maximum(target / self.mu, 1e-6) ** self.rate
            self.mu = np.maximum(mu / mu.sum(), MIN_MU_SHARE) * total

    def end_cycle(self, norms: NDArray[np.float64], gap: float) -> None:
        """Update mu; halve the rate if the gap, P − D, has grown, else raise it."""
        self.update(norms)
        if self.regularizer.degree == 1:  # the total is learned as well
            total = self.regularizer.next_mu(self.mu, norms).sum()
            self.mu = self.mu * np.clip(total / self.mu.sum(), 0.5, 2.0)
        grown = gap > GAP_GROWTH * self.least_gap
        self.least_gap = gap if grown else min(self.least_gap, gap)
        self.rate = float(np.clip(self.rate * (0.5 if grown else RATE_GROWTH), MIN_RATE, MAX_RATE))
