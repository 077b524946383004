"""Requests -> sentences of rows. Refused, with the line: what does not have the columns that the model looks at.

A request is an object with one of

    text      plain text, a sentence a line; for models that look at the word only, and for segmentation
    columns   column text as files have it: a token a line, a blank line between sentences. Rows have all columns of
              the training data (and the label, which is not looked at), or only those that the model looks at; of
              trees also whole CoNLL lines
    rows      a list of sentences, each a list of rows, each a list of cells, of the same widths

and, if wanted, `explain` (how many templates to name for a token), `probabilities` (true) and `drawing` (true: of
trees, as SVG).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError, MtlError
from mtlstruct.formats import text
from mtlstruct.model.model import Model
from mtlstruct.serve.limits import Limits
from mtlstruct.tasks import task_of

Row = tuple[str, ...]

REQUEST = "request"
EMPTY = "_"
"""What stands in columns that nothing looks at."""

MOST_VOICES = 20
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Sentence:
    """Rows of cells, one for each column of the training data; runs: the lengths of stretches between blanks."""

    rows: tuple[Row, ...]
    runs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """What was asked: the sentences, how many templates to name for a token, what else is wanted."""

    sentences: tuple[Sentence, ...]
    explain: int = 0
    probabilities: bool = False
    drawing: bool = False

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(len(sentence.rows) for sentence in self.sentences)


def corpus_of(sentences: Sequence[Sentence], names: Sequence[str]) -> Corpus:
    """Sentences as a corpus without labels."""
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
        """Whether the word is all that the model looks at."""
        return self.characters or self.needed == [0]

    def column_name(self, number: int) -> str:
        """A column for people."""
        return self.names[number] if self.names else f"column {number}"

    def read(self, request: Any) -> Question:
        """A request as JSON gives it."""
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
        sentences = tuple(getattr(self, f"_{given[0]}")(request[given[0]]))
        flags = (_flag(request, name) for name in ("probabilities", "drawing"))
        question = Question(sentences, _explain(request), *flags)
        self._check(question)
        return question

    def _check(self, question: Question) -> None:
        if not question.sentences:
            raise MtlError("no sentences: expected at least one token")
        longest = max(len(sentence.rows) for sentence in question.sentences)
        for count, most, what in (
            (question.tokens, self.limits.tokens, "a request"),
            (longest, self.limits.sentence, "a sentence"),
            (question.tokens if question.explain else 0, self.limits.explained, "what is to be explained"),
        ):
            if count > most:
                raise TooLarge(f"{what} may have {most:,} tokens, got {count:,}")

    def _text(self, given: Any) -> Iterator[Sentence]:
        if not isinstance(given, str):
            raise MtlError("expected a string as text")
        if not self.takes_text:
            wanted = ", ".join(map(self.column_name, self.needed))
            raise MtlError(
                f"the model looks at more than words ({wanted}): expected columns or rows, got text"
            )
        for line in _lines(given):
            for words, runs in self.task.tokenize(line):
                yield Sentence(tuple(self._padded((word,)) for word in words), runs)

    def _columns(self, given: Any) -> Iterator[Sentence]:
        if not isinstance(given, str):
            raise MtlError("expected a string as columns")
        rows: list[Row] = []
        for number, cells in enumerate(self.task.cells([*_lines(given), ""]), 1):
            if cells:
                rows.append(self._row(cells, number))
            elif cells is not None:  # a blank line
                yield from self._divided(rows)
                rows = []

    def _rows(self, given: Any) -> Iterator[Sentence]:
        if not isinstance(given, list) or not all(isinstance(sentence, list) for sentence in given):
            raise MtlError("expected rows as a list of sentences, each a list of rows")
        for number, sentence in enumerate(given, 1):
            for row in sentence:
                if not isinstance(row, list) or not all(isinstance(cell, str) and cell for cell in row):
                    raise MtlError(f"sentence {number}: expected rows as lists of strings that are not empty")
                _lines("".join(row))
            rows = [self._row(row, number, "sentence") for row in sentence]
            yield from self._divided(rows)

    def _divided(self, rows: list[Row]) -> Iterator[Sentence]:
        yield from (Sentence(tuple(some)) for some in self.task.divided(rows))

    def _row(self, cells: Sequence[str], number: int, unit: str = "line") -> Row:
        if len(cells) in (self.width, self.width + 1):
            return tuple(cells[: self.width])
        if len(cells) == len(self.needed):
            return self._padded(cells)
        problem = f"expected {self._widths()}, got {len(cells)}"
        if unit == "line":
            raise FormatError(REQUEST, number, problem)
        raise FormatError(REQUEST, None, f"{unit} {number}: {problem}")

    def _padded(self, cells: Sequence[str]) -> Row:
        """A row of all columns, of which only those that are looked at are given."""
        row = [EMPTY] * self.width
        for place, cell in zip(self.needed, cells, strict=True):
            row[place] = cell
        return tuple(row)

    def _widths(self) -> str:
        wanted = ", ".join(map(self.column_name, self.needed))
        short = f", or the {len(self.needed)} that the model looks at ({wanted})"
        return f"{self.width} columns{short if len(self.needed) < self.width else ''}"


class TooLarge(MtlError):
    """A request that is beyond the limits."""


def _lines(given: str) -> list[str]:
    if "\0" in given:
        raise MtlError("expected text, got a NUL character")
    if _SURROGATE.search(given):
        raise MtlError("expected text, got half of a surrogate pair")
    return given.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def _explain(request: dict[str, Any]) -> int:
    wanted = request.get("explain", 0)
    if type(wanted) is not int or not 0 <= wanted <= MOST_VOICES:
        raise MtlError(f"expected explain as a number from 0 to {MOST_VOICES}, got {_shown(wanted)}")
    return wanted


def _flag(request: dict[str, Any], name: str) -> bool:
    wanted = request.get(name, False)
    if not isinstance(wanted, bool):
        raise MtlError(f"expected {name} as true or false, got {_shown(wanted)}")
    return wanted


def _shown(value: Any) -> str:
    """A value of a request for its error: one that has parts may be of any size and depth."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return repr(value)[:60]
