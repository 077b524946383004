"""Turn the X that a user gives to `fit` or `predict` into a corpus, and outputs back into lists.

`Sentences` reads X once for many trainings. It behaves like a list of `Sentence`s, each with its
index, so that the lists that scikit-learn makes of them are recognised as parts. estimators/base.py
encodes the whole once and takes the encoding of each part from it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column, Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import columns as column_files
from mtlstruct.formats import conll, segmented, text
from mtlstruct.formats import jsonl as dicts
from mtlstruct.formats.feature_dicts import (
    ALL_KEYS,
    MAX_KEYS,
    FeatureError,
    Features,
    Group,
    group_of,
    merged,
    merged_groups,
    shown,
)

Grouping = str | Callable[[str], str | None] | None
"""A regular expression (its first group or match is the group of a key), a function, or None."""

SENTENCES = "a list of sentences, each a list of tokens"


@dataclass(frozen=True)
class Sentence:
    """An entry of Sentences."""

    whole: Sentences
    number: int

    def __len__(self) -> int:
        return int(self.whole.data.lengths[self.number])


class Sentences(Sequence[Sentence]):
    """Sentences in memory or from a file.

    Parameters
    ----------
    X : iterable of sentences, str, Path or Corpus
        Sentences are lists of feature dicts, or of rows if `columns` is given; a generator is
        consumed once. A path is that of a labelled column file.
    columns : sequence of str or bool, optional
        True: tokens are rows, one cell per column. Names: tokens are rows whose columns have these
        names, which templates may use, or dicts from name to cell. Default: dicts of features.
    group_by : str or callable, optional
        Puts keys of feature dicts into groups, each of which is a template: a regular expression,
        or a function of the key. A key that the expression does not match, or for which the
        function returns None, is its own group.
    alone : bool, default False
        Whether each entry of X is an item, that is, a single token.
    """

    def __init__(
        self,
        X: Any,
        *,
        columns: Sequence[str] | bool | None = None,
        group_by: Grouping = None,
        alone: bool = False,
    ) -> None:
        self.data = data_of(X, columns=columns, group_by=group_by, alone=alone)
        self.corpus = self.data.corpus
        self.encoded: tuple[Any, Any] | None = None  # the key of the last encoding, and the encoding

    def __len__(self) -> int:
        return len(self.data.nonempty)

    def __getitem__(self, index: Any) -> Any:
        numbers = range(len(self))[index]
        if isinstance(index, slice):
            return [Sentence(self, number) for number in numbers]
        return Sentence(self, numbers)

    def __repr__(self) -> str:
        return f"<{len(self)} sentences, {self.corpus.tokens:,} tokens, {len(self.corpus.columns)} columns>"


def grouped(group_by: Grouping) -> Group | None:
    """Return the function from a key to its group; None: each key is one."""
    if group_by is None:
        return None
    if isinstance(group_by, str):
        try:
            pattern = re.compile(group_by)
        except re.error as error:
            problem = f"group_by: expected a regular expression, got {group_by!r}: {error}"
            raise IncompatibleError(problem) from None
        return lambda key: (
            key if (found := pattern.search(key)) is None else found[min(1, pattern.groups)] or key
        )
    if not callable(group_by):
        raise IncompatibleError(f"group_by: expected a regular expression or a function, got {group_by!r}")
    return lambda key: group if (group := group_by(key)) is not None else key


def data_of(
    X: Any,
    *,
    columns: Sequence[str] | bool | None,
    group_by: Grouping = None,
    alone: bool = False,
    task: str = "sequence",
) -> InputData:
    """Turn any X that `fit` takes into data; task: of a file. The others are as in Sentences."""
    part = _part_of(X)
    if part is not None:
        return part
    if isinstance(X, str | Path):
        X = conll.read(X) if task == "dependency" else column_files.read(X, alone=alone)
    if isinstance(X, Corpus):
        return InputData(X, np.ones(len(X), np.bool_))
    X = _sentences(X, alone)
    if columns is None or columns is False:
        return from_dicts(X, group=grouped(group_by))
    return from_rows(X, names=() if columns is True else tuple(columns))


def data_for(model: Any, X: Any, *, alone: bool = False) -> InputData:
    """Turn any X that `predict` takes into data with the columns of a `Model`.

    For a segmentation model a sentence may be a string: its characters other than blanks are
    tokens.
    """
    part = _part_of(X)
    if part is not None:
        data = replace(part, alone=alone)
        return replace(data, corpus=aligned(data.corpus, model.names)) if data.dicts else data
    if isinstance(X, str) and model.characters and not Path(X).exists():
        raise FormatError("X", None, f"expected a list of lines or the path of a file, got {shown(X)}")
    if isinstance(X, str | Path):
        X = _read_for(model, X, alone)
    if isinstance(X, Corpus):
        return InputData(X, np.ones(len(X), np.bool_), alone=alone)
    X = _sentences(X, alone)
    if model.characters:
        X = (segmented.rows(line) if isinstance(line, str) else line for line in X)
    if model.takes_dicts:
        data = from_dicts(X, group=group_of(model.groups), names=model.names)
    else:
        data = from_rows(X, names=model.names)
    corpus = data.corpus
    if not len(corpus):  # without rows the number of columns is not known
        corpus = replace(corpus, columns=(Column(np.zeros(0, np.int32), []),) * model.columns)
    return replace(data, corpus=corpus, alone=alone)


def aligned(corpus: Corpus, names: Sequence[str]) -> Corpus:
    """Return the corpus with the columns of these names; a missing column has no cells."""
    if corpus.names == tuple(names):
        return corpus
    known = dict(zip(corpus.names, corpus.columns, strict=True))
    if ALL_KEYS in names and ALL_KEYS not in known:
        others = (column for name, column in known.items() if name not in names)
        known[ALL_KEYS] = merged(others, corpus.tokens)
    elif ALL_KEYS in known and ALL_KEYS not in names:
        raise IncompatibleError(f"expected at most {MAX_KEYS:,} keys as in the training data, got more")
    nothing = Column(np.full(corpus.tokens, ABSENT, np.int32), [])
    return replace(corpus, columns=tuple(known.get(name, nothing) for name in names), names=tuple(names))


def _part_of(X: Any) -> InputData | None:
    """Return the data of X if it is Sentences or some of their entries; None for other X."""
    first = X[0] if isinstance(X, list | tuple) and X else None
    if isinstance(X, Sentences):
        whole, numbers = X, np.arange(len(X))
    elif not isinstance(first, Sentence):
        return None
    elif all(isinstance(one, Sentence) and one.whole is first.whole for one in X):
        whole, numbers = first.whole, np.array([one.number for one in X], np.int64)
    else:
        raise IncompatibleError("X: expected sentences of one Sentences, got others among them")
    data = whole.data
    nonempty = data.nonempty[numbers]
    chosen = (np.cumsum(data.nonempty) - 1)[numbers[nonempty]]
    same = np.array_equal(chosen, np.arange(len(data.corpus)))
    corpus = data.corpus if same else data.corpus.take(chosen)
    return replace(data, corpus=corpus, nonempty=nonempty, whole=whole, chosen=chosen)


def _read_for(model: Any, path: str | Path, alone: bool) -> Corpus:
    """Read a file for a model, with outputs or without."""
    encoding = model.encoding
    if model.trees:
        return conll.read(path, encoding=encoding)
    if model.takes_dicts:
        keys = {"names": model.names, "groups": model.groups}
        return dicts.read(path, labelled=False, alone=alone, encoding=encoding, **keys)
    if model.characters:
        return segmented.read(path, tags=model.tags, encoding=encoding)
    how = {"alone": alone, "encoding": encoding, "cells": model.cell_format}
    found = column_files.read(path, labelled=False, **how)
    return found if len(found.columns) <= model.columns else column_files.read(path, **how)


def _sentences(X: Any, alone: bool) -> Iterable[Any]:
    """Return X as sentences; an item, or a row of a matrix, is a sentence of one token."""
    if alone and (hasattr(X, "toarray") or hasattr(X, "to_numpy")):  # sparse, data frame
        X = X.toarray() if hasattr(X, "toarray") else X.to_numpy()
    if isinstance(X, Mapping) or not isinstance(X, Iterable):
        raise FormatError(
            "X", None, f"expected a list of {'items' if alone else 'sentences'}, got {shown(X)}"
        )
    if alone and isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        return ([{"x": row.astype(np.float64)}] for row in X)  # a row is a vector of one group
    return ([item] for item in X) if alone else X


@dataclass(frozen=True)
class InputData:
    """The X of `fit` or `predict` as a corpus.

    nonempty   bool[S]: which of the sentences of X are in the corpus
    dicts      whether tokens are dicts of features
    groups     the column of each key of feature dicts; None: each key is one
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
    group: Group | None = None,
    names: Sequence[str] | None = None,
) -> InputData:
    """Read sentences of feature dicts; `names`: the columns, if they are known."""
    features = Features(group, names)
    data = _collected(X, features)
    groups = merged_groups(data.corpus.names)
    if group is not None:
        groups = {key: name for key, name in features.groups.items() if name is not None}
    corpus = data.corpus
    if y is not None:
        outputs, labels = label_outputs(label_column(y, data.lengths))
        corpus = replace(corpus, outputs=outputs, labels=labels)
    return replace(data, corpus=corpus, dicts=True, groups=groups)


def from_rows(X: Iterable[Iterable[Any]], *, names: Sequence[str] = ()) -> InputData:
    """Read sentences of rows, one cell per column; `names` are those of the columns, if any.

    A row may be a dict from the names of columns to cells; without `names` those of the first are
    taken.
    """
    return _collected(X, _Table(tuple(names)))


def _collected(X: Iterable[Iterable[Any]], tokens: Features | _Table) -> InputData:
    lengths = array("q")
    for number, sentence in enumerate(X, 1):
        if isinstance(sentence, Mapping | str) or not isinstance(sentence, Iterable):
            raise FormatError("X", None, f"expected {SENTENCES}, got {shown(sentence)} in place of one")
        length = 0
        for length, token in enumerate(sentence, 1):
            try:
                tokens.add(token)
            except FeatureError as error:
                hint = f"; X must be {SENTENCES}" if isinstance(token, str) else ""
                raise FormatError("X", None, f"sentence {number}, token {length}: {error}{hint}") from None
        lengths.append(length)
    try:
        columns, names = tokens.finish()
    except FeatureError as error:
        raise FormatError("X", None, str(error)) from None
    sizes = np.array(lengths, np.int64)
    ptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    return InputData(Corpus(columns, ptr, names=names), sizes > 0)


def label_column(y: Iterable[Iterable[str]], lengths: NDArray[np.int64]) -> Column:
    """Return the labels of sentences of these lengths as one column."""
    cells: list[str] = []
    for sentence, (length, given) in enumerate(zip_longest(lengths.tolist(), y), 1):
        if given is None:
            problem = f"expected labels for every sentence, got none for sentence {sentence}"
            raise FormatError("y", None, problem)
        if length is None:
            raise FormatError("y", None, f"expected labels for {len(lengths)} sentences, got more")
        labels = list(given)
        for label in labels:
            if not isinstance(label, str):
                problem = f"sentence {sentence}: expected labels that are strings, got {label!r}"
                raise FormatError("y", None, f"{problem} ({type(label).__name__})")
        if len(labels) != length:
            got = f"sentence {sentence}: expected {length} labels, one per token, got {len(labels)}"
            raise FormatError("y", None, got)
        cells += labels
    return text.column(cells)


class _Table:
    """Columns of rows, filled token by token; numpy arrays are vectors."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.width = len(names)
        self.columns: list[list[str] | Features] = []

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
            self.columns = [Features() if vector else [] for vector in vectors]
        for number, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
            if isinstance(column, Features):
                column.add({str(number): cell})
            else:
                column.append(str(cell))

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
        columns = (text.column(c) if isinstance(c, list) else c.finish()[0][0] for c in self.columns)
        return tuple(columns), self.names
