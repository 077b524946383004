"""Interface of restricted master problems, and the certificate of their answers.

A master solves the cutting-plane subproblem over s cuts (p^r, q^r), given only their Gram matrices
Q^j_{rr'} = ⟨p_j^r, p_j^{r'}⟩ and q:

    primal   min_w  Ω(w) + C max(0, max_r q^r + ⟨w, p^r⟩)          upper bound at any w
    dual     max_α −Ω*(‖v_1‖, …, ‖v_m‖) + q·α,  α ≥ 0, Σα ≤ C      lower bound at any such α

with v_j = Σ_r α_r p_j^r and w_j = −μ_j v_j (the paper's (7)). Both values follow from α,
μ and the Gram matrices alone, so every answer is measured here, whichever method found it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import SolverError
from mtlstruct.objective.regularizers import Regularizer

Array = NDArray[np.float64]

MAX_GAP = 1e-3
"""Relative gap beyond which an answer is rejected."""

ROUNDING_MARGIN = 1e-12
"""Relative margin for rounding where a cut must hold exactly."""

LEAST_DIVISOR = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Dual:
    """Certified answer of a master.

    alpha       float64[s], weights of the cuts, feasible
    mu          float64[m], weights of the templates: w_j = −mu_j Σ_r alpha_r p_j^r
    objective   the dual value of alpha, a lower bound
    primal      the value of w on the cuts, an upper bound
    gap         (primal − objective) / |primal|
    """

    alpha: Array
    mu: Array
    objective: float
    primal: float
    gap: float


class Master(Protocol):
    """Function from gram float64[m,s,s] and q float64[s] to a certified Dual.

    `start` is an alpha to begin from, at most s long: later cuts count as 0. `tol` is the wanted
    relative gap; rounding may leave a larger one in `Dual.gap`. Raises SolverError beyond a gap of
    MAX_GAP.
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


def products(gram: Array, alpha: Array) -> Array:
    """Return ⟨v_j, p_j^r⟩ by template and cut, float64[m,s]: a pass over Gram matrices."""
    m, s, _ = gram.shape
    return (gram.reshape(m * s, s) @ alpha).reshape(m, s)


def bounds(dots: Array, q: Array, C: float, alpha: Array, mu: Array, regularizer: Regularizer) -> Dual:
    """Return the certificate, given dots = products(gram, alpha)."""
    norms = np.sqrt(np.maximum(dots @ alpha, 0.0))
    hinge = float((q - mu @ dots).max(initial=0.0))
    primal = regularizer.value(mu * norms) + C * hinge
    objective = float(q @ alpha) - regularizer.conjugate(norms)
    gap = (primal - objective) / max(abs(primal), LEAST_DIVISOR)
    return Dual(alpha, mu, objective, primal, gap)


def rescaled_bounds(
    dots: Array, q: Array, C: float, alpha: Array, mu: Array, regularizer: Regularizer
) -> Dual:
    """Return the certificate at w, or at the multiple of w that just satisfies every cut if better.

    Where C is huge the hinge must be exactly zero, hence a margin beyond rounding.
    """
    plain, reach = bounds(dots, q, C, alpha, mu, regularizer), mu @ dots
    if not reach[q > 0].min(initial=np.inf) > 0:
        return plain
    needed = float((q[q > 0] / reach[q > 0]).max(initial=0.0)) * (1 + ROUNDING_MARGIN)
    more = bounds(dots, q, C, alpha, needed * mu, regularizer) if needed > 1 else plain
    return more if more.gap < plain.gap else plain


def better(one: Dual, other: Dual) -> Dual:
    """Return the answer with the smaller gap; a NaN loses."""
    return other if other.gap < one.gap or np.isnan(one.gap) else one


def accepted(best: Dual) -> Dual:
    """Return the answer; raise SolverError if its gap is beyond MAX_GAP."""
    if not best.gap <= MAX_GAP:
        raise SolverError(
            f"the master: expected a gap of at most {MAX_GAP:.0e}, got {best.gap:.1e}", best.gap
        )
    return best
