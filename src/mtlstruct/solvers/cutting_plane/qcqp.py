"""The QCQP master (eq. qcqp-dual and Appendix A of the paper): a structured primal-dual interior point.

    max_{α,θ} −θ + q·α    s.t.  ½ αᵀQ^jα ≤ θ for every template j,   α ≥ 0,   Σα ≤ C

The multipliers of the quadratic constraints are the template weights μ; L2 is the same program with the one
block Σ_j Q^j. A Newton step costs O(k s²) to assemble and O(s³) to solve, k being the templates at hand: few
are ever tight, so the method runs on a working set that only grows. Every round is measured on all templates
by the certificate of `base`; where rounding stops Newton, a slow method without factorisations takes over.
What no method can certify are C and Q so large that C·Q·ε, the rounding of ⟨v, p⟩, drowns q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from mtlstruct.errors import SolverError
from mtlstruct.objective.regularizers import BlockL1Squared, Regularizer
from mtlstruct.solvers.cutting_plane.master import MARGIN, Array, Dual, bounds, products

LIMIT, GOOD = 1e-3, 1e-5
"""Relative gaps: an answer beyond LIMIT is refused, one within GOOD needs no second method."""

ROUNDS, STEPS, PATIENCE, SWEEPS = 60, 80, 15, 300
"""Most working sets, Newton steps on one, steps in vain before giving up, sweeps of the slow method."""

FIRST, TIGHT = 24, 0.95
"""The first working set: this many templates, and all whose ½‖v_j‖² is this near the largest."""

REACH = 10.0
"""The cap on Σα starts this far beyond the α at hand: seen from a far C, every start is nothing but slack."""

HASTE = 0.01
"""A round ends at this part of the gap it began with; what is missing then is mostly another template."""

CENTRE, BOUNDARY = 0.3, 0.995
"""The slack of a starting point, as a part of its gap; the part of the way to the boundary a step may go."""

RIDGES = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Added to the unit diagonal of the scaled Newton matrix; the later ones only where Cholesky fails."""

TINY = float(np.finfo(np.float64).tiny)
"""The least divisor."""

CONES = BlockL1Squared()
"""In what follows every block is a cone; L2 has just one."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """The master for L2 and BlockL1Squared; see `base.Master`. Raises SolverError beyond a gap of LIMIT."""
    blocks = gram if isinstance(regularizer, BlockL1Squared) else gram.sum(axis=0)[None]
    program = Program(np.ascontiguousarray(blocks), q, C)  # a corner of a larger buffer is copied once, here
    with np.errstate(all="ignore"):  # whatever overflows shows in the gap
        best = _working_set(program, _reference(program, start), tol)
        if not best.gap <= max(tol, GOOD):
            best = _pairwise(program, best, tol)
    best = accepted(best)
    return best if len(blocks) == len(gram) else replace(best, mu=regularizer.start(len(gram)))


@dataclass(frozen=True)
class Program:
    """The QCQP over k templates: blocks float64[k,s,s], q float64[s], and the cap C on Σα."""

    blocks: Array
    q: Array
    C: float

    def view(self, alpha: Array, mu: Array) -> View:
        """(alpha, mu) as these templates see it; one pass over the blocks."""
        return View(alpha, mu, products(self.blocks, alpha))


@dataclass(frozen=True)
class View:
    """alpha float64[s] and mu float64[k] with dots float64[k,s], which holds ⟨v_j, p_j^r⟩."""

    alpha: Array
    mu: Array
    dots: Array

    @property
    def half(self) -> Array:
        """½‖v_j‖², what θ has to bound."""
        return np.asarray(np.maximum(0.5 * (self.dots @ self.alpha), 0.0))

    def measured(self, program: Program) -> Dual:
        """The certificate on a program with these templates, whatever its cap."""
        return bounds(self.dots, program.q, program.C, self.alpha, self.mu, CONES)

    def scaled(self, factor: float) -> View:
        """The same with factor·alpha."""
        return View(factor * self.alpha, self.mu, factor * self.dots)

    def on(self, cones: NDArray[np.intp]) -> View:
        """The part of some templates, mu in their simplex."""
        return View(self.alpha, self.mu[cones] / self.mu[cones].sum(), self.dots[cones])


def better(one: Dual, other: Dual) -> Dual:
    """The one with the smaller gap; a NaN loses."""
    return other if other.gap < one.gap or np.isnan(one.gap) else one


def accepted(best: Dual) -> Dual:
    """Return an answer whose gap is within LIMIT; raise SolverError for any other."""
    if not best.gap <= LIMIT:
        raise SolverError(f"the master: expected a gap of at most {LIMIT:.0e}, got {best.gap:.1e}", best.gap)
    return best


# ── the working set ──


def _working_set(program: Program, alpha: Array, tol: float) -> Dual:
    """Solves on a few templates, adds those whose constraint the answer breaks, until all are certified."""
    view = _opening(program, alpha)
    inside = view.mu > 0.0
    capped = replace(program, C=min(program.C, REACH * float(view.alpha.sum())))
    best, here, steps = _certified(program, view), view.measured(capped), 0
    for _ in range(ROUNDS):
        if not best.gap > tol:
            break
        cones = np.flatnonzero(inside)
        small = replace(capped, blocks=program.blocks[cones])
        room = min(here.primal - here.objective, REACH * best.objective)
        answer = _interior(small, _near(small, view.on(cones), room), max(0.3 * tol, HASTE * here.gap))
        steps += answer.iterations
        view = program.view(answer.alpha, _spread(answer.mu, inside))
        best, last, here = better(best, _certified(program, view)), here, view.measured(capped)
        if _admit(inside, view.half):
            continue
        if capped.C < program.C and _crowded(here, capped.C, tol):
            capped = replace(capped, C=min(program.C, REACH**2 * capped.C))
            here = view.measured(capped)
        elif not here.gap < 0.5 * last.gap:
            break  # nothing to add, and no nearer
    return replace(best, iterations=steps)


def _reference(program: Program, start: Array | None) -> Array:
    """Where to begin: each cut weighted as if it were alone, or the caller's alpha with a trace of that."""
    steepest = program.blocks.diagonal(axis1=1, axis2=2).max(axis=0)
    wish = np.maximum(program.q, 1e-3 * program.q.max(initial=0.0))
    alone: Array = np.minimum(program.C, np.maximum(wish, 0.0) / np.maximum(steepest, TINY))
    if start is None or not program.q[: len(start)] @ start > 0.0:
        return alone
    trace: Array = alone * (1e-3 * start.sum() / alone.sum())
    trace[: len(start)] = np.maximum(trace[: len(start)], start)
    return trace


def _opening(program: Program, alpha: Array) -> View:
    """The best multiple of alpha, with weight on the templates that are nearest to tight there."""
    view = program.view(alpha, np.ones(len(program.blocks)))
    top = float(view.half.max())
    height = view.half / max(top, TINY)
    few = min(FIRST, len(height))
    chosen = height >= min(TIGHT, np.partition(height, -few)[-few])
    mu = chosen / (1.1 - height)
    scale = min(program.C / max(float(alpha.sum()), TINY), float(program.q @ alpha) / max(2.0 * top, TINY))
    return replace(view, mu=mu / mu.sum()).scaled(scale)


def _certified(program: Program, view: View) -> Dual:
    """The certificate, also tried at the multiple of alpha that just satisfies every cut.

    Where C is huge the hinge must be zero and not nearly so, hence a margin beyond what rounding could undo.
    """
    needed = float((program.q / np.maximum(view.mu @ view.dots, TINY)).max(initial=0.0)) * (1.0 + MARGIN)
    factor = min(needed, program.C / max(float(view.alpha.sum()), TINY))
    plain = view.measured(program)
    return better(plain, view.scaled(factor).measured(program)) if factor > 1.0 else plain


def _spread(mu: Array, inside: NDArray[np.bool_]) -> Array:
    """mu of the working set -> mu of all templates."""
    full = np.zeros(len(inside))
    full[inside] = mu
    return full


def _admit(inside: NDArray[np.bool_], half: Array) -> bool:
    """Marks the templates outside that most exceed the θ of those inside; at most doubles the set."""
    excess = np.where(inside, 0.0, half - half[inside].max())
    worst = np.argsort(-excess)[: max(FIRST, int(inside.sum()))]
    new = worst[excess[worst] > 0.0]
    inside[new] = True
    return len(new) > 0


def _crowded(here: Dual, cap: float, tol: float) -> bool:
    """Whether the cap has done its work: solved for, or pressing while nearly solved for."""
    return here.gap <= tol or (here.gap < 0.1 and float(here.alpha.sum()) > 0.5 * cap)


# ── the interior point ──


@dataclass(frozen=True)
class Point:
    """θ, and positive partners x = (t, α, rest) and z = (μ, λ, τ), each k+s+1 long; all x_i z_i go to 0.

    rest = C − Σα, and t_j = θ − ½‖v_j‖² only in the end: a step that had to keep to this curve would stall.
    """

    theta: float
    x: Array
    z: Array
    view: View

    @property
    def cones(self) -> int:
        """k, the templates at hand."""
        return len(self.view.dots)

    @property
    def eta(self) -> float:
        """The complementarity that is left."""
        return float(self.x @ self.z)


def _point(program: Program, theta: float, x: Array, z: Array) -> Point:
    """Completes a point; where the constraint leaves more slack than x has, x takes it."""
    k = len(program.blocks)
    view = program.view(x[k:-1], z[:k])
    slack = np.maximum(x[:k], theta - view.half)
    return Point(theta, np.concatenate([slack, x[k:]]), z, view)


def _interior(program: Program, point: Point, tol: float) -> Dual:
    """Mehrotra's predictor-corrector from `point`, until the certificate is within tol or nothing moves."""
    best, least, vain, steps = _normalised(program, point), np.inf, 0, 0
    while best.gap > tol and vain < PATIENCE and steps < STEPS:
        try:
            point = _advanced(program, point)
        except LinAlgError:
            break
        now = _normalised(program, point)
        moves = 0.01 * tol * abs(now.primal) < point.eta < 0.9 * least or now.gap < 0.9 * best.gap
        vain = 0 if moves else vain + 1
        best, least, steps = better(best, now), min(least, point.eta), steps + 1
    return replace(best, iterations=steps)


def _normalised(program: Program, point: Point) -> Dual:
    """The certificate of a point, with mu in the simplex and alpha within the cap."""
    view = replace(point.view, mu=point.view.mu / point.view.mu.sum())
    over = float(view.alpha.sum()) / program.C
    return (view.scaled(1.0 / over) if over > 1.0 else view).measured(program)


def _near(program: Program, view: View, room: float) -> Point:
    """An interior point beside a view whose gap is `room`: feasible for primal and dual, nearly centred."""
    share = room / (len(view.mu) + len(view.alpha) + 1)
    theta = float(view.half.max()) + CENTRE * room
    slack = theta - view.half
    mu = np.maximum(view.mu, share / slack)
    mu /= mu.sum()
    score = program.q - mu @ view.dots
    tau = max(0.0, float(score.max())) + CENTRE * room / float(view.alpha.sum())
    within = (program.C - min(share / tau, 0.5 * program.C)) / float(view.alpha.sum())
    alpha = view.alpha * min(1.0, within)
    x = np.concatenate([slack, alpha, [program.C - alpha.sum()]])
    return _point(program, theta, x, np.concatenate([mu, tau - score, [tau]]))


def _advanced(program: Program, point: Point) -> Point:
    """One step: where plain Newton would go tells how much to centre and to correct."""
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
    """The longest step, at most 1, that keeps x + step·dx positive."""
    ratio = float((-dx / x).max())
    if not np.isfinite(ratio):
        raise LinAlgError("the Newton step is not finite")
    return BOUNDARY / max(BOUNDARY, ratio)


class Newton:
    """The linearised optimality conditions at a point, with θ, t, μ, λ, rest and τ eliminated by hand.

    What is left is s x s: Σ_j μ_j Q^j + Σ_j d_j (g_j − ḡ)(g_j − ḡ)ᵀ + diag(λ/α) + (τ/rest) 11ᵀ, g_j = Q^jα,
    d = μ/t, and ḡ the mean of the g_j under d: it is the elimination of θ that centres them.
    """

    def __init__(self, program: Program, point: Point) -> None:
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
        """(dθ, dx, dz) that to first order closes all residuals and changes x·z by `change`, k+s+1 long."""
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
        """matrix⁻¹·right, refined once, because the factor carries a ridge."""
        left = self._substitute(right)
        return left + self._substitute(right - self.matrix @ left)

    def _substitute(self, right: Array) -> Array:
        """Forward and back through the factor."""
        from scipy.linalg import lapack

        left, _ = lapack.dpotrs(self.factor, self.scale * right, lower=1)
        return np.asarray(self.scale * left)


def _cholesky(matrix: Array) -> tuple[Array, Array]:
    """(scale, factor) of the matrix scaled to unit diagonal, with the least ridge that lets it succeed."""
    from scipy.linalg import lapack  # here, since it takes 20 MB, and most trainings have no master

    scale = 1.0 / np.sqrt(matrix.diagonal())
    for ridge in RIDGES:
        unit = matrix * scale * scale[:, None]
        unit.flat[:: len(unit) + 1] = 1.0 + ridge
        factor, failed = lapack.dpotrf(unit.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return scale, factor
    raise LinAlgError("the Newton matrix is not positive definite")


# ── the slow method ──


def _pairwise(program: Program, best: Dual, tol: float) -> Dual:
    """Moves mass from the worst cut to the best under fixed mu, then mu_j ← mu_j‖v_j‖, which descends too."""
    mass = np.append(best.alpha, max(0.0, program.C - float(best.alpha.sum())))  # last: the cut p = 0, q = 0
    mu, steps = best.mu, best.iterations
    for _ in range(SWEEPS):
        steps += 1
        _transfer(np.tensordot(mu, program.blocks, 1), program.q, mass)
        view = program.view(mass[:-1].copy(), mu)
        best = better(best, _certified(program, view))
        if best.gap <= tol:
            break
        mu = CONES.follow(mu, np.sqrt(2 * view.half))
    return replace(best, iterations=steps)


def _transfer(matrix: Array, q: Array, mass: Array) -> None:
    """Exact line searches along pairs of cuts, 4 a cut, on mass float64[s+1] in place."""
    matrix = np.pad(matrix, (0, 1))
    slope = np.append(q, 0.0) - matrix @ mass
    for _ in range(4 * len(mass)):
        up, down = int(slope.argmax()), int(np.where(mass > 0.0, slope, np.inf).argmin())
        bend = matrix[up, up] + matrix[down, down] - 2.0 * matrix[up, down]
        step = min(mass[down], (slope[up] - slope[down]) / max(bend, TINY))
        if not step > 0.0:
            break
        mass[up] += step
        mass[down] -= step
        slope -= step * (matrix[up] - matrix[down])
