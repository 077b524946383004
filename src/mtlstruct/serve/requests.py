"""Requests -> sentences of rows, within limits; rows without the columns of the model are rejected.

A request is an object with one of

    text      plain text, a sentence a line; for models that look at the word only, and for segmentation
    columns   a token a line, a blank line between sentences. Rows have all columns of the training data (and the
              label, which is ignored), or only those that the model looks at; of trees also whole
              CoNLL lines
    rows      a list of sentences, each a list of rows, each a list of cells, of the same widths

and optionally `explain` (the number of templates for a token), `probabilities` (true) and `drawing`
(true: trees as SVG).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.formats import text
from mtlstruct.model.model import Model
from mtlstruct.tasks import task_of

Row = tuple[str, ...]

EMPTY = "_"
"""What stands in columns that nothing looks at."""

MOST_EXPLAINED = 20
"""How many templates a request may ask for at each token."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Limits:
    """The limits of one request, which `/v1/model` and the errors name.

    explained: tokens of a request with explanations, each of which is a search of its own
    waiting: requests without an answer yet; further ones are rejected at once
    """

    bytes: int = 1_000_000
    tokens: int = 20_000
    sentence: int = 2_000
    explained: int = 400
    seconds: float = 10.0
    waiting: int = 1_000


def default_limits(task: str) -> Limits:
    """Return limits that keep any request of a task short."""
    return Limits(sentence=task_of(task).longest_request)


@dataclass(frozen=True)
class Sentence:
    """Rows of cells, one for each column of the training data; runs: lengths between blanks."""

    rows: tuple[Row, ...]
    runs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """A request: sentences, the number of templates for a token, what else to return."""

    sentences: tuple[Sentence, ...]
    explain: int = 0
    probabilities: bool = False
    drawing: bool = False

    @property
    def tokens(self) -> int:
        """The number of tokens of all sentences."""
        return sum(len(sentence.rows) for sentence in self.sentences)


def corpus_of(sentences: Sequence[Sentence], names: Sequence[str]) -> Corpus:
    """Return sentences as a corpus without labels."""
    cells = list(zip(*(row for sentence in sentences for row in sentence.rows), strict=True))
    ptr = np.cumsum([0, *(len(sentence.rows) for sentence in sentences)]).astype(np.int64)
    return Corpus(tuple(map(text.column, cells)), ptr, names=tuple(names))


class Reader:
    """Reads requests for one model."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.task, self.width, self.limits = task_of(model.task), model.columns, limits
        self.characters = model.characters
        self.names = tuple(model.facts.get("names") or ())
        looked_at = set(model.index.templates.columns())
        if model.relations is not None:
            second = model.relations
            looked_at |= second.templates.select(second.live).columns()
        self.needed = sorted({0, *looked_at})  # the word is shown, whoever looks at it

    @property
    def takes_text(self) -> bool:
        """Whether the model looks at the word only."""
        return self.characters or self.needed == [0]

    def column_name(self, number: int) -> str:
        """Return the name of a column."""
        return self.names[number] if self.names else f"column {number}"

    def read(self, request: Any) -> Question:
        """Read a request as JSON gives it."""
        if not isinstance(request, dict):
            raise MtlError("expected a JSON object with text, columns or rows")
        given = [key for key in ("text", "columns", "rows") if key in request]
        if len(given) != 1:
            raise MtlError(f"expected one of text, columns and rows, got {' and '.join(given) or 'none'}")
        if unknown := sorted(set(request) - {given[0], "explain", "probabilities", "drawing"}):
            wanted = f"{given[0]}, explain, probabilities and drawing"
            raise MtlError(f"unknown key {unknown[0][:60]!r}: expected {wanted}")
        if self.characters and given[0] != "text":
            raise MtlError(f"the model cuts text into words: expected text, got {given[0]}")
        if given[0] != "rows" and not isinstance(request[given[0]], str):
            raise MtlError(f"expected a string as {given[0]}")
        explain = request.get("explain", 0)
        if type(explain) is not int or not 0 <= explain <= MOST_EXPLAINED:
            raise MtlError(f"expected explain as a number from 0 to {MOST_EXPLAINED}")
        flags = [request.get(name, False) for name in ("probabilities", "drawing")]
        if not all(isinstance(flag, bool) for flag in flags):
            raise MtlError("expected probabilities and drawing as true or false")
        sentences = tuple(getattr(self, f"_{given[0]}")(request[given[0]]))
        return self._checked(Question(sentences, explain, *flags))

    def _checked(self, question: Question) -> Question:
        if not question.sentences:
            raise MtlError("no sentences: expected at least one token")
        longest = max(len(sentence.rows) for sentence in question.sentences)
        for count, most, what in (
            (question.tokens, self.limits.tokens, "a request"),
            (longest, self.limits.sentence, "a sentence"),
            (question.tokens if question.explain else 0, self.limits.explained, "a request with explain"),
        ):
            if count > most:
                raise TooLarge(f"{what} may have {most:,} tokens, got {count:,}")
        return question

    def _text(self, given: str) -> Iterator[Sentence]:
        if not self.takes_text:
            looks_at = f"the model looks at more than words ({self._needed_names()})"
            raise MtlError(f"{looks_at}: expected columns or rows, got text")
        for line in _lines(given):
            for words, runs in self.task.tokenize(line):
                yield Sentence(tuple(self._padded((word,)) for word in words), runs)

    def _columns(self, given: str) -> Iterator[Sentence]:
        rows: list[Row] = []
        for number, cells in enumerate(self.task.cells([*_lines(given), ""]), 1):
            if cells:
                rows.append(self._row(cells, number))
            elif cells is not None:  # a blank line
                yield from self._sentences(rows)
                rows = []

    def _rows(self, given: Any) -> Iterator[Sentence]:
        if not isinstance(given, list) or not all(isinstance(sentence, list) for sentence in given):
            raise MtlError("expected rows as a list of sentences, each a list of rows")
        for number, sentence in enumerate(given, 1):
            for row in sentence:
                if not isinstance(row, list) or not all(isinstance(cell, str) and cell for cell in row):
                    raise MtlError(f"sentence {number}: expected rows as lists of strings that are not empty")
                _lines("".join(row))
            yield from self._sentences([self._row(row, number, "sentence") for row in sentence])

    def _sentences(self, rows: list[Row]) -> list[Sentence]:
        """Return rows as one sentence, or as one each where items stand alone."""
        return [Sentence(tuple(part)) for part in self.task.divided(rows)]

    def _row(self, cells: Sequence[str], number: int, unit: str = "line") -> Row:
        if len(cells) in (self.width, self.width + 1):
            return tuple(cells[: self.width])
        if len(cells) == len(self.needed):
            return self._padded(cells)
        short = f", or the {len(self.needed)} that the model looks at ({self._needed_names()})"
        widths = f"{self.width} columns{short if len(self.needed) < self.width else ''}"
        raise MtlError(f"{unit} {number}: expected {widths}, got {len(cells)}")

    def _needed_names(self) -> str:
        return ", ".join(map(self.column_name, self.needed))

    def _padded(self, cells: Sequence[str]) -> Row:
        """Return a row of all columns from the cells that the model looks at."""
        row = [EMPTY] * self.width
        for place, cell in zip(self.needed, cells, strict=True):
            row[place] = cell
        return tuple(row)


class TooLarge(MtlError):
    """A request that is beyond the limits."""


def _lines(given: str) -> list[str]:
    if "\0" in given:
        raise MtlError("expected text, got a NUL character")
    if _SURROGATE.search(given):
        raise MtlError("expected text, got half of a surrogate pair")
    return given.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
