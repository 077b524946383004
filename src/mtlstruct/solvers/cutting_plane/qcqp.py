"""Restricted master problem of L2 and BlockL1Squared: the paper's QCQP ((6), Appendix A).

    max_{α,θ} −θ + q·α    s.t.  ½ αᵀQ^jα ≤ θ for every template j,   α ≥ 0,   Σα ≤ C

Solved by a structured primal-dual interior point with Mehrotra's predictor-corrector. The
multipliers of the quadratic constraints are the template weights μ; L2 is the program with the one
block Σ_j Q^j. A Newton step costs O(m s²) to assemble and O(s³) to solve. Every answer is measured
by the certificate of `master`. Where C and Q are so large that C·Q·ε, the rounding of ⟨v, p⟩,
exceeds q, no answer can be certified, and SolverError is raised.

The group lasso is ½ Σ‖w_j‖ = min over τ > 0 of ½ (Σ‖w_j‖)²/τ + τ/8. For fixed τ this is the problem
of BlockL1Squared with the cap C·τ, divided by τ. The derivative of its optimum is 1/8 −
½·max_j‖v_j‖², so at the best τ the longest v_j has length ½, the largest that Ω* allows. That
length falls as τ grows, and a few warm-started solves find the root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.linalg import LinAlgError

from mtlstruct.objective.regularizers import BlockL1Squared, Regularizer
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

MAX_ROUNDS, MAX_STEPS, MAX_STALLED_STEPS = 60, 80, 15
"""Caps on Σα that are tried, Newton steps under one of them, and steps without progress."""

CAP_GROWTH = 10.0
"""First cap on Σα, as a multiple of the starting α: far from C all constraints are slack."""

CENTRE_SLACK, BOUNDARY_SHARE = 0.3, 0.995
"""Slack of a starting point as a share of its gap; share of the way to the boundary."""

RIDGES = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Ridges of the scaled Newton matrix; later ones only where Cholesky fails."""

CONES = BlockL1Squared()
"""Every block is a cone; L2 has just one."""

MAX_NORM = 0.5
"""Largest ‖v_j‖ with finite Ω* of the group lasso."""

MAX_SOLVES, LEAST_GAP = 50, 1e-6
"""Solves at most, and the least gap worth reaching: each digit takes more of them."""

FIRST_SLOPE, SLOPE_BOUNDS = -0.7, (-100.0, -0.05)
"""Slope of log(max‖v‖/½) in log τ assumed at first, and bounds of the secants after that."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """Solve the master of L2 or BlockL1Squared (`master.Master`)."""
    blocks = gram if isinstance(regularizer, BlockL1Squared) else gram.sum(axis=0)[None]
    program = ConeProgram(
        np.ascontiguousarray(blocks), q, C
    )  # a corner of a larger buffer is copied once, here
    with np.errstate(all="ignore"):  # whatever overflows shows in the gap
        best = accepted(_solve_under_caps(program, _reference(program, start), tol))
    return best if len(blocks) == len(gram) else replace(best, mu=regularizer.start(len(gram)))


@dataclass(frozen=True)
class ConeProgram:
    """QCQP over k templates: blocks float64[k,s,s], q float64[s], and the cap C on Σα."""

    blocks: Array
    q: Array
    C: float

    def view(self, alpha: Array, mu: Array) -> ConeView:
        """Return alpha and mu with their products; one pass over the blocks."""
        return ConeView(alpha, mu, products(self.blocks, alpha))


@dataclass(frozen=True)
class ConeView:
    """alpha float64[s] and mu float64[k] with dots float64[k,s], the products ⟨v_j, p_j^r⟩."""

    alpha: Array
    mu: Array
    dots: Array

    @property
    def half(self) -> Array:
        """½‖v_j‖², which θ has to bound."""
        return np.asarray(np.maximum(0.5 * (self.dots @ self.alpha), 0.0))

    def measured(self, program: ConeProgram) -> Dual:
        """Return the certificate on a program with these templates."""
        return bounds(self.dots, program.q, program.C, self.alpha, self.mu, CONES)

    def scaled(self, factor: float) -> ConeView:
        """Return the view of factor·alpha."""
        return ConeView(factor * self.alpha, self.mu, factor * self.dots)


# ── the cap on Σα ──


def _solve_under_caps(program: ConeProgram, alpha: Array, tol: float) -> Dual:
    """Run the interior point under a growing cap on Σα until the gap under C itself is closed."""
    view = _opening(program, alpha)
    capped = replace(program, C=min(program.C, CAP_GROWTH * float(view.alpha.sum())))
    best, here, steps = _certified(program, view), view.measured(capped), 0
    for _ in range(MAX_ROUNDS):
        if not best.gap > tol:
            break
        gap = min(here.primal - here.objective, CAP_GROWTH * best.objective)
        answer = _interior(capped, _near(capped, view, gap), 0.3 * tol)
        steps += answer.iterations
        view = program.view(answer.alpha, answer.mu)
        best, last, here = better(best, _certified(program, view)), here, view.measured(capped)
        solved = here.gap <= tol or (here.gap < 0.1 and float(here.alpha.sum()) > 0.5 * capped.C)
        if capped.C < program.C and solved:
            capped = replace(capped, C=min(program.C, CAP_GROWTH**2 * capped.C))
            here = view.measured(capped)
        elif not here.gap < 0.5 * last.gap:
            break
    return replace(best, iterations=steps)


def _reference(program: ConeProgram, start: Array | None) -> Array:
    """Return the starting α: each cut weighted as if alone, or `start` plus a trace of that."""
    steepest = program.blocks.diagonal(axis1=1, axis2=2).max(axis=0)
    gain = np.maximum(program.q, 1e-3 * program.q.max(initial=0.0))
    alone: Array = np.minimum(program.C, np.maximum(gain, 0.0) / np.maximum(steepest, LEAST_DIVISOR))
    if start is None or not program.q[: len(start)] @ start > 0.0:
        return alone
    trace: Array = alone * (1e-3 * start.sum() / alone.sum())
    trace[: len(start)] = np.maximum(trace[: len(start)], start)
    return trace


def _opening(program: ConeProgram, alpha: Array) -> ConeView:
    """Return the best multiple of alpha, with the largest mu on the templates nearest to tight."""
    view = program.view(alpha, np.ones(len(program.blocks)))
    top = float(view.half.max())
    mu = 1 / (1.1 - view.half / max(top, LEAST_DIVISOR))
    scale = min(
        program.C / max(float(alpha.sum()), LEAST_DIVISOR),
        float(program.q @ alpha) / max(2.0 * top, LEAST_DIVISOR),
    )
    return replace(view, mu=mu / mu.sum()).scaled(scale)


def _certified(program: ConeProgram, view: ConeView) -> Dual:
    """Return the certificate at alpha, or at the multiple that just satisfies every cut if better.

    Where C is huge the hinge must be exactly zero, hence a margin beyond rounding.
    """
    needed = float((program.q / np.maximum(view.mu @ view.dots, LEAST_DIVISOR)).max(initial=0.0)) * (
        1.0 + ROUNDING_MARGIN
    )
    factor = min(needed, program.C / max(float(view.alpha.sum()), LEAST_DIVISOR))
    plain = view.measured(program)
    return better(plain, view.scaled(factor).measured(program)) if factor > 1.0 else plain


# ── the interior point ──


@dataclass(frozen=True)
class InteriorPoint:
    """Primal-dual point: θ, and positive x = (t, α, rest) and z = (μ, λ, τ), each k+s+1 long.

    All x_i z_i go to 0. rest = C − Σα. t_j = θ − ½‖v_j‖² holds only in the end: a step that had to
    stay on this curve would stall.
    """

    theta: float
    x: Array
    z: Array
    view: ConeView

    @property
    def cones(self) -> int:
        """k, the number of templates."""
        return len(self.view.dots)

    @property
    def eta(self) -> float:
        """Complementarity that is left."""
        return float(self.x @ self.z)


def _point(program: ConeProgram, theta: float, x: Array, z: Array) -> InteriorPoint:
    """Complete a point; where the constraint leaves more slack than x has, x takes it."""
    k = len(program.blocks)
    view = program.view(x[k:-1], z[:k])
    slack = np.maximum(x[:k], theta - view.half)
    return InteriorPoint(theta, np.concatenate([slack, x[k:]]), z, view)


def _interior(program: ConeProgram, point: InteriorPoint, tol: float) -> Dual:
    """Run Mehrotra's predictor-corrector until the gap is within tol or progress stops."""
    best, least, stalled, steps = _normalised(program, point), np.inf, 0, 0
    while best.gap > tol and stalled < MAX_STALLED_STEPS and steps < MAX_STEPS:
        try:
            point = _advanced(program, point)
        except LinAlgError:
            break
        now = _normalised(program, point)
        moves = 0.01 * tol * abs(now.primal) < point.eta < 0.9 * least or now.gap < 0.9 * best.gap
        stalled = 0 if moves else stalled + 1
        best, least, steps = better(best, now), min(least, point.eta), steps + 1
    return replace(best, iterations=steps)


def _normalised(program: ConeProgram, point: InteriorPoint) -> Dual:
    """Return the certificate of a point, with mu in the simplex and alpha within the cap."""
    view = replace(point.view, mu=point.view.mu / point.view.mu.sum())
    over = float(view.alpha.sum()) / program.C
    return (view.scaled(1.0 / over) if over > 1.0 else view).measured(program)


def _near(program: ConeProgram, view: ConeView, gap: float) -> InteriorPoint:
    """Return an interior point near a view: primal and dual feasible, nearly centred."""
    share = gap / (len(view.mu) + len(view.alpha) + 1)
    theta = float(view.half.max()) + CENTRE_SLACK * gap
    slack = theta - view.half
    mu = np.maximum(view.mu, share / slack)
    mu /= mu.sum()
    score = program.q - mu @ view.dots
    tau = max(0.0, float(score.max())) + CENTRE_SLACK * gap / float(view.alpha.sum())
    within = (program.C - min(share / tau, 0.5 * program.C)) / float(view.alpha.sum())
    alpha = view.alpha * min(1.0, within)
    x = np.concatenate([slack, alpha, [program.C - alpha.sum()]])
    return _point(program, theta, x, np.concatenate([mu, tau - score, [tau]]))


def _advanced(program: ConeProgram, point: InteriorPoint) -> InteriorPoint:
    """Make one step; the predictor tells how much to centre and to correct."""
    newton = Newton(program, point)
    x, z = point.x, point.z
    _, dx, dz = newton.direction(-x * z)
    by_x, by_z = _longest(x, dx), _longest(z, dz)
    left = float((x + by_x * dx) @ (z + by_z * dz)) / point.eta
    target = min(max(left**3, 1e-4), 0.5) * point.eta / len(x)
    dtheta, dx, dz = newton.direction(target - x * z - by_x * by_z * dx * dz)
    by = min(_longest(x, dx), _longest(z, dz))  # one for both: α and μ meet in μ_j Q^jα
    return _point(program, point.theta + by * dtheta, x + by * dx, z + by * dz)


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
    them.
    """

    def __init__(self, program: ConeProgram, point: InteriorPoint) -> None:
        k, s = point.view.dots.shape
        self.point, self.ratio = point, point.z / point.x
        self.weight = float(self.ratio[:k].sum())
        self.mean = self.ratio[:k] @ point.view.dots / self.weight
        self.centred = point.view.dots - self.mean
        self.matrix = (point.view.mu @ program.blocks.reshape(k, s * s)).reshape(s, s)
        root = np.sqrt(self.ratio[:k])[:, None] * self.centred
        self.matrix += root.T @ root
        self.matrix += self.ratio[-1]
        self.matrix.flat[:: s + 1] += self.ratio[k:-1]
        self.scale, self.factor = _cholesky(self.matrix)
        self.lack_alpha = point.view.mu @ point.view.dots - program.q - point.z[k:-1] + point.z[-1]
        self.lack_slack = point.theta - point.view.half - point.x[:k]
        self.lack_mu = 1.0 - float(point.view.mu.sum())

    def direction(self, change: Array) -> tuple[float, Array, Array]:
        """Return (dθ, dx, dz) that closes residuals to first order and changes x·z by `change`."""
        k = self.point.cones
        push = change / self.point.x
        pull = push[:k] - self.ratio[:k] * self.lack_slack
        dalpha = self._solve(
            push[k:-1] - push[-1] - self.lack_alpha - pull @ self.centred - self.lack_mu * self.mean
        )
        dtheta = (float(pull.sum()) - self.lack_mu) / self.weight + float(self.mean @ dalpha)
        dslack = dtheta - self.point.view.dots @ dalpha + self.lack_slack
        dx = np.concatenate([dslack, dalpha, [-dalpha.sum()]])
        return dtheta, dx, push - self.ratio * dx

    def _solve(self, right: Array) -> Array:
        """Return matrix⁻¹·right, refined once because of the ridge in the factor."""
        left = self._substitute(right)
        return left + self._substitute(right - self.matrix @ left)

    def _substitute(self, right: Array) -> Array:
        """Substitute forward and back through the factor."""
        from scipy.linalg import lapack

        left, _ = lapack.dpotrs(self.factor, self.scale * right, lower=1)
        return np.asarray(self.scale * left)


def _cholesky(matrix: Array) -> tuple[Array, Array]:
    """Return scale and Cholesky factor of the scaled matrix, with the least ridge that works."""
    from scipy.linalg import lapack  # imported here: it takes 20 MB, and most trainings need no master

    scale = 1.0 / np.sqrt(matrix.diagonal())
    for ridge in RIDGES:
        unit = matrix * scale * scale[:, None]
        unit.flat[:: len(unit) + 1] = 1.0 + ridge
        factor, failed = lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return scale, factor
    raise LinAlgError("the Newton matrix is not positive definite")


def solve_group_lasso(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """Solve the master of GroupLasso (`master.Master`) by the secant method in log τ."""
    alpha = np.zeros(len(q))
    if q.max(initial=0.0) > 0:
        alpha[q.argmax()] = C
    best = _scaled_certificate(
        gram, q, C, regularizer, alpha, np.zeros(len(gram))
    )  # w = 0, optimal for a small C
    if start is not None and start.any():
        alpha = np.pad(start, (0, len(q) - len(start)))
    log_total, slope, last = _log_excess(gram, alpha), FIRST_SLOPE, None
    for _ in range(MAX_SOLVES):
        if best.gap <= max(tol, LEAST_GAP):
            break
        total = math.exp(log_total)
        inner = solve(gram, q, C * total, CONES, total * alpha, 0.1 * tol)
        alpha = inner.alpha / total
        best = better(best, _scaled_certificate(gram, q, C, regularizer, alpha, total * inner.mu))
        excess = _log_excess(gram, alpha)
        if last is not None and log_total != last[0]:
            slope = float(np.clip((excess - last[1]) / (log_total - last[0]), *SLOPE_BOUNDS))
        last, log_total = (log_total, excess), log_total - excess / slope
    return accepted(best)


def _log_excess(gram: Array, alpha: Array) -> float:
    """Return log(max‖v_j‖/½)."""
    return math.log(max(_longest_block(gram, alpha), LEAST_DIVISOR) / MAX_NORM)


def _longest_block(gram: Array, alpha: Array) -> float:
    """Return max_j ‖v_j‖."""
    return math.sqrt(max(0.0, float((products(gram, alpha) @ alpha).max(initial=0.0))))


def _scaled_certificate(
    gram: Array, q: Array, C: float, regularizer: Regularizer, alpha: Array, mu: Array
) -> Dual:
    """Return the certificate of alpha, scaled to be feasible, and of w_j = −mu_j v_j."""
    scale = min(1.0, MAX_NORM / max(_longest_block(gram, alpha), LEAST_DIVISOR))
    dots = products(gram, scale * alpha)
    return rescaled_bounds(dots, q, C, scale * alpha, mu / scale, regularizer)
