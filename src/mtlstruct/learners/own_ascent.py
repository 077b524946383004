"""The passes of the coordinate learner over sentences that are here: see coordinate.py for what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..oracle import Oracle
from ..regularizers import Regularizer
from ..structures.base import Joining
from .ascent import ACTIVE, FULL, HOT, WARMUP, Ascent
from .base import Stop

ROUNDS = 5
"""Best-and-worst path rounds in one visit; more did not help."""

HOT_ROUNDS = 2
"""The same in hot passes that end with a joint step: sentences are hot because of others, so they come again soon."""

FEW, FEW_ROUNDS = 40, {FULL: 2, ACTIVE: ROUNDS, HOT: 1}
"""With fewer templates than this the scores of a sentence are gathered sooner than its paths are searched, so it is
better to come again than to stay; active passes are over short spans, and may stay."""

NEARLY = 1.4
"""How many times the gap asked for is near."""


class OwnAscent(Ascent):
    """A run over sentences that are here: their dual state, and what is known about each.

    since    visits since the last update of mu
    """

    kept = (*Ascent.kept, "V", "state", "random", "gaps", "rest", "wait", "since")

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, stop: Stop, seed: int) -> None:
        super().__init__(oracle, regularizer, c, stop)
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.V = oracle.zeros()
        self.state: Any = oracle.dual(self.V, self.N)
        self.gaps = np.full(oracle.sentences, np.inf)
        self.rest = np.zeros(oracle.sentences, np.int64)
        self.wait = np.zeros(oracle.sentences, np.int64)
        self.since = 0

    @property
    def joins(self) -> bool:
        """Whether hot passes end with a joint step."""
        return isinstance(self.state, Joining) and self.state.joins

    def _pass(self, kind: str) -> float:
        if kind == ACTIVE:
            spans = self.state.active()
            self._visit(kind, spans[self.random.permutation(len(spans))])
        else:
            order, shift = self._due() if kind == FULL else (self._hot(), 0)
            self._remember(order, self._visit(kind, self.state.spans(order, shift)))
            if kind == HOT and self.joins:
                self.loss += self.state.joint(self.mu.mu, self.c)
        return float(self.gaps[np.isfinite(self.gaps)].sum())

    def _schedule(self) -> list[str]:
        """Joint steps do what many hot passes would; what the first cycles leave is slow, and wants more work.

        Behind a certificate that was nearly enough a short cycle will do.
        """
        if not self.joins:
            return super()._schedule()
        active = round(2 * 2 ** min(self.decades + (self.passes > WARMUP + 1), 1.0))
        hot = round(2 * 4 ** max(self.decades - 1, 0.0))
        if self.certified and self._near(NEARLY):
            active = 1
        # what hot passes fit to the few is set right for all by the active one behind them, before bounds are taken
        return [FULL, *([*[HOT] * hot, ACTIVE] * active)]

    def _rounds(self, kind: str) -> int:
        if not self.joins:
            return ROUNDS
        if self.oracle.templates < FEW:
            return FEW_ROUNDS[kind]
        return HOT_ROUNDS if kind == HOT else ROUNDS

    def _due(self) -> tuple[NDArray[np.int64], int]:
        """The sentences that do not wait, in the order of their visits, and where long ones are cut."""
        due = np.flatnonzero(self.wait == 0)
        self.wait[self.wait > 0] -= 1
        return self.random.permutation(due), int(self.random.integers(1 << 30))

    def _hot(self) -> NDArray[np.int64]:
        """Those with gaps well above the mean."""
        finite = self.gaps[np.isfinite(self.gaps)]
        limit = 2.5 * finite.mean() if len(finite) else np.inf
        return self.random.permutation(np.flatnonzero(self.gaps > limit))

    def _visit(self, kind: str, spans: NDArray[np.int64]) -> NDArray[np.float64]:
        """Visits spans in order, with mu following every so often. Returns the gap of each sentence, summed."""
        gaps = np.zeros(self.oracle.sentences)
        every, rounds = self._stride(kind, len(spans)), self._rounds(kind)
        if self.joins:
            self.state.noting = kind == HOT
        for k in range(0, len(spans), every):
            some = spans[k : k + every]
            visits = self.state.visit(some, self.mu.mu, self.c, rounds, self.tolerance, self.enough)
            np.add.at(gaps, some[:, 2], visits.gaps)
            self.loss += visits.loss
            self.since += len(some)
            if kind != HOT or self.since >= every:  # a hot pass may be shorter than that
                self.mu.follow(self.N)
                self.since = 0
        return gaps

    def _remember(self, order: NDArray[np.int64], gaps: NDArray[np.float64]) -> None:
        """A sentence without a gap waits, twice as long each time; one with a gap is due at once."""
        self.gaps[order] = gaps[order]
        calm = order[gaps[order] < self.tolerance]
        self.rest[order] = np.where(gaps[order] < self.tolerance, self.rest[order], 0)
        self.rest[calm] = np.minimum(2 * self.rest[calm] + 1, 15)
        self.wait[order] = self.rest[order]

    def _rebuild(self) -> None:
        self.state.repair()
        node, *rest = self.state.counts()
        self.loss = self.state.loss(node)
        self.oracle.count([self.c * z for z in (node, *rest)], self.V)
        self.N[:] = self.oracle.squared_norms(self.V)
