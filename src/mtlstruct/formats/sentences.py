"""Turn the X that a user gives to `fit` or `predict` into a corpus, and outputs back into lists.

Estimators and `Model.predict` share this module, so it imports nothing of training.

`Sentences` gathers X once for many trainings:

    X = Sentences(X)                                            lists, generators, a file
    GridSearchCV(SequenceLabeler(), {"c": [0.1, 1, 10]}).fit(X, y)

A `Sentences` looks like a list of sentences. Its entries are `Sentence`s, which know where they belong, so that the
lists that scikit-learn makes of them are recognised as parts. estimators/folds.py encodes the whole once and cuts
the encoding of each part out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column, Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import columns as column_files
from mtlstruct.formats import conll, segmented
from mtlstruct.formats import in_memory as gather
from mtlstruct.formats import jsonl as dicts

Grouping = str | Callable[[str], str | None] | None
"""What groups keys: a regular expression (its first group, or all that it matches), a function, or nothing."""


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
        Sentences are lists of feature dicts, or of rows if `columns` says so; a generator is consumed once. A path is
        that of a column file (labelled), or of a CoNLL-X or CoNLL-U file if `task` is "dependency".
    columns : sequence of str, bool or None
        True: tokens are rows, a cell for each column. Names: the same, with names that templates may use; a token
        may then be a dict from name to cell. None: tokens are dicts of features.
    group_by : str, callable or None
        Puts keys of feature dicts into groups, each of which is a template: a regular expression, or a function of
        the key. A key that the expression does not match, or for which the function gives None, is its own group.
    alone : bool
        Each entry of X is an item that stands alone, that is, a token.
    task : str
        What a path is a file of.

    Attributes
    ----------
    y : list of lists
        The labels or heads that a file has; None for other sentences.
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
        self.data = _gathered(X, columns, group_by, alone, task)
        self.corpus = self.data.corpus
        self.encoded: tuple[Any, Any] | None = None  # what was encoded last, and its encoding

    @property
    def y(self) -> list[list[Any]] | None:
        """The labels or heads that came with a file."""
        corpus = self.corpus
        return None if corpus.outputs is None else self.data.spread(_named(corpus.outputs, corpus.labels))

    def __len__(self) -> int:
        return len(self.data.kept)

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


@dataclass(frozen=True)
class Data:
    """X as a corpus.

    kept     bool[S]: which of the sentences of X are in the corpus; empty ones are not
    dicts    whether tokens are dicts of features; `groups` of their keys, if there are any
    alone    whether each sentence is an item: outputs are then an array rather than lists
    whole    the Sentences that X is a part of, and `chosen`, which sentences of its corpus; None for other X
    """

    corpus: Corpus
    kept: NDArray[np.bool_]
    dicts: bool = False
    groups: dict[str, str] | None = None
    alone: bool = False
    whole: Sentences | None = None
    chosen: NDArray[np.int64] | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence that came. int64[S]"""
        lengths = np.zeros(len(self.kept), np.int64)
        lengths[self.kept] = np.diff(self.corpus.ptr)
        return lengths

    def spread(self, cells: Sequence[Any]) -> list[list[Any]]:
        """Return values of all tokens sentence by sentence, empty sentences included."""
        lengths = self.lengths
        ends = np.cumsum(lengths).tolist()
        return [list(cells[end - n : end]) for end, n in zip(ends, lengths.tolist(), strict=True)]

    def named(self, outputs: NDArray[np.int32], labels: Sequence[Any]) -> Any:
        """Return predictions as a user gets them: a list for each sentence, an array for items.

        outputs   int32[T], numbers into `labels`; without labels they are heads and stay numbers
        """
        if self.alone:
            return np.asarray(labels)[outputs]
        return self.spread(_named(outputs, labels))

    def named_marginals(
        self, node: NDArray[np.float64], labels: Sequence[Any]
    ) -> list[list[dict[Any, float]]]:
        """Return for each token of each sentence the probabilities float64[T, L] by label."""
        return self.spread([dict(zip(labels, row, strict=True)) for row in node.tolist()])


def data_of(
    X: Any,
    *,
    columns: Sequence[str] | bool | None,
    group_by: Grouping = None,
    alone: bool = False,
    task: str = "sequence",
) -> Data:
    """Turn any X that `fit` takes into data; the parameters are those of Sentences."""
    part = _part_of(X)
    return _gathered(X, columns, group_by, alone, task) if part is None else _cut(*part)


def _gathered(
    X: Any, columns: Sequence[str] | bool | None, group_by: Grouping, alone: bool, task: str
) -> Data:
    if isinstance(X, str | Path):
        X = conll.read(X) if task == "dependency" else column_files.read(X, alone=alone)
    if isinstance(X, Corpus):
        return Data(X, np.ones(len(X), np.bool_))
    X = _sentences(X, alone)
    if columns is None or columns is False:
        found = gather.dicts(X, group=grouped(group_by))
        return Data(found.corpus, found.kept, True, None if group_by is None else found.groups)
    found = gather.rows(X, names=() if columns is True else tuple(columns))
    return Data(found.corpus, found.kept)


class Layout(Protocol):
    """What a model says of its input; `Model` has these properties."""

    @property
    def trees(self) -> bool: ...
    @property
    def characters(self) -> bool: ...
    @property
    def tags(self) -> str: ...
    @property
    def columns(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def takes_dicts(self) -> bool: ...
    @property
    def groups(self) -> dict[str, str] | None: ...


def data_for(model: Layout, X: Any, *, alone: bool = False) -> Data:
    """Turn any X that `predict` takes into data with the columns of a model; see Sentences for `alone`.

    Of a segmentation model a sentence may be a string: its characters are the tokens, blanks are left out.
    """
    part = _part_of(X)
    if part is not None:
        found = replace(_cut(*part), alone=alone)
        return replace(found, corpus=aligned(found.corpus, model.names)) if found.dicts else found
    if isinstance(X, str | Path):
        X = _read_for(model, X, alone)
    if isinstance(X, Corpus):
        return Data(X, np.ones(len(X), np.bool_), alone=alone)
    X = _sentences(X, alone)
    if model.characters:
        X = (segmented.rows(line) if isinstance(line, str) else line for line in X)
    if model.takes_dicts:
        group = (lambda key: key) if model.groups is None else model.groups.get
        gathered = gather.dicts(X, group=group, names=model.names)
    else:
        gathered = gather.rows(X, names=model.names)
    corpus = gathered.corpus
    if not len(corpus):  # rows that never came have no columns
        corpus = replace(corpus, columns=(Column(np.zeros(0, np.int32), []),) * model.columns)
    return Data(corpus, gathered.kept, alone=alone)


def aligned(corpus: Corpus, names: Sequence[str]) -> Corpus:
    """Return the corpus with the columns of these names, in this order; a missing one has no cells."""
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


def _cut(whole: Sentences, numbers: NDArray[np.int64]) -> Data:
    """Return some of the sentences; those without a token are in no corpus."""
    data = whole.data
    kept = data.kept[numbers]
    chosen = (np.cumsum(data.kept) - 1)[numbers[kept]]
    same = np.array_equal(chosen, np.arange(len(data.corpus)))
    corpus = data.corpus if same else data.corpus.take(chosen)
    return replace(data, corpus=corpus, kept=kept, whole=whole, chosen=chosen)


def _read_for(model: Layout, path: str | Path, alone: bool) -> Corpus:
    """Read a file for a model, with outputs or without."""
    if model.trees:
        return conll.read(path)
    if model.characters and not model.takes_dicts:
        return segmented.read(path, tags=model.tags)
    if model.takes_dicts:
        return dicts.read(path, labelled=False, names=model.names, groups=model.groups, alone=alone)
    found = column_files.read(path, labelled=False, alone=alone)
    if len(found.columns) <= model.columns:
        return found
    return column_files.read(path, alone=alone)


def _named(outputs: NDArray[np.int32], labels: Sequence[Any]) -> list[Any]:
    return [labels[i] for i in outputs.tolist()] if len(labels) else outputs.tolist()


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
