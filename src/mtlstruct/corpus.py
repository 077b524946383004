"""Sentences as columns of integers: what every reader returns and every encoder takes.

A corpus is immutable and knows nothing of templates. Each column holds ids into *its own* list of distinct
strings, so that whatever is computed from a string (a feature id, a suffix, a normal form) is computed once
per distinct value. Letters: T tokens, S sentences, L labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.digest import digest

UNKNOWN = -1
"""The id of a label that is not in the label set."""

ABSENT = -1
"""The id of a cell that a token does not have."""

MOST_COLUMNS = 10_000
"""More than any data have on purpose: a column costs memory of its own, however few its rows are."""


@dataclass(frozen=True)
class Column:
    """One observation column: `ids` int32 into `strings`, the distinct values in order of appearance.

    A plain column has a cell a token, ids[t], ABSENT where there is none. An *open* one has any number of entries a
    token, each with a value: what a key of a feature dict or an array of numbers holds.

    ptr      int64[T+1]: the entries of token t are ptr[t]:ptr[t+1]; None for a plain column
    values   float32, a value for each entry; None where all are 1
    """

    ids: NDArray[np.int32]
    strings: Sequence[str]
    ptr: NDArray[np.int64] | None = None
    values: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        distinct = len(set(self.strings))
        if distinct < len(self.strings):  # encoders take different ids for different values
            problem = (
                f"expected distinct strings in a column, got {len(self.strings)} of which {distinct} are"
            )
            raise ValueError(problem)

    @classmethod
    def merged(cls, ids: NDArray[np.int32], strings: Sequence[str]) -> Column:
        """Make a plain column of strings that may repeat: the ids of equal strings become one."""
        number: dict[str, int] = {}
        table = [number.setdefault(text, len(number)) for text in strings]
        return cls(np.array([*table, ABSENT], np.int32)[ids], list(number))

    def __len__(self) -> int:
        return len(self.ids) if self.ptr is None else len(self.ptr) - 1

    def cells(self) -> list[str]:
        """The column as text, one string a token; entries of an open column with blanks between them."""
        if self.ptr is None:
            return [self.strings[i] if i >= 0 else "" for i in self.ids.tolist()]
        names = [self.strings[i] for i in self.ids.tolist()]
        return [" ".join(names[a:b]) for a, b in pairwise(self.ptr.tolist())]

    def take(self, tokens: NDArray[np.int64]) -> Column:
        """The cells of some tokens; the strings stay."""
        if self.ptr is None:
            return replace(self, ids=self.ids[tokens])
        found, ptr = entries(self.ptr, tokens)
        values = None if self.values is None else self.values[found]
        return replace(self, ids=self.ids[found], ptr=ptr, values=values)


@dataclass(frozen=True)
class Corpus:
    """Sentences: observation columns, where each sentence starts, and (if known) the outputs.

    columns   a Column for each observation column, all of T cells
    ptr       int64[S+1], sentence i is tokens ptr[i]:ptr[i+1]
    outputs   int32[T] label ids (heads for trees, classes for items), UNKNOWN where not in `labels`; or None
    labels    the label set, sorted; ids in `outputs` point here
    names     column names for messages and named access; may be empty
    lines     int64[S], the line of its file on which each sentence begins, for messages; or None
    extra     what a format needs to write its file back (blank runs, comments); opaque here
    """

    columns: tuple[Column, ...]
    ptr: NDArray[np.int64]
    outputs: NDArray[np.int32] | None = None
    labels: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lines: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    extra: Any = field(default=None, compare=False, repr=False)

    def digest(self) -> str:
        """Return a hash of sentences and outputs; line ends and runs of blanks in the file do not matter."""
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
        """The same corpus with outputs numbered by another label set (a model's); foreign labels are UNKNOWN."""
        number = {label: i for i, label in enumerate(labels)}
        table = np.array([number.get(label, UNKNOWN) for label in self.labels], np.int32)
        outputs = None
        if self.outputs is not None:
            known = np.append(table, UNKNOWN).astype(np.int32)  # UNKNOWN = -1 stays UNKNOWN
            outputs = known[self.outputs]
        return replace(self, outputs=outputs, labels=tuple(labels))

    def take(self, sentences: NDArray[np.int64]) -> Corpus:
        """Some of the sentences, in the order given. Strings and labels stay those of the whole; `extra` goes."""
        tokens, ptr = entries(self.ptr, sentences)
        columns = tuple(column.take(tokens) for column in self.columns)
        outputs = None if self.outputs is None else self.outputs[tokens]
        lines = None if self.lines is None else self.lines[sentences]
        return replace(self, columns=columns, ptr=ptr, outputs=outputs, lines=lines, extra=None)

    def sentences(self) -> Iterator[slice]:
        """The token range of each sentence."""
        for start, stop in zip(self.ptr[:-1].tolist(), self.ptr[1:].tolist(), strict=True):
            yield slice(start, stop)


def joined(corpora: Sequence[Corpus]) -> Corpus:
    """Corpora one after the other, all with the same columns; `lines` and `extra`, which are about files, go."""
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
    """Columns one below the other, over one list of distinct strings."""
    number: dict[str, int] = {}
    ids = []
    for column in columns:
        table = np.array([number.setdefault(text, len(number)) for text in column.strings], np.int32)
        ids.append(table[column.ids])
    return Column(np.concatenate(ids), list(number))


def entries(ptr: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The entries ptr[r]:ptr[r+1] of some rows one after the other, and where each of these rows then starts."""
    lengths = ptr[rows + 1] - ptr[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = np.repeat(ptr[rows] - starts[:-1], lengths) + np.arange(starts[-1], dtype=np.int64)
    return found, starts


def label_outputs(cells: Column) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Turns a column of label strings into sorted labels and their ids, so label ids do not depend on order."""
    order = sorted(range(len(cells.strings)), key=lambda i: cells.strings[i].encode())
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[cells.ids], tuple(cells.strings[i] for i in order)
