"""L-BFGS for the log loss, with template weights mu that are fixed or learned.

With fixed mu, Ω is ½ Σ_j ‖w_j‖²/mu_j. A trial step of the line search costs one A for the part scores,
forward-backward, and one Aᵀ for the gradient.

Norms of blocks with exponents up to 2 are the least such quadratic over a set of mu (Micchelli and
Pontil 2005; Kloft et al. 2011):  Ω(w) = min over mu of ½ Σ_j ‖w_j‖²/mu_j + g(mu).  Both minimisations are one:
mu is that of norms exp(θ_j), and L-BFGS steps in x and θ together. As θ moves and x stays, weights move about
as their minimum does (`MergedProblem.set_mu`), so that x and θ are nearly independent variables. Each step lowers
this upper bound of Ω plus the loss. Records have the objective, with Ω itself, which may rise slightly.

IRW-CRF: rounds of a quadratic Ω whose template weights follow from the solution of the round before.

    w minimises ½ Σ_j ‖w_j‖²/mu_j + c·Σξ_i, from the last w;  then mu_j = ‖w_j‖² + ε;  at most ten times

The first round is a plain CRF, mu = 1. No round raises ½ Σ_j log(1 + ‖w_j‖²/ε) + c·Σξ_i, whose tangent in
‖w_j‖² is the weighted square; but that is not convex. So the certificate of a run is that of its last
round: it bounds the distance to the optimum for the given mu, and says nothing of that mu.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import L2, Regularizer
from mtlstruct.solvers.base import Fit, Start, golden_section
from mtlstruct.solvers.likelihood.problem import MergedProblem
from mtlstruct.solvers.likelihood.quasi_newton import blend, combine, dot, wolfe
from mtlstruct.solvers.likelihood.run import QuasiNewton, QuasiNewtonRun, change_variables

MIX_STEPS = 20
"""Golden sections in the search for the best mixture of two dual points."""

MU_EVERY = 3
"""Passes between changes of the scale of variables where mu is learned; each costs a third of a pass."""

MAX_RAISES = 20
"""How often mu near zero is raised where no step is found."""

MAX_LOG_STEP = 1.0
"""Largest change of θ in a first trial step."""

STEADY_CHANGE = 0.01
"""Rounds end when no mu_j changes by more than this share."""


class LBFGSRun(QuasiNewtonRun):
    """Run of L-BFGS. A trial step computes the gradient as well, so that its slope is known."""

    state_fields = (
        *QuasiNewtonRun.state_fields,
        *("v", "quadratic", "mixture_squares", "origin", "theta_scale", "norms", "sums", "raised"),
    )

    def __init__(
        self, solver: QuasiNewton, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        self.learned, m, self.raised = not hasattr(regularizer, "quadratic"), oracle.templates, 0
        if self.learned and (p := getattr(regularizer, "p", 1.0)) > 2:
            raise IncompatibleError(f"L-BFGS with the log loss needs p of at most 2, got {p:g}")
        self.regularizer, self.floor = regularizer, 0.1 * solver.stop.drop
        self.norms = regularizer.start(m) / regularizer.weights(np.ones(m))
        if self.learned and init is not None and (own := oracle.squared_norms(init.weights)).any():
            self.norms = np.sqrt(np.maximum(own, self.floor**2 * own.max()))
        self.origin, self.theta_scale = np.log(self.norms), np.zeros(m)  # θ = origin + theta_scale·(end of x)
        problem = MergedProblem(oracle, self._mu_of(self.origin)[1], c, extra=m if self.learned else 0)
        super().__init__(solver, problem, regularizer, init)
        self.mixture_squares = np.zeros(m)
        self.measure(self._evaluate())
        if self.learned and init is not None:
            self.rescale()

    def step(self) -> bool:
        """Move along the quasi-Newton direction to a point that satisfies the Wolfe conditions."""
        if self.learned and self.passes % MU_EVERY == 1 and self.passes > 1:
            self.rescale()
        self.pairs.direction(self.gradient, self.direction)
        slope = dot(self.gradient, self.direction)
        self.last_x[:], self.last_gradient[:] = self.x, self.gradient
        tried: dict[float, Likelihood] = {}

        def phi(t: float) -> tuple[float, float]:
            tried.clear()
            found = tried[t] = self._move_to(t)
            return self._bound() + self.c * found.total, dot(self.gradient, self.direction)

        first = self.first_length()
        if self.learned:
            change = np.abs(self.theta_scale * self.direction[-len(self.origin) :]).max()
            first = min(first, MAX_LOG_STEP / max(float(change), 1e-9))
        t = wolfe(phi, self.quadratic, slope, first)
        likelihood = tried.get(t) or self._move_to(t)
        if t > 0:
            self.push_pair()
        self.measure(likelihood)
        return t > 0 or self._raise_weak_templates()

    def _raise_weak_templates(self) -> bool:
        """Where no step is found: raise mu_j near zero if ‖v_j‖ is too large; return whether any was."""
        if not self.learned or self.raised == MAX_RAISES or self.near():
            return False
        squares, wanted = self.sums[1], self._wanted_squares()
        weak = (squares > (1 + 0.5 * self.stop.gap) * wanted) & (self.norms < 0.1 * self.norms.max())
        if not weak.any():
            return False
        self.raised += 1
        self.origin, self.x[-len(weak) :] = np.log(np.where(weak, 10 * self.norms, self.norms)), 0
        self.pairs.order.clear()
        self.measure(self._evaluate())
        return True

    def _wanted_squares(self) -> NDArray[np.float64]:
        """Return what ‖v_j‖² are in proportion to at the optimum, with their present weighted sum."""
        mu, wanted = self.problem.mu, (self.norms / self.problem.mu) ** 2
        return np.asarray(wanted * float(mu @ self.sums[1]) / float(mu @ wanted))

    def measure(self, likelihood: Likelihood) -> None:
        """Update both bounds at the point."""
        super().measure(likelihood)
        self.quadratic = self._bound() + self.c * likelihood.total

    def rescale(self) -> None:
        """Change the variables to suit the curvature; that of θ_j is estimated at its present value."""
        if self.learned:
            mu, m, (_, squares, _, bend) = self.problem.mu, len(self.origin), self.sums
            strict = getattr(self.regularizer, "p", 1.0) - 1
            curve = (
                mu * mu * bend + 0.5 * mu * np.abs(squares - self._wanted_squares()) + strict * mu * squares
            )
            scale = 1 / np.sqrt(curve + 1e-9 * float(mu @ squares))
            ratio = np.divide(scale, self.theta_scale, out=np.ones(m), where=self.theta_scale > 0)
            for step, change in self.pairs.vectors():
                step[-m:], change[-m:] = step[-m:] / ratio, change[-m:] * ratio
            theta = self.theta()
            theta = np.maximum(theta, theta.max() + np.log(self.floor))  # so that a template can come back
            self.origin = theta - (theta.max() if self.regularizer.degree == 2 else 0.0)  # mu stays
            self.theta_scale = scale
            self.x[-m:] = 0
            self.norms = self._mu_of(self.origin)[0]
        super().rescale()
        self.set_gradient()

    def theta(self) -> NDArray[np.float64]:
        """Return θ at x."""
        return self.origin + self.theta_scale * self.x[-len(self.origin) :]

    @property
    def penalty(self) -> Regularizer:
        """Ω as a function of the norms of blocks."""
        return self.regularizer if self.learned else L2(self.problem.mu)

    def omega(self) -> float:
        """Return Ω of the weights at x, shared out among equal columns in proportion to mu."""
        return self.penalty.value(self.problem.mu * np.sqrt(self.sums[0]))

    def full_omega(self, weights: Weights) -> float:
        """Return Ω at the Euclidean norms of blocks."""
        return self.penalty.value(np.sqrt(self.problem.full.squared_norms(weights)))

    def mix(self, gain: float) -> None:
        """Search the best point between the old mixture and the new distribution, scaled towards gold."""
        cross = self.problem.template_products(self.mixture, self.v)
        own, square, penalty = self.mixture_squares, self.sums[1], self.penalty

        def squares(t: float) -> NDArray[np.float64]:
            mixed = (1 - t) ** 2 * own + 2 * t * (1 - t) * cross + t * t * square
            return np.asarray(np.maximum(mixed, 0.0))

        def negative_bound(t: float) -> float:
            return -penalty.lower_bound((1 - t) * self.gain + t * gain, np.sqrt(squares(t)))

        t = golden_section(negative_bound, negative_bound(0.0), MIX_STEPS)
        self.dual = max(self.dual, -negative_bound(t))
        blend(1 - t, self.mixture, t, self.v)
        self.gain, self.mixture_squares = (1 - t) * self.gain + t * gain, squares(t)

    def _mu_of(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return norms exp(θ_j), kept off zero, and their mu."""
        norms = np.exp(theta)
        norms += self.floor * norms.sum()
        return norms, self.regularizer.weights(norms)

    def _move_to(self, t: float) -> Likelihood:
        combine(1.0, self.last_x, np.array([t]), self.direction[None], self.x)
        return self._evaluate()

    def _evaluate(self) -> Likelihood:
        """Return the likelihood at x; compute v and the gradient."""
        problem = self.problem
        if self.learned:
            self.norms, mu = self._mu_of(self.theta())
            problem.set_mu(mu)
        likelihood = self.likelihood()
        problem.loss_gradient(likelihood, self.v)
        self.set_gradient()
        return likelihood

    def set_gradient(self) -> None:
        """Compute the gradient in x and θ, and sums for each template, from v."""
        problem, n = self.problem, self.norms
        problem.gradient(self.x, self.v, self.gradient)
        self.sums = problem.template_sums(self.x, self.v)
        if self.learned:
            mu, exp = problem.mu, np.exp(self.theta())
            slope = self.sums[2] + 0.5 * (n / mu) ** 2  # by mu; that of g is ½ n²/mu²
            by_norm = slope * mu / n - self.regularizer.hessian_product(n, slope * mu * mu / n)
            self.gradient[-len(n) :] = self.theta_scale * exp * (by_norm + self.floor * by_norm.sum())

    def _bound(self) -> float:
        """Return ½ Σ_j ‖w_j‖²/mu_j + g(mu), at least Ω."""
        mu, n = self.problem.mu, self.norms
        half = 0.5 * float(mu @ self.sums[0])
        return half + self.regularizer.value(n) - 0.5 * float(n @ (n / mu)) if self.learned else half


@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """L-BFGS for the norms of blocks with exponents up to 2, and for fixed mu."""

    run = LBFGSRun
    needs: tuple[str, ...] = ("marginals", "weights")


class _ReweightedRun(LBFGSRun):
    """Rounds of a quadratic Ω; bounds and the trace of the objective are those of the present round."""

    state_fields = (*LBFGSRun.state_fields, "rounds", "round_start")

    def __init__(
        self, solver: Reweighted, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        super().__init__(solver, oracle, regularizer, c, init)
        self.max_rounds, self.epsilon = solver.rounds, solver.epsilon
        self.rounds = self.round_start = 0

    def step(self) -> bool:
        """Make one step, the first of a new round if the present one is over."""
        if self._round_over(self.passes - 1):
            self.rounds, self.round_start = self.rounds + 1, self.passes - 1
            ratio = self.problem.rescale(self.curvature, self._reweighted())
            self.problem.map_blocks(change_variables, self.x, self.gradient, ratio)
            self.pairs.order.clear()  # Ω has changed
            self.set_gradient()
            self.quadratic = self._bound() + self.c * self.risk * self.problem.oracle.sentences
            self.objective, self.dual, self.trace = self.quadratic, 0.0, [self.quadratic]
        return super().step()

    def ended(self) -> bool:
        """Return whether the last round is over, or no pass is left."""
        if self.passes >= self.stop.max_passes:
            return True
        if not self._round_over(self.passes):
            return False
        change = float(np.abs(self._reweighted() / self.problem.mu - 1).max())
        return self.rounds >= self.max_rounds or change < STEADY_CHANGE

    def result(self) -> Fit:
        """Return the weights of the present round; mu sums to one."""
        found = super().result()
        return replace(found, mu=found.mu / found.mu.sum())

    def _round_over(self, passes: int) -> bool:
        return passes > self.round_start and (self.near() or not self.moved)

    def _reweighted(self) -> NDArray[np.float64]:
        return np.asarray(self.problem.mu**2 * self.sums[0] + self.epsilon)


@dataclass(frozen=True)
class Reweighted(QuasiNewton):
    """Solver of IRW-CRF: `rounds` after the plain one, `epsilon` as in the paper."""

    run = _ReweightedRun
    rounds: int = 10
    epsilon: float = 0.001
    needs: tuple[str, ...] = ("marginals", "quadratic")
