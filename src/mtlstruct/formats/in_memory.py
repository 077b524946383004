"""Sentences in memory to a corpus: lists of feature dicts or of rows, and their labels.

Input is consumed sentence by sentence and once, so it may be a generator. Empty sentences are not
in the corpus; `InputData.nonempty` tells which are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats.feature_dicts import FeatureError, Features, Group, shown

if TYPE_CHECKING:
    from mtlstruct.formats.sentences import Sentences


@dataclass(frozen=True)
class InputData:
    """The X of `fit` or `predict` as a corpus.

    nonempty   bool[S]: which of the sentences of X are in the corpus
    dicts      whether tokens are dicts of features
    groups     the column of each key of feature dicts
    alone      whether each sentence is an item: outputs are then an array rather than lists
    whole      the Sentences that X is a part of, and `chosen`, which sentences of its corpus
    """

    corpus: Corpus
    nonempty: NDArray[np.bool_]
    dicts: bool = False
    groups: dict[str, str] | None = None
    alone: bool = False
    whole: Sentences | None = None
    chosen: NDArray[np.int64] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each sentence of X. int64[S]"""
        lengths = np.zeros(len(self.nonempty), np.int64)
        lengths[self.nonempty] = np.diff(self.corpus.ptr)
        return lengths

    def by_sentence(self, values: Sequence[Any]) -> list[list[Any]]:
        """Return values of all tokens sentence by sentence, empty sentences included."""
        ends = np.cumsum(self.lengths).tolist()
        return [list(values[end - n : end]) for end, n in zip(ends, self.lengths.tolist(), strict=True)]

    def named(self, outputs: NDArray[np.int32], labels: Sequence[Any]) -> Any:
        """Return predictions as a user gets them: a list for each sentence, an array for items.

        outputs   int32[T], indices of `labels`; without labels they are heads and stay numbers
        """
        if self.alone:
            return np.asarray(labels)[outputs]
        return self.by_sentence([labels[i] for i in outputs.tolist()] if len(labels) else outputs.tolist())

    def named_marginals(
        self, node: NDArray[np.float64], labels: Sequence[Any]
    ) -> list[list[dict[Any, float]]]:
        """Return for each token of each sentence the probabilities float64[T, L] by label."""
        return self.by_sentence([dict(zip(labels, row, strict=True)) for row in node.tolist()])


def from_dicts(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None = None,
    *,
    group: Group = lambda key: key,
    names: Sequence[str] | None = None,
) -> InputData:
    """Read sentences of feature dicts; `names`: the columns, if they are known."""
    features = Features(group, names)
    data = _read(X, y, features.add, features.finish)
    groups = {key: name for key, name in features.groups.items() if name is not None}
    return replace(data, dicts=True, groups=groups)


def from_rows(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None = None,
    *,
    names: Sequence[str] = (),
) -> InputData:
    """Read sentences of rows, one cell per column; `names` are those of the columns, if any.

    A row may be a dict from the names of columns to cells; without `names` those of the first are
    taken.
    """
    table = _Table(tuple(names))
    return _read(X, y, table.add, table.finish)


def _read(
    X: Iterable[Iterable[Any]],
    y: Iterable[Iterable[str]] | None,
    add: Callable[[Any], None],
    finish: Callable[[], tuple[tuple[Column, ...], tuple[str, ...]]],
) -> InputData:
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
        columns, names = finish()
    except FeatureError as error:
        raise FormatError("X", None, str(error)) from None
    sizes = np.array(lengths, np.int64)
    ptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    outputs, classes = (None, ()) if y is None else label_outputs(label_column(y, sizes))
    return InputData(Corpus(columns, ptr, outputs, classes, names), sizes > 0)


def label_column(y: Iterable[Iterable[str]], lengths: NDArray[np.int64]) -> Column:
    """Return the labels of sentences of these lengths as one column."""
    numbers: dict[str, int] = {}
    ids, sentences = array("i"), iter(y)
    for sentence, length in enumerate(lengths.tolist(), 1):
        given = next(sentences, None)
        if given is None:
            problem = f"expected labels for every sentence, got none for sentence {sentence}"
            raise FormatError("y", None, problem)
        before = len(ids)
        for label in given:
            if label not in numbers and not isinstance(label, str):
                problem = f"sentence {sentence}: expected labels that are strings, got {label!r}"
                raise FormatError("y", None, f"{problem} ({type(label).__name__})")
            ids.append(numbers.setdefault(label, len(numbers)))
        if len(ids) - before != length:
            got = f"sentence {sentence}: expected {length} labels, one per token, got {len(ids) - before}"
            raise FormatError("y", None, got)
    if next(sentences, None) is not None:
        raise FormatError("y", None, f"expected labels for {len(lengths)} sentences, got more")
    return Column(np.array(ids, np.int32), list(numbers))


class _Table:
    """Columns of rows, filled token by token; numpy arrays are vectors."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.width = len(names)
        self.columns: list[_Cells | Features] = []

    def add(self, row: Any) -> None:
        """Add one token."""
        if isinstance(row, dict):
            row = self._cells_by_name(row)
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise FeatureError(f"expected a row of cells, got {shown(row)}")
        self.width = self.width or len(row)
        if len(row) != self.width or self.width == 0:
            raise FeatureError(f"expected {self.width or 'some'} cells in a row, got {len(row)}")
        if not self.columns:
            vectors = [isinstance(cell, np.ndarray) and cell.ndim == 1 for cell in row]
            self.columns = [Features() if vector else _Cells() for vector in vectors]
        for number, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            column.add({str(number): cell} if isinstance(column, Features) else cell)

    def _cells_by_name(self, row: dict[str, Any]) -> list[Any]:
        if not self.names and not self.columns:
            self.names = tuple(row)
            if not all(isinstance(name, str) for name in self.names):
                raise FeatureError(f"expected names of columns that are strings, got {self.names[:5]}")
        try:
            return [row[name] for name in self.names]
        except KeyError as error:
            raise FeatureError(f"expected a cell for {error.args[0]!r}, got none") from None

    def finish(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """Return the columns and their names."""
        columns = (c.finish()[0][0] if isinstance(c, Features) else c.finish() for c in self.columns)
        return tuple(columns), self.names


class _Cells:
    """A column of cells, numbered by first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.ids = array("i")

    def add(self, cell: Any) -> None:
        text = cell if type(cell) is str else str(cell)
        self.ids.append(self.numbers.setdefault(text, len(self.numbers)))

    def finish(self) -> Column:
        return Column(np.array(self.ids, np.int32), list(self.numbers))
