"""L-BFGS: conditional random fields with a quadratic Ω, ½ Σ_j ‖w_j‖²/mu_j; plain ones have mu = 1.

A trial step of the line search costs one A for the part scores, forward-backward, and one Aᵀ for the gradient. Nearly
all passes need one trial.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system.stateful import Keeper
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import Quadratic
from mtlstruct.solvers.base import Callback, Fit, Start, Stop, score_bytes, table_bytes
from mtlstruct.solvers.likelihood.problem import Descent, Small, small_bytes
from mtlstruct.solvers.likelihood.quasi_newton import blend, combine, dot, wolfe


@dataclass(frozen=True)
class LBFGS:
    """The learner. `pairs` is how many past steps shape the next."""

    stop: Stop = field(default_factory=Stop)
    pairs: int = 6
    needs: tuple[str, ...] = ("marginals", "quadratic")

    def memory(self, oracle: Oracle) -> int:
        """What a small problem takes, and the weights of all attributes at the end."""
        return small_bytes(oracle, self.pairs) + table_bytes(oracle) + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Quadratic,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Steps until the certified gap, or the change of the objective, is small enough."""
        return _Ridge(oracle, regularizer, c, self.pairs, init).run(self.stop, callback, checkpointer)


class _Ridge(Descent):
    """Each trial step scores its own point, so nothing but x and gradients is kept between passes."""

    def __init__(
        self, oracle: Oracle, regularizer: Quadratic, c: float, pairs: int, init: Start | None
    ) -> None:
        mu = regularizer.quadratic(oracle.templates)
        super().__init__(Small(oracle, mu, c), regularizer, mu, pairs, init)
        self.old, self.before = self.small.vector(), self.small.vector()
        self.measure(self._look())

    def step(self) -> bool:
        """Along the quasi-Newton direction, as far as goes down well."""
        self.pairs.direction(self.gradient, self.towards)
        slope, length = dot(self.gradient, self.towards), float(np.sqrt(dot(self.towards, self.towards)))
        self.old[:], self.before[:] = self.x, self.gradient
        tried: dict[float, Likelihood] = {}

        def phi(t: float) -> tuple[float, float]:
            tried.clear()
            found = tried[t] = self._go(t)
            return self.omega() + self.c * found.total, dot(self.gradient, self.towards)

        t = wolfe(phi, self.objective, slope, 1.0 if self.pairs.order else 1.0 / max(1.0, length))
        likelihood = tried.get(t) or self._go(t)
        if t == 0.0:
            return False
        self.measure(likelihood)
        np.subtract(self.x, self.old, out=self.old)
        np.subtract(self.gradient, self.before, out=self.before)
        self.pairs.push(self.old, self.before)
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
        likelihood = self.small.oracle.likelihood(self.small.score(self.x))
        self.small.slope(likelihood, self.v)
        self.small.over(_gradient, self.gradient, self.small.stretch, self.x, self.v)
        return likelihood


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
