"""The contract of a structure: where templates may look, and how outputs are searched.

A structure knows no weights and no text. It meets the linear half of the system in one place only, the *part
scores*: for each kind of site an array [rows of that kind, parts of a site]. A sequence has two kinds (node: a
label each; edge: a pair of labels each), a tree has one (arc), an item to classify has one.

All methods work on sentences first:last and write into arrays they are given, so the same code serves a batch on
many threads and an online learner that looks at one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtlstruct.structures.constraints import Constraints

Parts = tuple[NDArray[np.float32], ...]
"""Scores or counts over parts: for each kind float32[rows, width]."""

Rows = Sequence[NDArray[np.int32] | None]
"""For each kind the row that a site uses, None where site i is row i (Encoded.rows)."""

Ptr = NDArray[np.int64]
"""Where each sentence begins, and the end: int64[S+1]."""

Span = tuple[int, int]
"""The first sentence, and one past the last."""

Outputs = NDArray[np.int32]
Values = NDArray[np.float64]
Cost = NDArray[np.float32]

FORBIDDEN = np.float32(-1e30)
"""The score of a part that may not be used: below any sum of scores, and finite, as fast kernels want."""

IMPOSSIBLE = -1e29
"""Outputs that score less than this use a forbidden part."""


@dataclass(frozen=True)
class Triplets:
    """Sparse counts over the parts of one kind: row, int32 part, float32 count; sorted by row."""

    row: NDArray[np.integer]
    part: NDArray[np.int32]
    count: NDArray[np.float32]

    def add_to(self, table: NDArray[np.floating], weight: float) -> None:
        """table[row, part] += weight · count."""
        np.add.at(table, (self.row, self.part), (weight * self.count).astype(table.dtype))


@dataclass(frozen=True)
class RowCounts:
    """Counts over all parts of a few rows of one kind: distinct int32 rows or a run of them, floats [rows, width]."""

    row: NDArray[np.int32] | slice
    count: NDArray[np.floating]

    def add_to(self, table: NDArray[np.floating]) -> None:
        """table[row] += count."""
        table[self.row] += self.count


@dataclass(frozen=True)
class Sites:
    """The sites of one kind in a corpus.

    letter    the template letter that looks here (U, B, ...)
    tokens    int64[sites], rising: the token each site stands at; None where site i is token i
    shared    whether sites with equal observations share a row of A
    """

    kind: str
    letter: str
    tokens: NDArray[np.int64] | None
    shared: bool


class Structure(Protocol):
    """Sequences, trees, single items ... `rows` are Encoded.rows: which row of each kind a site uses."""

    name: ClassVar[str]

    def __init__(self, labels: int) -> None: ...

    @property
    def labels(self) -> int:
        """L, the number of labels."""

    def widths(self) -> tuple[int, ...]:
        """Parts of a site, for each kind."""

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Where templates of each kind may look."""

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """For each kind where the sites of each sentence begin. int64[S+1] each.

        Optional: for learners that look at one sentence at a time.
        """

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """What a loss compares at one position: the labels, or a right and a wrong head."""

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """Δ(gold, outputs) of each sentence, from the table that a Loss made of `choices`. float64[S]."""

    def decode(
        self,
        parts: Parts,
        rows: Rows,
        ptr: Ptr,
        span: Span,
        outputs: Outputs,
        values: Values,
        *,
        scale: float = 1.0,
        gold: Outputs | None = None,
        cost: Cost | None = None,
    ) -> None:
        """The best outputs under scale·parts, plus their loss where gold and cost are given; and their value."""

    def evaluate(self, parts: Parts, rows: Rows, ptr: Ptr, outputs: Outputs) -> Values:
        """The score of given outputs, for each sentence. float64[S]."""

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Which parts `outputs` use and `against` does not (+), and the reverse (−), for each kind."""

    def marginals(
        self,
        parts: Parts,
        rows: Rows,
        ptr: Ptr,
        span: Span,
        log_partition: Values,
        *,
        scale: float = 1.0,
        gold: Outputs | None = None,
    ) -> tuple[RowCounts, ...]:
        """How probable each part is under p(outputs) ∝ exp(scale·score), less the parts of gold where it is given.

        For each kind the rows that sentences first:last use, summed where they share one; and their log Z.
        Optional: a structure that cannot sum over its outputs leaves it out.
        """


@runtime_checkable
class Ranking(Protocol):
    """A structure that can list its best outputs."""

    def nbest(self, parts: Parts, rows: Rows, ptr: Ptr, span: Span, outputs: Outputs, values: Values) -> None:
        """The best outputs of each sentence in falling order, as many as there are rows in `outputs`.

        outputs int32[N, T], values float64[S, N]: their scores, −inf where there are no more.
        """


@runtime_checkable
class Restrictable(Protocol):
    """A structure whose outputs can be kept to constraints."""

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """A copy of the scores in which parts that the constraints rule out are FORBIDDEN."""
