"""The table of methods: a method of the paper is a row (learner, regularizer, loss), and what c means to each.

c is the paper's C divided by the number of sentences: the objective of every row is Ω(w) + c·Σ_i ξ_i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import IncompatibleError
from .learners import Coordinate, CuttingPlane, Learner, Mira, Stop
from .losses import Hamming, Loss
from .regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock, Regularizer


@dataclass(frozen=True)
class Recipe:
    """A method: what it minimises, and the solvers that can. `p`: where -p has a meaning, its default."""

    regularizer: Callable[..., Regularizer]
    loss: Callable[[], Loss]
    solvers: tuple[str, ...]
    p: float | None = None


def _p_block(p: float) -> Regularizer:
    """p = 1 is the limit that mtl is: a row of a table over p may begin there."""
    return BlockL1Squared() if p == 1 else PBlock(p)


BOTH = ("coordinate", "cutting-plane")

RECIPES: dict[str, Recipe] = {
    "mtl": Recipe(BlockL1Squared, Hamming, BOTH),
    "svm": Recipe(L2, Hamming, BOTH),
    "pmtl": Recipe(_p_block, Hamming, BOTH, p=4 / 3),
    "mixed": Recipe(Mixed, Hamming, BOTH, p=2.0),
    "group-lasso": Recipe(GroupLasso, Hamming, BOTH),
    "mira": Recipe(L2, Hamming, ("mira",)),
}

ONLINE = ("mira",)
"""Solvers that make a number of epochs and prove nothing."""


def recipe(method: str) -> Recipe:
    """The row of a method."""
    if method not in RECIPES:
        raise IncompatibleError(f"unknown method {method!r}: expected one of {', '.join(RECIPES)}")
    return RECIPES[method]


def exponent(method: str, p: float | None) -> float | None:
    """The p in force: the one given, or the method's own; refuses one that the method would not use."""
    default = recipe(method).p
    if p is not None and default is None:
        having = ", ".join(name for name, row in RECIPES.items() if row.p is not None)
        raise IncompatibleError(f"method {method!r} has no p: expected -p with one of {having}")
    return default if p is None else p


def regularizer(method: str, p: float | None = None) -> Regularizer:
    """The regularizer of a method."""
    p = exponent(method, p)
    return recipe(method).regularizer() if p is None else recipe(method).regularizer(p)


def solver_of(method: str, solver: str | None) -> str:
    """The solver to use: the one asked for, or the first of the method's."""
    known = recipe(method).solvers
    if solver is None:
        return known[0]
    if solver not in known:
        raise IncompatibleError(
            f"method '{method}' has no solver '{solver}': expected one of {', '.join(known)}"
        )
    return solver


def learner(
    method: str,
    solver: str | None,
    stop: Stop,
    *,
    seed: int = 0,
    line_search: bool = False,
    epochs: int = 10,
) -> Learner:
    """The learner of a method; refuses a solver that cannot minimise its objective."""
    match solver_of(method, solver):
        case "mira":
            return Mira(epochs, seed)
        case "cutting-plane":
            return CuttingPlane(stop, line_search)
        case _:
            return Coordinate(stop, seed)
