"""Items that have one of L classes each: sequences of one token, without edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import Batch, Outputs, Parts, Ptr, RowCounts, Rows, Sites, Triplets, Values
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.sequence import SequenceStructure


@dataclass(frozen=True)
class MulticlassStructure(SequenceStructure):
    """Items over `labels` classes. Parts: float32[T, ≥L]. Items of one sentence are independent."""

    name: ClassVar[str] = "multiclass"

    def widths(self) -> tuple[int, ...]:
        """Return L: one part per class."""
        return (self.labels,)

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Return one site per token."""
        return super().sites(ptr)[:1]

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Return the first item of each sentence."""
        return (ptr,)

    def decode(self, batch: Batch, *args: Any, **options: Any) -> None:
        """Write the best class of each item, loss-augmented where gold and cost are given."""
        super().decode(self._with_edges(batch), *args, **options)

    def evaluate(self, batch: Batch, outputs: Outputs) -> Values:
        """Return the scores of the classes, summed over sentences."""
        return super().evaluate(self._with_edges(batch), outputs)

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Return the classes where the two differ."""
        return super().indicator(outputs, against, _edge_rows(ptr), ptr)[:1]

    def marginals(self, batch: Batch, *args: Any, **options: Any) -> tuple[RowCounts, ...]:
        """Return the softmax of the scores of each item."""
        return super().marginals(self._with_edges(batch), *args, **options)[:1]

    def nbest(self, batch: Batch, *args: Any) -> None:
        """Write the best classes of each item."""
        super().nbest(self._with_edges(batch), *args)

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Return the scores with forbidden classes; raise for constraints on pairs."""
        if constraints.pairs is not None:
            raise IncompatibleError(
                "items stand alone: no class follows another, so none can be forbidden to"
            )
        batch = self._with_edges(Batch((parts[0][:, : self.labels],), (None,), ptr))
        return super().restrict(batch.parts, ptr, constraints)[:1]

    def _with_edges(self, batch: Batch) -> Batch:
        """Return the batch of sequences whose edges have the score 0."""
        edges = np.zeros((1, self.labels**2), np.float32)
        return Batch((batch.parts[0], edges), _edge_rows(batch.ptr), batch.ptr)


def _edge_rows(ptr: Ptr) -> Rows:
    return (None, np.zeros(int(ptr[-1]) - len(ptr) + 1, np.int32))
