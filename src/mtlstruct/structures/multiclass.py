"""Items that have one of L classes each: sequences of one token, without edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import Outputs, Parts, Ptr, RowCounts, Rows, Sites, Triplets, Values
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.sequence import SequenceStructure


@dataclass(frozen=True)
class MulticlassStructure(SequenceStructure):
    """Items over `labels` classes. Parts: float32[T, ≥L]. Items of one sentence do not depend on each other."""

    name: ClassVar[str] = "multiclass"

    def widths(self) -> tuple[int, ...]:
        """A class."""
        return (self.labels,)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Every token is an item."""
        return super().sites(ptr)[:1]

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """A sentence has as many items as tokens."""
        return (ptr,)

    def decode(self, parts: Parts, rows: Rows, ptr: Ptr, *rest: Any, **given: Any) -> None:
        """The best class of each item, loss-augmented where gold and cost are given."""
        super().decode(*self._linked(parts, ptr), ptr, *rest, **given)

    def evaluate(self, parts: Parts, rows: Rows, ptr: Ptr, outputs: Outputs) -> Values:
        """The scores of the classes, summed over sentences."""
        return super().evaluate(*self._linked(parts, ptr), ptr, outputs)

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Classes where the two differ."""
        return super().indicator(outputs, against, self._rows(ptr), ptr)[:1]

    def marginals(
        self, parts: Parts, rows: Rows, ptr: Ptr, *rest: Any, **given: Any
    ) -> tuple[RowCounts, ...]:
        """The softmax of the scores of each item."""
        return super().marginals(*self._linked(parts, ptr), ptr, *rest, **given)[:1]

    def nbest(self, parts: Parts, rows: Rows, ptr: Ptr, *rest: Any) -> None:
        """The best classes of each item."""
        super().nbest(*self._linked(parts, ptr), ptr, *rest)

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Classes at any item. Raise where the constraints say what may follow what."""
        if constraints.pairs is not None:
            raise IncompatibleError(
                "items stand alone: no class follows another, so none can be forbidden to"
            )
        nodes, edges = self._linked((parts[0][:, : self.labels],), ptr)[0]
        return super().restrict((nodes, edges), ptr, constraints)[:1]

    def _linked(self, parts: Parts, ptr: Ptr) -> tuple[Parts, Rows]:
        """Parts and rows of sequences whose edges score nothing."""
        return (parts[0], np.zeros((1, self.labels**2), np.float32)), self._rows(ptr)

    def _rows(self, ptr: Ptr) -> Rows:
        return (None, np.zeros(int(ptr[-1]) - len(ptr) + 1, np.int32))
