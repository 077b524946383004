"""Restricted master problem of L2, BlockL1Squared, GroupLasso: the paper's QCQP ((6), Appendix A).

    max_{α,θ} −θ + q·α    s.t.  ½ αᵀQ^jα ≤ θ for every template j,   α ≥ 0,   Σα ≤ C

Solved by a structured primal-dual interior point with Mehrotra's predictor-corrector. The
multipliers of the quadratic constraints are the template weights μ, which sum to one. L2 is the
program with the one block Σ_j Q^j. The group lasso is the program in which θ is 1/8, since its Ω*
is 0 where every ‖v_j‖ is at most ½; its μ have any sum. A Newton step costs O(m s²) to assemble and
O(s³) to solve. Every answer is measured by the certificate of `master`. Where C and Q are so large
that C·Q·ε, the rounding of ⟨v, p⟩, exceeds q, no answer can be certified: SolverError is raised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.linalg import LinAlgError

from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Regularizer
from mtlstruct.solvers.cutting_plane.master import (
    LEAST_DIVISOR,
    ROUNDING_MARGIN,
    Array,
    Dual,
    accepted,
    better,
    bounds,
    products,
    rescaled_bounds,
)

MAX_STEPS, MAX_STALLED_STEPS = 300, 15
"""Newton steps, and steps without progress."""

CENTRE_SLACK, BOUNDARY_SHARE = 0.3, 0.995
"""Slack of a starting point as a share of its gap; share of the way to the boundary."""

RIDGES = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Ridges of the scaled Newton matrix; later ones only where Cholesky fails."""

MAX_HALF_SQUARE = 0.125
"""Largest ½‖v_j‖² with finite Ω* of the group lasso."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """Solve the master of L2, BlockL1Squared or GroupLasso (`master.Master`)."""
    if not q.max(initial=0.0) > 0:  # nothing to gain
        alpha, mu = np.zeros(len(q)), regularizer.start(len(gram))
        return accepted(bounds(products(gram, alpha), q, C, alpha, mu, regularizer))
    lasso, plain = isinstance(regularizer, GroupLasso), isinstance(regularizer, L2)
    blocks = np.ascontiguousarray(gram.sum(axis=0)[None] if plain else gram)
    norm = regularizer if lasso else BlockL1Squared()  # with one block that is L2
    program = ConeProgram(blocks, q, C, norm, MAX_HALF_SQUARE if lasso else None)
    with np.errstate(all="ignore"):  # whatever overflows shows in the gap
        best = accepted(_interior(program, _opening(program, start), tol))
    return replace(best, mu=regularizer.start(len(gram))) if plain else best


@dataclass(frozen=True)
class ConeProgram:
    """QCQP over k templates: blocks float64[k,s,s], q float64[s], the cap C on Σα, θ if fixed."""

    blocks: Array
    q: Array
    C: float
    norm: Regularizer
    theta: float | None

    def measured(self, point: InteriorPoint) -> Dual:
        """Return the certificate of a point, made feasible.

        If better, that of the multiple that just satisfies every cut: the hinge must be zero where
        C is huge.
        """
        alpha, mu, dots = point.alpha, point.mu, point.dots
        total = max(float(alpha.sum()), LEAST_DIVISOR)
        if self.theta:
            by = 1 / max(1.0, total / self.C, float(np.sqrt(point.half.max() / self.theta)))
            return rescaled_bounds(by * dots, self.q, self.C, by * alpha, mu, self.norm)
        mu, most = mu / mu.sum(), self.C / total
        ratio = self.q / np.maximum(mu @ dots, LEAST_DIVISOR)
        needed = float(ratio.max(initial=0.0)) * (1 + ROUNDING_MARGIN)
        plain, scaled = (
            bounds(by * dots, self.q, self.C, by * alpha, mu, self.norm)
            for by in (min(1.0, most), min(max(1.0, needed), most))
        )
        return better(plain, scaled)


class InteriorPoint:
    """Primal-dual point: θ, and positive x = (t, α, rest) and z = (μ, λ, τ), each k+s+1 long.

    All x_i z_i go to 0. rest = C − Σα. t_j = θ − ½‖v_j‖² holds only in the end: a step that had to
    stay on this curve would stall. Where the constraint leaves more slack than x has, x takes it.
    dots float64[k,s] are the products ⟨v_j, p_j^r⟩, and half the ½‖v_j‖² that θ has to bound.
    """

    def __init__(self, program: ConeProgram, theta: float, x: Array, z: Array) -> None:
        k = len(program.blocks)
        self.theta, self.z, self.alpha, self.mu = theta, z, x[k:-1], z[:k]
        self.dots = products(program.blocks, self.alpha)
        self.half = np.maximum(0.5 * (self.dots @ self.alpha), 0.0)
        self.x = np.concatenate([np.maximum(x[:k], theta - self.half), x[k:]])


def _interior(program: ConeProgram, point: InteriorPoint, tol: float) -> Dual:
    """Run Mehrotra's predictor-corrector until the gap is within tol or progress stops."""
    best, least, stalled, steps = program.measured(point), np.inf, 0, 0
    while best.gap > tol and stalled < MAX_STALLED_STEPS and steps < MAX_STEPS:
        try:
            point = _advanced(program, point)
        except LinAlgError:
            break
        now, eta = program.measured(point), float(point.x @ point.z)
        moves = 0.01 * tol * abs(now.primal) < eta < 0.9 * least or now.gap < 0.9 * best.gap
        stalled = 0 if moves else stalled + 1
        best, least, steps = better(best, now), min(least, eta), steps + 1
    return best


def _opening(program: ConeProgram, start: Array | None) -> InteriorPoint:
    """Return a centred point near the best multiple of `start`; its multipliers need not fit it.

    Without a start, each cut is weighted as if alone; with one, every cut has a trace of that.
    """
    q, C = program.q, program.C
    steepest = program.blocks.diagonal(axis1=1, axis2=2).max(axis=0)
    alpha: Array = np.minimum(C, np.maximum(q, 1e-3 * q.max()) / np.maximum(steepest, LEAST_DIVISOR))
    if start is not None and q[: len(start)] @ start > 0.0:
        alpha *= 1e-3 * start.sum() / alpha.sum()
        alpha[: len(start)] = np.maximum(alpha[: len(start)], start)
    half = np.maximum(0.5 * products(program.blocks, alpha) @ alpha, 0.0)
    top = max(float(half.max()), LEAST_DIVISOR)
    best = np.sqrt(0.5 * program.theta / top) if program.theta else float(q @ alpha) / (2 * top)
    by = min(0.5 * C / float(alpha.sum()), best)
    alpha, gap = by * alpha, by * float(q @ alpha)
    theta = program.theta or by * by * float(half.max()) + CENTRE_SLACK * gap
    x = np.concatenate([theta - by * by * half, alpha, [C - alpha.sum()]])
    return InteriorPoint(program, theta, x, gap / len(x) / x)


def _advanced(program: ConeProgram, point: InteriorPoint) -> InteriorPoint:
    """Make one step; the predictor tells how much to centre and to correct."""
    newton = Newton(program, point)
    x, z, eta = point.x, point.z, float(point.x @ point.z)
    _, dx, dz = newton.direction(-x * z)
    by_x, by_z = _longest(x, dx), _longest(z, dz)
    left = float((x + by_x * dx) @ (z + by_z * dz)) / eta
    target = min(max(left**3, 1e-4), 0.5) * eta / len(x)
    dtheta, dx, dz = newton.direction(target - x * z - by_x * by_z * dx * dz)
    by = min(_longest(x, dx), _longest(z, dz))  # one for both: α and μ meet in μ_j Q^jα
    return InteriorPoint(program, point.theta + by * dtheta, x + by * dx, z + by * dz)


def _longest(x: Array, dx: Array) -> float:
    """Return the longest step, at most 1, that keeps x + step·dx positive."""
    ratio = float((-dx / x).max())
    if not np.isfinite(ratio):
        raise LinAlgError("the Newton step is not finite")
    return BOUNDARY_SHARE / max(BOUNDARY_SHARE, ratio)


class Newton:
    """Linearised optimality conditions at a point, with θ, t, μ, λ, rest and τ eliminated by hand.

    The s x s matrix that is left is Σ_j μ_j Q^j + Σ_j d_j (g_j − ḡ)(g_j − ḡ)ᵀ + diag(λ/α) +
    (τ/rest) 11ᵀ, g_j = Q^jα, d = μ/t, and ḡ the mean of the g_j under d: eliminating θ centres
    them. Where θ is fixed, ḡ is 0.
    """

    def __init__(self, program: ConeProgram, point: InteriorPoint) -> None:
        k, s = point.dots.shape
        self.point, self.ratio = point, point.z / point.x
        self.weight = np.inf if program.theta else float(self.ratio[:k].sum())
        self.mean = self.ratio[:k] @ point.dots / self.weight
        self.centred = point.dots - self.mean
        root = np.sqrt(self.ratio[:k])[:, None] * self.centred
        self.matrix = (point.mu @ program.blocks.reshape(k, s * s)).reshape(s, s) + root.T @ root
        self.matrix += self.ratio[-1]
        self.matrix.flat[:: s + 1] += self.ratio[k:-1]
        self.scale, self.factor = _cholesky(self.matrix)
        self.lack_alpha = point.mu @ point.dots - program.q - point.z[k:-1] + point.z[-1]
        self.lack_slack = point.theta - point.half - point.x[:k]
        self.lack_mu = 1.0 - float(point.mu.sum())

    def direction(self, change: Array) -> tuple[float, Array, Array]:
        """Return (dθ, dx, dz) that closes residuals to first order and changes x·z by `change`."""
        dots = self.point.dots
        k, push = len(dots), change / self.point.x
        pull = push[:k] - self.ratio[:k] * self.lack_slack
        dalpha = self._solve(
            push[k:-1] - push[-1] - self.lack_alpha - pull @ self.centred - self.lack_mu * self.mean
        )
        dtheta = (float(pull.sum()) - self.lack_mu) / self.weight + float(self.mean @ dalpha)
        dslack = dtheta - dots @ dalpha + self.lack_slack
        dx = np.concatenate([dslack, dalpha, [-dalpha.sum()]])
        return dtheta, dx, push - self.ratio * dx

    def _solve(self, right: Array) -> Array:
        """Return matrix⁻¹·right, refined once because of the ridge in the factor."""
        left = self._substitute(right)
        return left + self._substitute(right - self.matrix @ left)

    def _substitute(self, right: Array) -> Array:
        from scipy.linalg import cho_solve  # here: it takes 20 MB, and most trainings need no master

        return np.asarray(self.scale * cho_solve((self.factor, True), self.scale * right, check_finite=False))


def _cholesky(matrix: Array) -> tuple[Array, Array]:
    """Return scale and Cholesky factor of the scaled matrix, with the least ridge that works."""
    from scipy.linalg import cho_factor

    scale = 1.0 / np.sqrt(matrix.diagonal())
    for ridge in RIDGES:
        unit = matrix * scale * scale[:, None]
        unit.flat[:: len(unit) + 1] = 1.0 + ridge
        try:
            return scale, cho_factor(unit.T, lower=True, overwrite_a=True, check_finite=False)[0]
        except LinAlgError:
            continue
    raise LinAlgError("the Newton matrix is not positive definite")
