"""Sentences that are in memory already -> Corpus: lists of feature dicts or of rows, and their labels.

What comes is taken sentence by sentence and once, so it may be a generator. An empty sentence has no place in a
corpus: it is left out, and `Gathered.kept` says which are there.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats.feature_dicts import FeatureError, Features, Group


@dataclass(frozen=True)
class Gathered:
    """A corpus, which sentences it has of those that came, and the column of each key that was met."""

    corpus: Corpus
    kept: NDArray[np.bool_]
    groups: dict[str, str]


def dicts(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None = None,
    *,
    group: Group = lambda key: key,
    names: Sequence[str] | None = None,
) -> Gathered:
    """Sentences of feature dicts, see `features`; `names`: the columns to look for, where that is known."""
    found = Features(group, names)
    return _gathered(X, y, found.add, found.finished, found)


def rows(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None = None,
    *,
    names: Sequence[str] = (),
) -> Gathered:
    """Sentences of rows, a cell for each column; `names` are those of the columns, if they have any.

    A row may be a dict, from the names of its columns to cells; without `names` those of the first are taken.
    """
    table = _Rows(tuple(names))
    return _gathered(X, y, table.add, table.finished, None)


def _gathered(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None,
    add: Callable[[Any], None],
    finished: Callable[[], tuple[tuple[Column, ...], tuple[str, ...]]],
    features: Features | None,
) -> Gathered:
    lengths = array("q")
    for number, sentence in enumerate(X, 1):
        length = 0
        for length, token in enumerate(sentence, 1):
            try:
                add(token)
            except FeatureError as error:
                raise FormatError("X", None, f"sentence {number}, token {length}: {error}") from None
        lengths.append(length)
    try:
        columns, names = finished()
    except FeatureError as error:
        raise FormatError("X", None, str(error)) from None
    sizes = np.array(lengths, np.int64)
    kept = sizes > 0
    ptr = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64)
    corpus = Corpus(columns, ptr, None, (), names)
    if y is not None:
        outputs, classes = label_outputs(labels(y, sizes))
        corpus = replace(corpus, outputs=outputs, labels=classes)
    groups = {} if features is None else features.groups
    return Gathered(corpus, kept, {key: name for key, name in groups.items() if name is not None})


def labels(y: Iterable[Iterable[str]], lengths: NDArray[np.int64]) -> Column:
    """Return the labels of sentences with so many tokens, all in one column."""
    numbers: dict[str, int] = {}
    ids, own = array("i"), iter(y)
    for sentence, length in enumerate(lengths.tolist(), 1):
        given = next(own, None)
        if given is None:
            problem = f"expected labels for every sentence, got none for sentence {sentence}"
            raise FormatError("y", None, problem)
        before = len(ids)
        for label in given:
            if label not in numbers and not isinstance(label, str):
                got = f"{label!r} ({type(label).__name__})"
                problem = f"sentence {sentence}: expected labels that are strings, got {got}"
                raise FormatError("y", None, problem)
            ids.append(numbers.setdefault(label, len(numbers)))
        if len(ids) - before != length:
            got = f"sentence {sentence}: expected {length} labels as it has tokens, got {len(ids) - before}"
            raise FormatError("y", None, got)
    if next(own, None) is not None:
        raise FormatError("y", None, f"expected labels for {len(lengths)} sentences, got more")
    return Column(np.array(ids, np.int32), list(numbers))


class _Rows:
    """Rows as they come: a column for each cell, numbered as they appear; numpy arrays are vectors."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.width = len(names) or None
        self.numbers: list[dict[str, int]] = []
        self.ids: list[array[int]] = []
        self.vectors: dict[int, Features] = {}

    def add(self, row: Any) -> None:
        """One more token."""
        if isinstance(row, dict):
            row = self._named(row)
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise FeatureError(f"expected a row of cells, got {str(row)[:40]!r} ({type(row).__name__})")
        if self.width is None:
            self.width = len(row)
        if len(row) != self.width or self.width == 0:
            raise FeatureError(f"expected {self.width or 'some'} cells in a row, got {len(row)}")
        if not self.ids:
            self._open(row)
        for column, cell, numbers, ids in zip(count(), row, self.numbers, self.ids, strict=False):
            if column in self.vectors:
                self.vectors[column].add({str(column): cell})
                continue
            text = cell if type(cell) is str else str(cell)
            number = numbers.get(text)
            if number is None:
                number = numbers[text] = len(numbers)
            ids.append(number)

    def _named(self, row: dict[str, Any]) -> list[Any]:
        if not self.names and not self.ids:
            self.names = tuple(row)
            if not all(isinstance(name, str) for name in self.names):
                raise FeatureError(f"expected names of columns that are strings, got {self.names[:5]}")
        try:
            return [row[name] for name in self.names]
        except KeyError as error:
            raise FeatureError(f"expected a cell for {error.args[0]!r}, got none") from None

    def _open(self, row: Iterable[Any]) -> None:
        for column, cell in enumerate(row):
            self.numbers.append({})
            self.ids.append(array("i"))
            if isinstance(cell, np.ndarray) and cell.ndim == 1:
                self.vectors[column] = Features()

    def finished(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns and their names."""
        columns = []
        for column, (numbers, ids) in enumerate(zip(self.numbers, self.ids, strict=True)):
            if column in self.vectors:
                columns.append(self.vectors[column].finished()[0][0])
            else:
                columns.append(Column(np.array(ids, np.int32), list(numbers)))
        return tuple(columns), self.names
