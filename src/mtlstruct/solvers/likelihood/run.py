"""Run of a quasi-Newton solver: passes, both bounds, and the change of variables.

Certificate. A mixture of distributions p_w is feasible for the dual. Its v, the gradient of c·Σξ_i, is
linear in it, and its entropy is at least the mean of theirs, so c·entropy − Ω*(v) is a lower bound. Each
pass mixes in the present p_w. One p_w alone proves little: successive gradients oscillate.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Fit,
    Record,
    Solver,
    SolverRun,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
    score_bytes,
    table_bytes,
)
from mtlstruct.solvers.likelihood.problem import MergedProblem, merged_bytes
from mtlstruct.solvers.likelihood.quasi_newton import Pairs, dot

ROUNDING = 1e-6
"""Relative difference of two sums in float32 that are equal."""

FIRST_MEASUREMENT = 8
"""Pass after which the curvature is measured first; again whenever the number of passes has doubled."""


@dataclass(frozen=True)
class QuasiNewton(Solver):
    """Base of the solvers. `pairs` is how many past steps shape the next direction."""

    run: ClassVar[Any]
    stop: Stop = field(default_factory=Stop)
    pairs: int = 6

    def memory(self, oracle: Oracle) -> int:
        """Return the bytes of a merged problem and of the weights of all attributes at the end."""
        return merged_bytes(oracle, self.pairs) + table_bytes(oracle) + score_bytes(oracle)

    def start(self, oracle: Oracle, regularizer: Any, c: float, init: Start | None) -> QuasiNewtonRun:
        """Return the run before the first pass."""
        run: QuasiNewtonRun = self.run(self, oracle, regularizer, c, init)
        return run


class QuasiNewtonRun(SolverRun):
    """Point x, its objective and gradient, and the lower bound. Subclasses know Ω and how to step."""

    state_fields: ClassVar[tuple[str, ...]] = (
        *("passes", "moved", "x", "gradient", "problem", "pairs", "mixture", "gain", "dual", "trace"),
        *("objective", "risk", "curvature"),
    )

    def __init__(
        self, solver: QuasiNewton, problem: MergedProblem, regularizer: Regularizer, init: Start | None
    ) -> None:
        self.stop, self.problem, self.regularizer, self.c = solver.stop, problem, regularizer, problem.c
        self.x = problem.vector() if init is None else problem.merged_vector(init)
        self.gradient, self.direction, self.v = (problem.vector() for _ in range(3))
        self.last_x, self.last_gradient = problem.vector(), problem.vector()
        self.pairs = Pairs(solver.pairs, len(self.x))
        self.mixture = problem.vector()  # v of the mixture that gives the lower bound; gold alone at first
        self.gain = 0.0  # c·entropy of the mixture
        self.dual = 0.0
        self.trace: list[float] = []
        self.passes, self.moved = 0, True

    @abstractmethod
    def step(self) -> bool:
        """Move to a better point; return False where rounding leaves nothing to gain."""

    @abstractmethod
    def omega(self) -> float:
        """Return Ω at x."""

    @abstractmethod
    def full_omega(self, weights: Weights) -> float:
        """Return Ω of weights of all attributes."""

    @abstractmethod
    def mix(self, gain: float) -> None:
        """Improve `mixture`, `gain` and `dual` by the distribution with gradient v and this c·entropy."""

    def measure(self, likelihood: Likelihood) -> None:
        """Update both bounds at the point, whose v is known."""
        self.objective = self.omega() + self.c * likelihood.total
        self.risk = likelihood.total / self.problem.oracle.sentences
        self.trace.append(self.objective)
        rows, width = self.problem.oracle.part_shapes()[0]
        self.curvature = likelihood.variance / (rows * width)
        self.mix(self.c * likelihood.entropy)

    def likelihood(self) -> Likelihood:
        """Return the likelihood at x."""
        return self.problem.oracle.likelihood(self.problem.score(self.x))

    def first_length(self) -> float:
        """Return the length of step to try first."""
        if self.pairs.order:
            return 1.0
        return 1.0 / max(1.0, float(np.sqrt(dot(self.direction, self.direction))))

    def push_pair(self) -> None:
        """Remember the last step and the change of the gradient; overwrites the last point."""
        np.subtract(self.x, self.last_x, out=self.last_x)
        np.subtract(self.gradient, self.last_gradient, out=self.last_gradient)
        self.pairs.push(self.last_x, self.last_gradient)

    def rescale(self) -> None:
        """Change the variables to suit the curvature; carry over point, gradient and pairs."""
        ratio, pairs = self.problem.rescale(self.curvature), self.pairs
        for x, gradient in [(self.x, self.gradient), *pairs.vectors()]:
            self.problem.map_blocks(change_variables, x, gradient, ratio)
        pairs.refresh()

    def advance(self) -> Record:
        """Make one pass."""
        self.passes += 1
        since = self.passes - 1
        if since >= FIRST_MEASUREMENT and since & (since - 1) == 0:  # after 8, 16, 32 …
            self.rescale()
        self.moved = self.step()
        check_finite(self.passes, objective=self.objective, lower_bound=self.dual)
        gap, active = relative(self.objective, self.dual), active_templates(self.problem.mu)
        return Record(self.passes, self.objective, self.dual, gap, self.risk, active, True, self.result)

    def ended(self) -> bool:
        """Return whether there is no further pass."""
        return self.passes > 0 and (self.near() or not self.moved or self.passes >= self.stop.max_passes)

    def near(self) -> bool:
        """Return whether the stopping rule holds: a small gap, or small changes of the objective."""
        if self.stop.eta is not None:
            return self.stop.settled(self.trace)
        return self.stop.reached(self.objective, self.dual, self.c * self.problem.full.sentences)

    def result(self) -> Fit:
        """Return the weights of all attributes, with the objective computed from them.

        If the norm is sparse, templates that have next to no mu are left out.
        """
        oracle, mu = self.problem.full, self.problem.mu
        if self.regularizer.sparse:
            mu = np.where(mu < self.stop.drop * mu.sum(), 0.0, mu)
        weights, scale = self.problem.full_weights(self.x, mu), np.where(mu > 0, 1.0, 0.0)
        total = oracle.likelihood(oracle.score(weights, scale)).total
        objective = self.full_omega(weights) + self.c * total
        # where both have converged, they may cross by the rounding of sums in float32
        crossed = 0 < self.dual - objective <= ROUNDING * abs(objective)
        C, bounds = self.c * oracle.sentences, (objective, objective if crossed else self.dual)
        return Fit.bounded(weights, scale, mu, bounds, C, self.passes, self.stop.reached(*bounds, C))


# ---------------------------------------------------------------- kernels


@fast_kernel
def change_variables(x, gradient, ratio):
    """Replace x by x/ratio, and the gradient (or a change of it) by ratio·gradient."""
    for f in range(x.shape[0]):
        inverse = np.float32(1) / ratio[f]
        for y in range(x.shape[1]):
            gradient[f, y] *= ratio[f]
            x[f, y] *= inverse
