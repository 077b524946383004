"""OWL-QN for the log loss with Ω = l1·‖w‖₁ + l2·‖w‖² (Andrew and Gao, "Scalable training of L1-regularized
log-linear models", ICML 2007), which leaves most weights at zero.

‖x‖₁ is smooth as long as no entry changes its sign. The direction is made from the pseudo-gradient: the
slope of the objective on the side where it falls, zero where it falls on neither. An entry at zero does
not leave it on the other side, and a step that crosses zero ends there. Pairs (s, y) are of the
smooth part, the likelihood and l2·‖w‖². Unlike in the paper, an entry may move against its slope:
otherwise frequent features that are correlated with others do not move for hundreds of passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import ElasticNet
from mtlstruct.solvers.base import Start
from mtlstruct.solvers.likelihood.problem import MergedProblem
from mtlstruct.solvers.likelihood.quasi_newton import Vector, blend, dot
from mtlstruct.solvers.likelihood.run import QuasiNewton, QuasiNewtonRun

MAX_HALVINGS = 20
"""Halvings of a step before the run gives up."""

NEW_SHARE = 0.1
"""Share of the newest distribution in the mixture that gives the lower bound."""


class _OWLQNRun(QuasiNewtonRun):
    """Run of OWL-QN. The gradient is that of the smooth part."""

    def __init__(
        self, solver: QuasiNewton, oracle: Oracle, regularizer: ElasticNet, c: float, init: Start | None
    ) -> None:
        mu = regularizer.start(oracle.templates)
        super().__init__(
            solver, MergedProblem(oracle, mu, c, regularizer.l1, regularizer.l2), regularizer, init
        )
        self.elastic, self.pseudo_gradient = regularizer, self.problem.vector()
        self._arrive(self.likelihood())

    def step(self) -> bool:
        """Move along the quasi-Newton direction within the orthant, halved until it falls enough."""
        pseudo, map_blocks = self.pseudo_gradient, self.problem.map_blocks
        slopes = [np.float32(self.elastic.l1) * some for some in self.problem.scale]
        map_blocks(_pseudo_gradient, pseudo, slopes, self.x, self.gradient)
        self.pairs.direction(pseudo, self.direction)
        map_blocks(_stay_at_zero, self.direction, pseudo, self.x)
        if dot(self.direction, pseudo) >= 0:  # bad pairs: steepest descent
            np.negative(pseudo, out=self.direction)
        self.last_x[:], self.last_gradient[:] = self.x, self.gradient
        value, t = self.objective, np.float32(self.first_length())
        for _ in range(MAX_HALVINGS):
            decrease = self._move_to(t)
            likelihood = self.likelihood()
            if self.omega() + self.c * likelihood.total <= value + 1e-4 * decrease:
                self._arrive(likelihood)
                self.push_pair()
                return True
            t *= np.float32(0.5)
        self.x[:] = self.last_x
        return False

    def omega(self) -> float:
        """Return l1·‖h‖₁ + Σ ridge_f·h_f²."""
        problem, l1 = self.problem, self.elastic.l1
        tables = self.x, problem.scale, problem.ridge
        return float(np.sum(problem.map_blocks(lambda *rows: _elastic_net(*rows, l1), *tables)))

    def full_omega(self, weights: Weights) -> float:
        """Return Ω of sums of absolute values and of squares."""
        own, full = self.elastic, self.problem.full
        return float((own.l1 * full.absolute_sums(weights) + own.l2 * full.squared_norms(weights)).sum())

    def mix(self, gain: float) -> None:
        """Bound by an exponential average and by the newest distribution, scaled towards gold."""
        share = 1.0 if len(self.trace) == 1 else NEW_SHARE
        blend(1 - share, self.mixture, share, self.v)
        self.gain = (1 - share) * self.gain + share * gain
        for total, v in ((self.gain, self.mixture), (gain, self.v)):
            self.dual = max(self.dual, self.elastic.lower_bound(total, *self._beyond(v)))

    def _beyond(self, v: Vector) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the |v_f| above l1, and how many equal columns each stands for."""
        norms, counts = [np.zeros(0)], [np.zeros(0)]
        for kind, rows, flat, width in self.problem.chunks():
            table = np.abs(v[flat].reshape(-1, width))
            row, part = np.nonzero(table > self.elastic.l1)
            norms.append(table[row, part].astype(np.float64))
            counts.append(self.problem.total[kind][rows][row])
        return np.concatenate(norms), np.concatenate(counts)

    def _move_to(self, t: np.float32) -> float:
        """Move to last_x + t·direction, up to where it crosses zero; return the linear change."""
        tables = self.x, self.last_x, self.pseudo_gradient, self.direction
        return float(np.sum(self.problem.map_blocks(lambda *rows: _step_in_orthant(*rows, t), *tables)))

    def _arrive(self, likelihood: Likelihood) -> None:
        self.problem.loss_gradient(likelihood, self.v)
        self.measure(likelihood)
        self.problem.gradient(self.x, self.v, self.gradient)


@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """OWL-QN for `ElasticNet`."""

    run = _OWLQNRun
    needs: tuple[str, ...] = ("marginals", "absolute")


# ---------------------------------------------------------------- kernels


@fast_kernel
def _pseudo_gradient(out, slopes, x, gradient):
    """Write the slope on the side where the objective falls; that of l1·‖h‖₁ in x is ±slopes."""
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            right = gradient[f, y] + slopes[f]
            left = gradient[f, y] - slopes[f]
            if x[f, y] > 0 or (x[f, y] == 0 and right < 0):
                out[f, y] = right
            elif x[f, y] < 0 or left > 0:
                out[f, y] = left
            else:
                out[f, y] = 0


@fast_kernel
def _stay_at_zero(direction, pseudo, x):
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            if x[f, y] == 0 and direction[f, y] * pseudo[f, y] >= 0:
                direction[f, y] = 0


@fast_kernel
def _step_in_orthant(x, last_x, pseudo, direction, t):
    total = 0.0
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            side = last_x[f, y] if last_x[f, y] != 0 else -pseudo[f, y]
            new = last_x[f, y] + t * direction[f, y]
            x[f, y] = new if new * side > 0 else np.float32(0)
            total += np.float64(pseudo[f, y]) * np.float64(x[f, y] - last_x[f, y])
    return total


@fast_kernel
def _elastic_net(x, scale, ridge, l1):
    total = 0.0
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            h = np.float64(scale[f]) * abs(np.float64(x[f, y]))
            total += l1 * h + np.float64(ridge[f]) * h * h
    return total
