"""Restricted master problem of the group lasso, ½Σ‖w_j‖, by a root search over QCQP masters.

    ½ Σ‖w_j‖ = min over τ > 0 of ½ (Σ‖w_j‖)²/τ + τ/8

For fixed τ the problem is that of BlockL1Squared with the cap C·τ, divided by τ. The derivative of
its optimum is 1/8 − ½·max_j‖v_j‖², so at the best τ the longest v_j has length ½, the largest that
Ω* allows. That length falls as τ grows, and a few warm-started solves find the root.
"""

from __future__ import annotations

import math

import numpy as np

from mtlstruct.objective.regularizers import BlockL1Squared, Regularizer
from mtlstruct.solvers.cutting_plane import qcqp
from mtlstruct.solvers.cutting_plane.master import (
    LEAST_DIVISOR,
    Array,
    Dual,
    accepted,
    better,
    products,
    rescaled_bounds,
)

MAX_NORM = 0.5
"""Largest ‖v_j‖ with finite Ω*."""

MAX_SOLVES, LEAST_GAP = 50, 1e-6
"""Solves at most, and the least gap worth reaching: each digit takes more of them."""

FIRST_SLOPE, SLOPE_BOUNDS = -0.7, (-100.0, -0.05)
"""Slope of log(max‖v‖/½) in log τ assumed at first, and bounds of the secants after that."""


def solve(
    gram: Array, q: Array, C: float, regularizer: Regularizer, start: Array | None = None, tol: float = 1e-7
) -> Dual:
    """Solve the master of GroupLasso (`master.Master`) by the secant method in log τ."""
    alpha = np.zeros(len(q))
    if q.max(initial=0.0) > 0:
        alpha[q.argmax()] = C
    best = _certified(gram, q, C, regularizer, alpha, np.zeros(len(gram)))  # w = 0, optimal for a small C
    if start is not None and start.any():
        alpha = np.pad(start, (0, len(q) - len(start)))
    log_total, slope, last = _log_excess(gram, alpha), FIRST_SLOPE, None
    for _ in range(MAX_SOLVES):
        if best.gap <= max(tol, LEAST_GAP):
            break
        total = math.exp(log_total)
        inner = qcqp.solve(gram, q, C * total, BlockL1Squared(), total * alpha, 0.1 * tol)
        alpha = inner.alpha / total
        best = better(best, _certified(gram, q, C, regularizer, alpha, total * inner.mu))
        excess = _log_excess(gram, alpha)
        if last is not None and log_total != last[0]:
            slope = float(np.clip((excess - last[1]) / (log_total - last[0]), *SLOPE_BOUNDS))
        last, log_total = (log_total, excess), log_total - excess / slope
    return accepted(best)


def _log_excess(gram: Array, alpha: Array) -> float:
    """Return log(max‖v_j‖/½)."""
    return math.log(max(_longest(gram, alpha), LEAST_DIVISOR) / MAX_NORM)


def _longest(gram: Array, alpha: Array) -> float:
    """Return max_j ‖v_j‖."""
    return math.sqrt(max(0.0, float((products(gram, alpha) @ alpha).max(initial=0.0))))


def _certified(gram: Array, q: Array, C: float, regularizer: Regularizer, alpha: Array, mu: Array) -> Dual:
    """Return the certificate of alpha, scaled to be feasible, and of w_j = −mu_j v_j."""
    scale = min(1.0, MAX_NORM / max(_longest(gram, alpha), LEAST_DIVISOR))
    dots = products(gram, scale * alpha)
    return rescaled_bounds(dots, q, C, scale * alpha, mu / scale, regularizer)
