"""A run of the coordinate solver: cycles of passes, template weights, bounds and certificate.

A cycle is a full pass, then working-set and gap-sampled passes (solver.py). Bounds follow at its
end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Stateful
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Fit,
    Record,
    SolverRun,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
)
from mtlstruct.solvers.coordinate_ascent.block_sampler import FULL, GAP_SAMPLED, WORKING_SET, BlockSampler
from mtlstruct.solvers.coordinate_ascent.duals import dual_state

MAX_STEPS = 5
"""Pairwise steps in one block update, at most."""

MAX_CERTIFY_FACTOR = 3.5
"""A full pass measures gaps before it closes them, so a certificate is tried when the estimate is
this near; more work between full passes (large c) makes the estimate staler."""

CERTIFY_RATIO, CERTIFY_GROWTH = 1.15, 1.15
"""After a certificate that was not enough, the next is tried when the estimate has fallen as far as
that one lacked, or nearly; what is near grows with each cycle, since an estimate need not fall as
the gap does. An estimate that is good enough is always tried: on small data it may be far below the
gap."""

SHARE = 0.05
"""Tolerance of the scale of w, as a share of the gap asked for."""

NEAREST, FARTHEST = 0.7, 1.5
"""Scales of w that are tried."""

SAMPLED_PASSES = 8
"""Gap-sampled passes between two working-set passes."""

UPDATES = 80
"""Updates of mu in a full or working-set pass; more would make mu track noise."""


SLOWEST, FASTEST = 0.02, 2.0
"""Bounds of the rate (starts at the upper): mu_j *= ((next mu_j) / mu_j) ** rate."""

GROWN, RELAX = 1.5, 1.2
"""A gap of this many times the least halves the rate; other cycles raise it by this."""

FLOOR = 1e-9
"""The least part of the total that a template has: one at zero could never come back."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a pass, the risk, and the scale of w that the upper one is for."""

    objective: float
    dual: float
    risk: float
    scale: float = 1.0


class TemplateWeights(Stateful):
    """mu of each template; set by a fixed point if the regularizer cannot drop templates.

    The dual answers a change of mu only after a pass. Where templates are badly scaled, mu and the
    norms then chase each other, and the gap grows: `adapt` lowers the rate.
    """

    state_fields = ("mu", "rate", "least_gap")

    def __init__(self, regularizer: Regularizer, m: int) -> None:
        self.regularizer = regularizer
        self.mu = regularizer.start(m)
        self.rate, self.least_gap = FASTEST, np.inf

    def begin(self, mu: NDArray[np.float64]) -> None:
        """Start from the mu of an earlier model, if it is learned; new templates get the mean."""
        total = self.mu.sum()
        if self.regularizer.sparse and mu.sum() > 0:
            known = np.where(mu > 0, mu, mu[mu > 0].mean())
            self.mu = known * total / known.sum()

    def follow(self, N: NDArray[np.float64]) -> None:
        """Update mu from the squared block norms."""
        target = self._next(N)
        if not self.regularizer.sparse:
            self.mu = target
        elif N.max(initial=0.0) > 0:
            total = self.mu.sum() if self.regularizer.degree == 1 else target.sum()
            mu = self.mu * np.maximum(target / self.mu, 1e-6) ** self.rate
            self.mu = np.maximum(mu / mu.sum(), FLOOR) * total

    def settle(self, N: NDArray[np.float64]) -> None:
        """Update mu at the end of a cycle, and its total if the regularizer is of degree 1."""
        self.follow(N)
        if self.regularizer.degree == 1:
            self.mu = self.mu * np.clip(self._next(N).sum() / self.mu.sum(), 0.5, 2.0)

    def adapt(self, gap: float) -> None:
        """Halve the rate after a cycle in which the gap has grown; else raise it."""
        grown = gap > GROWN * self.least_gap
        self.least_gap = gap if grown else min(self.least_gap, gap)
        self.rate = float(np.clip(self.rate * (0.5 if grown else RELAX), SLOWEST, FASTEST))

    def _next(self, N: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.regularizer.follow(self.mu, np.sqrt(np.maximum(N, 0.0)))


class Run(SolverRun):
    """The state of one run: dual variables, V, N, mu, the loss, and what is known of the bounds.

    left        what is still to be done of the present cycle, in order
    bounds      those of the last cycle, and whether they are proved
    certify_factor  a certificate is tried at an estimate of so many times the gap asked for
    """

    state_fields: ClassVar[tuple[str, ...]] = (
        *("N", "mu", "loss", "bound", "tolerance", "passes", "left", "bounds", "certified", "certify_factor"),
        *("V", "state", "sampler"),
    )

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, stop: Stop, seed: int) -> None:
        self.oracle, self.regularizer, self.c, self.stop = oracle, regularizer, c, stop
        self.C = c * oracle.sentences
        self.drop = stop.drop if regularizer.sparse else 0.0
        self.V = oracle.zeros()
        self.N = np.zeros(oracle.templates)
        self.state: Any = dual_state(oracle, self.V, self.N)
        self.sampler = BlockSampler(self.state, oracle.sentences, seed)
        self.mu = TemplateWeights(regularizer, oracle.templates)
        self.loss = 0.0
        self.bound = 0.0
        # While mu is learned, a sentence solved to the end is solved for weights that will have
        # moved.
        self.enough = 0.1 if regularizer.sparse else 0.0
        self.tolerance = 1e-3 / max(1.0, c)
        self.passes = 0
        self.left: list[str] = []
        self.bounds = Bounds(np.inf, 0.0, np.inf)
        self.certified = False
        self.certify_factor = np.inf

    # ------------------------------------------------------------ what the solver asks

    def begin(self, init: Start) -> None:
        """Start from the mu and, with a smooth loss, the distributions of an earlier model."""
        self.mu.begin(init.mu)
        if self.oracle.temperature > 0:
            scale = np.ones(self.oracle.templates) if init.scale is None else init.scale
            self.state.set_distributions(self.oracle.score(init.weights, scale))
            self._rebuild()

    def advance(self) -> Record | None:
        """Make a pass; compute bounds at the end of a cycle, and return its record."""
        if not self.left:
            self.passes += 1
            self.left = self._schedule()
        if self.left[0] == FULL:
            self._full_pass()
        else:
            self._pass(self.left[0])
        del self.left[0]
        if self.left:
            return None
        self._end_cycle()
        bounds = self.bounds
        gap, active = relative(bounds.objective, bounds.dual), active_templates(self.mu.mu)
        figures = bounds.objective, bounds.dual, gap, bounds.risk, active, self.certified
        return Record(self.passes, *figures, self.snapshot)

    def ended(self) -> bool:
        """Between cycles: whether there is no other."""
        last = self.passes == self.stop.max_passes or (self.certified and self._reached())
        return last and not self.left

    def snapshot(self) -> Fit:
        """The weights as they are, with the objective computed for them."""
        mu = self._kept()
        norms = mu * np.sqrt(self.oracle.squared_norms(self.V))
        risk, _ = self.oracle.risk(self.oracle.score(self.V, -mu))
        objective = self.regularizer.value(norms) + self.c * risk
        return self._fit(Bounds(objective, self.bounds.dual, self.bounds.risk), False)

    def result(self) -> Fit:
        """The weights at the best scale, with the certificate."""
        if not self.certified:
            self._certify()
        return self._fit(self.bounds, self._reached())

    # ------------------------------------------------------------ passes

    def _pass(self, kind: str) -> float:
        """Update blocks, and mu between them. Return the sum of gaps before each update."""
        spans = self.sampler.choose(kind)
        gaps = np.zeros(len(spans))
        every = max(25, len(spans) // UPDATES)
        for k in range(0, len(spans), every):
            some = spans[k : k + every]
            updates = self.state.update(some, self.mu.mu, self.c, MAX_STEPS, self.tolerance, self.enough)
            gaps[k : k + every] = updates.gaps
            self.loss += updates.loss
            if kind != GAP_SAMPLED:  # these spans are no fair sample for the norms
                self.mu.follow(self.N)
        self.sampler.record(kind, spans, gaps, self.tolerance)
        return self.sampler.total

    def _rebuild(self) -> None:
        """Recompute V, N and the loss from the dual variables, without rounding errors."""
        self.state.repair()
        node, *rest = self.state.counts()
        self.loss = self.state.loss(node)
        self.oracle.count([self.c * z for z in (node, *rest)], self.V)
        self.N[:] = self.oracle.squared_norms(self.V)

    # ------------------------------------------------------------ a cycle

    @property
    def decades(self) -> float:
        """Return the scale of c, from 0 (at most 1) to 2 (100 and more), by the step mu allows."""
        return float(np.clip(np.nan_to_num(np.log10(self.c * self.mu.mu.sum()), nan=2.0), 0.0, 2.0))

    def _schedule(self) -> list[str]:
        """The passes of a cycle; a large c gets more of them before everything is updated again."""
        repeated = [*[GAP_SAMPLED] * SAMPLED_PASSES, WORKING_SET] * (1 if self.decades < 0.5 else 2)
        return [FULL, WORKING_SET, *repeated]

    def _full_pass(self) -> None:
        before = self._dual_value()
        gap = self._pass(FULL)  # each before its visit: an overestimate of what is left now
        dual = max(before, self._dual_value())
        own = self.regularizer.value(self.mu.mu * self._norms())
        objective = max(dual, own + self.c * (self.loss + gap) - float(self.mu.mu @ self.N))
        self.bounds, self.certified = Bounds(objective, dual, self._risk(objective)), False

    def _end_cycle(self) -> None:
        """Plan the next cycle from estimated bounds; certify if this may be the last."""
        self.mu.settle(self.N)
        check_finite(self.passes, expected_loss=self.loss, norm_of_V=float(self.N.sum()))
        estimate = self.bounds
        self._tighten_tolerance(self.stop.asked(estimate.objective, self.C))
        self.mu.adapt(relative(estimate.objective, estimate.dual))
        stale = 4**self.decades
        if (
            self._near(stale * min(self.certify_factor, MAX_CERTIFY_FACTOR))
            or self.passes == self.stop.max_passes
        ):
            self._certify()
            proved = max(self.bounds.objective - self.bounds.dual, np.finfo(float).tiny)
            self.certify_factor = max(1.0, CERTIFY_RATIO * (estimate.objective - estimate.dual) / proved)
        else:
            self.certify_factor *= CERTIFY_GROWTH
        check_finite(self.passes, objective=self.bounds.objective, lower_bound=self.bounds.dual)

    def _tighten_tolerance(self, asked: float) -> None:
        """Return the tolerance of a sentence: a tenth of its share of the gap asked for."""
        self.tolerance = min(self.tolerance, 0.1 * asked / self.C)

    def _reached(self) -> bool:
        return self.stop.reached(self.bounds.objective, self.bounds.dual, self.C)

    def _near(self, slack: float) -> bool:
        """Return whether the estimated gap, by the lower bound, is within so many targets."""
        bounds = self.bounds
        return bounds.objective - bounds.dual <= slack * self.stop.asked(bounds.dual, self.C)

    # ------------------------------------------------------------ bounds

    def _certify(self) -> None:
        """Rebuilds V, N and the loss from the dual state, then computes both bounds."""
        self._rebuild()
        mu = self._kept()
        parts = self.oracle.score(self.V, -mu)
        norms = mu * self._norms()

        def primal(scale: float) -> tuple[float, float]:
            risk, slope = self.oracle.risk(parts, scale)
            own = self.regularizer.value(scale * norms)
            return own + self.c * risk, self.regularizer.degree * own / scale + self.c * slope

        objective, scale = minimise_over_scale(primal, SHARE * self.stop.asked(self.bounds.dual, self.C))
        self.bound = max(self.bound, self._dual_value())  # a bound once proved stays one
        self.bounds = Bounds(objective, self.bound, self._risk(objective, scale), scale)
        self.certified = True

    def _fit(self, bounds: Bounds, converged: bool) -> Fit:
        return Fit(
            weights=self.V,
            scale=-bounds.scale * self._kept(),
            mu=self._kept(),
            objective=bounds.objective,
            dual=bounds.dual,
            gap=relative(bounds.objective, bounds.dual),
            epsilon=(bounds.objective - bounds.dual) / self.C,
            passes=self.passes,
            converged=converged,
        )

    def _kept(self) -> NDArray[np.float64]:
        """Return mu without templates that the model will drop, for the certificate."""
        return np.where(self.mu.mu < self.drop * self.mu.mu.sum(), 0.0, self.mu.mu)

    def _norms(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self.N, 0.0))

    def _dual_value(self) -> float:
        """The dual at the best shrinking of α towards gold."""
        return self.regularizer.lower_bound(self.c * self.loss, self._norms())

    def _risk(self, objective: float, scale: float = 1.0) -> float:
        value = self.regularizer.value(scale * self.mu.mu * self._norms())
        return max(0.0, objective - value) / self.C


def minimise_over_scale(
    primal: Callable[[float], tuple[float, float]], enough: float, steps: int = 16
) -> tuple[float, float]:
    """Return (value, scale) of a convex function of the scale of w, least to within `enough`.

    primal(scale) gives value and slope. Tangents from both sides meet below the least value, which
    says how near it is, and where to look next: where the data can be separated the function has a
    sharp kink, and a poor scale would hide that all is well. Any scale gives a valid upper bound,
    so it need not be exact.
    """
    scale, stride = 1.0, 0.03
    best = (np.inf, 1.0)
    falling: tuple[float, float, float] | None = None
    rising: tuple[float, float, float] | None = None
    for _ in range(steps):
        value, slope = primal(scale)
        best = min(best, (value, scale))
        if slope < 0:
            falling = (scale, value, slope)
        else:
            rising = (scale, value, slope)
        if falling is None or rising is None:
            end = NEAREST if falling is None else FARTHEST
            if scale == end:
                break
            scale = float(np.clip(scale + (stride if rising is None else -stride), NEAREST, FARTHEST))
            stride *= 4
            continue
        (x, f, down), (y, g, up) = falling, rising
        scale = (g - f + down * x - up * y) / (down - up)
        if best[0] - (f + down * (scale - x)) <= enough:
            break
    return best
