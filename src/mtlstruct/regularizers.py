"""Regularizers Ω as functions of the m block norms: they never see a feature, a sentence or a structure.

With v_j = Σ_r α_r p_j^r the paper's cutting-plane subproblem has the dual max_α −Ω*(‖v_1‖, …, ‖v_m‖) + q·α,
its weights being w_j = −μ_j v_j (eq. recover-w). So a regularizer is its value, its conjugate, and how μ
follows from norms. A new one is a class here and a row in REGULARIZERS; the master that solves it is a row in
`masters.MASTERS`. Norms are not checked: they are non-negative by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Norms = NDArray[np.float64]
"""float64[m], one number a template: ‖w_j‖, ‖v_j‖ or μ_j."""

FLOOR = 1e-12
"""The least weight a multiplicative step leaves: a template at zero could never come back."""


class Regularizer(Protocol):
    """What learners and masters may ask; `sparse` says whether μ is learned, and may drop templates."""

    sparse: ClassVar[bool]

    def value(self, norms: Norms) -> float:
        """Ω at the block norms ‖w_j‖."""
        ...

    def conjugate(self, norms: Norms) -> float:
        """Ω* at the block norms ‖v_j‖."""
        ...

    def start(self, m: int) -> Norms:
        """The μ to begin with."""
        ...

    def weights(self, mu: Norms, norms: Norms) -> Norms:
        """The next μ, given the norms ‖v_j‖ that the present one led to."""
        ...


@dataclass(frozen=True)
class L2:
    """Ω(w) = ½ Σ_j ‖w_j‖²: structural SVMs, where every template has weight one."""

    sparse: ClassVar[bool] = False

    def value(self, norms: Norms) -> float:
        return 0.5 * float(norms @ norms)

    def conjugate(self, norms: Norms) -> float:
        return 0.5 * float(norms @ norms)

    def start(self, m: int) -> Norms:
        return np.ones(m)

    def weights(self, mu: Norms, norms: Norms) -> Norms:
        return np.ones_like(mu)


@dataclass(frozen=True)
class BlockL1Squared:
    """Ω(w) = ½ (Σ_j ‖w_j‖)²: multiple template learning, μ in the simplex."""

    sparse: ClassVar[bool] = True

    def value(self, norms: Norms) -> float:
        return 0.5 * float(norms.sum()) ** 2

    def conjugate(self, norms: Norms) -> float:
        return 0.5 * float(norms.max(initial=0.0)) ** 2

    def start(self, m: int) -> Norms:
        return np.full(m, 1.0 / m)

    def weights(self, mu: Norms, norms: Norms) -> Norms:
        """One multiplicative step, μ_j ← μ_j ‖v_j‖², normalised; at rest where ‖v_j‖ agree for μ_j > 0."""
        top = norms.max(initial=0.0)
        if top == 0.0:
            return mu
        # Relative norms: their squares can neither overflow nor all vanish.
        step: Norms = np.maximum(mu, FLOOR) * (norms / top) ** 2
        step = np.maximum(step / step.sum(), FLOOR)
        step /= step.sum()
        return step


REGULARIZERS: dict[str, Callable[..., Regularizer]] = {"l2": L2, "block-l1-squared": BlockL1Squared}
"""Name in options and model files -> class."""
