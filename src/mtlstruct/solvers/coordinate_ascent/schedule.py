"""The schedule of a run: the blocks of each pass, and the updates of template weights.

A block is a sentence, or a span of one (`DualState.spans`). Full passes shrink: a sentence whose
gap was below the tolerance is left out of the next 1, 3, 7, 15 full passes. Working-set passes
update the spans whose dual variables have left gold. Gap-sampled passes repeat those spans whose
gap was far above the mean at their last update.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Stateful
from mtlstruct.objective.regularizers import Regularizer

FULL, WORKING_SET, GAP_SAMPLED = "full", "working set", "gap-sampled"

SAMPLED_GAP_RATIO = 4.0
"""Spans with more than this many times the mean gap are in a gap-sampled pass."""

MAX_SKIPPED_PASSES = 15
"""Full passes that a sentence without a gap may be left out of, at most."""

MIN_RATE, MAX_RATE = 0.02, 2.0
"""Bounds of the rate (starts at the upper): mu_j *= ((next mu_j) / mu_j) ** rate."""

GAP_GROWTH, RATE_GROWTH = 1.5, 1.2
"""Times the least gap from which on a cycle halves the rate; other cycles multiply the rate."""

MIN_MU_SHARE = 1e-9
"""The least part of the total that a template has: one at zero could never come back."""


class BlockSampler(Stateful):
    """Chooses the blocks of each pass from the gaps of earlier block updates.

    gaps              float64[S]: the gap of each sentence before its last update in a full pass
    rest, wait        int64[S]: full passes to skip after the next converged update, and now
    spans, span_gaps  the last working set, and the gap of each before its last update
    """

    state_fields = ("random", "gaps", "rest", "wait", "spans", "span_gaps")

    def __init__(self, state: Any, sentences: int, seed: int | list[int]) -> None:
        self.state = state
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.gaps = np.full(sentences, np.inf)
        self.rest, self.wait = np.zeros(sentences, np.int64), np.zeros(sentences, np.int64)
        self.spans, self.span_gaps = np.zeros((0, 3), np.int64), np.zeros(0)
        self.chosen = np.zeros(0, np.int64)

    def choose(self, kind: str) -> NDArray[np.int64]:
        """Return the spans of a pass in the order of their updates."""
        if kind == FULL:
            self.chosen = self.random.permutation(np.flatnonzero(self.wait == 0))
            self.wait[self.wait > 0] -= 1
            spans: NDArray[np.int64] = self.state.spans(self.chosen, int(self.random.integers(1 << 30)))
            return spans
        if kind == WORKING_SET:
            self.spans = self.state.active()
            self.span_gaps = np.zeros(len(self.spans))
            self.chosen = self.random.permutation(len(self.spans))
        else:
            mean = self.span_gaps.sum() / max(1, len(self.span_gaps))
            self.chosen = self.random.permutation(np.flatnonzero(self.span_gaps > SAMPLED_GAP_RATIO * mean))
        return self.spans[self.chosen]

    def record(
        self, kind: str, spans: NDArray[np.int64], gaps: NDArray[np.float64], tolerance: float
    ) -> None:
        """Keep the gaps of the spans of a pass, as they were before their updates."""
        if kind != FULL:
            self.span_gaps[self.chosen] = gaps
            return
        due, found = self.chosen, np.zeros(len(self.gaps))
        np.add.at(found, spans[:, 2], gaps)
        self.gaps[due] = found[due]
        converged = found[due] < tolerance
        self.rest[due] = np.where(converged, np.minimum(2 * self.rest[due] + 1, MAX_SKIPPED_PASSES), 0)
        self.wait[due] = self.rest[due]

    @property
    def total(self) -> float:
        """The sum of the gaps of sentences, as far as they are known."""
        return float(self.gaps[np.isfinite(self.gaps)].sum())


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

    def update(self, N: NDArray[np.float64]) -> None:
        """Update mu from the squared block norms."""
        target = self._next(N)
        if not self.regularizer.sparse:
            self.mu = target
        elif N.max(initial=0.0) > 0:
            total = self.mu.sum() if self.regularizer.degree == 1 else target.sum()
            mu = self.mu * np.maximum(target / self.mu, 1e-6) ** self.rate
            self.mu = np.maximum(mu / mu.sum(), MIN_MU_SHARE) * total

    def end_cycle(self, N: NDArray[np.float64]) -> None:
        """Update mu at the end of a cycle, and its total if the regularizer is of degree 1."""
        self.update(N)
        if self.regularizer.degree == 1:
            self.mu = self.mu * np.clip(self._next(N).sum() / self.mu.sum(), 0.5, 2.0)

    def adapt(self, gap: float) -> None:
        """Halve the rate after a cycle in which the gap has grown; else raise it."""
        grown = gap > GAP_GROWTH * self.least_gap
        self.least_gap = gap if grown else min(self.least_gap, gap)
        self.rate = float(np.clip(self.rate * (0.5 if grown else RATE_GROWTH), MIN_RATE, MAX_RATE))

    def _next(self, N: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.regularizer.next_mu(self.mu, np.sqrt(np.maximum(N, 0.0)))
