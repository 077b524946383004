"""OWL-QN (Andrew and Gao 2007): conditional random fields with Ω = ‖w‖₁, which leaves most weights at zero.

‖x‖₁ is smooth as long as no entry changes its sign. So the quasi-Newton direction is made from the pseudo-gradient
(the slope of the objective on the side where it falls, zero where it falls on neither), an entry at zero does not
leave it on the other side, and a step that crosses zero ends there. Pairs (s, y) are of the likelihood alone. (The
paper lets no entry at all go against its slope. With that, common features here stay where they are for hundreds of
passes, since those they are correlated with are always ahead of them.)

The conjugate of ‖·‖₁ allows |v| ≤ 1 only, so a mixture is shrunk towards gold until its v is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system.stateful import Keeper
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import Callback, Fit, Start, Stop, score_bytes, table_bytes
from mtlstruct.solvers.likelihood.problem import Descent, Small, small_bytes
from mtlstruct.solvers.likelihood.quasi_newton import Vector, blend, dot

HALVINGS = 20
"""How often a step is halved before it is given up."""

FRESH = 0.1
"""The share of the newest distribution in the mixture that gives the lower bound."""


@dataclass(frozen=True)
class OWLQN:
    """The learner. `pairs` is how many past steps shape the next."""

    stop: Stop = field(default_factory=Stop)
    pairs: int = 6
    needs: tuple[str, ...] = ("marginals", "absolute")

    def memory(self, oracle: Oracle) -> int:
        """What a small problem takes, and the weights of all attributes at the end."""
        return small_bytes(oracle, self.pairs) + table_bytes(oracle) + score_bytes(oracle)

    def fit(
        self,
        oracle: Oracle,
        regularizer: Regularizer,
        c: float,
        callback: Callback | None = None,
        *,
        init: Start | None = None,
        checkpointer: Keeper | None = None,
    ) -> Fit:
        """Steps until the certified gap, or the change of the objective, is small enough."""
        return _Lasso(oracle, regularizer, c, self.pairs, init).run(self.stop, callback, checkpointer)


class _Lasso(Descent):
    """Its gradient is that of the likelihood alone."""

    def __init__(
        self, oracle: Oracle, regularizer: Regularizer, c: float, pairs: int, init: Start | None
    ) -> None:
        mu = regularizer.start(oracle.templates)
        super().__init__(Small(oracle, mu, c, absolute=True), regularizer, mu, pairs, init)
        self.falling, self.old, self.before = (self.small.vector() for _ in range(3))
        self._arrive(self._likelihood())

    def step(self) -> bool:
        """Along the quasi-Newton direction within the orthant, halved until it goes down enough."""
        stretch = self.small.stretch
        self.small.over(_pseudo_gradient, self.falling, stretch, self.x, self.gradient)
        self.pairs.direction(self.falling, self.towards)
        self.small.over(_stay_at_zero, self.towards, self.falling, self.x)
        if dot(self.towards, self.falling) >= 0:  # bad pairs: straight downhill
            np.negative(self.falling, out=self.towards)
        self.old[:] = self.x
        value, length = self.objective, float(np.sqrt(dot(self.towards, self.towards)))
        t = np.float32(1.0 if self.pairs.order else 1.0 / max(1.0, length))
        for _ in range(HALVINGS):
            fall = self._go(t)
            likelihood = self._likelihood()
            if self.omega() + self.c * likelihood.total <= value + 1e-4 * fall:
                self._move(likelihood)
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

    def _move(self, likelihood: Likelihood) -> None:
        self.before[:] = self.gradient
        self._arrive(likelihood)
        np.subtract(self.gradient, self.before, out=self.before)
        np.subtract(self.x, self.old, out=self.old)
        self.pairs.push(self.old, self.before)

    def _arrive(self, likelihood: Likelihood) -> None:
        self.small.slope(likelihood, self.v)
        self.measure(likelihood)
        self.small.over(_stretched, self.gradient, self.small.stretch, self.v)

    def _likelihood(self) -> Likelihood:
        return self.small.oracle.likelihood(self.small.score(self.x))


# ---------------------------------------------------------------- kernels


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
