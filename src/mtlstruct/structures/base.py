"""The interface of a structure: where templates apply, and how outputs are searched.

A structure knows no weights and no text. It meets the linear model in the *part scores* only: for
each kind of site an array [rows of that kind, parts per site]. A sequence has two kinds (node: one
part per label; edge: one per pair of labels), a tree has one (arc), an item to classify has one.

Methods that search work on sentences first:last and write into arrays that they are given, so the
same code serves batches on many threads and online solvers that decode one sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtlstruct.structures.constraints import Constraints

Parts = tuple[NDArray[np.float32], ...]
"""Scores or counts over parts: for each kind float32[rows, width]."""

Rows = Sequence[NDArray[np.int32] | None]
"""For each kind the row that a site uses, None where site i is row i (Encoded.rows)."""

Ptr = NDArray[np.int64]
"""The first token of each sentence, and the number of tokens: int64[S+1]."""

Span = tuple[int, int]
"""The first sentence, and one past the last."""

Outputs = NDArray[np.int32]
Values = NDArray[np.float64]
Cost = NDArray[np.float32]

FORBIDDEN = np.float32(-1e30)
"""The score of a part that may not be used: below any sum of scores, but finite."""

IMPOSSIBLE = -1e29
"""Outputs that score less than this use a forbidden part."""


class Batch(NamedTuple):
    """Part scores of some sentences, the row of each site, and the tokens of each sentence."""

    parts: Parts
    rows: Rows
    ptr: Ptr


@dataclass(frozen=True)
class Triplets:
    """Sparse counts over the parts of one kind: row, int32 part, float32 count; sorted by row."""

    row: NDArray[np.integer]
    part: NDArray[np.int32]
    count: NDArray[np.float32]

    def add_to(self, table: NDArray[np.floating], weight: float) -> None:
        """Add weight · count to table[row, part]."""
        np.add.at(table, (self.row, self.part), (weight * self.count).astype(table.dtype))


@dataclass(frozen=True)
class RowCounts:
    """Counts over all parts of distinct rows of one kind: int32 or slice, floats [rows, width]."""

    row: NDArray[np.int32] | slice
    count: NDArray[np.floating]

    def add_to(self, table: NDArray[np.floating]) -> None:
        """Add the counts to table[row]."""
        table[self.row] += self.count


@dataclass(frozen=True)
class Sites:
    """The sites of one kind in a corpus.

    letter    the template letter of this kind (U, B, ...)
    tokens    int64[sites], rising: the token of each site; None where site i is token i
    shared    whether sites with equal observations share a row of A
    """

    kind: str
    letter: str
    tokens: NDArray[np.int64] | None
    shared: bool


class Structure(Protocol):
    """A space of outputs (sequences, trees, single items) whose score is a sum over parts."""

    name: ClassVar[str]

    def __init__(self, labels: int) -> None: ...

    @property
    def labels(self) -> int:
        """L, the number of labels."""

    def widths(self) -> tuple[int, ...]:
        """Return the number of parts per site, for each kind."""

    def sites(self, ptr: Ptr) -> tuple[Sites, ...]:
        """Return where templates of each kind apply."""

    def site_ptr(self, ptr: Ptr) -> tuple[Ptr, ...]:
        """Return for each kind the first site of each sentence, int64[S+1].

        Optional: for solvers that decode one sentence at a time.
        """

    def choices(self, labels: Sequence[str]) -> Sequence[str]:
        """Return what a loss compares at one position: the labels, or a right and a wrong head."""

    def losses(self, outputs: Outputs, gold: Outputs, cost: Cost, ptr: Ptr) -> Values:
        """Return Δ(gold, outputs) of each sentence, from a loss table over `choices`. float64[S]"""

    def decode(
        self, batch: Batch, span: Span, outputs: Outputs, values: Values,
        *, scale: float = 1.0, gold: Outputs | None = None, cost: Cost | None = None,
    ) -> None:  # fmt: skip
        """Write the best outputs under scale·parts (plus loss, with gold and cost), and values."""

    def evaluate(self, batch: Batch, outputs: Outputs) -> Values:
        """Return the score of given outputs for each sentence, float64[S]."""

    def indicator(self, outputs: Outputs, against: Outputs, rows: Rows, ptr: Ptr) -> tuple[Triplets, ...]:
        """Return for each kind the parts of `outputs` (+1) minus those of `against` (−1)."""

    def marginals(
        self, batch: Batch, span: Span, log_partition: Values,
        *, scale: float = 1.0, gold: Outputs | None = None,
    ) -> tuple[RowCounts, ...]:  # fmt: skip
        """Return the marginals of parts under p ∝ exp(scale·score), minus gold's parts if given.

        For each kind the rows of sentences first:last, summed where sites share one. Writes log Z.
        Optional: a structure that cannot sum over its outputs leaves it out.
        """


@runtime_checkable
class Ranking(Protocol):
    """A structure that can list its N best outputs."""

    def nbest(self, batch: Batch, span: Span, outputs: Outputs, values: Values) -> None:
        """Write the best outputs of each sentence, int32[N, T], in falling order of their scores.

        values float64[S, N]: the scores, −inf where there are no more outputs.
        """


@runtime_checkable
class Restrictable(Protocol):
    """A structure whose outputs can be constrained."""

    def restrict(self, parts: Parts, ptr: Ptr, constraints: Constraints) -> Parts:
        """Return a copy of the scores in which parts that break a constraint are FORBIDDEN."""
