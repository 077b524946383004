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
unless keys are put into groups. Tokens are taken one by one and turned into numbers chunk by chunk: what is held
in Python objects are the distinct features, never their occurrences.

Refused: other types, keys that are no strings or longer than LONGEST_KEY, dicts nested deeper than DEEPEST, numbers
that are not finite (values are float32), more than MOST_KEYS columns, vectors of different lengths or together with
something else in one column.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import ABSENT, Column

Int32 = NDArray[np.int32]
Group = Callable[[str], str | None]
"""The column of a key, None if it is of no interest."""

SEPARATOR = ":"
MOST_KEYS = 1000
"""More columns than any feature function has on purpose."""

LONGEST_KEY = 1000
"""Characters: a key is repeated in each of its features, so a long one would cost its length times their number."""

DEEPEST = 20
"""Dicts inside dicts."""

CHUNK = 1 << 18
"""So many entries are held one by one before they are sorted into columns."""

HIGHEST = float(np.finfo(np.float32).max)
LOW = (1 << 32) - 1


class FeatureError(ValueError):
    """A token that is not as above; the message is a clause."""


class Features:
    """Tokens as they come.

    group   the column of each key; a key is its own column by default
    names   the columns there are; None: those that turn up
    """

    def __init__(self, group: Group = lambda key: key, names: Sequence[str] | None = None) -> None:
        self.group = group
        self.fixed = names is not None
        self.columns: dict[str, _Growing] = {}
        for name in names or ():
            self._column(name)
        self.tokens = 0
        self.groups: dict[str, str | None] = {}
        self._tables: dict[str, dict[str | None, int]] = {}
        self._spelled: dict[str, int] = {}
        self._codes, self._counts = array("q"), array("i")
        self._places, self._values = array("q"), array("d")

    def add(self, token: Any) -> None:
        """One more token."""
        codes = self._codes
        before = len(codes)
        if isinstance(token, dict):
            tables, append = self._tables, codes.append
            for key, value in token.items():
                if type(value) is str:  # nearly all are, so nothing is called for one that is known
                    table = tables.get(key)
                    if table is None:
                        table = self._enter(key)
                    code = table.get(value)
                    append(self._new(key, table, value) if code is None else code)
                else:
                    self._other(key, value)
        else:
            self._strings(token)
        self._counts.append(len(codes) - before)
        self.tokens += 1
        if len(codes) > CHUNK:
            self._flush()

    def finished(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns and their names, in order of appearance. Nothing may be added afterwards."""
        self._flush()
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
            code = self._spelled.get(text)
            self._codes.append(self._plain(text) if code is None else code)

    def _plain(self, text: str) -> int:
        """The code of a plain string that is met for the first time."""
        key = text.partition("=")[0]
        if key not in self._tables:
            self._enter(key)
        known = self.groups[key] is not None
        code = self._spelled[text] = self._numbered(key, text) if known else ABSENT
        return code

    def _put(self, key: str, value: float, text: str | None = None) -> None:
        table = self._tables.get(key)
        if table is None:
            table = self._enter(key)
        code = table.get(text)
        if value != 1:
            self._places.append(len(self._codes))
            self._values.append(value)
        self._codes.append(self._new(key, table, text) if code is None else code)

    def _vector(self, key: str, vector: NDArray[Any]) -> None:
        self._enter(key)
        name = self.groups[key]
        if name is not None:
            self._column(name).put_vector(key, self.tokens, vector)

    def _enter(self, key: str) -> dict[str | None, int]:
        """The known strings of a key that is met for the first time."""
        if not isinstance(key, str):
            raise FeatureError(f"expected keys that are strings, got {shown(key)}")
        if len(key) > LONGEST_KEY:
            raise FeatureError(
                f"expected keys of at most {LONGEST_KEY:,} characters, got one of {len(key):,}: {key[:40]!r}…"
            )
        name = self.group(key)
        if name is not None and not isinstance(name, str):
            raise FeatureError(f"expected group_by to give a string for {key!r}, got {shown(name)}")
        known = name is not None and (not self.fixed or name in self.columns)
        self.groups[key] = name if known else None
        return self._tables.setdefault(key, {} if known else _Nothing())

    def _new(self, key: str, table: dict[str | None, int], text: str | None) -> int:
        """The code of a feature of a dict that is met for the first time."""
        code = table[text] = self._numbered(key, key if text is None else key + SEPARATOR + text)
        return code

    def _numbered(self, key: str, attribute: str) -> int:
        """The code of an attribute: column·2³² + number in that column."""
        name = self.groups[key]
        assert name is not None
        try:
            attribute.encode()
        except UnicodeEncodeError:
            raise FeatureError(f"expected text, got half of a surrogate pair in {attribute[:60]!r}") from None
        column = self._column(name)
        return column.number << 32 | column.strings.setdefault(attribute, len(column.strings))

    def _column(self, name: str) -> _Growing:
        column = self.columns.get(name)
        if column is None:
            if len(self.columns) == MOST_KEYS and not self.fixed:
                raise FeatureError(
                    f"expected at most {MOST_KEYS:,} keys, each of which is a template, got one more: {name!r}; "
                    "give group_by, which says what keys have in common"
                )
            column = self.columns[name] = _Growing(name, len(self.columns))
        return column

    def _flush(self) -> None:
        """Sorts the entries that have come into the columns."""
        codes = np.array(self._codes, np.int64)
        counts = np.array(self._counts, np.int32)
        values = np.ones(len(codes), np.float32)
        values[np.array(self._places, np.int64)] = np.array(self._values)
        first = self.tokens - len(counts)
        token = np.repeat(np.arange(first, self.tokens, dtype=np.int32), counts)
        order = np.argsort((codes >> 32).astype(np.uint16), kind="stable")  # 16 bits: numpy sorts by radix
        numbers = (codes[order] >> 32).astype(np.uint16)  # of ABSENT beyond all columns
        for column in self.columns.values():
            low, high = np.searchsorted(numbers, [column.number, column.number + 1])
            some = order[low:high]
            column.put(first, self.tokens, token[some], (codes[some] & LOW).astype(np.int32), values[some])
        self._codes, self._counts = array("q"), array("i")
        self._places, self._values = array("q"), array("d")


class _Nothing(dict[str | None, int]):
    """The strings of a key that nobody looks at: all known, and none of any column."""

    def get(self, text: Any, default: Any = None) -> int:
        return ABSENT


@dataclass(frozen=True)
class _Piece:
    """Entries of one column in a chunk, whose first token is `first`; tokens None: one id, or ABSENT, for each."""

    first: int
    tokens: Int32 | None
    ids: Int32
    values: NDArray[np.float32] | None

    def listed(self) -> tuple[Int32, Int32, NDArray[np.float32]]:
        """Token, id and value of each entry."""
        tokens, ids = self.tokens, self.ids
        if tokens is None:
            there = np.flatnonzero(ids != ABSENT).astype(np.int32)
            tokens, ids = there + np.int32(self.first), ids[there]
        return tokens, ids, np.ones(len(ids), np.float32) if self.values is None else self.values


class _Growing:
    """A column while tokens come in: its distinct strings, and a piece for each chunk."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self.strings: dict[str, int] = {}
        self.pieces: list[_Piece] = []
        self.several = False
        self.key = ""
        self.width = 0
        self.vector_tokens, self.vectors = array("q"), array("f")

    def put(self, first: int, last: int, token: Int32, ids: Int32, values: NDArray[np.float32]) -> None:
        """The entries of tokens first:last, by rising token."""
        plain = bool((values == 1).all())
        twice = bool((token[1:] == token[:-1]).any())
        self.several |= twice or not plain
        if plain and not twice and 2 * len(token) >= last - first:
            filled = np.full(last - first, ABSENT, np.int32)
            filled[token - first] = ids
            self.pieces.append(_Piece(first, None, filled, None))
        else:
            self.pieces.append(_Piece(first, token, ids, None if plain else values))

    def put_vector(self, key: str, token: int, vector: NDArray[Any]) -> None:
        """The vector of one token."""
        if self.key not in ("", key):
            raise FeatureError(
                f"expected one vector in the group {self.name!r}, got {self.key!r} and {key!r}"
            )
        self.key, self.width = key, self.width or len(vector)
        if len(vector) != self.width:
            raise FeatureError(f"expected {self.width} numbers in {key!r} as before, got {len(vector)}")
        try:
            with np.errstate(over="ignore"):  # what is too large is seen below
                numbers = vector.astype(np.float32)
        except (TypeError, ValueError):
            raise FeatureError(
                f"expected a vector of numbers for {key!r}, got one of {vector.dtype}"
            ) from None
        if not np.isfinite(numbers).all():
            raise FeatureError(f"expected finite numbers in {key!r}, got {numbers[~np.isfinite(numbers)][0]}")
        self.vector_tokens.append(token)
        self.vectors.frombytes(numbers.tobytes())

    def finished(self, tokens: int) -> Column:
        """The column of all pieces, which are given up."""
        if self.width:
            return self._finished_vectors(tokens)
        pieces, self.pieces = self.pieces, []
        if not self.several:
            return Column(_plain(pieces, tokens), list(self.strings))
        token, ids, values = (
            np.concatenate(part) for part in zip(*(p.listed() for p in pieces), strict=True)
        )
        ptr = np.concatenate([[0], np.cumsum(np.bincount(token, minlength=tokens))]).astype(np.int64)
        real = bool((values != 1).any())
        return Column(ids, list(self.strings), ptr, values if real else None)

    def _finished_vectors(self, tokens: int) -> Column:
        if self.strings:
            some = next(iter(self.strings))
            raise FeatureError(f"expected vectors alone in {self.name!r}, got {some!r}, too")
        table = np.zeros((tokens, self.width), np.float32)
        table[np.array(self.vector_tokens)] = np.array(self.vectors).reshape(-1, self.width)
        ids = np.tile(np.arange(self.width, dtype=np.int32), tokens)
        names = [f"{self.key}{SEPARATOR}{k}" for k in range(self.width)]
        return Column(ids, names, np.arange(tokens + 1, dtype=np.int64) * self.width, table.ravel())


def _plain(pieces: Iterable[_Piece], tokens: int) -> Int32:
    """ids[t] of a column with at most one entry a token."""
    out = np.full(tokens, ABSENT, np.int32)
    for piece in pieces:
        if piece.tokens is None:
            out[piece.first : piece.first + len(piece.ids)] = piece.ids
        else:
            out[piece.tokens] = piece.ids
    return out


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
