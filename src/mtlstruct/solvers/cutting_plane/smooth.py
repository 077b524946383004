"""Restricted master problem of p-block and mixed norms (the paper's proposition on p-block norms).

    min_α  Ω*(‖v_1‖, …, ‖v_m‖) − q·α    s.t.  α ≥ 0,  Σα ≤ C,        v_j = Σ_r α_r p_j^r

Projected gradient, as in the paper, accelerated (FISTA, Beck and Teboulle 2009), with
backtracking and with restarts where the momentum leads uphill (O'Donoghue and Candès 2015). The
gradient is Σ_j μ_j ⟨v_j, p_j^r⟩ − q^r with the μ that attains Ω*. The products ⟨v_j, p_j^r⟩ are
linear in α: a step computes those of its new point, and those of the point it extrapolates to are a
mean of known ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.cutting_plane.master import (
    LEAST_DIVISOR,
    Array,
    Dual,
    accepted,
    better,
    products,
    rescaled_bounds,
)

MAX_STEPS, CERTIFICATE_EVERY = 4000, 10
"""Gradient steps at most, and steps between certificates."""

CURVATURE_DECAY = 0.95
"""Factor of the curvature bound per step; it is doubled where a step exceeds the bound."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """Solve the master of PBlock or Mixed (`master.Master`)."""
    program = SmoothProgram(np.ascontiguousarray(gram), q, C, regularizer)
    with np.errstate(all="ignore"):  # whatever overflows shows in the gap
        return accepted(_accelerated_gradient(program, program.at(_reference(program, start)), tol))


class Point(NamedTuple):
    """alpha float64[s] with dots float64[m,s], the ⟨v_j, p_j^r⟩; both are linear in alpha."""

    alpha: Array
    dots: Array

    @property
    def norms(self) -> Array:
        """‖v_j‖."""
        return np.sqrt(np.maximum(self.dots @ self.alpha, 0.0))


@dataclass(frozen=True)
class SmoothProgram:
    """gram float64[m,s,s], q float64[s], the cap C on Σα, and Ω."""

    gram: Array
    q: Array
    C: float
    regularizer: Any  # with `attained`

    def at(self, alpha: Array) -> Point:
        """Return alpha with its products; one pass over the Gram matrices."""
        return Point(alpha, products(self.gram, alpha))

    def value(self, point: Point) -> float:
        """Return the objective."""
        return float(self.regularizer.conjugate(point.norms) - self.q @ point.alpha)

    def mu(self, point: Point) -> Array:
        """Return the template weights that belong to alpha; at v = 0 any will do."""
        norms = point.norms
        found = self.regularizer.attained(norms) if norms.any() else self.regularizer.start(len(norms))
        return np.asarray(found)

    def measured(self, point: Point) -> Dual:
        """Return the certificate."""
        return rescaled_bounds(point.dots, self.q, self.C, point.alpha, self.mu(point), self.regularizer)


def _project(x: Array, C: float) -> Array:
    """Return the nearest point with x ≥ 0, Σx ≤ C (Duchi et al. 2008)."""
    x = np.maximum(x, 0.0)
    if x.sum() <= C:
        return x
    down = np.sort(x)[::-1]
    excess = (np.cumsum(down) - C) / np.arange(1, len(x) + 1)
    theta = excess[np.flatnonzero(down > excess)[-1]]
    return np.asarray(np.maximum(x - theta, 0.0))


def _reference(program: SmoothProgram, start: Array | None) -> Array:
    """Return the best multiple of `start`, or of the cut with the largest q."""
    alpha = np.zeros(len(program.q))
    if start is not None and start.any():
        alpha[: len(start)] = start
    elif len(alpha):
        alpha[program.q.argmax()] = program.C
    gain = float(program.q @ alpha)
    curve = program.regularizer.conjugate(program.at(alpha).norms)
    best = gain / (2 * curve) if curve > 0 else 0.0
    return alpha * max(0.0, min(best, program.C / max(float(alpha.sum()), LEAST_DIVISOR)))


def _accelerated_gradient(program: SmoothProgram, here: Point, tol: float) -> Dual:
    best, ahead, curvature, momentum = program.measured(here), here, 1.0, 1.0
    for step in range(1, MAX_STEPS + 1):
        if best.gap <= tol:
            break
        slope = program.mu(ahead) @ ahead.dots - program.q
        new, curvature = _backtrack(program, ahead, slope, CURVATURE_DECAY * curvature)
        if float(slope @ (new.alpha - here.alpha)) > 0:
            momentum = 1.0
        next_momentum = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        beyond = (momentum - 1) / next_momentum
        ahead = Point(*(b + beyond * (b - a) for a, b in zip(here, new, strict=True)))
        here, momentum = new, next_momentum
        if step % CERTIFICATE_EVERY == 0:
            best = better(best, program.measured(here))
    return best


def _backtrack(program: SmoothProgram, at: Point, slope: Array, curvature: float) -> tuple[Point, float]:
    """Make the longest projected step that the quadratic bound allows."""
    value = program.value(at)
    while True:
        new = program.at(_project(at.alpha - slope / curvature, program.C))
        move = new.alpha - at.alpha
        bound = value + float(slope @ move) + 0.5 * curvature * float(move @ move)
        if program.value(new) <= bound + 1e-15 * abs(value) or not curvature < 1e300:
            return new, curvature
        curvature *= 2
