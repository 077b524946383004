"""Sentences as columns of integers: the output of every reader and the input of every encoder.

A corpus is immutable and independent of templates. Each column has ids into its own list of
distinct strings, so that values computed from a string (a feature id, a suffix, a normal form) are
computed once per distinct string. Letters: T tokens, S sentences, L labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest

UNKNOWN = -1
"""The id of a label that is not in the label set."""

ABSENT = -1
"""The id of a missing cell."""

MOST_COLUMNS = 10_000
"""The number of columns; more is taken for a mistake, because every column takes memory."""


@dataclass(frozen=True)
class Column:
    """An observation column: `ids` int32 into `strings`, which are distinct, as they appear.

    A single-valued column has one cell per token, ids[t], ABSENT if it is missing. A multi-valued
    one has any number of entries per token, each with a value: a key of feature dicts, or vectors.

    ptr      int64[T+1]: the entries of token t are ptr[t]:ptr[t+1]; None for a single-valued column
    values   float32, a value for each entry; None where all are 1
    """

    ids: NDArray[np.int32]
    strings: Sequence[str]
    ptr: NDArray[np.int64] | None = None
    values: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        count, distinct = len(self.strings), len(set(self.strings))
        if distinct < count:  # encoders take different ids for different values
            raise ValueError(f"expected distinct strings in a column, got {count} of which {distinct} are")

    @classmethod
    def merged(cls, ids: NDArray[np.int32], strings: Sequence[str]) -> Column:
        """Return a single-valued column of strings that may repeat: equal strings get one id."""
        number: dict[str, int] = {}
        table = [number.setdefault(text, len(number)) for text in strings]
        return cls(np.array([*table, ABSENT], np.int32)[ids], list(number))

    def __len__(self) -> int:
        return len(self.ids) if self.ptr is None else len(self.ptr) - 1

    def cells(self) -> list[str]:
        """Return one string per token; entries of a multi-valued column are joined by blanks."""
        if self.ptr is None:
            return [self.strings[i] if i >= 0 else "" for i in self.ids.tolist()]
        names = [self.strings[i] for i in self.ids.tolist()]
        return [" ".join(names[a:b]) for a, b in pairwise(self.ptr.tolist())]

    def take(self, tokens: NDArray[np.int64]) -> Column:
        """Return the cells of some tokens, with the same strings."""
        if self.ptr is None:
            return replace(self, ids=self.ids[tokens])
        found, ptr = entries(self.ptr, tokens)
        values = None if self.values is None else self.values[found]
        return replace(self, ids=self.ids[found], ptr=ptr, values=values)


class LazyColumns(Sequence[Column]):
    """The columns of a few sentences, which are made when one of them is first used.

    A sentence can be labelled without its columns (see `features.direct`), which takes less time.

    sentences   what they are made of: the rows, or the feature dicts, of each sentence
    """

    def __init__(self, sentences: list[Any], count: int, make: Callable[[], Sequence[Column]]) -> None:
        self.sentences, self._count, self._make = sentences, count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, which: Any) -> Any:
        return self._made[which]

    @cached_property
    def _made(self) -> Sequence[Column]:
        return self._make()


@dataclass(frozen=True)
class Corpus:
    """Sentences: observation columns, where each sentence starts, and (if known) the outputs.

    columns   the observation columns, T cells each
    ptr       int64[S+1], sentence i is tokens ptr[i]:ptr[i+1]
    outputs   int32[T] indices of `labels` (heads for trees), UNKNOWN for other labels; or None
    labels    the label set, sorted
    names     column names for messages and named access; may be empty
    lines     int64[S], the first line of each sentence in its file, for messages; or None
    extra     data that a format needs to write its file back (runs of blanks, comments)
    conversion  how outputs were made from the labels of the data, a `schemes.Conversion`; or None
    """

    columns: Sequence[Column]
    ptr: NDArray[np.int64]
    outputs: NDArray[np.int32] | None = None
    labels: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lines: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    extra: Any = field(default=None, compare=False, repr=False)
    conversion: Any = field(default=None, compare=False, repr=False)

    def digest(self) -> str:
        """Return a hash of sentences and outputs, whatever the line ends and blanks."""
        text = [self.labels, [list(column.strings) for column in self.columns]]
        seen = hashlib.sha256(digest(text).encode())
        arrays = [array for column in self.columns for array in (column.ids, column.ptr, column.values)]
        for array in (self.ptr, self.outputs, *arrays):
            seen.update(b"-" if array is None else array.tobytes())
        return seen.hexdigest()

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def tokens(self) -> int:
        """T, the number of tokens."""
        return int(self.ptr[-1])

    def relabelled(self, labels: Sequence[str]) -> Corpus:
        """Return the corpus with outputs numbered by other labels; the rest is UNKNOWN."""
        number = {label: i for i, label in enumerate(labels)}
        table = [*(number.get(label, UNKNOWN) for label in self.labels), UNKNOWN]  # -1 stays UNKNOWN
        outputs = None if self.outputs is None else np.array(table, np.int32)[self.outputs]
        return replace(self, outputs=outputs, labels=tuple(labels))

    def take(self, sentences: NDArray[np.int64]) -> Corpus:
        """Return sentences in the order given, with all strings and labels, without `extra`."""
        tokens, ptr = entries(self.ptr, sentences)
        columns = tuple(column.take(tokens) for column in self.columns)
        outputs = None if self.outputs is None else self.outputs[tokens]
        lines = None if self.lines is None else self.lines[sentences]
        return replace(self, columns=columns, ptr=ptr, outputs=outputs, lines=lines, extra=None)

    def sentences(self) -> Iterator[slice]:
        """Yield the token range of each sentence."""
        yield from map(slice, self.ptr[:-1].tolist(), self.ptr[1:].tolist())


def joined(corpora: Sequence[Corpus]) -> Corpus:
    """Return the concatenation of corpora with the same columns, without `lines` and `extra`."""
    labels = tuple(sorted({label for corpus in corpora for label in corpus.labels}, key=str.encode))
    parts = [corpus.relabelled(labels) for corpus in corpora]
    columns = tuple(_stacked(column) for column in zip(*(part.columns for part in parts), strict=True))
    ends = np.concatenate([np.diff(part.ptr) for part in parts]).cumsum()
    outputs = [part.outputs for part in parts if part.outputs is not None]
    return Corpus(
        columns=columns,
        ptr=np.concatenate([[0], ends]).astype(np.int64),
        outputs=np.concatenate(outputs) if len(outputs) == len(parts) else None,
        labels=labels,
        names=parts[0].names,
    )


def _stacked(columns: Sequence[Column]) -> Column:
    """Return the concatenation of single-valued columns."""
    starts = np.cumsum([0, *(len(column.strings) for column in columns)])
    ids = [column.ids + start for column, start in zip(columns, starts, strict=False)]
    return Column.merged(np.concatenate(ids), [text for column in columns for text in column.strings])


def entries(ptr: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries ptr[r]:ptr[r+1] of some rows, and the new start of each of these rows."""
    lengths = ptr[rows + 1] - ptr[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = np.repeat(ptr[rows] - starts[:-1], lengths) + np.arange(starts[-1], dtype=np.int64)
    return found, starts


def label_outputs(cells: Column) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the sorted labels of a column, and the index of each cell in them, index first."""
    order = sorted(range(len(cells.strings)), key=lambda i: cells.strings[i].encode())
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[cells.ids], tuple(cells.strings[i] for i in order)
