"""The table of methods: a row has a regularizer, a loss, and the solvers that can minimise their sum.

c is the paper's C divided by the number of sentences: the objective of every row is Ω(w) + c·Σ_i ξ_i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.losses import Free, Hamming, Loss
from mtlstruct.objective.regularizers import L1, L2, BlockL1Squared, GroupLasso, Mixed, PBlock, Regularizer
from mtlstruct.solvers import LEARNERS, Coordinate, CuttingPlane, Learner, Mira, Proximal, Stop


@dataclass(frozen=True)
class MethodSpec:
    """What a method minimises, and the solvers that can, the first by default.

    Attributes
    ----------
    p : float or None
        The default of -p; None for methods without p.
    epochs : int or None
        The default number of passes of an online method; None for others.
    eta : float or None
        The default threshold of CRF++'s stopping rule; None for methods that stop by the gap.
    """

    regularizer: Callable[..., Regularizer]
    loss: Callable[[], Loss]
    solvers: tuple[str, ...]
    p: float | None = None
    epochs: int | None = None
    eta: float | None = None

    @property
    def likelihood(self) -> bool:
        """Whether ξ_i is −log p(y_i), so that scores are logarithms of probabilities."""
        return self.loss is Free


def _p_block(p: float) -> Regularizer:
    """Return the p-block norm, whose limit p = 1 is the regularizer of mtl."""
    return BlockL1Squared() if p == 1 else PBlock(p)


BOTH = ("coordinate", "cutting-plane")

METHODS: dict[str, MethodSpec] = {
    "mtl": MethodSpec(BlockL1Squared, Hamming, BOTH),
    "svm": MethodSpec(L2, Hamming, BOTH),
    "pmtl": MethodSpec(_p_block, Hamming, BOTH, p=4 / 3),
    "mixed": MethodSpec(Mixed, Hamming, BOTH, p=2.0),
    "group-lasso": MethodSpec(GroupLasso, Hamming, BOTH),
    "mira": MethodSpec(L2, Hamming, ("mira",), epochs=10),
    "crf-l2": MethodSpec(L2, Free, ("lbfgs",)),
    "crf-l1": MethodSpec(L1, Free, ("owl-qn",), eta=1e-4),  # its gap is wide for long, see docs/math.md
    "irw-crf": MethodSpec(L2, Free, ("reweighted",), eta=1e-4),  # so is that of its last rounds
    "online-mkl": MethodSpec(BlockL1Squared, Hamming, ("proximal",), epochs=20),
}

ONLINE = ("mira",)
"""Solvers that make a fixed number of epochs and give no certificate."""


def method_spec(method: str) -> MethodSpec:
    """Return the row of a method."""
    if method not in METHODS:
        raise IncompatibleError(f"unknown method {method!r}: expected one of {', '.join(METHODS)}")
    return METHODS[method]


def exponent(method: str, p: float | None) -> float | None:
    """Return p as given or the default; raise an error for a method without p."""
    default = method_spec(method).p
    if p is not None and default is None:
        having = ", ".join(name for name, row in METHODS.items() if row.p is not None)
        raise IncompatibleError(f"method {method!r} has no p: expected p with one of {having}")
    return default if p is None else p


def regularizer(method: str, p: float | None = None) -> Regularizer:
    """Return the regularizer of a method."""
    p = exponent(method, p)
    return method_spec(method).regularizer() if p is None else method_spec(method).regularizer(p)


def solver_of(method: str, solver: str | None) -> str:
    """Return the solver as given or the first; raise an error for one that cannot minimise the objective."""
    known = method_spec(method).solvers
    if solver is not None and solver not in known:
        raise IncompatibleError(
            f"method '{method}' has no solver '{solver}': expected one of {', '.join(known)}"
        )
    return solver or known[0]


def learner(
    method: str,
    solver: str | None,
    stop: Stop,
    *,
    seed: int = 0,
    line_search: bool = False,
    dense: bool = False,
) -> Learner:
    """Return the solver object of a method."""
    name = solver_of(method, solver)
    if name == "coordinate":
        return Coordinate(stop, seed)
    if name == "cutting-plane":
        return CuttingPlane(stop, line_search)
    if name == "proximal":
        return Proximal(stop, seed, dense)
    if name == "mira":
        return Mira(stop.max_passes, seed)
    return LEARNERS[name](stop)
