"""Feature dicts to columns, with the conventions of sklearn-crfsuite and python-crfsuite.

A token is a dict of features, or a list or set of strings:

    {"word": "Oslo"}             the string feature "word:Oslo"; bytes are text in UTF-8
    {"title": True}              the feature "title"; False is none
    {"length": 4, "p": 0.3}      the features "length" and "p" with these values; 0 is none
    {"in": ["towns", "names"]}   the features "in:towns" and "in:names"; a set likewise
    {"next": {"word": "is"}}     the feature "next:word:is": keys of nested dicts are joined
    {"vector": numpy.array(…)}   the features "vector:0", "vector:1", … with these values
    ["bias", "word=Oslo"]        the features of these names

A *key* ("word", "next:word"; of a plain string the part before its first "=") makes a column, and
so a template, unless keys are grouped. More than MAX_KEYS keys make one column, ALL_KEYS, beside
those of vectors; only methods whose result does not depend on groups can be trained on it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column

Group = Callable[[str], str | None]
"""A function from a key to its column, None if the key is to be ignored."""

SEPARATOR = ":"
OTHER_KEYS = "*"
"""In the groups of a model: the column of all keys that are not listed."""

ALL_KEYS = "(all keys)"
"""The column of all keys where they are too many for a column each."""

MAX_KEYS = 1000
"""The number of columns."""

MAX_KEY_LENGTH = 1000
"""Characters: a key is repeated in each of its features."""

MAX_DEPTH = 20
"""Dicts inside dicts."""

MAX_VALUE = float(np.finfo(np.float32).max)


class FeatureError(ValueError):
    """A token that cannot be read; the message is a clause."""


class Features:
    """Columns of feature dicts, filled token by token.

    group    the column of each key; by default a key is its own column, up to MAX_KEYS of them
    names    the columns; by default those of the keys that occur
    zeros    whether a feature with the value 0 is kept, as in CRFsuite
    groups   the column of each key that occurred, None for an ignored key
    """

    def __init__(
        self, group: Group | None = None, names: Sequence[str] | None = None, zeros: bool = False
    ) -> None:
        self.group, self.zeros = group, zeros
        self.fixed = names is not None
        self.columns = {name: _ColumnBuilder(name) for name in names or ()}
        self.groups: dict[str, str | None] = {}
        self.tokens = 0
        self._closed: list[_ColumnBuilder] = []
        self._known: dict[tuple[str, str | None] | str, tuple[_ColumnBuilder | None, int]] = {}

    def add(self, token: Any) -> None:
        """Add one token."""
        if isinstance(token, dict):
            at, known = self.tokens, self._known
            for key, value in token.items():
                if type(value) is str:  # inlined `_put`, for speed: nearly all values are strings
                    column, number = known.get((key, value)) or self._number((key, value))
                    if column is not None:
                        column.tokens.append(at)
                        column.ids.append(number)
                else:
                    self._add_value(key, value)
        elif isinstance(token, list | set | frozenset):
            for text in token:
                if not isinstance(text, str):
                    raise FeatureError(f"expected strings in a list of features, got {shown(text)}")
                self._put(text)
        else:
            rows = ": rows of cells need templates" if isinstance(token, tuple) else ""
            raise FeatureError(f"expected a dict of features or a list of strings, got {shown(token)}{rows}")
        self.tokens += 1

    def finish(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """Return the columns and their names, in order of appearance."""
        found = {name: column.finish(self.tokens) for name, column in self.columns.items()}
        if self._closed:
            closed = [column.finish(self.tokens) for column in self._closed]
            found[ALL_KEYS] = merged([*closed, found[ALL_KEYS]], self.tokens)
        return tuple(found.values()), tuple(found)

    def _add_value(self, key: str, value: Any, depth: int = 0) -> None:
        """Add the features of a key whose value may be of any type."""
        if isinstance(value, str | bytes):
            self._put((key, value if isinstance(value, str) else value.decode()))
        elif isinstance(value, Mapping):
            if depth == MAX_DEPTH:
                raise FeatureError(
                    f"expected dicts nested at most {MAX_DEPTH} deep, got more in {key[:40]!r}…"
                )
            for inner, deeper in value.items():
                if not isinstance(inner, str):
                    raise FeatureError(f"expected keys that are strings in {key!r}, got {shown(inner)}")
                self._add_value(f"{key}{SEPARATOR}{inner}", deeper, depth + 1)
        elif isinstance(value, list | set | frozenset | tuple):
            for entry in value:
                if not isinstance(entry, str):
                    hint = "; a vector is a numpy array" if isinstance(entry, Real) else ""
                    raise FeatureError(f"expected strings in the list of {key!r}, got {shown(entry)}{hint}")
                self._put((key, entry))
        elif isinstance(value, np.ndarray) and value.ndim == 1:
            column = self._column(key)
            if column is not None:
                column.put_vector(key, self.tokens, value)
        elif isinstance(value, Real | np.bool_) or (isinstance(value, np.ndarray) and value.ndim == 0):
            self._add_number(key, value)
        else:
            kinds = "a string, a number, a bool, a list, a set, a dict or a vector"
            raise FeatureError(f"expected {kinds} for {key!r}, got {shown(value)}")

    def _add_number(self, key: str, given: Any) -> None:
        try:
            value = float(given)
        except OverflowError:
            value = math.inf
        if not abs(value) <= MAX_VALUE:  # in float32 it would be infinite
            limit = f" up to {MAX_VALUE:.2g}" if math.isfinite(value) else ""
            raise FeatureError(f"expected a finite number{limit} for {key!r}, got {value}")
        if value != 0 or self.zeros:
            self._put((key, None), value)

    def _put(self, feature: tuple[str, str | None] | str, value: float = 1.0) -> None:
        """Add a feature to the token: (key, string), (key, None) or a plain string."""
        column, number = self._known.get(feature) or self._number(feature)
        if column is not None:
            if value != 1:
                column.values[len(column.ids)] = value
            column.tokens.append(self.tokens)
            column.ids.append(number)

    def _number(self, feature: tuple[str, str | None] | str) -> tuple[_ColumnBuilder | None, int]:
        """Return the column of a new feature, None for an ignored key, and its number there."""
        if isinstance(feature, str):
            key, text = feature.partition("=")[0], feature
        else:
            key, string = feature
            text = key if string is None else f"{key}{SEPARATOR}{string}"
        column = self._column(key)
        self._known[feature] = column, 0 if column is None else column.number(text)
        return self._known[feature]

    def _column(self, key: str) -> _ColumnBuilder | None:
        """Return the column of a key, None for an ignored key."""
        if key not in self.groups:
            self.groups[key] = self._new_column(key)
        name = self.groups[key]
        return None if name is None else self.columns[name]

    def _new_column(self, key: str) -> str | None:
        """Return the column of a new key, which may be a new column."""
        if not isinstance(key, str):
            raise FeatureError(f"expected keys that are strings, got {shown(key)}")
        if len(key) > MAX_KEY_LENGTH:
            got = f"one of {len(key):,}: {key[:40]!r}…"
            raise FeatureError(f"expected keys of at most {MAX_KEY_LENGTH:,} characters, got {got}")
        name = key if self.group is None else self.group(key)
        if name is not None and not isinstance(name, str):
            raise FeatureError(f"expected group_by to give a string for {key!r}, got {shown(name)}")
        if name is None or name in self.columns or self.fixed:
            return name if name in self.columns else None
        if len(self.columns) == MAX_KEYS:
            if self.group is not None:
                raise FeatureError(f"expected at most {MAX_KEYS:,} groups, got one more: {name!r}")
            self._merge()
            return ALL_KEYS
        self.columns[name] = _ColumnBuilder(name)
        return name

    def _merge(self) -> None:
        """Replace all columns but those of vectors by one, which `finish` merges with them."""
        vectors = {name: column for name, column in self.columns.items() if column.vectors}
        self._closed = [column for column in self.columns.values() if not column.vectors]
        self.columns = {ALL_KEYS: _ColumnBuilder(ALL_KEYS)} | vectors
        self.group, self.groups = lambda key: ALL_KEYS, {name: name for name in vectors}
        self._known.clear()


class _ColumnBuilder:
    """A column under construction: distinct strings, and token, number and value of each entry."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.strings: dict[str, int] = {}
        self.tokens, self.ids = array("i"), array("i")
        self.values: dict[int, float] = {}  # of the entries whose value is not 1
        self.vector_key = ""
        self.vectors: list[NDArray[np.float32]] = []

    def number(self, feature: str) -> int:
        """Return the number of a feature, which may be new."""
        try:
            feature.encode()
        except UnicodeEncodeError:
            raise FeatureError(f"expected text, got half of a surrogate pair in {feature[:60]!r}") from None
        return self.strings.setdefault(feature, len(self.strings))

    def put_vector(self, key: str, token: int, vector: NDArray[Any]) -> None:
        """Add the vector of one token."""
        if self.vector_key not in ("", key):
            problem = f"expected one vector in the group {self.name!r}, got {self.vector_key!r} and {key!r}"
            raise FeatureError(problem)
        self.vector_key = key
        width = len(self.vectors[0]) if self.vectors else len(vector)
        if len(vector) != width or not width:
            raise FeatureError(f"expected {width or 'some'} numbers in {key!r}, got {len(vector)}")
        try:
            with np.errstate(over="ignore"):  # infinite numbers are rejected below
                numbers = vector.astype(np.float32)
        except (TypeError, ValueError):
            problem = f"expected a vector of numbers for {key!r}, got one of {vector.dtype}"
            raise FeatureError(problem) from None
        if not np.isfinite(numbers).all():
            raise FeatureError(f"expected finite numbers in {key!r}, got {numbers[~np.isfinite(numbers)][0]}")
        self.tokens.append(token)
        self.vectors.append(numbers)

    def finish(self, tokens: int) -> Column:
        """Return the column of all entries."""
        if self.vectors:
            return self._finish_vectors(tokens)
        token, ids = np.array(self.tokens, np.int32), np.array(self.ids, np.int32)
        counts = np.bincount(token, minlength=tokens)
        if not self.values and int(counts.max(initial=0)) <= 1:
            filled = np.full(tokens, ABSENT, np.int32)
            filled[token] = ids
            return Column(filled, list(self.strings))
        values = np.ones(len(ids), np.float32)
        values[list(self.values)] = list(self.values.values())
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Column(ids, list(self.strings), ptr, values if self.values else None)

    def _finish_vectors(self, tokens: int) -> Column:
        if self.strings:
            some = next(iter(self.strings))
            raise FeatureError(f"expected vectors alone in {self.name!r}, got {some!r}, too")
        width = len(self.vectors[0])
        table = np.zeros((tokens, width), np.float32)
        table[np.array(self.tokens)] = self.vectors
        ids = np.tile(np.arange(width, dtype=np.int32), tokens)
        names = [f"{self.vector_key}{SEPARATOR}{k}" for k in range(width)]
        return Column(ids, names, np.arange(tokens + 1, dtype=np.int64) * width, table.ravel())


def merged(columns: Iterable[Column], tokens: int) -> Column:
    """Return one column with the entries of several; equal strings get one id."""
    numbers: dict[str, int] = {}
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))]
    for column in columns:
        table = [numbers.setdefault(text, len(numbers)) for text in column.strings]
        if column.ptr is None:
            places = np.flatnonzero(column.ids != ABSENT)
        else:
            places = np.repeat(np.arange(tokens), np.diff(column.ptr))
        ids = np.array(table, np.int32)[column.ids[column.ids != ABSENT]]
        parts.append((places, ids, np.ones(len(ids), np.float32) if column.values is None else column.values))
    places, ids, values = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(places, kind="stable")
    ptr = np.append(0, np.cumsum(np.bincount(places, minlength=tokens))).astype(np.int64)
    return Column(ids[order], list(numbers), ptr, None if (values == 1).all() else values[order])


def merged_groups(names: Sequence[str]) -> dict[str, str] | None:
    """Return the groups of a model with a column ALL_KEYS; None for other columns."""
    if ALL_KEYS not in names:
        return None
    return {name: name for name in names if name != ALL_KEYS} | {OTHER_KEYS: ALL_KEYS}


def group_of(groups: Mapping[str, str] | None) -> Group:
    """Return the function from a key to its column, given the groups of a model."""
    if groups is None:
        return lambda key: key
    other = groups.get(OTHER_KEYS)
    return lambda key: groups.get(key, other)


def shown(value: Any) -> str:
    """Return the beginning of a value and its type, for messages."""
    try:
        text = str(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, something nested very deep
        text = "…"
    return f"{text[:40]!r} ({type(value).__name__})"
