"""The master of the group lasso, ½Σ‖w_j‖, by the QCQP master.

    ½ Σ‖w_j‖ = min over τ > 0 of ½ (Σ‖w_j‖)²/τ + τ/8

For fixed τ the problem is that of BlockL1Squared with the cap C·τ, divided by τ. The derivative of its optimum is
1/8 − ½·max_j‖v_j‖², so at the best τ the longest v_j has length ½: the wall that is the conjugate of Ω. That length
falls as τ grows, and a few warm solves find the root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mtlstruct.objective.regularizers import BlockL1Squared, Regularizer
from mtlstruct.solvers.cutting_plane import qcqp as conic
from mtlstruct.solvers.cutting_plane.master import Array, Dual, products, stretched

WALL = 0.5
"""What ‖v_j‖ may be."""

ROUNDS, ENOUGH, BEYOND = 50, 1e-6, 1.5
"""Most solves; a gap that will do, since each digit takes more of them; how much further than the plain fixed point
τ = 2·max‖v‖ a step goes, so as to get to the other side."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """The master for GroupLasso; see `base.Master`. Raises SolverError beyond a gap of conic.LIMIT."""
    program = _Program(gram, q, C, regularizer)
    alpha = program.cheapest() if start is None or not start.any() else start
    best = program.answer(program.cheapest(), np.zeros(len(gram)))  # w = 0, which a small C makes optimal
    root = _Root(math.log(program.longest(alpha) / WALL) if program.longest(alpha) > 0 else 0.0)
    for _ in range(ROUNDS):
        if best.gap <= max(tol, ENOUGH):
            break
        total = math.exp(root.guess)
        inner = conic.solve(gram, q, C * total, BlockL1Squared(), total * alpha, 0.1 * tol)
        alpha = inner.alpha / total
        best = conic.better(best, program.answer(alpha, total * inner.mu))
        root.learn(math.log(max(program.longest(alpha), conic.TINY) / WALL))
    return conic.accepted(best)


class _Root:
    """The log τ where log(max‖v‖/½), which falls, is zero: false position in Illinois' form."""

    def __init__(self, guess: float) -> None:
        self.guess = guess
        self.below: tuple[float, float] | None = None
        self.above: tuple[float, float] | None = None

    def learn(self, excess: float) -> None:
        """Takes in the value at the guess, and makes the next one."""
        here = (self.guess, excess)
        if excess > 0:
            if self.below is not None and self.above is not None:
                self.above = (self.above[0], 0.5 * self.above[1])
            self.below = here
        else:
            if self.below is not None and self.above is not None:
                self.below = (self.below[0], 0.5 * self.below[1])
            self.above = here
        if self.below is None or self.above is None:
            self.guess += BEYOND * excess
        else:
            (a, fa), (b, fb) = self.below, self.above
            self.guess = (a * fb - b * fa) / (fb - fa)


@dataclass(frozen=True)
class _Program:
    gram: Array
    q: Array
    C: float
    regularizer: Regularizer

    def cheapest(self) -> Array:
        """All of the cap on the cut with the largest q: the best alpha if no wall were near."""
        alpha = np.zeros(len(self.q))
        if self.q.max(initial=0.0) > 0:
            alpha[self.q.argmax()] = self.C
        return alpha

    def longest(self, alpha: Array) -> float:
        """max_j ‖v_j‖."""
        alpha = np.pad(alpha, (0, len(self.q) - len(alpha)))
        return math.sqrt(max(0.0, float((products(self.gram, alpha) @ alpha).max(initial=0.0))))

    def answer(self, alpha: Array, mu: Array) -> Dual:
        """The certificate of alpha drawn back behind the wall, and of w_j = −mu_j v_j as it was."""
        back = min(1.0, WALL / max(self.longest(alpha), conic.TINY))
        dots = products(self.gram, back * alpha)
        return stretched(dots, self.q, self.C, back * alpha, mu / back, self.regularizer)
