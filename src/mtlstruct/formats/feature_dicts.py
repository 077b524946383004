"""Feature dicts -> columns: what sklearn-crfsuite and python-crfsuite take for a token, read as they read it.

A token is a dict of features, or a list or set of strings:

    {"word": "Oslo"}             the string feature "word:Oslo"
    {"title": True}              the feature "title"; False is none
    {"length": 4, "p": 0.3}      the features "length" and "p" with these values; 0 is none
    {"in": ["towns", "names"]}   the features "in:towns" and "in:names"; a set likewise
    {"next": {"word": "is"}}     the feature "next:word:is": keys of nested dicts are joined
    {"vector": numpy.array(…)}   the features "vector:0", "vector:1", … with these values
    ["bias", "word=Oslo"]        the features of these names

A *key* ("word", "next:word"; of a plain string what stands before its first "=") makes a column, and so a template,
unless keys are put into groups. Occurrences of features are held as numbers in arrays, not as Python objects.

Rejected: other types, keys that are no strings or longer than LONGEST_KEY, dicts nested deeper than DEEPEST, numbers
that are not finite (values are float32), more than MOST_KEYS columns, vectors of different lengths or together with
something else in one column.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column

Group = Callable[[str], str | None]
"""The column of a key, None if it is of no interest."""

SEPARATOR = ":"
MOST_KEYS = 1000
"""More columns than any feature function has on purpose."""

LONGEST_KEY = 1000
"""Characters: a key is repeated in each of its features, so a long one would cost its length times their number."""

DEEPEST = 20
"""Dicts inside dicts."""

HIGHEST = float(np.finfo(np.float32).max)


class FeatureError(ValueError):
    """A token that is not as above; the message is a clause."""


class Features:
    """Columns of feature dicts, filled token by token.

    group   the column of each key; a key is its own column by default
    names   the columns there are; None: those that turn up
    """

    def __init__(self, group: Group = lambda key: key, names: Sequence[str] | None = None) -> None:
        self.group = group
        self.fixed = names is not None
        self.columns = {name: _Column(name) for name in names or ()}
        self.tokens = 0
        self._keys: dict[str, _Key] = {}
        self._spelled: dict[str, tuple[_Column | None, int]] = {}

    @property
    def groups(self) -> dict[str, str | None]:
        """The column of each key that was met, None for a key of no column."""
        return {name: None if key.column is None else key.column.name for name, key in self._keys.items()}

    def add(self, token: Any) -> None:
        """Add one token."""
        if isinstance(token, dict):
            keys, at = self._keys, self.tokens
            for name, value in token.items():
                if type(value) is str:  # nearly all are, so nothing is called for one that is known
                    key = keys.get(name) or self._key(name)
                    column = key.column
                    if column is not None:
                        number = key.numbers.get(value)
                        column.ids.append(key.number(value) if number is None else number)
                        column.tokens.append(at)
                else:
                    self._other(name, value)
        else:
            self._strings(token)
        self.tokens += 1

    def finished(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """Return the columns and their names, in order of appearance."""
        return tuple(column.finished(self.tokens) for column in self.columns.values()), tuple(self.columns)

    def _other(self, key: str, value: Any, depth: int = 0) -> None:
        """A value that is no string."""
        if value is True:
            self._put(key, 1.0)
        elif value is False:
            pass
        elif isinstance(value, str):
            self._put(key, 1.0, value)
        elif isinstance(value, Mapping):
            if depth == DEEPEST:
                raise FeatureError(f"expected dicts nested at most {DEEPEST} deep, got more in {key[:40]!r}…")
            for inner, deeper in value.items():
                self._other(_joined(key, inner), deeper, depth + 1)
        elif isinstance(value, list | set | frozenset | tuple):
            for entry in value:
                if not isinstance(entry, str):
                    hint = "; a vector is a numpy array" if isinstance(entry, Real) else ""
                    raise FeatureError(f"expected strings in the list of {key!r}, got {shown(entry)}{hint}")
                self._put(key, 1.0, entry)
        elif isinstance(value, np.ndarray) and value.ndim == 1:
            self._vector(key, value)
        elif isinstance(value, Real | np.bool_) or (isinstance(value, np.ndarray) and value.ndim == 0):
            self._number(key, value)
        else:
            raise FeatureError(
                f"expected a string, a number, a bool, a list, a set, a dict or a vector for {key!r}, "
                f"got {shown(value)}"
            )

    def _number(self, key: str, given: Any) -> None:
        try:
            value = float(given)
        except OverflowError:
            value = math.inf
        if not abs(value) <= HIGHEST:  # in float32 it would be infinite
            limit = f" up to {HIGHEST:.2g}" if math.isfinite(value) else ""
            raise FeatureError(f"expected a finite number{limit} for {key!r}, got {value}")
        if value != 0:
            self._put(key, value)

    def _strings(self, token: Any) -> None:
        if not isinstance(token, list | set | frozenset):
            rows = ": rows of cells need templates" if isinstance(token, tuple) else ""
            raise FeatureError(f"expected a dict of features or a list of strings, got {shown(token)}{rows}")
        for text in token:
            if not isinstance(text, str):
                raise FeatureError(f"expected strings in a list of features, got {shown(text)}")
            found = self._spelled.get(text)
            if found is None:
                column = self._key(text.partition("=")[0]).column
                found = self._spelled[text] = column, 0 if column is None else column.number(text)
            if found[0] is not None:
                found[0].put(self.tokens, found[1])

    def _put(self, name: str, value: float, text: str | None = None) -> None:
        key = self._key(name)
        if key.column is not None:
            key.column.put(self.tokens, key.number(text), value)

    def _vector(self, name: str, vector: NDArray[Any]) -> None:
        column = self._key(name).column
        if column is not None:
            column.put_vector(name, self.tokens, vector)

    def _key(self, name: str) -> _Key:
        """Return what is known of a key; it may be met for the first time."""
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = _Key(name, self._column(name))
        return key

    def _column(self, key: str) -> _Column | None:
        """Return the column of a new key."""
        if not isinstance(key, str):
            raise FeatureError(f"expected keys that are strings, got {shown(key)}")
        if len(key) > LONGEST_KEY:
            raise FeatureError(
                f"expected keys of at most {LONGEST_KEY:,} characters, got one of {len(key):,}: {key[:40]!r}…"
            )
        name = self.group(key)
        if name is not None and not isinstance(name, str):
            raise FeatureError(f"expected group_by to give a string for {key!r}, got {shown(name)}")
        if name is None or self.fixed or name in self.columns:
            return None if name is None else self.columns.get(name)
        if len(self.columns) == MOST_KEYS:
            raise FeatureError(
                f"expected at most {MOST_KEYS:,} keys, each of which is a template, got one more: {name!r}; "
                "give group_by, which says what keys have in common"
            )
        return self.columns.setdefault(name, _Column(name))


class _Key:
    """A key of dicts: its column, None if it has none, and the numbers of its strings in that column."""

    def __init__(self, name: str, column: _Column | None) -> None:
        self.name, self.column = name, column
        self.numbers: dict[str | None, int] = {}

    def number(self, text: str | None) -> int:
        """Return the number of a feature of the key in its column; None stands for the key itself."""
        assert self.column is not None
        found = self.numbers.get(text)
        if found is None:
            feature = self.name if text is None else self.name + SEPARATOR + text
            found = self.numbers[text] = self.column.number(feature)
        return found


class _Column:
    """A column while tokens come in: its distinct strings, and token, number and value of each entry."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.strings: dict[str, int] = {}
        self.tokens, self.ids = array("i"), array("i")
        self.values: dict[int, float] = {}  # of the entries whose value is not 1
        self.key = ""
        self.width = 0
        self.vectors = array("f")

    def number(self, feature: str) -> int:
        """Return the number of a feature, which may be new."""
        try:
            feature.encode()
        except UnicodeEncodeError:
            raise FeatureError(f"expected text, got half of a surrogate pair in {feature[:60]!r}") from None
        return self.strings.setdefault(feature, len(self.strings))

    def put(self, token: int, number: int, value: float = 1.0) -> None:
        """Add an entry."""
        if value != 1:
            self.values[len(self.ids)] = value
        self.tokens.append(token)
        self.ids.append(number)

    def put_vector(self, key: str, token: int, vector: NDArray[Any]) -> None:
        """Add the vector of one token."""
        if self.key not in ("", key):
            problem = f"expected one vector in the group {self.name!r}, got {self.key!r} and {key!r}"
            raise FeatureError(problem)
        self.key, self.width = key, self.width or len(vector)
        if len(vector) != self.width:
            raise FeatureError(f"expected {self.width} numbers in {key!r} as before, got {len(vector)}")
        try:
            with np.errstate(over="ignore"):  # what is too large is seen below
                numbers = vector.astype(np.float32)
        except (TypeError, ValueError):
            problem = f"expected a vector of numbers for {key!r}, got one of {vector.dtype}"
            raise FeatureError(problem) from None
        if not np.isfinite(numbers).all():
            raise FeatureError(f"expected finite numbers in {key!r}, got {numbers[~np.isfinite(numbers)][0]}")
        self.tokens.append(token)
        self.vectors.frombytes(numbers.tobytes())

    def finished(self, tokens: int) -> Column:
        """Return the column of all entries."""
        if self.width:
            return self._finished_vectors(tokens)
        token, ids = np.array(self.tokens, np.int32), np.array(self.ids, np.int32)
        counts = np.bincount(token, minlength=tokens)
        if not self.values and int(counts.max(initial=0)) <= 1:
            filled = np.full(tokens, ABSENT, np.int32)
            filled[token] = ids
            return Column(filled, list(self.strings))
        values = None
        if self.values:
            values = np.ones(len(ids), np.float32)
            values[list(self.values)] = list(self.values.values())
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Column(ids, list(self.strings), ptr, values)

    def _finished_vectors(self, tokens: int) -> Column:
        if self.strings:
            some = next(iter(self.strings))
            raise FeatureError(f"expected vectors alone in {self.name!r}, got {some!r}, too")
        table = np.zeros((tokens, self.width), np.float32)
        table[np.array(self.tokens)] = np.array(self.vectors).reshape(-1, self.width)
        ids = np.tile(np.arange(self.width, dtype=np.int32), tokens)
        names = [f"{self.key}{SEPARATOR}{k}" for k in range(self.width)]
        return Column(ids, names, np.arange(tokens + 1, dtype=np.int64) * self.width, table.ravel())


def _joined(key: str, inner: Any) -> str:
    if not isinstance(inner, str):
        raise FeatureError(f"expected keys that are strings in {key!r}, got {shown(inner)}")
    return f"{key}{SEPARATOR}{inner}"


def shown(value: Any) -> str:
    """A value of the input, for messages: its beginning and its type."""
    try:
        text = str(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, something nested very deep
        text = "…"
    return f"{text[:40]!r} ({type(value).__name__})"
