"""The interface between the coordinate solver and the dual variables of a structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass
class DualProblem:
    """Data, gold, cost table, V and its squared block norms N: what dual variables refer to."""

    structure: Any
    encoded: Any
    gold: NDArray[np.int32]
    cost: NDArray[np.float32]
    V: list[NDArray[Any]]
    N: NDArray[np.float64]
    temperature: float = 0.0


@dataclass
class BlockUpdates:
    """Result of block updates: gap of each span before its update, change of the loss."""

    gaps: NDArray[np.float64]
    loss: float


class DualState(Protocol):
    """The dual variables of all sentences, one distribution over outputs each, gold to begin with.

    A span is a row (start, stop, sentence, ...) of tokens that are updated together; a state may
    append entries of its own. Updates keep V = c·Aᵀ(expected parts − gold's) and the squared norms
    N of the problem up to date.
    """

    shares_singletons: ClassVar[bool] = False
    """Whether block updates support weight rows that singleton attributes share."""

    smooth_losses: ClassVar[bool] = False
    """Whether block updates support the log loss and the softmax-margin."""

    @staticmethod
    def memory(oracle: Any) -> int:
        """Return the bytes that the dual variables of the data take."""
        ...

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Return spans [k, ≥ 3] of these sentences; `shift` says where long ones are cut."""
        ...

    def active(self) -> NDArray[np.int64]:
        """Return the working set: spans whose dual variables have left gold."""
        ...

    def update(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> BlockUpdates:
        """Update spans in turn, each until its gap is below tolerance or `enough` of before."""
        ...

    def set_distributions(self, parts: Any) -> None:
        """Set each distribution to softmax(score / temperature); smooth losses only."""
        ...

    def repair(self) -> None:
        """Make the distributions exact again after rounding."""
        ...

    def counts(self) -> tuple[NDArray[Any], ...]:
        """Return the expected parts less gold's, for each kind floats [rows, parts]."""
        ...

    def loss(self, counts: NDArray[Any]) -> float:
        """Return the expected loss; `counts` are those of the first kind."""
        ...
