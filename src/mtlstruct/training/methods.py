"""Table of methods: the regularizer, and the solvers that can minimise it with each loss.

c is the paper's C divided by the number of sentences: the objective of every row is Ω(w) + c·Σ_i
ℓ_i(w).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mtlstruct.errors import IncompatibleError
from mtlstruct.formats.feature_dicts import ALL_KEYS, MAX_KEYS
from mtlstruct.objective.losses import HINGE, LOG, Cost, Hamming, Loss
from mtlstruct.objective.regularizers import (
    L2,
    BlockL1Squared,
    ElasticNet,
    GroupLasso,
    Mixed,
    PBlock,
    Regularizer,
)
from mtlstruct.solvers import SOLVERS, Coordinate, CuttingPlane, Mira, Proximal, Solver
from mtlstruct.solvers.coordinate_ascent.duals import supported_losses
from mtlstruct.structures import structure_for

if TYPE_CHECKING:
    from mtlstruct.training.options import Options


@dataclass(frozen=True)
class MethodSpec:
    """What a method minimises, and the solvers that can.

    solvers     for each loss, the default first, the solvers that minimise it, the default first
    parameters  the options that the regularizer takes, and their defaults
    epochs      the default number of passes of an online method; None for others
    eta         the default threshold of CRF++'s stopping rule; None: stop by the gap
    cost        the cost of a wrong output in the hinge and the softmax-margin
    """

    regularizer: Callable[..., Regularizer]
    solvers: Mapping[str, tuple[str, ...]]
    parameters: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None
    eta: float | None = None
    cost: Callable[[], Cost] = Hamming


_HINGE = {"hinge": ("coordinate", "cutting-plane")}
_SMOOTH = {"log": ("coordinate", "lbfgs"), "softmax-margin": ("coordinate",)}

METHODS: dict[str, MethodSpec] = {
    "mtl": MethodSpec(BlockL1Squared, _SMOOTH | _HINGE),
    "svm": MethodSpec(L2, _HINGE | _SMOOTH),
    "pmtl": MethodSpec(lambda p: BlockL1Squared() if p == 1 else PBlock(p), _SMOOTH | _HINGE, {"p": 4 / 3}),
    "mixed": MethodSpec(Mixed, _SMOOTH | _HINGE, {"p": 2.0}),
    "group-lasso": MethodSpec(GroupLasso, _SMOOTH | _HINGE),
    "crf-l2": MethodSpec(L2, {"log": _SMOOTH["log"]}),
    "crf-l1": MethodSpec(ElasticNet, {"log": ("owl-qn",)}, eta=1e-4),  # its gap is wide for long
    "crf": MethodSpec(ElasticNet, {"log": ("owl-qn",)}, {"l1": 0.1, "l2": 0.1}, eta=1e-4),
    "irw-crf": MethodSpec(L2, {"log": ("reweighted",)}, eta=1e-4),  # so is that of its last rounds
    "mira": MethodSpec(L2, {"hinge": ("mira",)}, epochs=10),
    "online-mkl": MethodSpec(BlockL1Squared, {"hinge": ("proximal",)}, epochs=20),
}

UNGROUPED = ("svm", "crf", "crf-l2", "crf-l1", "mira")
"""Methods whose result does not depend on how features are grouped into templates."""

ONLINE = ("mira",)
"""Solvers that make a fixed number of epochs and give no certificate."""


def method_spec(method: str) -> MethodSpec:
    """Return the row of a method."""
    if method not in METHODS:
        raise IncompatibleError(f"unknown method {method!r}: expected one of {', '.join(METHODS)}")
    return METHODS[method]


def parameters(options: Options) -> dict[str, float]:
    """Return the parameters of the regularizer, or raise an error for one that it lacks."""
    defaults = method_spec(options.method).parameters
    for name in ("p", "l1", "l2"):
        if getattr(options, name) is not None and name not in defaults:
            having = ", ".join(method for method, row in METHODS.items() if name in row.parameters)
            what, hint = ("exponent p", " (CRF++'s -p is --threads)") if name == "p" else (name, "")
            raise IncompatibleError(
                f"method {options.method!r} has no {what}: expected {name} with one of {having}{hint}"
            )
    given = {name: getattr(options, name) for name in defaults}
    return {name: defaults[name] if value is None else value for name, value in given.items()}


def check_groups(names: Sequence[str], method: str) -> None:
    """Raise if there are too many keys of feature dicts for a method in which groups matter."""
    if ALL_KEYS in names and method not in UNGROUPED:
        raise IncompatibleError(
            f"method {method!r} has one template per key of feature dicts: expected at most {MAX_KEYS:,} keys, got "
            f"more; give group_by, which says what keys have in common, or take one of {', '.join(UNGROUPED)}"
        )


def regularizer(options: Options) -> Regularizer:
    """Return the regularizer of a method."""
    return method_spec(options.method).regularizer(**parameters(options))


def loss_name(options: Options) -> str:
    """Return the loss as given or the default; raise an error if the method lacks it.

    The default is the first loss of the method that the solver given can minimise, if one is given.
    Where the coordinate solver does not support all smooth losses (trees), it is the hinge.
    """
    known = method_spec(options.method).solvers
    if options.loss is not None:
        if options.loss not in known:
            raise IncompatibleError(
                f"method '{options.method}' has no loss '{options.loss}': expected {' or '.join(known)}"
            )
        return options.loss
    if "hinge" in known and options.solver != "lbfgs" and "softmax-margin" not in _by_coordinate(options):
        return "hinge"
    return next((loss for loss, solvers in known.items() if options.solver in solvers), next(iter(known)))


def _by_coordinate(options: Options) -> tuple[str, ...]:
    """Return the losses that the coordinate solver supports for the task."""
    return supported_losses(structure_for(options.task, options.structure))


def loss_function(options: Options) -> Loss:
    """Return the loss that a training minimises."""
    name = loss_name(options)
    if name == "softmax-margin":
        return Loss(options.temperature, options.cost_weight)
    return {"hinge": HINGE, "log": LOG}[name]


def solver_name(options: Options) -> str:
    """Return the solver as given or the default; raise an error if it cannot be used."""
    loss = loss_name(options)
    known = method_spec(options.method).solvers[loss]
    seen = options.transition_support == "seen" and loss != "hinge"
    if seen or loss not in _by_coordinate(options):
        known = tuple(name for name in known if name != "coordinate")
    if not known:
        raise IncompatibleError(f"no solver minimises the loss '{loss}' for the task '{options.task}'")
    if options.solver is not None and options.solver not in known:
        raise IncompatibleError(
            f"method '{options.method}' with the loss '{loss}' has no solver '{options.solver}' "
            f"for the task '{options.task}': expected {' or '.join(known)}"
        )
    return options.solver or known[0]


def make_solver(options: Options) -> Solver:
    """Return the solver of a training."""
    name, stop = solver_name(options), options.stop()
    if name == "coordinate":
        return Coordinate(stop, options.seed)
    if name == "cutting-plane":
        return CuttingPlane(stop, options.line_search)
    if name == "proximal":
        return Proximal(stop, options.seed, options.dense_prox)
    if name == "mira":
        return Mira(stop.max_passes, options.seed)
    return SOLVERS[name](stop)
