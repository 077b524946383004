"""The dual variables of each structure: their interface to the solver, and the table of them."""

from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mtlstruct.linear.design import can_share_singletons, share_singletons
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.sequence.dual import SequenceDual
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step
from mtlstruct.solvers.coordinate_ascent.sequence.hinge import HingeDual
from mtlstruct.solvers.coordinate_ascent.tree_dual import SmoothTreeDual, TreeDual
from mtlstruct.structures import SequenceStructure, Structure, TreeStructure


class DualState(Protocol):
    """The dual variables of all sentences, one distribution over outputs each, gold to begin with.

    A span is a row (start, stop, ...) of tokens that are updated together. Updates keep V =
    c·Aᵀ(expected parts − gold's) and the squared norms N up to date.

    shares_singletons   whether block updates support weight rows that singleton attributes share
    losses              those of "hinge", "log" and "softmax-margin" that block updates support
    """

    shares_singletons: ClassVar[bool]
    losses: ClassVar[tuple[str, ...]]

    @staticmethod
    def memory(oracle: Oracle) -> int:
        """Return the bytes that the dual variables of the data take."""

    def spans(self, shift: int) -> NDArray[np.int64]:
        """Return spans [k, ≥ 2] that cover all tokens; `shift` moves cuts of long sentences."""

    def active(self) -> NDArray[np.int64]:
        """Return the working set: spans whose dual variables have left gold; hinge only."""

    def update(
        self, spans: NDArray[np.int64], mu: NDArray[np.float64], step: Step
    ) -> tuple[NDArray[np.float64], float]:
        """Update spans in turn. Return the gap of each before, and the change of the loss."""

    def set_distributions(self, parts: Any) -> None:
        """Set each distribution to softmax(score / temperature); smooth losses only."""

    def repair(self) -> None:
        """Make the distributions exact again after rounding."""

    def counts(self) -> tuple[NDArray[Any], ...]:
        """Return the expected parts less gold's, for each kind floats [rows, parts]."""

    def loss(self, counts: NDArray[Any]) -> float:
        """Return the expected loss; `counts` are those of the first kind."""


DUAL_STATES: dict[type, tuple[Any, Any]] = {
    SequenceStructure: (HingeDual, SequenceDual),
    TreeStructure: (TreeDual, SmoothTreeDual),
}
"""Structure -> dual variables with the hinge and with a smooth loss; subclasses inherit them."""


def dual_class(structure: type[Structure], smooth: bool = False) -> Any:
    """Return the class of the dual variables of a structure; None if it has no row above."""
    return next((DUAL_STATES[kind][smooth] for kind in structure.__mro__ if kind in DUAL_STATES), None)


def supported_losses(structure: type[Structure]) -> tuple[str, ...]:
    """Return which of the losses "hinge", "log" and "softmax-margin" the solver can minimise."""
    kinds = (dual_class(structure, smooth) for smooth in (False, True))
    return tuple(loss for kind in kinds if kind is not None for loss in kind.losses)


def dual_state(oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> DualState:
    """Return the dual variables of the data, at gold, working on V and its squared norms N."""
    state: DualState = dual_class(type(oracle.structure), oracle.temperature > 0)(oracle, V, N)
    return state


def with_shared_singletons(oracle: Oracle, *, overwrite: bool) -> Oracle:
    """Return the oracle, with shared rows of singletons where the dual supports them.

    `overwrite` allows the design matrix of the given oracle to be changed in place.
    """
    first, *rest = oracle.encoded.designs
    if not (dual_class(type(oracle.structure)).shares_singletons and can_share_singletons(first)):
        return oracle
    shared = share_singletons(first, overwrite=overwrite)
    return replace(oracle, encoded=replace(oracle.encoded, designs=(shared, *rest)))
