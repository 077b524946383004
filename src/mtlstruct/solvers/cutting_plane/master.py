"""What a master returns, and the certificate that nobody has to trust it.

A master solves the cutting-plane subproblem over s cuts (p^r, q^r), given only their Gram matrices
Q^j_{rr'} = ⟨p_j^r, p_j^{r'}⟩ and q:

    primal   min_w  Ω(w) + C max(0, max_r q^r + ⟨w, p^r⟩)          upper bound at any w
    dual     max_α −Ω*(‖v_1‖, …, ‖v_m‖) + q·α,  α ≥ 0, Σα ≤ C      lower bound at any such α

with v_j = Σ_r α_r p_j^r and w_j = −μ_j v_j (eq. recover-w of the paper). Both values follow from α, μ and the
Gram matrices alone, so every answer is measured here and not by whoever found it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct.objective.regularizers import Regularizer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dual:
    """A certified answer of a master.

    alpha       float64[s], weights of the cuts, feasible
    mu          float64[m], weights of the templates: w_j = −mu_j Σ_r alpha_r p_j^r
    objective   the dual value of alpha, a lower bound
    primal      the value of w on the cuts, an upper bound
    gap         (primal − objective) / |primal|
    iterations  what the master counted
    """

    alpha: Array
    mu: Array
    objective: float
    primal: float
    gap: float
    iterations: int = 0


class Master(Protocol):
    """gram float64[m,s,s], q float64[s] -> a certified Dual.

    `start` is an alpha to begin from, at most s long: cuts that came later count as 0. `tol` is the relative
    gap wanted; a master may stop short of it where rounding does, and says so in `Dual.gap`.
    """

    def __call__(
        self,
        gram: Array,
        q: Array,
        C: float,
        regularizer: Regularizer,
        start: Array | None = None,
        tol: float = 1e-7,
    ) -> Dual: ...


def certify(gram: Array, q: Array, C: float, alpha: Array, mu: Array, regularizer: Regularizer) -> Dual:
    """Both bounds from scratch, for any feasible alpha float64[s] and any mu float64[m]."""
    return bounds(products(gram, alpha), q, C, alpha, mu, regularizer)


def products(gram: Array, alpha: Array) -> Array:
    """⟨v_j, p_j^r⟩ for every template and cut, float64[m,s]; the one pass over the Gram matrices."""
    m, s, _ = gram.shape
    return (gram.reshape(m * s, s) @ alpha).reshape(m, s)


def bounds(dots: Array, q: Array, C: float, alpha: Array, mu: Array, regularizer: Regularizer) -> Dual:
    """The certificate, given dots = products(gram, alpha)."""
    norms = np.sqrt(np.maximum(dots @ alpha, 0.0))
    hinge = float((q - mu @ dots).max(initial=0.0))
    primal = regularizer.value(mu * norms) + C * hinge
    objective = float(q @ alpha) - regularizer.conjugate(norms)
    gap = (primal - objective) / max(abs(primal), np.finfo(np.float64).tiny)
    return Dual(alpha, mu, objective, primal, gap)


MARGIN = 1e-12
"""Relative room for rounding where a cut must hold exactly."""


def stretched(dots: Array, q: Array, C: float, alpha: Array, mu: Array, regularizer: Regularizer) -> Dual:
    """The certificate, also at the multiple of w that just satisfies every cut: the better one.

    Where C is huge the hinge must be zero and not nearly so, hence a margin beyond what rounding could undo.
    """
    plain = bounds(dots, q, C, alpha, mu, regularizer)
    reach = mu @ dots
    if not reach[q > 0].min(initial=np.inf) > 0:
        return plain
    needed = float((q[q > 0] / reach[q > 0]).max(initial=0.0)) * (1 + MARGIN)
    more = bounds(dots, q, C, alpha, needed * mu, regularizer) if needed > 1 else plain
    return more if more.gap < plain.gap else plain
