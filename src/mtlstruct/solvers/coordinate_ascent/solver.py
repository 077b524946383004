"""Block-coordinate ascent on the dual, with a duality gap: the default solver.

The dual of Ω(w) + c·Σξ_i is  max_α c·Σ_i E_α[Δ] − Ω*(‖v_1‖, …, ‖v_m‖)  with one distribution α_i
per sentence, v_j = −c·Σ_i E_α[δΦ_ij] and w_j = −mu_j v_j; a smooth loss adds the entropy of α_i.
For fixed mu each sentence is a block: a small concave problem that the structure's dual state
improves by steps with exact line search (of a sequence, on its edge marginals). mu is updated from
the norms in between. A cycle is

1. a full pass over all sentences,
2. with the hinge, passes over the working set, the spans whose dual variables have left gold,
3. gap-sampled passes, over the spans of the last of these passes with the largest gaps,
4. bounds. When the estimated gap is small, both are computed from scratch: V is rebuilt from the
   dual variables, the lower bound is taken at the best scaling of α towards gold, the upper bound
   at the best scale of w.

References
----------
Lacoste-Julien et al.: Block-coordinate Frank–Wolfe optimization for structural SVMs, ICML 2013.
Osokin et al.: Minding the gaps for block Frank–Wolfe optimization of structured SVMs, ICML 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Fit,
    Record,
    Solver,
    SolverRun,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
    score_bytes,
    table_bytes,
)
from mtlstruct.solvers.coordinate_ascent.duals import dual_class, dual_state
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step
from mtlstruct.solvers.coordinate_ascent.template_weights import TemplateWeights

FULL, WORKING_SET, GAP_SAMPLED = "full", "working set", "gap-sampled"

MAX_STEPS = 5
"""Pairwise steps in one block update, at most."""

STALENESS, STALENESS_MARGIN = 3.5, 1.2
"""A full pass measures gaps before it closes them, so their sum is taken to be this many times the
gap at the end of the cycle at first. Each certificate measures that ratio; the second number, times
the ratio, is used from then on."""

SCALE_SHARE = 0.05
"""Tolerance of the scale of w, as a share of the gap asked for."""

MIN_SCALE_OF_W, MAX_SCALE_OF_W = 0.7, 1.5
"""Scales of w that are tried."""

MIN_SAMPLED_PASSES, MAX_SAMPLED_PASSES = 8, 40
"""Gap-sampled passes after a full or working-set pass. A smooth loss makes (c·Σ mu) / 3 of them,
within these limits: the larger this scale of w, the more an update of one block changes others."""

HINGE_GAP_RATIO, SMOOTH_GAP_RATIO = 4.0, 2.0
"""Spans whose last gap is more than this many times the mean are in a gap-sampled pass."""

MU_UPDATES_PER_PASS = 80
"""Updates of mu in a full or working-set pass; more would make mu track noise."""


@dataclass(frozen=True)
class Coordinate(Solver):
    """The solver. `seed` decides the order of block updates."""

    stop: Stop = field(default_factory=Stop)
    seed: int = 0
    needs: tuple[str, ...] = ("decode", "indicator", "weights")

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of V, the dual state and the part scores."""
        state = dual_class(type(oracle.structure), oracle.temperature > 0).memory(oracle)
        return int(table_bytes(oracle) + state + score_bytes(oracle))

    def start(self, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None) -> Run:
        """Return the run before the first pass."""
        run = Run(oracle, regularizer, c, self.stop, self.seed)
        if init is not None:
            run.begin(init)
        return run


@dataclass(frozen=True)
class Bounds:
    """The bounds of a cycle, and the scale of w that the upper one is for."""

    objective: float
    dual: float
    scale: float = 1.0


class Run(SolverRun):
    """The state of one run: dual variables, V, N, mu, the loss, and what is known of the bounds.

    left          the passes that are still to be made in the present cycle, in order
    spans, gaps   of the last full or working-set pass; the gap of each before its last update
    bounds        those of the last cycle, and whether they are certified
    """

    state_fields: ClassVar[tuple[str, ...]] = (
        *("N", "mu", "loss", "bound", "tolerance", "staleness", "passes", "left", "bounds", "certified"),
        *("V", "state", "random", "spans", "gaps"),
    )

    def __init__(self, oracle: Oracle, regularizer: Regularizer, c: float, stop: Stop, seed: int) -> None:
        self.oracle, self.regularizer, self.c, self.stop = oracle, regularizer, c, stop
        self.C = c * oracle.sentences
        self.V, self.N, self.loss = oracle.zeros(), np.zeros(oracle.templates), 0.0
        self.state = dual_state(oracle, self.V, self.N)
        self.mu = TemplateWeights(regularizer, oracle.templates)
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.spans, self.gaps = np.zeros((0, 3), np.int64), np.zeros(0)
        # While mu is learned, a block solved to the end is solved for weights that will have moved.
        self.enough = 0.1 if regularizer.sparse else 0.0
        self.tolerance = 1e-3 / max(1.0, c)
        # with the hinge, more work between full passes makes the gaps of a full pass staler
        self.staleness = STALENESS * (1.0 if oracle.temperature > 0 else 4 ** self._decades())
        self.passes, self.left = 0, list[str]()
        self.bound, self.bounds, self.certified = 0.0, Bounds(np.inf, 0.0), False

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
        objective, dual = self.bounds.objective, self.bounds.dual
        norm = self.regularizer.value(self.bounds.scale * self.mu.mu * self._norms())
        risk, active = max(0.0, objective - norm) / self.C, active_templates(self.mu.mu)
        figures = objective, dual, relative(objective, dual), risk, active, self.certified
        return Record(self.passes, *figures, self.snapshot)

    def ended(self) -> bool:
        """Return whether this is the end of the last cycle."""
        last = self.passes == self.stop.max_passes or (self.certified and self._reached())
        return last and not self.left

    def snapshot(self) -> Fit:
        """Return the weights as they are, with the objective computed for them."""
        mu = self._kept()
        norms = mu * np.sqrt(self.oracle.squared_norms(self.V))
        risk, _ = self.oracle.risk(self.oracle.score(self.V, -mu))
        objective = self.regularizer.value(norms) + self.c * risk
        return self._fit(Bounds(objective, self.bounds.dual), False)

    def result(self) -> Fit:
        """Return the weights at the best scale, with the certificate."""
        if not self.certified:
            self._certify()
        return self._fit(self.bounds, self._reached())

    # ------------------------------------------------------------ passes

    def _schedule(self) -> list[str]:
        """Return the passes of a cycle; a large c gets more of them between full passes."""
        if self.oracle.temperature > 0:
            wanted = min(MAX_SAMPLED_PASSES, self.c * self.mu.mu.sum() / 3)
            return [FULL] + [GAP_SAMPLED] * max(MIN_SAMPLED_PASSES, int(wanted))
        sampled = [GAP_SAMPLED] * MIN_SAMPLED_PASSES
        return [FULL, WORKING_SET, *[*sampled, WORKING_SET] * (1 if self._decades() < 0.5 else 2)]

    def _chosen(self, kind: str) -> NDArray[np.int64]:
        """Return which of the spans a pass updates, in the order of their updates."""
        if kind == GAP_SAMPLED:
            ratio = SMOOTH_GAP_RATIO if self.oracle.temperature > 0 else HINGE_GAP_RATIO
            large = self.gaps > ratio * self.gaps.sum() / max(1, len(self.gaps))
            return self.random.permutation(np.flatnonzero(large))
        shift = int(self.random.integers(1 << 30))
        self.spans = self.state.spans(shift) if kind == FULL else self.state.active()
        self.gaps = np.zeros(len(self.spans))
        return self.random.permutation(len(self.spans))

    def _pass(self, kind: str) -> None:
        """Update blocks, and mu between them."""
        chosen = self._chosen(kind)
        every = max(25, len(chosen) // MU_UPDATES_PER_PASS)
        step = Step(self.c, MAX_STEPS, self.tolerance, self.enough, self.oracle.temperature)
        for k in range(0, len(chosen), every):
            some = chosen[k : k + every]
            self.gaps[some], change = self.state.update(self.spans[some], self.mu.mu, step)
            self.loss += change
            if kind != GAP_SAMPLED or self.oracle.temperature > 0:
                self.mu.update(self._norms())

    def _full_pass(self) -> None:
        """Update all blocks, and estimate both bounds from their gaps."""
        before = self._dual_value()
        self._pass(FULL)
        gap = float(self.gaps.sum())  # more than what is left now
        dual = max(before, self._dual_value())
        own = self.regularizer.value(self.mu.mu * self._norms())
        objective = max(dual, own + self.c * (self.loss + gap) - float(self.mu.mu @ self.N))
        self.bounds, self.certified = Bounds(objective, dual), False

    def _end_cycle(self) -> None:
        """Update mu and the tolerance of blocks; certify if this may be the last cycle."""
        objective, dual = self.bounds.objective, self.bounds.dual
        self.mu.end_cycle(self._norms(), objective - dual)
        check_finite(self.passes, expected_loss=self.loss, norm_of_V=float(self.N.sum()))
        # a block may keep a tenth of its share of the gap asked for
        self.tolerance = min(self.tolerance, 0.1 * self.stop.asked(objective, self.C) / self.C)
        near = self.staleness * self.stop.asked(dual, self.C)
        if objective - dual <= near or self.passes == self.stop.max_passes:
            self._certify()
            certified = max(self.bounds.objective - self.bounds.dual, 1e-12 * objective)
            measured = STALENESS_MARGIN * (objective - dual) / certified
            self.staleness = max(measured, self.staleness / 2)  # mu may still oscillate
        check_finite(self.passes, objective=self.bounds.objective, lower_bound=self.bounds.dual)

    def _decades(self) -> float:
        """Return the scale of c, from 0 (at most 1) to 2 (100 and more), by the step mu allows."""
        return float(np.clip(np.nan_to_num(np.log10(self.c * self.mu.mu.sum()), nan=2.0), 0.0, 2.0))

    # ------------------------------------------------------------ bounds

    def _certify(self) -> None:
        """Rebuild V, N and the loss from the dual variables, then compute both bounds."""
        self._rebuild()
        mu = self._kept()
        parts, norms = self.oracle.score(self.V, -mu), mu * self._norms()

        def primal(scale: float) -> tuple[float, float]:
            risk, slope = self.oracle.risk(parts, scale)
            own = self.regularizer.value(scale * norms)
            return own + self.c * risk, self.regularizer.degree * own / scale + self.c * slope

        tolerance = SCALE_SHARE * self.stop.asked(self.bounds.dual, self.C)
        objective, scale = minimise_over_scale(primal, tolerance)
        self.bound = max(self.bound, self._dual_value())  # a bound once proved stays one
        self.bounds, self.certified = Bounds(objective, self.bound, scale), True

    def _rebuild(self) -> None:
        """Recompute V, N and the loss from the dual variables, without rounding errors."""
        self.state.repair()
        counts = self.state.counts()
        self.loss = self.state.loss(counts[0])
        self.oracle.count([self.c * z for z in counts], self.V)
        self.N[:] = self.oracle.squared_norms(self.V)

    def _reached(self) -> bool:
        return self.stop.reached(self.bounds.objective, self.bounds.dual, self.C)

    def _fit(self, bounds: Bounds, converged: bool) -> Fit:
        mu, values = self._kept(), (bounds.objective, bounds.dual)
        return Fit.bounded(self.V, -bounds.scale * mu, mu, values, self.C, self.passes, converged)

    def _kept(self) -> NDArray[np.float64]:
        """Return mu without templates that the model will drop, for the certificate."""
        drop = self.stop.drop if self.regularizer.sparse else 0.0
        return np.where(self.mu.mu < drop * self.mu.mu.sum(), 0.0, self.mu.mu)

    def _norms(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self.N, 0.0))

    def _dual_value(self) -> float:
        """Return the dual at the best scaling of α towards gold."""
        return self.regularizer.lower_bound(self.c * self.loss, self._norms())


def minimise_over_scale(
    primal: Callable[[float], tuple[float, float]], enough: float, steps: int = 16
) -> tuple[float, float]:
    """Return (value, scale) of a convex function of the scale of w, least to within `enough`.

    primal(scale) gives value and slope. Tangents from both sides meet below the least value, which
    says how near it is, and where to look next: where the data can be separated the function has a
    sharp kink. Any scale gives a valid upper bound, so it need not be exact.
    """
    scale, stride, best = 1.0, 0.03, (np.inf, 1.0)
    tangents: dict[bool, tuple[float, float, float]] = {}
    for _ in range(steps):
        value, slope = primal(scale)
        best = min(best, (value, scale))
        tangents[slope < 0] = scale, value, slope
        if len(tangents) == 2:
            (x, f, down), (y, g, up) = tangents[True], tangents[False]
            scale = (g - f + down * x - up * y) / (down - up)
            if best[0] - (f + down * (scale - x)) <= enough:
                break
        else:
            before = scale
            scale = min(max(scale + (stride if slope < 0 else -stride), MIN_SCALE_OF_W), MAX_SCALE_OF_W)
            stride *= 4
            if scale == before:
                break
    return best
