"""Regularizers Ω, as functions of the m block norms.

With v_j = Σ_r α_r p_j^r the paper's cutting-plane subproblem has the dual max_α −Ω*(‖v_1‖, …,
‖v_m‖) + q·α, its weights being w_j = −μ_j v_j (eq. 7). So a regularizer is its value, its
conjugate, and the μ that belongs to given norms. The master that solves a new one is a row in
`solvers.cutting_plane.MASTERS`. Norms are not checked: they are non-negative by construction.
docs/explanation/problem.md derives each.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import MtlError

Norms = NDArray[np.float64]
"""float64[m], one number a template: ‖w_j‖, ‖v_j‖ or μ_j."""

LEAST_RATIO = 1e-9
"""Least norm, as a share of the largest, where a power would be infinite at zero."""

LEAST_NORM_SHARE = 1e-2
"""For p > 2 the μ_j of a template near v_j = 0 has no bound, which would freeze it there: its norm
counts as this part of the largest in learning, at a cost of about 0.1 % of the objective."""

NEWTON_STEPS = 20
"""Steps of Newton's method in the search for the best scale of a dual point."""


class Regularizer:
    """Base class: Ω that is half the square of a norm, unless a method is overridden.

    sparse    whether μ may drop templates
    degree    Ω(s·w) = s^degree · Ω(w)
    Solvers that need more look for these methods: `prox(own, step)`, the norms that minimise
    ½ Σ_j (n_j − ‖w_j‖)² + step·Ω(n), none above ‖w_j‖; `quadratic`, which
    marks Ω = ½ Σ_j ‖w_j‖²/μ_j with fixed μ; `attained(norms)`, the μ at which w_j = −μ_j v_j
    attains Ω*(v).
    """

    sparse: ClassVar[bool] = False
    degree: ClassVar[int] = 2

    def value(self, own: Norms) -> float:
        """Return Ω at the block norms ‖w_j‖."""
        raise NotImplementedError

    def conjugate(self, norms: Norms) -> float:
        """Return Ω* at the block norms ‖v_j‖."""
        raise NotImplementedError

    def weights(self, own: Norms) -> Norms:
        """Return μ_j = ‖w_j‖ / ∂Ω for given ‖w_j‖: at the optimum ‖w_j‖ = μ_j ‖v_j‖."""
        raise NotImplementedError

    def hessian_product(self, own: Norms, way: Norms) -> Norms:
        """Return the second derivative of Ω in the ‖w_j‖ times a vector, by a difference."""
        tiny = np.finfo(np.float64).tiny
        step = 1e-4 * float(own.max()) / max(float(np.abs(way).max()), tiny)
        after, before = np.maximum(own + step * way, tiny), np.maximum(own - step * way, tiny)
        return np.asarray((after / self.weights(after) - before / self.weights(before)) / (2 * step))

    def start(self, m: int) -> Norms:
        """Return the μ to begin with."""
        return self.weights(np.ones(m))

    def lower_bound(self, gain: float, norms: Norms) -> float:
        """Return max over 0 ≤ s ≤ 1 of s·gain − Ω*(s·norms): the best dual from gold to α.

        s·gain − s²·Ω* is largest at s = gain / 2Ω*.
        """
        curve = self.conjugate(norms)
        s = min(1.0, gain / (2 * curve)) if curve > 0 else 1.0
        return s * gain - s * s * curve

    def next_mu(self, mu: Norms, norms: Norms) -> Norms:
        """Return the next μ, given the ‖v_j‖ of the present one; a fixed point is an optimum.

        It minimises ½ Σ ‖w_j‖²/μ_j, an upper bound of Ω, at w_j = −μ_j v_j.
        """
        own = mu * norms
        return self.weights(own) if own.any() else mu


@dataclass(frozen=True)
class L2(Regularizer):
    """Ω(w) = ½ Σ_j ‖w_j‖²/μ_j with fixed μ: 1 for structural SVMs, else a round of irw-crf."""

    mu: Norms | float = 1.0
    quadratic: ClassVar[bool] = True

    def value(self, own: Norms) -> float:
        return 0.5 * float(own @ (own / self.mu))

    def conjugate(self, norms: Norms) -> float:
        return 0.5 * float(norms @ (norms * self.mu))

    def weights(self, own: Norms) -> Norms:
        return np.asarray(np.ones_like(own) * self.mu)

    attained = weights


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """Ω(w) = l1·‖w‖₁ + l2·‖w‖²: the lasso for l2 = 0. Norms are absolute values of weights."""

    l1: float = 1.0
    l2: float = 0.0
    degree: ClassVar[int] = 1
    absolute: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.l1 < np.inf:
            raise MtlError(
                f"l1 must be positive and finite, got {self.l1}: l1 = 0 is the method crf-l2 with c = 1/(2·l2)"
            )
        if not 0 <= self.l2 < np.inf:
            raise MtlError(f"l2 must be finite and not negative, got {self.l2}")

    def value(self, own: Norms) -> float:
        return self.l1 * float(own.sum()) + self.l2 * float(own @ own)

    def conjugate(self, norms: Norms) -> float:
        beyond = np.maximum(norms - self.l1 * (1 + 1e-12), 0.0)
        if self.l2 == 0:
            return np.inf if beyond.any() else 0.0
        return float(beyond @ beyond) / (4 * self.l2)

    def lower_bound(self, gain: float, norms: Norms, counts: Norms | None = None) -> float:
        """Return the best dual value on the way from gold to α.

        That is the maximum over 0 ≤ s ≤ 1 of s·gain − Ω*(s·norms). `counts`: how many equal norms
        each one stands for. The slope in s is concave and piecewise linear, so Newton's method from
        s = 1 never passes its zero.
        """
        if self.l2 == 0:
            return gain / max(1.0, float(norms.max(initial=0.0)) / self.l1)
        some = norms > self.l1
        norms, counts = norms[some], np.ones(np.count_nonzero(some)) if counts is None else counts[some]
        s = 1.0
        for _ in range(NEWTON_STEPS):
            beyond = counts * np.maximum(s * norms - self.l1, 0.0) / (2 * self.l2)
            excess = float(beyond @ norms) - gain
            if excess <= 1e-9 * gain:
                break
            s -= excess / float((norms * norms * counts)[beyond > 0].sum() / (2 * self.l2))
        beyond = np.maximum(s * norms - self.l1, 0.0)
        return max(0.0, s * gain - float(counts @ (beyond * beyond)) / (4 * self.l2))

    def start(self, m: int) -> Norms:
        return np.ones(m)

    def weights(self, own: Norms) -> Norms:
        return np.asarray(own / (self.l1 + 2 * self.l2 * own))


@dataclass(frozen=True)
class BlockL1Squared(Regularizer):
    """Ω(w) = ½ (Σ_j ‖w_j‖)²: multiple template learning, μ in the simplex."""

    sparse: ClassVar[bool] = True

    def value(self, own: Norms) -> float:
        return 0.5 * float(own.sum()) ** 2

    def conjugate(self, norms: Norms) -> float:
        return 0.5 * float(norms.max(initial=0.0)) ** 2

    def weights(self, own: Norms) -> Norms:
        """Return μ_j = ‖w_j‖ / Σ‖w‖."""
        return np.asarray(own / own.sum())

    def hessian_product(self, own: Norms, way: Norms) -> Norms:
        return np.full(len(own), way.sum())

    def prox(self, own: Norms, step: float) -> Norms:
        """Return (‖w_j‖ − t)₊, t = step·Σ of the result = step·(k largest) / (1 + step·k)."""
        falling = np.sort(own)[::-1]
        t = step * np.cumsum(falling) / (1 + step * np.arange(1, len(own) + 1))
        k = int(np.count_nonzero(falling > t))  # holds for the largest ones up to some k
        return np.maximum(own - (t[k - 1] if k else 0.0), 0.0)


@dataclass(frozen=True)
class PBlock(Regularizer):
    """Ω(w) = ½ (Σ_j ‖w_j‖^p)^(2/p), p > 1: no weight is zero; p < 2 shrinks weak templates."""

    p: float = 4 / 3

    def __post_init__(self) -> None:
        if not 1 < self.p < np.inf:
            raise MtlError(f"p must be greater than 1 and finite, got {self.p}: p = 1 is the method mtl")

    @property
    def q(self) -> float:
        """The conjugate exponent, 1/p + 1/q = 1."""
        return self.p / (self.p - 1)

    def value(self, own: Norms) -> float:
        return 0.5 * _norm(own, self.p) ** 2

    def conjugate(self, norms: Norms) -> float:
        return 0.5 * _norm(norms, self.q) ** 2

    def start(self, m: int) -> Norms:
        """Return the μ of equal norms."""
        return np.full(m, m ** (1 - 2 / self.p))

    def weights(self, own: Norms) -> Norms:
        """Return μ_j = ‖w_j‖^(2−p) · (Σ‖w‖^p)^(1−2/p)."""
        return _power_ratio(own, 2 - self.p, _norm(own, self.p))

    def hessian_product(self, own: Norms, way: Norms) -> Norms:
        ratio = own / _norm(own, self.p)
        slope = ratio ** (self.p - 1)
        return np.asarray((self.p - 1) * slope / ratio * way + (2 - self.p) * (slope @ way) * slope)

    def attained(self, norms: Norms) -> Norms:
        """Return the μ at which −μ_j v_j attains Ω*(v): ‖v_j‖^(q−2) · (Σ‖v‖^q)^(2/q−1)."""
        return _power_ratio(norms, self.q - 2, _norm(norms, self.q))

    def next_mu(self, mu: Norms, norms: Norms) -> Norms:
        """Return the next μ; for p > 2 the bound is reversed, and μ is computed from v, not w."""
        if self.p <= 2:
            return super().next_mu(mu, norms)
        return self.attained(np.maximum(norms, LEAST_NORM_SHARE * norms.max())) if norms.any() else mu


@dataclass(frozen=True)
class Mixed(Regularizer):
    """Ω(w) = ½ (Σ_j ‖w_j‖^p)^(2/p) + ½ (Σ_j ‖w_j‖)²: a group elastic net for p = 2.

    Its conjugate divides v between both: Ω*(v) = min_t ½ t² + ½ (Σ_j (‖v_j‖ − t)₊^q)^(2/q).
    """

    p: float = 2.0
    sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        PBlock(self.p)  # checks p

    @property
    def block(self) -> PBlock:
        """The first term."""
        return PBlock(self.p)

    def value(self, own: Norms) -> float:
        return self.block.value(own) + 0.5 * float(own.sum()) ** 2

    def conjugate(self, norms: Norms) -> float:
        t = self.threshold(norms)
        return 0.5 * t * t + self.block.conjugate(np.maximum(norms - t, 0.0))

    def weights(self, own: Norms) -> Norms:
        """Return μ from 1/μ_j = ‖w‖_p^(2−p) ‖w_j‖^(p−2) + Σ‖w‖/‖w_j‖, the sum of both terms."""
        norm = _norm(own, self.p)
        return np.asarray(own / (norm * (own / norm) ** (self.p - 1) + own.sum()))

    def hessian_product(self, own: Norms, way: Norms) -> Norms:
        return np.asarray(self.block.hessian_product(own, way) + way.sum())

    def attained(self, norms: Norms) -> Norms:
        """Return the μ at which −μ_j v_j attains Ω*(v), from ‖v_j‖ beyond the threshold."""
        left = np.maximum(norms - self.threshold(norms), 0.0)
        own = left * self.block.attained(left) if left.any() else left
        return own / np.maximum(norms, np.finfo(np.float64).tiny)

    def threshold(self, norms: Norms) -> float:
        """Return the t = Σ_j ‖w_j‖ at the w of ‖v_j‖ − t; templates with ‖v_j‖ ≤ t drop out."""
        from scipy.optimize import brentq  # here, since it is slow to import and prediction has no use for it

        def excess(t: float) -> float:
            left = np.maximum(norms / top - t, 0.0)
            return (float(left @ self.block.attained(left)) if left.any() else 0.0) - t

        top = float(norms.max(initial=0.0))
        return top * float(brentq(excess, 0.0, 1.0, xtol=1e-16)) if top > 0 else 0.0


@dataclass(frozen=True)
class GroupLasso(Regularizer):
    """Ω(w) = ½ Σ_j ‖w_j‖. Its conjugate is 0 if every ‖v_j‖ ≤ ½, else infinite."""

    sparse: ClassVar[bool] = True
    degree: ClassVar[int] = 1

    def value(self, own: Norms) -> float:
        return 0.5 * float(own.sum())

    def conjugate(self, norms: Norms) -> float:
        return 0.0 if float(norms.max(initial=0.0)) <= 0.5 * (1 + 1e-12) else np.inf

    def lower_bound(self, gain: float, norms: Norms) -> float:
        """Return the gain at the largest scale of α for which Ω* is finite."""
        top = float(norms.max(initial=0.0))
        return gain * min(1.0, 0.5 / top) if top > 0 else gain

    def start(self, m: int) -> Norms:
        return np.full(m, 1.0 / m)

    def weights(self, own: Norms) -> Norms:
        """Return μ_j = 2‖w_j‖, where ½‖w‖ ≤ ½‖w‖²/μ + μ/8 is an equality."""
        return 2 * own


def _norm(x: Norms, p: float) -> float:
    """Return (Σ x^p)^(1/p), without overflow for large p."""
    top = float(x.max(initial=0.0))
    return top * float(np.sum((x / top) ** p)) ** (1 / p) if top > 0 else 0.0


def _power_ratio(x: Norms, power: float, norm: float) -> Norms:
    """Return (x/norm)^power, finite where x is 0 and the power negative."""
    ratio = x / norm
    if power < 0:
        ratio = np.maximum(ratio, LEAST_RATIO * float(ratio.max()))
    out: Norms = ratio**power
    return out
