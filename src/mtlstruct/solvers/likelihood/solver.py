"""Conditional random fields: L-BFGS for a quadratic Ω, ½ Σ_j ‖w_j‖²/mu_j, and OWL-QN for Ω = ‖w‖₁.

A trial step of the line search costs one A for the part scores, forward-backward, and one Aᵀ for the gradient.

OWL-QN (Andrew and Gao 2007) leaves most weights at zero. ‖x‖₁ is smooth as long as no entry changes its sign. So the
direction is made from the pseudo-gradient (the slope of the objective on the side where it falls, zero where it falls
on neither), an entry at zero does not leave it on the other side, and a step that crosses zero ends there. Pairs
(s, y) are of the likelihood alone. Unlike in the paper, an entry may go against its slope: otherwise common features
that are correlated with others do not move for hundreds of passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system.stateful import Keeper
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import Quadratic, Regularizer
from mtlstruct.solvers.base import Callback, Fit, Start, Stop, score_bytes, table_bytes
from mtlstruct.solvers.likelihood.problem import Descent, Small, small_bytes
from mtlstruct.solvers.likelihood.quasi_newton import Vector, blend, combine, dot, wolfe

HALVINGS = 20
"""How often OWL-QN halves a step before it gives up."""

FRESH = 0.1
"""The share of the newest distribution in the mixture that gives OWL-QN its lower bound."""


@dataclass(frozen=True)
class _QuasiNewton:
    """The solver. `pairs` is how many past steps shape the next."""

    descent: ClassVar[Any]
    stop: Stop = field(default_factory=Stop)
    pairs: int = 6

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of a small problem and of the weights of all attributes at the end."""
        return small_bytes(oracle, self.pairs) + table_bytes(oracle) + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Any,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Step until the certified gap, or the change of the objective, is small enough."""
        descent: Descent = self.descent(oracle, regularizer, c, self.pairs, init)
        return descent.run(self.stop, callback, checkpointer)


class _Ridge(Descent):
    """L-BFGS. A trial step computes the gradient too, so that its slope is known."""

    def __init__(
        self, oracle: Oracle, regularizer: Quadratic, c: float, pairs: int, init: Start | None
    ) -> None:
        mu = regularizer.quadratic(oracle.templates)
        super().__init__(Small(oracle, mu, c), regularizer, mu, pairs, init)
        self.measure(self._look())

    def step(self) -> bool:
        """Along the quasi-Newton direction, as far as goes down well."""
        self.pairs.direction(self.gradient, self.towards)
        slope = dot(self.gradient, self.towards)
        self.old[:], self.before[:] = self.x, self.gradient
        tried: dict[float, Likelihood] = {}

        def phi(t: float) -> tuple[float, float]:
            tried.clear()
            found = tried[t] = self._go(t)
            return self.omega() + self.c * found.total, dot(self.gradient, self.towards)

        t = wolfe(phi, self.objective, slope, self.first_length())
        likelihood = tried.get(t) or self._go(t)
        if t == 0.0:
            return False
        self.measure(likelihood)
        self.push_pair()
        return True

    def omega(self) -> float:
        """Half the square of h."""
        return 0.5 * float(np.sum(self.small.over(_stretched_square, self.x, self.small.stretch)))

    def norms(self, weights: Weights) -> NDArray[np.float64]:
        """Euclidean ones."""
        return np.sqrt(self.small.large.squared_norms(weights))

    def mix(self, gain: float) -> None:
        """The best of the triangle between the old mixture, the new distribution and gold: gain − ½‖v‖²."""
        own, cross, square = dot(self.mixed, self.mixed), dot(self.mixed, self.v), dot(self.v, self.v)
        a, b = best_shares(self.gain, gain, own, cross, square)
        blend(a, self.mixed, b, self.v)
        self.gain = a * self.gain + b * gain
        self.dual = max(self.dual, self.gain - 0.5 * dot(self.mixed, self.mixed))

    def _go(self, t: float) -> Likelihood:
        """x = old + t·towards, and what is known there."""
        combine(1.0, self.old, np.array([t]), self.towards[None], self.x)
        return self._look()

    def _look(self) -> Likelihood:
        """The likelihood at x; v and the gradient are those of x too."""
        likelihood = self.likelihood()
        self.small.slope(likelihood, self.v)
        self.small.over(_gradient, self.gradient, self.small.stretch, self.x, self.v)
        return likelihood


class _Lasso(Descent):
    """OWL-QN. The gradient is that of the likelihood alone."""

    def __init__(
        self, oracle: Oracle, regularizer: Regularizer, c: float, pairs: int, init: Start | None
    ) -> None:
        mu = regularizer.start(oracle.templates)
        super().__init__(Small(oracle, mu, c, absolute=True), regularizer, mu, pairs, init)
        self.falling = self.small.vector()
        self._arrive(self.likelihood())

    def step(self) -> bool:
        """Along the quasi-Newton direction within the orthant, halved until it goes down enough."""
        stretch = self.small.stretch
        self.small.over(_pseudo_gradient, self.falling, stretch, self.x, self.gradient)
        self.pairs.direction(self.falling, self.towards)
        self.small.over(_stay_at_zero, self.towards, self.falling, self.x)
        if dot(self.towards, self.falling) >= 0:  # bad pairs: straight downhill
            np.negative(self.falling, out=self.towards)
        self.old[:], self.before[:] = self.x, self.gradient
        value, t = self.objective, np.float32(self.first_length())
        for _ in range(HALVINGS):
            fall = self._go(t)
            likelihood = self.likelihood()
            if self.omega() + self.c * likelihood.total <= value + 1e-4 * fall:
                self._arrive(likelihood)
                self.push_pair()
                return True
            t *= np.float32(0.5)
        self.x[:] = self.old
        return False

    def omega(self) -> float:
        """The sum of the absolute values of h."""
        return float(np.sum(self.small.over(_stretched_sum, self.x, self.small.stretch)))

    def norms(self, weights: Weights) -> NDArray[np.float64]:
        """Sums of absolute values."""
        return self.small.large.absolute_sums(weights)

    def mix(self, gain: float) -> None:
        """A mixture that forgets, and the newest distribution alone, each shrunk towards gold until |v| ≤ 1."""
        share = 1.0 if len(self.trace) == 1 else FRESH
        blend(1 - share, self.mixed, share, self.v)
        self.gain = (1 - share) * self.gain + share * gain
        for total, v in ((self.gain, self.mixed), (gain, self.v)):
            top = np.array([max(0.0, float(v.max()), -float(v.min()))])
            self.dual = max(self.dual, self.regularizer.lower_bound(total, top))

    def _go(self, t: np.float32) -> float:
        """x = old + t·towards, up to where it would cross zero; how much the objective should fall by that."""

        def move(x: Vector, old: Vector, falling: Vector, towards: Vector) -> float:
            return float(_step_in_orthant(x, old, falling, towards, t))

        return float(np.sum(self.small.over(move, self.x, self.old, self.falling, self.towards)))

    def _arrive(self, likelihood: Likelihood) -> None:
        self.small.slope(likelihood, self.v)
        self.measure(likelihood)
        self.small.over(_stretched, self.gradient, self.small.stretch, self.v)


@dataclass(frozen=True)
class LBFGS(_QuasiNewton):
    """L-BFGS for `Quadratic` regularizers."""

    descent = _Ridge
    needs: tuple[str, ...] = ("marginals", "quadratic")


@dataclass(frozen=True)
class OWLQN(_QuasiNewton):
    """OWL-QN for `L1`."""

    descent = _Lasso
    needs: tuple[str, ...] = ("marginals", "absolute")


def best_shares(p: float, q: float, pp: float, pq: float, qq: float) -> tuple[float, float]:
    """The a, b ≥ 0, a + b ≤ 1 with the largest a·p + b·q − ½(a²·pp + 2ab·pq + b²·qq)."""

    def value(point: tuple[float, float]) -> float:
        a, b = point
        return a * p + b * q - 0.5 * (a * a * pp + 2 * a * b * pq + b * b * qq)

    def share(rise: float, curve: float) -> float:
        return min(1.0, max(0.0, rise / curve)) if curve > 0 else float(rise > 0)

    b = share(q - p + pp - pq, pp - 2 * pq + qq)
    points = [(share(p, pp), 0.0), (0.0, share(q, qq)), (1 - b, b)]
    area = pp * qq - pq * pq
    if area > 0:
        inner = (p * qq - q * pq) / area, (q * pp - p * pq) / area
        points += [inner] if min(inner) >= 0 and sum(inner) <= 1 else []
    return max(points, key=value)


# ---------------------------------------------------------------- kernels


@fast_kernel
def _gradient(out, stretch, x, v):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            out[f, y] = stretch[f] * (stretch[f] * x[f, y] + v[f, y])


@fast_kernel
def _stretched_square(x, stretch):  # type: ignore[no-untyped-def]
    total = 0.0
    for f in range(x.shape[0]):
        own = 0.0
        for y in range(x.shape[1]):
            own += np.float64(x[f, y]) * np.float64(x[f, y])
        total += own * np.float64(stretch[f]) * np.float64(stretch[f])
    return total


@fast_kernel
def _pseudo_gradient(out, stretch, x, gradient):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            right = gradient[f, y] + stretch[f]  # ‖h‖₁ has slope ±stretch in x
            left = gradient[f, y] - stretch[f]
            if x[f, y] > 0 or (x[f, y] == 0 and right < 0):
                out[f, y] = right
            elif x[f, y] < 0 or left > 0:
                out[f, y] = left
            else:
                out[f, y] = 0


@fast_kernel
def _stay_at_zero(towards, falling, x):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            if x[f, y] == 0 and towards[f, y] * falling[f, y] >= 0:
                towards[f, y] = 0


@fast_kernel
def _step_in_orthant(x, old, falling, towards, t):  # type: ignore[no-untyped-def]
    total = 0.0
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            side = old[f, y] if old[f, y] != 0 else -falling[f, y]
            new = old[f, y] + t * towards[f, y]
            x[f, y] = new if new * side > 0 else np.float32(0)
            total += np.float64(falling[f, y]) * np.float64(x[f, y] - old[f, y])
    return total


@fast_kernel
def _stretched(out, stretch, v):  # type: ignore[no-untyped-def]
    for f in range(v.shape[0]):
        for y in range(v.shape[1]):
            out[f, y] = stretch[f] * v[f, y]


@fast_kernel
def _stretched_sum(x, stretch):  # type: ignore[no-untyped-def]
    total = 0.0
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            total += np.float64(stretch[f]) * abs(np.float64(x[f, y]))
    return total
