"""Which dual variables each structure has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.linear.singletons import can_share_singletons, share_singletons
from mtlstruct.objective.oracle import Oracle, Weights
from mtlstruct.solvers.coordinate_ascent.cached_dual import CachedDual
from mtlstruct.solvers.coordinate_ascent.dual_state import DualProblem, DualState
from mtlstruct.solvers.coordinate_ascent.sequence.dual import ItemDual, SequenceDual
from mtlstruct.solvers.coordinate_ascent.tree_dual import TreeDual
from mtlstruct.structures import MulticlassStructure, SequenceStructure, Structure, TreeStructure

DUAL_STATES: dict[type, Any] = {
    SequenceStructure: SequenceDual,
    MulticlassStructure: ItemDual,
    TreeStructure: TreeDual,
}
"""Structure -> dual variables. Subclasses inherit them; other structures have `CachedDual`."""


def dual_class(structure: type[Structure]) -> Any:
    """Return the class of the dual variables of a structure."""
    return next((DUAL_STATES[kind] for kind in structure.__mro__ if kind in DUAL_STATES), CachedDual)


def supports_smooth_losses(structure: type[Structure]) -> bool:
    """Return whether the dual of a structure supports the log loss and the softmax-margin."""
    return bool(dual_class(structure).smooth_losses)


def dual_state(oracle: Oracle, V: Weights, N: NDArray[np.float64]) -> DualState:
    """Return the dual variables of the data, at gold, working on V and its squared norms N."""
    problem = DualProblem(
        oracle.structure, oracle.encoded, oracle.gold, oracle.cost, V, N, oracle.temperature
    )
    state: DualState = dual_class(type(oracle.structure))(problem)
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
