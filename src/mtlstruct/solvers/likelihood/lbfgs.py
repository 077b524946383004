"""L-BFGS for the log loss, with template weights mu that are fixed or learned.

With fixed mu, Ω is ½ Σ_j ‖w_j‖²/mu_j. A trial step of the line search costs one A for the part scores,
forward-backward, and one Aᵀ for the gradient.

Norms of blocks with exponents up to 2 are the least such quadratic over a set of mu (Micchelli and
Pontil 2005; Kloft et al. 2011):  Ω(w) = min over mu of ½ Σ_j ‖w_j‖²/mu_j + g(mu).  After every third pass mu
moves towards the minimiser for the present w, and the variables change with it: the weights that score
stay, and so do the pairs of L-BFGS, since the change of the quadratic in each of them is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import L2, Regularizer
from mtlstruct.solvers.base import Start, golden_section
from mtlstruct.solvers.likelihood.problem import MergedProblem
from mtlstruct.solvers.likelihood.quasi_newton import Vector, blend, combine, dot, wolfe
from mtlstruct.solvers.likelihood.run import QuasiNewton, QuasiNewtonRun, scale_rows

MIX_STEPS = 20
"""Golden sections in the search for the best mixture of two dual points."""

MU_POWER = 2.0
"""Exponent of the multiplicative update of mu; 1 minimises a bound of the objective, 2 is faster."""

MU_EVERY = 3
"""Passes between updates of mu: fewer make mu track noise, and each costs a third of a pass."""


class LBFGSRun(QuasiNewtonRun):
    """Run of L-BFGS. A trial step computes the gradient as well, so that its slope is known."""

    state_fields = (*QuasiNewtonRun.state_fields, "quadratic", "mixture_squares")

    def __init__(
        self, solver: QuasiNewton, oracle: Oracle, regularizer: Regularizer, c: float, init: Start | None
    ) -> None:
        self.learned = not hasattr(regularizer, "quadratic")
        mu = regularizer.start(oracle.templates)
        if self.learned and (p := getattr(regularizer, "p", 1.0)) > 2:
            raise IncompatibleError(f"L-BFGS with the log loss needs p of at most 2, got {p:g}")
        self.mu_floor = 0.1 * solver.stop.drop
        if self.learned and init is not None:
            mu = self._floored(init.mu)
        super().__init__(solver, MergedProblem(oracle, mu, c), regularizer, init)
        self.mixture_squares = np.zeros(oracle.templates if self.learned else 1)
        self.measure(self._evaluate())

    def step(self) -> bool:
        """Move along the quasi-Newton direction to a point that satisfies the Wolfe conditions."""
        self.pairs.direction(self.gradient, self.direction)
        slope = dot(self.gradient, self.direction)
        self.last_x[:], self.last_gradient[:] = self.x, self.gradient
        tried: dict[float, Likelihood] = {}

        def phi(t: float) -> tuple[float, float]:
            tried.clear()
            found = tried[t] = self._move_to(t)
            return self._half_square() + self.c * found.total, dot(self.gradient, self.direction)

        t = wolfe(phi, self.quadratic, slope, self.first_length())
        likelihood = tried.get(t) or self._move_to(t)
        if t > 0:
            self.push_pair()
        self.measure(likelihood)
        if not self.learned or (t > 0 and self.passes % MU_EVERY):
            return t > 0
        mu = self.problem.mu
        self.change_mu(self._next_mu())
        return t > 0 or not np.allclose(mu, self.problem.mu, rtol=0, atol=self.mu_floor * mu.sum())

    def measure(self, likelihood: Likelihood) -> None:
        """Update both bounds at the point."""
        super().measure(likelihood)
        self.quadratic = self._half_square() + self.c * likelihood.total

    def change_mu(self, mu: NDArray[np.float64]) -> None:
        """Replace mu; the weights that score stay."""
        self.rescale(mu)
        self.quadratic = self._half_square() + self.c * self.risk * self.problem.oracle.sentences

    def omega(self) -> float:
        """Return Ω of the weights at x, shared out among equal columns in proportion to mu."""
        return self.regularizer.value(self.block_norms()) if self.learned else self._half_square()

    def block_norms(self) -> NDArray[np.float64]:
        """Return ‖w_j‖ at x; overwrites the last point."""
        h = self.last_x
        self.problem.map_blocks(scale_rows, h, self.problem.precond, self.x)
        return np.asarray(self.problem.mu * np.sqrt(self.problem.template_products((h, h))[0]))

    def full_omega(self, weights: Weights) -> float:
        """Return Ω at the Euclidean norms of blocks."""
        return self.regularizer.value(np.sqrt(self.problem.full.squared_norms(weights)))

    def mix(self, gain: float) -> None:
        """Search the best point between the old mixture and the new distribution, scaled towards gold."""
        (cross, square), own = self._products((self.mixture, self.v), (self.v, self.v)), self.mixture_squares
        dual_norm = self.regularizer if self.learned else L2()  # in h, Ω* is ½‖v‖²

        def squares(t: float) -> NDArray[np.float64]:
            mixed = (1 - t) ** 2 * own + 2 * t * (1 - t) * cross + t * t * square
            return np.asarray(np.maximum(mixed, 0.0))

        def negative_bound(t: float) -> float:
            return -dual_norm.lower_bound((1 - t) * self.gain + t * gain, np.sqrt(squares(t)))

        t = golden_section(negative_bound, negative_bound(0.0), MIX_STEPS)
        self.dual = max(self.dual, -negative_bound(t))
        blend(1 - t, self.mixture, t, self.v)
        self.gain, self.mixture_squares = (1 - t) * self.gain + t * gain, squares(t)

    def _products(self, *pairs: tuple[Vector, Vector]) -> NDArray[np.float64]:
        """Return inner products of gradients per template; of gradients in h, whole, if mu is fixed."""
        if self.learned:
            return self.problem.template_products(*pairs)
        return np.array([[dot(a, b)] for a, b in pairs])

    def _next_mu(self) -> NDArray[np.float64]:
        mu, norms = self.problem.mu, self.block_norms()
        ratio = self.regularizer.weights(norms) / mu  # 1 at the optimum
        return self._floored(self.regularizer.weights(norms * ratio ** (MU_POWER - 1)))

    def _floored(self, mu: NDArray[np.float64]) -> NDArray[np.float64]:
        """Keep mu off zero, so that a template can come back."""
        return np.asarray(np.maximum(mu, self.mu_floor * mu.sum()))

    def final_mu(self) -> NDArray[np.float64]:
        """Return mu without the templates that have next to none, if the norm is sparse."""
        mu = self.problem.mu
        if not (self.learned and self.regularizer.sparse):
            return mu
        return np.where(mu < self.stop.drop * mu.sum(), 0.0, mu)

    def _move_to(self, t: float) -> Likelihood:
        combine(1.0, self.last_x, np.array([t]), self.direction[None], self.x)
        return self._evaluate()

    def _evaluate(self) -> Likelihood:
        """Return the likelihood at x; compute v and the gradient."""
        likelihood = self.likelihood()
        self.problem.loss_gradient(likelihood, self.v)
        self.problem.map_blocks(_gradient, self.gradient, self.problem.precond, self.x, self.v)
        return likelihood

    def _half_square(self) -> float:
        """Return ½‖h‖²."""
        return 0.5 * float(np.sum(self.problem.map_blocks(_squared_norm, self.x, self.problem.precond)))


@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """L-BFGS for the norms of blocks with exponents up to 2, and for fixed mu."""

    run = LBFGSRun
    needs: tuple[str, ...] = ("marginals", "weights")


# ---------------------------------------------------------------- kernels


@fast_kernel
def _gradient(out, precond, x, v):
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            out[f, y] = precond[f] * (precond[f] * x[f, y] + v[f, y])


@fast_kernel
def _squared_norm(x, precond):
    total = 0.0
    for f in range(x.shape[0]):
        row = 0.0
        for y in range(x.shape[1]):
            row += np.float64(x[f, y]) * np.float64(x[f, y])
        total += row * np.float64(precond[f]) * np.float64(precond[f])
    return total
