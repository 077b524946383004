"""The master of a smooth conjugate, that of p-block and mixed norms (the paper's proposition on p-block norms).

    min_α  Ω*(‖v_1‖, …, ‖v_m‖) − q·α    s.t.  α ≥ 0,  Σα ≤ C,        v_j = Σ_r α_r p_j^r

Two methods, each certified, the second taking over where the first stalls:

*Accelerated projected gradient*, the paper's choice. The gradient is Σ_j μ_j ⟨v_j, p_j^r⟩ − q^r with the μ that
attains Ω*, so it needs the products ⟨v_j, p_j^r⟩ and nothing else. They are linear in α: a step computes those of
its new point only, and those of the point it extrapolates to are a mean of known ones. The projection is Duchi's.
Where Nesterov's momentum leads uphill it starts again (O'Donoghue and Candès).

*Alternation.* For fixed μ the problem is that of L2 with the one block Σ_j μ_j Q^j, which the interior point solves
in O(s³) a step, without the m; then μ follows. For p-block norms this contracts by |2 − p| a sweep for p ≤ 2, and it
does not mind near-duplicate cuts, where gradients crawl. For mixed norms, whose μ
approaches zero ever more slowly, the gradient is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mtlstruct.errors import SolverError
from mtlstruct.objective.regularizers import L2, Norms, Regularizer
from mtlstruct.solvers.cutting_plane import qcqp as conic
from mtlstruct.solvers.cutting_plane.master import Array, Dual, products, stretched

STEPS, SWEEPS, EVERY, PATIENCE = 2000, 100, 10, 10
"""Most gradient steps, most alternations; a certificate every so many steps; sweeps in vain before giving up."""

SMALLER = 0.95
"""The bound on the curvature is let down by this much each step, and doubled where a step proves it wrong."""


class Smooth(Regularizer, Protocol):
    """A regularizer whose conjugate has a gradient."""

    def attained(self, norms: Norms) -> Norms:
        """The μ at which w_j = −μ_j v_j attains Ω*(v)."""
        ...


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """The master for PBlock and Mixed; see `base.Master`. Raises SolverError beyond a gap of conic.LIMIT."""
    smooth: Smooth = regularizer  # type: ignore[assignment]  # masters.MASTERS pairs them
    program = Program(np.ascontiguousarray(gram), q, C, smooth)
    methods = (descend, alternate) if regularizer.sparse else (alternate, descend)
    with np.errstate(all="ignore"):  # whatever overflows shows in the gap
        view = program.view(_reference(program, start))
        best = program.measured(view, program.mu(view))
        for method, enough in zip(methods, (tol, max(tol, conic.GOOD)), strict=True):
            if not best.gap <= enough:
                best = method(program, best, tol)
    return conic.accepted(best)


@dataclass(frozen=True)
class Program:
    """gram float64[m,s,s], q float64[s], the cap C on Σα, and Ω."""

    gram: Array
    q: Array
    C: float
    regularizer: Smooth

    def view(self, alpha: Array) -> View:
        """alpha with its products; one pass over the Gram matrices."""
        return View(alpha, products(self.gram, alpha))

    def value(self, view: View) -> float:
        """What is minimised."""
        return self.regularizer.conjugate(view.norms) - float(self.q @ view.alpha)

    def mu(self, view: View) -> Array:
        """The template weights that go with alpha; at v = 0 any will do."""
        norms = view.norms
        return self.regularizer.attained(norms) if norms.any() else self.regularizer.start(len(norms))

    def gradient(self, view: View) -> Array:
        """Of `value`."""
        return np.asarray(self.mu(view) @ view.dots - self.q)

    def measured(self, view: View, mu: Array) -> Dual:
        """The certificate."""
        return stretched(view.dots, self.q, self.C, view.alpha, mu, self.regularizer)


@dataclass(frozen=True)
class View:
    """alpha float64[s] with dots float64[m,s], the ⟨v_j, p_j^r⟩; both are linear in alpha."""

    alpha: Array
    dots: Array

    @property
    def norms(self) -> Array:
        """‖v_j‖."""
        return np.sqrt(np.maximum(self.dots @ self.alpha, 0.0))

    def towards(self, other: View, k: float) -> View:
        """self + k·(other − self)."""
        return View(self.alpha + k * (other.alpha - self.alpha), self.dots + k * (other.dots - self.dots))


def project(x: Array, C: float) -> Array:
    """The nearest point with x ≥ 0, Σx ≤ C (Duchi et al. 2008)."""
    x = np.maximum(x, 0.0)
    if x.sum() <= C:
        return x
    down = np.sort(x)[::-1]
    excess = (np.cumsum(down) - C) / np.arange(1, len(x) + 1)
    theta = excess[np.flatnonzero(down > excess)[-1]]
    return np.asarray(np.maximum(x - theta, 0.0))


# ── accelerated gradient ──


def _reference(program: Program, start: Array | None) -> Array:
    """Where to begin: the caller's alpha, or the cap on the cut with the largest q; scaled to its best multiple."""
    alpha = np.zeros(len(program.q))
    if start is not None and start.any():
        alpha[: len(start)] = start
    elif len(alpha):
        alpha[program.q.argmax()] = program.C
    gain = float(program.q @ alpha)
    curve = program.regularizer.conjugate(program.view(alpha).norms)
    best = gain / (2 * curve) if curve > 0 else 0.0
    return alpha * max(0.0, min(best, program.C / max(float(alpha.sum()), conic.TINY)))


def descend(program: Program, best: Dual, tol: float) -> Dual:
    """FISTA with backtracking and restarts until the certificate is within tol, or STEPS."""
    here = ahead = program.view(best.alpha)
    curvature, momentum = 1.0, 1.0
    for step in range(1, STEPS + 1):
        if best.gap <= tol:
            break
        slope = program.gradient(ahead)
        fresh, curvature = _backtrack(program, ahead, slope, SMALLER * curvature)
        if float(slope @ (fresh.alpha - here.alpha)) > 0:
            momentum = 1.0
        after = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead, here = here.towards(fresh, 1 + (momentum - 1) / after), fresh
        momentum = after
        if step % EVERY == 0:
            now = program.measured(here, program.mu(here))
            best = replace(conic.better(best, now), iterations=best.iterations + EVERY)
    return best


def _backtrack(program: Program, at: View, slope: Array, curvature: float) -> tuple[View, float]:
    """One projected step, as long as the quadratic bound allows."""
    value = program.value(at)
    while True:
        fresh = program.view(project(at.alpha - slope / curvature, program.C))
        move = fresh.alpha - at.alpha
        bound = value + float(slope @ move) + 0.5 * curvature * float(move @ move)
        if program.value(fresh) <= bound + 1e-15 * abs(value) or not curvature < 1e300:
            return fresh, curvature
        curvature *= 2


# ── alternation ──


def alternate(program: Program, best: Dual, tol: float) -> Dual:
    """Solves for alpha under fixed mu, then lets mu follow; stops where that no longer helps."""
    mu, alpha, vain = best.mu, best.alpha, 0
    for _ in range(SWEEPS):
        block = np.tensordot(mu, program.gram, 1)[None]
        try:
            alpha = conic.solve(block, program.q, program.C, L2(), alpha, 0.1 * tol).alpha
        except SolverError:
            break
        view = program.view(alpha)
        now = conic.better(program.measured(view, mu), program.measured(view, program.mu(view)))
        vain = 0 if now.gap < 0.9 * best.gap else vain + 1
        best = replace(conic.better(best, now), iterations=best.iterations + 1)
        if best.gap <= tol or vain > PATIENCE:
            break
        mu = program.regularizer.follow(mu, view.norms)
    return best
