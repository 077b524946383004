"""Turn the X that a user gives to `fit` or `predict` into a corpus, and outputs back into lists.

Estimators and `Model.predict` share this module, so it imports nothing of training.

`Sentences` reads X once for many trainings:

    X = Sentences(X)                                            # lists, generators, a file
    GridSearchCV(SequenceLabeler(), {"c": [0.1, 1, 10]}).fit(X, y)

It behaves like a list of `Sentence`s, each with its index, so that the lists that scikit-learn
makes of them are recognised as parts. estimators/folds.py encodes the whole once and takes the
encoding of each part from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column, Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import columns as column_files
from mtlstruct.formats import conll, segmented
from mtlstruct.formats import jsonl as dicts
from mtlstruct.formats.feature_dicts import group_of
from mtlstruct.formats.in_memory import InputData, from_dicts, from_rows

Grouping = str | Callable[[str], str | None] | None
"""A regular expression (its first group or match is the group of a key), a function, or None."""


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
        consumed once. A path is that of a labelled column file, or of a CoNLL-X or CoNLL-U file if
        `task` is "dependency".
    columns : sequence of str or bool, optional
        True: tokens are rows, one cell per column. Names: tokens are rows whose columns have these
        names, which templates may use, or dicts from name to cell. Default: dicts of features.
    group_by : str or callable, optional
        Puts keys of feature dicts into groups, each of which is a template: a regular expression,
        or a function of the key. A key that the expression does not match, or for which the
        function returns None, is its own group.
    alone : bool, default False
        Whether each entry of X is an item, that is, a single token.
    task : str, default "sequence"
        The task of the file, if X is a path.

    Attributes
    ----------
    y : list of lists
        The labels or heads of a file; None for other sentences.
    """

    def __init__(
        self,
        X: Any,
        *,
        columns: Sequence[str] | bool | None = None,
        group_by: Grouping = None,
        alone: bool = False,
        task: str = "sequence",
    ) -> None:
        self.data = _read(X, columns, group_by, alone, task)
        self.corpus = self.data.corpus
        self.encoded: tuple[Any, Any] | None = None  # the key of the last encoding, and the encoding

    @property
    def y(self) -> list[list[Any]] | None:
        """The labels or heads of a file."""
        outputs, labels = self.corpus.outputs, self.corpus.labels
        return None if outputs is None else replace(self.data, alone=False).named(outputs, labels)

    def __len__(self) -> int:
        return len(self.data.nonempty)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...
    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, slice):
            return [Sentence(self, number) for number in range(len(self))[index]]
        return Sentence(self, range(len(self))[index])

    def __iter__(self) -> Iterator[Sentence]:
        return (Sentence(self, number) for number in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} sentences, {self.corpus.tokens:,} tokens, {len(self.corpus.columns)} columns>"


def grouped(group_by: Grouping) -> Callable[[str], str | None]:
    """Return the function from a key to its group."""
    if group_by is None:
        return lambda key: key
    if isinstance(group_by, str):
        try:
            pattern = re.compile(group_by)
        except re.error as error:
            raise IncompatibleError(
                f"group_by: expected a regular expression, got {group_by!r}: {error}"
            ) from None

        def match(key: str) -> str | None:
            found = pattern.search(key)
            return key if found is None else found[min(1, pattern.groups)] or key

        return match
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
    """Turn any X that `fit` takes into data; the parameters are those of Sentences."""
    part = _part_of(X)
    return _read(X, columns, group_by, alone, task) if part is None else _part(*part)


def _read(
    X: Any, columns: Sequence[str] | bool | None, group_by: Grouping, alone: bool, task: str
) -> InputData:
    if isinstance(X, str | Path):
        X = conll.read(X) if task == "dependency" else column_files.read(X, alone=alone)
    if isinstance(X, Corpus):
        return InputData(X, np.ones(len(X), np.bool_))
    X = _sentences(X, alone)
    if columns is None or columns is False:
        data = from_dicts(X, group=grouped(group_by))
        return data if group_by is not None else replace(data, groups=None)
    return from_rows(X, names=() if columns is True else tuple(columns))


def data_for(model: Any, X: Any, *, alone: bool = False) -> InputData:
    """Turn any X that `predict` takes into data with the columns of a `Model`.

    For a segmentation model a sentence may be a string: its characters other than blanks are
    tokens.
    """
    part = _part_of(X)
    if part is not None:
        data = replace(_part(*part), alone=alone)
        return replace(data, corpus=aligned(data.corpus, model.names)) if data.dicts else data
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
    nothing = Column(np.full(corpus.tokens, ABSENT, np.int32), [])
    return replace(corpus, columns=tuple(known.get(name, nothing) for name in names), names=tuple(names))


def _part_of(X: Any) -> tuple[Sentences, NDArray[np.int64]] | None:
    """Return the Sentences that X is a part of, and which of them; None for other X."""
    if isinstance(X, Sentences):
        return X, np.arange(len(X))
    first = X[0] if isinstance(X, list | tuple) and X else None
    if not isinstance(first, Sentence):
        return None
    if not all(isinstance(one, Sentence) and one.whole is first.whole for one in X):
        raise IncompatibleError("X: expected sentences of one Sentences, got others among them")
    return first.whole, np.array([one.number for one in X], np.int64)


def _part(whole: Sentences, numbers: NDArray[np.int64]) -> InputData:
    """Return some of the sentences."""
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
    """Return X as sentences; an item that stands alone is a sentence of one token."""
    if alone:
        return ([item] for item in _items(X))
    if not isinstance(X, Iterable):
        raise FormatError("X", None, f"expected a list of sentences, got {X!r}")
    return X


def _items(X: Any) -> Iterable[Any]:
    """Return the items of X; a row of a matrix is a vector of one group."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf":
        return ({"x": row.astype(np.float64)} for row in X)
    return X if isinstance(X, Iterable) else [X]
