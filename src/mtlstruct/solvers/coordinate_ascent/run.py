"""A run of the coordinate learner: its cycles of passes, bounds and certificate, wherever the sentences are.

A cycle is a full pass, then active and hot ones (coordinate.py says what these are). Who has the sentences, one
machine or many, visits them in `_pass`, rebuilds V from their dual variables in `_rebuild`, and keeps V, N and the
loss up to date; everything else is the same for all and is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Keeper, Kept
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Fit, Record, Stop, active_templates, check_finite, relative
from mtlstruct.solvers.coordinate_ascent.template_weights import TemplateWeights

FULL, ACTIVE, HOT = "full", "active", "hot"

HOPE = 3.5
"""A full pass measures gaps before it closes them, so a certificate is tried when the estimate is this near;
more work between full passes (large c) makes the estimate staler."""

TRUST, PATIENCE = 1.15, 1.15
"""After a certificate that was not enough, the next is tried when the estimate has fallen as far as that one lacked,
or nearly; what is near grows with each cycle, since an estimate need not fall as the gap does. An estimate that is
good enough is always tried: on small data it may be far below the gap."""

SHARE = 0.05
"""How far from its best value, as a part of the gap asked for, the scale of w may leave the upper bound."""

NEAREST, FARTHEST = 0.7, 1.5
"""Scales of w that are tried."""

WARMUP = 3
"""Full passes with plain multiplicative mu updates, before each template gets its own rate."""


UPDATES = 40
"""How often mu follows the norms in a pass over all sentences; more often, and it runs after noise."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a pass, the risk, and the scale of w that the upper one is for."""

    objective: float
    dual: float
    risk: float
    scale: float = 1.0


class Ascent(Kept, ABC):
    """The state of one run: N, mu, the loss, and what is known of the bounds.

    V, N        V is only good after a certificate where sentences lie elsewhere
    left        what is still to be done of the present cycle, in order
    bounds      those of the last cycle, and whether they are proved
    hope        how many times the gap asked for the estimate may be when a certificate is tried, at small c
    """

    kept: ClassVar[tuple[str, ...]] = (
        *("N", "mu", "loss", "bound", "tolerance", "passes", "left", "bounds", "certified", "hope"),
    )

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, stop: Stop) -> None:
        self.oracle, self.regularizer, self.c, self.stop = oracle, regularizer, c, stop
        self.C = c * oracle.sentences
        self.drop = stop.drop if regularizer.sparse else 0.0
        self.V: Weights = []
        self.N = np.zeros(oracle.templates)
        self.mu = TemplateWeights(regularizer, oracle.templates)
        self.loss = 0.0
        self.bound = 0.0
        # While mu is learned, a sentence solved to the end is solved for weights that will have moved.
        self.enough = 0.1 if regularizer.sparse else 0.0
        self.tolerance = 1e-3 / max(1.0, c)
        self.passes = 0
        self.left: list[str] = []
        self.bounds = Bounds(np.inf, 0.0, np.inf)
        self.certified = False
        self.hope = np.inf

    # ------------------------------------------------------------ what the learner asks

    def begin(self, mu: NDArray[np.float64]) -> None:
        """From the mu of an earlier model."""
        self.mu.begin(mu)

    def cycle(self, keep: Keeper) -> None:
        """A full pass, then active and hot ones; a run that is taken up again may be within, and ends that first."""
        while self.part():
            keep.safe(self)

    def part(self) -> bool:
        """One pass of a cycle, and the bounds at the end of it; whether there is more of this cycle."""
        if not self.left:
            self.passes += 1
            self.left = self._schedule()
        if self.left[0] == FULL:
            self._full_pass()
        else:
            self._pass(self.left[0])
        del self.left[0]
        if not self.left:
            self._judge()
        return bool(self.left)

    def ended(self) -> bool:
        """Between cycles: whether there is no other."""
        last = self.passes == self.stop.max_passes or (self.certified and self._reached())
        return last and not self.left

    def figures(self) -> Record:
        """The last cycle in numbers."""
        bounds = self.bounds
        gap, active = relative(bounds.objective, bounds.dual), active_templates(self.mu.mu)
        return Record(self.passes, bounds.objective, bounds.dual, gap, bounds.risk, active, self.certified)

    def snapshot(self) -> Fit:
        """The weights as they are, with the objective computed for them."""
        mu = self._kept()
        norms = mu * np.sqrt(self.oracle.squared_norms(self.V))
        hinge = self.oracle.hinge(self.oracle.score(self.V, -mu))
        objective = self.regularizer.value(norms) + self.c * hinge.total
        return self._fit(Bounds(objective, self.bounds.dual, self.bounds.risk), False)

    def result(self) -> Fit:
        """The weights at the best scale, with the certificate."""
        if not self.certified:
            self._certify()
        return self._fit(self.bounds, self._reached())

    # ------------------------------------------------------------ where the sentences are

    @abstractmethod
    def _pass(self, kind: str) -> float:
        """Visits sentences, with mu following; the sum of the gaps that are known, each measured before its visit."""

    @abstractmethod
    def _rebuild(self) -> None:
        """V, N and the loss from the dual state: what rounding has done is undone."""

    # ------------------------------------------------------------ a cycle

    @property
    def decades(self) -> float:
        """How large c is, from 0 (at most 1) to 2 (100 and more), by what it does: mu scales the step it allows."""
        return float(np.clip(np.nan_to_num(np.log10(self.c * self.mu.mu.sum()), nan=2.0), 0.0, 2.0))

    def _schedule(self) -> list[str]:
        """Large c wants more work on what has moved before everything is looked at again (measured up to 100)."""
        decades = self.decades
        hot = round(10 * 4 ** (decades - 1))
        return [FULL, *([ACTIVE, *[HOT] * hot] * round(2 * 2**decades))]

    def _stride(self, kind: str, visits: int) -> int:
        """How many visits there are between two updates of mu, in a pass with so many.

        Hot passes are over few sentences, those that are worst off: mu that followed these as often as all would run
        after them (Spanish, c = 1: it took twice as long).
        """
        return max(25, (self.oracle.sentences if kind == HOT else visits) // UPDATES)

    def _full_pass(self) -> None:
        self.mu.adaptive = self.passes > WARMUP
        before = self._dual_value()
        gap = self._pass(FULL)  # each before its visit: an overestimate of what is left now
        dual = max(before, self._dual_value())
        own = self.regularizer.value(self.mu.mu * self._norms())
        objective = max(dual, own + self.c * (self.loss + gap) - float(self.mu.mu @ self.N))
        self.bounds, self.certified = Bounds(objective, dual, self._risk(objective)), False

    def _judge(self) -> None:
        """What the estimated bounds ask of the next cycle, and a certificate where this may be the last."""
        self.mu.settle(self.N)
        check_finite(self.passes, expected_loss=self.loss, norm_of_V=float(self.N.sum()))
        estimate = self.bounds
        self._sharpen(self.stop.asked(estimate.objective, self.C))
        self.mu.calm(relative(estimate.objective, estimate.dual))
        stale = 4**self.decades
        if self._near(stale * min(self.hope, HOPE)) or self.passes == self.stop.max_passes:
            self._certify()
            proved = max(self.bounds.objective - self.bounds.dual, np.finfo(float).tiny)
            self.hope = max(1.0, TRUST * (estimate.objective - estimate.dual) / proved)
        else:
            self.hope *= PATIENCE
        check_finite(self.passes, objective=self.bounds.objective, lower_bound=self.bounds.dual)

    def _sharpen(self, asked: float) -> None:
        """A sentence may stay this far from its optimum: a tenth of its share of the gap asked for."""
        self.tolerance = min(self.tolerance, 0.1 * asked / self.C)

    def _reached(self) -> bool:
        return self.stop.reached(self.bounds.objective, self.bounds.dual, self.C)

    def _near(self, slack: float) -> bool:
        """Whether the estimate is within so many times what is asked, by the lower bound: the upper may be wild."""
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
            hinge = self.oracle.hinge(parts, scale)
            own = self.regularizer.value(scale * norms)
            return own + self.c * hinge.total, self.regularizer.degree * own / scale + self.c * hinge.slope

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
        """mu without the templates that are all but dropped: the certificate is for what is kept in the model."""
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
    """The least value of a convex function of the scale of w, near 1, to within `enough`: (value, scale).

    primal(scale) gives value and slope. Tangents from both sides meet below the least value, which says how near it
    is, and where to look next: where the data can be separated the function has a sharp kink, and a poor scale would
    hide that all is well. Any scale gives a valid upper bound, so it need not be exact.
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
