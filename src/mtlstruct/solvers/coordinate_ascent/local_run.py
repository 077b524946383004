"""The passes of the coordinate learner over sentences that are here: see coordinate.py for what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Stop
from mtlstruct.solvers.coordinate_ascent.run import ACTIVE, FULL, HOT, Ascent
from mtlstruct.structures.base import Joining

ROUNDS = 5
"""Best-and-worst path rounds in one visit; more did not help."""

HOT_ROUNDS = 2
"""The same in hot passes over spans: what is hot comes again soon."""

FEW, FEW_ROUNDS = 40, 2
"""With fewer templates than this the scores of a sentence are gathered sooner than its paths are searched, so in a
full pass it is better to come again than to stay."""

BUSY, HOTTEST = 10.0, 8
"""Hot are the spans that gained so many times the mean in their last visit; so many hot passes follow each other."""

LONGEST_REST = 15
"""Full passes that a sentence without a gap may be left out of, at most."""

NEARLY = 1.4
"""How many times the gap asked for is near."""


class OwnAscent(Ascent):
    """A run over sentences that are here: their dual state, and what is known about each.

    since           visits since the last update of mu
    spans, gains    those of the last active pass, and what the last visit to each gained, where that is known
    """

    kept = (*Ascent.kept, "V", "state", "random", "gaps", "rest", "wait", "since", "spans", "gains")

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, stop: Stop, seed: int) -> None:
        super().__init__(oracle, regularizer, c, stop)
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.V = oracle.zeros()
        self.state: Any = oracle.dual(self.V, self.N)
        self.gaps = np.full(oracle.sentences, np.inf)
        self.rest = np.zeros(oracle.sentences, np.int64)
        self.wait = np.zeros(oracle.sentences, np.int64)
        self.since = 0
        self.spans, self.gains = np.zeros((0, 3), np.int64), np.zeros(0)

    @property
    def joins(self) -> bool:
        """Whether there are joint steps, and visits say what they gained."""
        return isinstance(self.state, Joining) and self.state.joins

    def _pass(self, kind: str) -> float:
        if kind == ACTIVE:
            spans = self.state.active()
            self.spans = spans[self.random.permutation(len(spans))]
            _, self.gains = self._visit(kind, self.spans)
        elif kind == HOT and self.joins:
            usual = self.gains.sum() / max(1, len(self.gains))
            hot = self.random.permutation(np.flatnonzero(self.gains > BUSY * usual))
            _, self.gains[hot] = self._visit(kind, self.spans[hot])
        else:
            order, shift = self._due() if kind == FULL else (self._hot(), 0)
            spans = self.state.spans(order, shift)
            self._remember(order, spans, self._visit(kind, spans)[0])
        if self._noted(kind):
            self.loss += self.state.joint(self.mu.mu, self.c, int(self.random.integers(1 << 62)))
        return float(self.gaps[np.isfinite(self.gaps)].sum())

    def _noted(self, kind: str) -> bool:
        """Whether a joint step follows. Not on the last pass of a cycle: the bounds that come then would suffer,
        until others have been visited, from what is moved for some."""
        return self.joins and kind != FULL and len(self.left) > 1

    def _schedule(self) -> list[str]:
        """Active passes, with hot ones between them; behind a certificate that was nearly enough a short cycle."""
        if not self.joins:
            return super()._schedule()
        active = 2 if self.decades < 0.5 or (self.certified and self._near(NEARLY)) else 3
        return [FULL, ACTIVE, *([*[HOT] * HOTTEST, ACTIVE] * (active - 1))]

    def _stride(self, kind: str, visits: int) -> int:
        """The larger c, the longer it takes until the dual has answered a change of mu."""
        every = super()._stride(kind, visits)
        return round(every * 10 ** (self.decades / 2)) if self.joins and kind != HOT else every

    def _rounds(self, kind: str) -> int:
        if self.joins and kind == HOT:
            return HOT_ROUNDS
        return FEW_ROUNDS if self.joins and kind == FULL and self.oracle.templates < FEW else ROUNDS

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

    def _visit(self, kind: str, spans: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Visits spans in order, with mu following every so often. Returns the gap and the gain of each."""
        gaps, gains = np.zeros(len(spans)), np.zeros(len(spans))
        every, rounds = self._stride(kind, len(spans)), self._rounds(kind)
        if self.joins:
            self.state.noting = self._noted(kind)
        for k in range(0, len(spans), every):
            some = spans[k : k + every]
            visits = self.state.visit(some, self.mu.mu, self.c, rounds, self.tolerance, self.enough)
            gaps[k : k + every] = visits.gaps
            if visits.gains is not None:
                gains[k : k + every] = visits.gains
            self.loss += visits.loss
            self.since += len(some)
            if kind != HOT or self.since >= every:  # a hot pass may be shorter than that
                self.mu.follow(self.N)
                self.since = 0
        return gaps, gains

    def _remember(self, order: NDArray[np.int64], spans: NDArray[np.int64], gap: NDArray[np.float64]) -> None:
        """A sentence without a gap waits, twice as long each time; one with a gap is due at once."""
        gaps = np.zeros(self.oracle.sentences)
        np.add.at(gaps, spans[:, 2], gap)
        self.gaps[order] = gaps[order]
        calm = order[gaps[order] < self.tolerance]
        self.rest[order] = np.where(gaps[order] < self.tolerance, self.rest[order], 0)
        self.rest[calm] = np.minimum(2 * self.rest[calm] + 1, LONGEST_REST)
        self.wait[order] = self.rest[order]

    def _rebuild(self) -> None:
        self.state.repair()
        node, *rest = self.state.counts()
        self.loss = self.state.loss(node)
        self.oracle.count([self.c * z for z in (node, *rest)], self.V)
        self.N[:] = self.oracle.squared_norms(self.V)
