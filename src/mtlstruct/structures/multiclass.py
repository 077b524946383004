"""One label an item: multiclass classification, where every template is a kernel (Zien and Ong's case of the paper).

Items are tokens that know nothing of each other. Each is a sentence of its own where a file is read by
`--task multiclass`; sentences of several tokens are allowed too, and are sums of their tokens. There is one kind of
site, the item (template letter U), and a part for each label. Ties go to the label with the smaller number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.base import FORBIDDEN, DualProblem, DualState, Parts, RowCounts, Sites, Triplets
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.nbest import nbest

Rows = Sequence[NDArray[np.int32] | None]


@dataclass(frozen=True)
class MulticlassStructure:
    """Items with one of `labels` labels each. Parts: item float32[T, ≥L]."""

    labels: int
    name: ClassVar[str] = "multiclass"

    def widths(self) -> tuple[int, ...]:
        """A label at an item."""
        return (self.labels,)

    def sites(self, ptr: NDArray[np.int64]) -> tuple[Sites, ...]:
        """Every token is an item."""
        return (Sites("item", "U", None, False),)

    def site_ptr(self, ptr: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Items are tokens."""
        return (ptr,)

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """The labels."""
        return labels

    def losses(
        self,
        outputs: NDArray[np.int32],
        gold: NDArray[np.int32],
        cost: NDArray[np.float32],
        ptr: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """cost[gold, chosen], summed over the items of a sentence."""
        return _sums(cost[gold, outputs], ptr)

    def decode(
        self,
        parts: Parts,
        rows: Rows,
        ptr: NDArray[np.int64],
        span: tuple[int, int],
        outputs: NDArray[np.int32],
        values: NDArray[np.float64],
        *,
        scale: float = 1.0,
        gold: NDArray[np.int32] | None = None,
        cost: NDArray[np.float32] | None = None,
    ) -> None:
        """The best label of each item, loss-augmented where gold and cost are given."""
        first, last = span
        items = slice(int(ptr[first]), int(ptr[last]))
        scores = np.float32(scale) * parts[0][items, : self.labels]
        if gold is not None and cost is not None:
            scores += cost[gold[items]]
        outputs[items] = scores.argmax(axis=1)
        best = np.take_along_axis(scores, outputs[items, None].astype(np.int64), axis=1)
        values[first:last] = _sums(best[:, 0], ptr[first : last + 1] - ptr[first])

    def evaluate(
        self, parts: Parts, rows: Rows, ptr: NDArray[np.int64], outputs: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """The scores of the labels."""
        return _sums(parts[0][np.arange(len(outputs)), outputs], ptr)

    def indicator(
        self,
        outputs: NDArray[np.int32],
        against: NDArray[np.int32],
        rows: Rows,
        ptr: NDArray[np.int64],
    ) -> tuple[Triplets, ...]:
        """Labels where the two differ."""
        items = np.flatnonzero(outputs != against)
        part = np.stack([outputs[items], against[items]], axis=1).ravel()
        sign = np.tile(np.array([1, -1], np.float32), len(items))
        return (Triplets(np.repeat(items, 2).astype(np.int32), part.astype(np.int32), sign),)

    def marginals(
        self,
        parts: Parts,
        rows: Rows,
        ptr: NDArray[np.int64],
        span: tuple[int, int],
        log_partition: NDArray[np.float64],
        *,
        scale: float = 1.0,
        gold: NDArray[np.int32] | None = None,
    ) -> tuple[RowCounts, ...]:
        """The softmax of the scores of each item."""
        first, last = span
        start, stop = int(ptr[first]), int(ptr[last])
        scores = scale * parts[0][start:stop, : self.labels].astype(np.float64)
        top = scores.max(axis=1)
        share = np.exp(scores - top[:, None])
        total = share.sum(axis=1)
        log_partition[first:last] = _sums(np.log(total) + top, ptr[first : last + 1] - start)
        share /= total[:, None]
        if gold is not None:
            share[np.arange(stop - start), gold[start:stop]] -= 1
        return (RowCounts(slice(start, stop), share),)

    def nbest(
        self,
        parts: Parts,
        rows: Rows,
        ptr: NDArray[np.int64],
        span: tuple[int, int],
        outputs: NDArray[np.int32],
        values: NDArray[np.float64],
    ) -> None:
        """As for sequences, where transitions score nothing."""
        flat = np.zeros((1, self.labels**2), np.float32)
        nbest((parts[0], flat), np.zeros(int(ptr[-1]), np.int32), ptr, span, self.labels, outputs, values)

    def restrict(self, parts: Parts, ptr: NDArray[np.int64], constraints: Constraints) -> Parts:
        """Labels at any item; what may follow what has no meaning here."""
        if constraints.pairs is not None:
            raise IncompatibleError(
                "items stand alone: no class follows another, so none can be forbidden to"
            )
        if constraints.labels is None:
            return parts
        return (np.where(constraints.labels, parts[0][:, : self.labels], FORBIDDEN),)

    def dual(self, problem: DualProblem) -> DualState:
        """A distribution over the labels of each item, with exact visits."""
        from mtlstruct.solvers.coordinate_ascent.multiclass_dual import MulticlassDual

        return MulticlassDual(problem)

    def dual_memory(self, tokens: int) -> int:
        """A float32 for each label of each item."""
        return tokens * self.labels * 4


def _sums(each: NDArray[np.floating], ptr: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over sentences, in double."""
    wide = each.astype(np.float64)
    if len(ptr) == len(wide) + 1:  # an item a sentence
        return wide
    return np.add.reduceat(wide, ptr[:-1])
