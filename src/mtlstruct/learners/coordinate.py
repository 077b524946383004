"""Block-coordinate ascent on the dual, the default learner: one sentence at a time, template weights in between.

The dual of Ω(w) + c·Σξ_i is  max_α c·Σ_i E_α[Δ] − Ω*(‖v_1‖, …, ‖v_m‖)  with v_j = −c·Σ_i E_α[δΦ_ij], one
distribution α_i a sentence, and w_j = −mu_j v_j. For fixed mu each sentence is a small concave problem that the
structure's dual state improves exactly (`visit`); mu then follows the norms. Passes come in three kinds: *full*
ones over all sentences (those that had nothing to gain wait a while), *active* ones over the tokens whose mass
has left gold, and *hot* ones over the sentences with the largest gaps, more of them for large c.

Nothing is believed that is not certified: V is rebuilt from the dual state (which removes rounding), the lower
bound is taken at the best shrinking of α towards gold, the upper bound at the best scale of w.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..keeping import Keeper, Kept
from ..oracle import Oracle, Weights, dual_memory
from ..regularizers import Regularizer
from .base import (
    NOTHING,
    Fit,
    Record,
    Start,
    Stop,
    Watch,
    active_templates,
    check_finite,
    relative,
    score_bytes,
    table_bytes,
)

ROUNDS = 5
"""Best-and-worst path rounds in one visit; more did not help."""

UPDATES = 40
"""How often mu follows the norms in one pass; more often, and it runs after noise."""

HOPE = 3.5
"""A full pass measures gaps before it closes them, so a certificate is tried when the estimate is this near;
more work between full passes (large c) makes the estimate staler."""

WARMUP = 3
"""Full passes with plain multiplicative mu updates, before each template gets its own rate."""


@dataclass(frozen=True)
class Coordinate:
    """The learner. `seed` orders the visits."""

    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    needs: tuple[str, ...] = ("decode", "indicator", "weights")

    def memory(self, oracle: Oracle) -> int:
        """V, the dual state, the part scores."""
        state = dual_memory(oracle.structure, len(oracle.gold))
        return table_bytes(oracle) + state + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Regularizer,
        c: float,
        watch: Watch,
        start: Start | None = None,
        keep: Keeper = NOTHING,
    ) -> Fit:
        """Passes until the certified gap is small enough."""
        ascent = _Ascent(oracle, regularizer, c, self.seed, self.stop.drop)
        if start is not None:
            ascent.mu.begin(start.mu)
        keep.begin(ascent)
        C, stopped = c * oracle.sentences, False
        while not (stopped or self._ended(ascent, C)):
            ascent.cycle(keep)
            check_finite(ascent.passes, expected_loss=ascent.loss, norm_of_V=float(ascent.N.sum()))
            self._judge(ascent, C)
            check_finite(ascent.passes, objective=ascent.bounds.objective, lower_bound=ascent.bounds.dual)
            stopped = watch(ascent.record())
            keep.safe(ascent)
        if not ascent.certified:
            ascent.certify()
        return ascent.result(ascent.bounds, self._reached(ascent, C))

    def _judge(self, ascent: _Ascent, C: float) -> None:
        """After a pass: what its estimated bounds ask of the next, and a certificate where it may be the last."""
        bounds = ascent.bounds
        ascent.sharpen(self.stop.asked(bounds.objective, C))
        ascent.mu.calm(relative(bounds.objective, bounds.dual))
        near = self.stop.reached(bounds.objective, bounds.dual, C, slack=HOPE * 3**ascent.decades)
        if near or ascent.passes == self.stop.max_passes:
            ascent.certify()

    def _ended(self, ascent: _Ascent, C: float) -> bool:
        """Between passes: whether there is no other."""
        last = ascent.passes == self.stop.max_passes or (ascent.certified and self._reached(ascent, C))
        return last and not ascent.left

    def _reached(self, ascent: _Ascent, C: float) -> bool:
        return self.stop.reached(ascent.bounds.objective, ascent.bounds.dual, C)


@dataclass(frozen=True)
class _Bounds:
    objective: float
    dual: float
    risk: float
    scale: float = 1.0


class _Ascent(Kept):
    """The state of one run: V, N, mu, the dual state, and what is known about each sentence.

    left        what is still to be done of the present pass, in order
    bounds      those of the last pass, and whether they are proved
    """

    kept = (
        *("V", "N", "state", "mu", "random", "loss", "bound", "tolerance", "gaps", "rest", "wait"),
        *("passes", "left", "bounds", "certified"),
    )

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, seed: int, drop: float) -> None:
        self.oracle, self.regularizer, self.c = oracle, regularizer, c
        self.drop = drop if regularizer.sparse else 0.0
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.V: Weights = oracle.zeros()
        self.N = np.zeros(oracle.templates)
        self.state: Any = oracle.dual(self.V, self.N)
        self.mu = TemplateWeights(regularizer, oracle.templates)
        self.loss = 0.0
        self.bound = 0.0
        # While mu is learned, a sentence solved to the end is solved for weights that will have moved.
        self.enough = 0.1 if regularizer.sparse else 0.0
        self.tolerance = 1e-3 / max(1.0, c)
        self.gaps = np.full(oracle.sentences, np.inf)
        self.rest = np.zeros(oracle.sentences, np.int64)
        self.wait = np.zeros(oracle.sentences, np.int64)
        self.passes = 0
        self.left: list[str] = []
        self.bounds = _Bounds(np.inf, 0.0, np.inf)
        self.certified = False

    @property
    def decades(self) -> float:
        """How large c is, from 0 (at most 1) to 2 (100 and more), by what it does: mu scales the step it allows."""
        return float(np.clip(np.log10(self.c * self.mu.mu.sum()), 0.0, 2.0))

    def cycle(self, keep: Keeper = NOTHING) -> None:
        """A full pass, then the active and hot passes; the bounds are those estimated in the full pass.

        A run that is taken up again may be within a cycle; it ends that one first.
        """
        if not self.left:
            self.passes += 1
            self.left = self._schedule()
        do = {"full": self._full_pass, "active": self._active_pass, "hot": self._hot_pass}
        while self.left:
            do[self.left[0]]()
            del self.left[0]
            if self.left:
                keep.safe(self)
        self.mu.settle(self.N)

    def _schedule(self) -> list[str]:
        """Large c wants more work on what has moved before everything is looked at again (measured up to 100)."""
        decades = self.decades
        hot = round(10 * 4 ** (decades - 1))
        return ["full", *(["active", *["hot"] * hot] * round(2 * 2**decades))]

    def sharpen(self, asked: float) -> None:
        """A sentence may stay this far from its optimum: a tenth of its share of the gap asked for."""
        self.tolerance = min(self.tolerance, 0.1 * asked / (self.c * self.oracle.sentences))

    def _full_pass(self) -> None:
        self.mu.adaptive = self.passes > WARMUP
        due = np.flatnonzero(self.wait == 0)
        self.wait[self.wait > 0] -= 1
        order = self.random.permutation(due)
        shift = int(self.random.integers(1 << 30))
        before = self._dual_value()
        gaps = self._visit(self.state.spans(order, shift))
        self._remember(order, gaps)
        dual = max(before, self._dual_value())
        # Gaps were measured before each visit, so this overestimates what is left now.
        gap = float(self.gaps[np.isfinite(self.gaps)].sum())
        own = self.regularizer.value(self.mu.mu * self._norms())
        objective = max(dual, own + self.c * (self.loss + gap) - float(self.mu.mu @ self.N))
        self.bounds, self.certified = _Bounds(objective, dual, self._risk(objective)), False

    def _active_pass(self) -> None:
        spans = self.state.active()
        self._visit(spans[self.random.permutation(len(spans))])

    def _hot_pass(self) -> None:
        finite = self.gaps[np.isfinite(self.gaps)]
        if len(finite) == 0:
            return
        hot = np.flatnonzero(self.gaps > 2.5 * finite.mean())
        order = self.random.permutation(hot)
        self._remember(order, self._visit(self.state.spans(order, 0)))

    def _visit(self, spans: NDArray[np.int64]) -> NDArray[np.float64]:
        """Visits spans in order, with mu following every so often. Returns the gap of each sentence, summed."""
        gaps = np.zeros(self.oracle.sentences)
        every = max(25, len(spans) // UPDATES)
        for k in range(0, len(spans), every):
            some = spans[k : k + every]
            visits = self.state.visit(some, self.mu.mu, self.c, ROUNDS, self.tolerance, self.enough)
            np.add.at(gaps, some[:, 2], visits.gaps)
            self.loss += visits.loss
            self.mu.follow(self.N)
        return gaps

    def _remember(self, order: NDArray[np.int64], gaps: NDArray[np.float64]) -> None:
        """A sentence without a gap waits, twice as long each time; one with a gap is due at once."""
        self.gaps[order] = gaps[order]
        calm = order[gaps[order] < self.tolerance]
        self.rest[order] = np.where(gaps[order] < self.tolerance, self.rest[order], 0)
        self.rest[calm] = np.minimum(2 * self.rest[calm] + 1, 15)
        self.wait[order] = self.rest[order]

    def certify(self) -> None:
        """Rebuilds V, N and the loss from the dual state, then computes both bounds."""
        self.state.repair()
        node, *rest = self.state.counts()
        self.loss = self.state.loss(node)
        self.oracle.count([self.c * z for z in (node, *rest)], self.V)
        self.N[:] = self.oracle.squared_norms(self.V)
        mu = self._kept()
        parts = self.oracle.score(self.V, -mu)
        norms = mu * self._norms()

        def primal(scale: float) -> tuple[float, float]:
            hinge = self.oracle.hinge(parts, scale)
            own = self.regularizer.value(scale * norms)
            return own + self.c * hinge.total, self.regularizer.degree * own / scale + self.c * hinge.slope

        objective, scale = minimise_over_scale(primal)
        self.bound = max(self.bound, self._dual_value())  # a bound once proved stays one
        self.bounds = _Bounds(objective, self.bound, self._risk(objective, scale), scale)
        self.certified = True

    def record(self) -> Record:
        """The pass as the log keeps it."""
        bounds = self.bounds
        gap = relative(bounds.objective, bounds.dual)
        active = active_templates(self.mu.mu)
        return Record(
            self.passes,
            bounds.objective,
            bounds.dual,
            gap,
            bounds.risk,
            active,
            self.certified,
            self.snapshot,
        )

    def snapshot(self) -> Fit:
        """The weights as they are, with the objective computed for them."""
        mu = self._kept()
        norms = mu * np.sqrt(self.oracle.squared_norms(self.V))
        hinge = self.oracle.hinge(self.oracle.score(self.V, -mu))
        objective = self.regularizer.value(norms) + self.c * hinge.total
        return self.result(_Bounds(objective, self.bounds.dual, self.bounds.risk), False)

    def result(self, bounds: _Bounds, converged: bool) -> Fit:
        """The weights at the best scale, with the certificate."""
        return Fit(
            weights=self.V,
            scale=-bounds.scale * self._kept(),
            mu=self._kept(),
            objective=bounds.objective,
            dual=bounds.dual,
            gap=relative(bounds.objective, bounds.dual),
            epsilon=(bounds.objective - bounds.dual) / (self.c * self.oracle.sentences),
            passes=self.passes,
            converged=converged,
        )

    def _kept(self) -> NDArray[np.float64]:
        """mu without the templates that are all but dropped: the certificate is for what is kept in the model."""
        return np.where(self.mu.mu < self.drop * self.mu.mu.sum(), 0.0, self.mu.mu)

    def _norms(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self.N, 0.0))

    def _dual_value(self) -> float:
        """The dual at the best shrinking of α towards gold."""
        return self.regularizer.lower_bound(self.c * self.loss, self._norms())

    def _risk(self, objective: float, scale: float = 1.0) -> float:
        value = self.regularizer.value(scale * self.mu.mu * self._norms())
        return max(0.0, objective - value) / (self.c * self.oracle.sentences)


class TemplateWeights(Kept):
    """mu, following the block norms between visits.

    Where templates cannot drop out, the regularizer's own next mu is taken as it is. Where they can, that would be
    slow: mu_j moves a multiple (its rate) of the logarithmic step g_j instead, and the total goes where the
    regularizer puts it. After the warm-up each template has its own rate, which grows while g_j keeps its sign and
    halves on a flip. The dual answers a change of mu only after a pass, that is UPDATES updates: rates that grow too
    fast for that let mu and the norms chase each other (with 1.1 and 0.6 they do on small data, with many templates
    that can stand in for each other even so). It shows in a gap that grows again, and `calm` then lowers the ceiling
    of all rates, until the chase ends. For the same reason a total that depends on the norms (degree 1) moves once
    a pass.
    """

    kept = ("mu", "adaptive", "rate", "fastest", "best", "previous")

    FLOOR = 1e-9
    GROW, SHRINK, SLOWEST, FASTEST = 1.02, 0.5, 0.02, 4.0

    def __init__(self, regularizer: Regularizer, m: int) -> None:
        self.regularizer = regularizer
        self.mu = regularizer.start(m)
        self.adaptive = False
        self.rate = np.full(m, 2.0)
        self.fastest = self.FASTEST
        self.best = np.inf
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
        """Halves the highest rate after a pass whose gap is well above the best so far."""
        if self.adaptive and gap > 1.5 * self.best:
            self.fastest = max(self.SLOWEST, 0.5 * self.fastest)
        self.best = min(self.best, gap)

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


def minimise_over_scale(primal: Any, steps: int = 8) -> tuple[float, float]:
    """The least value of a convex function of the scale of w, near 1: (value, scale).

    primal(scale) gives value and slope. Any scale gives a valid upper bound, so it need not be exact; but where the
    data can be separated the function has a sharp kink, and a poor scale would hide that all is well.
    """
    value, slope = primal(1.0)
    best = (value, 1.0)
    low, high = (1.0, 1.5) if slope < 0 else (0.7, 1.0)
    scale = 1.03 if slope < 0 else 0.97
    for _ in range(steps):
        value, slope = primal(scale)
        best = min(best, (value, scale))
        low, high = (scale, high) if slope < 0 else (low, scale)
        if high - low < 0.002:
            break
        scale = 0.5 * (low + high)
    return best
