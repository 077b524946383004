"""Read requests: sentences of rows with the columns of a model, within limits.

A request is a JSON object with one of the keys

- `text`: plain text, one sentence per line; for segmentation and for models that use only the word;
- `columns`: one token per line, a blank line between sentences. Rows have all columns of the
  training data (and the label, which comes back as gold), or only those that the model uses; trees
  also take CoNLL lines;
- `rows`: a list of sentences, each a list of rows, each a list of cells, with columns as above;
- `dicts`: a list of sentences, each a list of feature dicts, for models that were trained on dicts;

and optionally `explain` (number of templates per token), `nbest` (number of labellings), and
`probabilities` and `drawing` (true or false; a drawing is the tree as SVG).
"""

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import MtlError
from mtlstruct.formats import jsonl, text
from mtlstruct.model.model import Model
from mtlstruct.tasks import task_of
from mtlstruct.tasks.base import dict_keys
from mtlstruct.tasks.plain_text import PADDING, takes_text, used_columns

Row = tuple[str, ...]

MAX_EXPLAINED = 20
"""The largest number of templates per token, or of labellings, that a request may ask for."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class TooLarge(MtlError):
    """A request that exceeds a limit."""


@dataclass(frozen=True)
class Limits:
    """Limits of one request, which `/v1/model` and the errors name.

    bytes, tokens   largest size of a request
    sentence        tokens of a sentence
    explained       tokens of a request with explanations, each of which takes a search
    seconds         time to receive a request, and time to answer it
    """

    bytes: int = 1_000_000
    tokens: int = 20_000
    sentence: int = 2_000
    explained: int = 400
    seconds: float = 10.0


class RequestSentence(NamedTuple):
    """Rows of cells, with all columns of the training data.

    runs   lengths between blanks
    gold   the labels that the rows had, None for a row without one
    """

    rows: tuple[Row, ...]
    runs: tuple[int, ...] = ()
    gold: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class TagRequest:
    """Sentences to label, also as a corpus, and what to return: see the module."""

    sentences: tuple[RequestSentence, ...]
    corpus: Corpus
    explain: int
    nbest: int
    probabilities: bool
    drawing: bool


class RequestReader:
    """Reader of the requests for one model."""

    def __init__(self, model: Model, limits: Limits) -> None:
        self.task, self.width, self.limits, self.model = task_of(model.task), model.columns, limits, model
        self.used, self.takes_text = used_columns(model), takes_text(model)

    def column_name(self, number: int) -> str:
        """Return the name of a column."""
        return self.model.names[number] if self.model.names else f"column {number}"

    def read(self, request: Any) -> TagRequest:
        """Read a request as JSON gives it."""
        if not isinstance(request, dict):
            raise MtlError("expected a JSON object with text, columns or rows")
        keys = ("dicts",) if self.model.takes_dicts else ("text", "columns", "rows")
        given = [key for key in ("text", "columns", "rows", "dicts") if key in request]
        if len(given) != 1 or given[0] not in keys:
            one = (
                f"one of {', '.join(keys)}" if len(keys) > 1 else "dicts, since the model takes feature dicts"
            )
            raise MtlError(f"expected {one}, got {' and '.join(given) or 'none'}")
        more = ["explain", "probabilities", "drawing" if self.model.trees else "nbest"]
        if unknown := sorted(set(request) - {given[0], *more, "drawing"}):
            wanted = f"{given[0]}, {', '.join(more)}"
            raise MtlError(f"unknown key {unknown[0][:60]!r}: expected {wanted}")
        if self.model.characters and given[0] != "text":
            raise MtlError(f"the model cuts text into words: expected text, got {given[0]}")
        if given[0] in ("text", "columns") and not isinstance(request[given[0]], str):
            raise MtlError(f"expected a string as {given[0]}")
        numbers = {name: request.get(name, 0) for name in ("explain", "nbest")}
        for name, value in numbers.items():
            if type(value) is not int or not 0 <= value <= MAX_EXPLAINED:
                raise MtlError(f"expected {name} as a number from 0 to {MAX_EXPLAINED}")
        flags = {name: request.get(name, False) for name in ("probabilities", "drawing")}
        if not all(isinstance(flag, bool) for flag in flags.values()):
            raise MtlError("expected probabilities and drawing as true or false")
        corpus = self._features(request["dicts"]) if "dicts" in request else None
        found = getattr(self, f"_{given[0]}")(request[given[0]] if corpus is None else corpus)
        sentences: tuple[RequestSentence, ...] = tuple(found)
        self._check_limits([len(sentence.rows) for sentence in sentences], explained=numbers["explain"] > 0)
        return TagRequest(sentences, corpus or self._corpus(sentences), **numbers, **flags)

    def _corpus(self, sentences: Sequence[RequestSentence]) -> Corpus:
        rows = [sentence.rows for sentence in sentences]
        ptr = np.array([0, *accumulate(map(len, rows))], np.int64)
        runs = [s.runs or (len(s.rows),) for s in sentences] if self.model.characters else None
        return Corpus(text.row_columns(rows), ptr, names=self.model.names, extra=runs)

    def _check_limits(self, lengths: Sequence[int], explained: bool) -> None:
        if not lengths:
            raise MtlError("no sentences: expected at least one token")
        for count, limit, unit in (
            (sum(lengths), self.limits.tokens, "a request"),
            (max(lengths), self.limits.sentence, "a sentence"),
            (sum(lengths) if explained else 0, self.limits.explained, "a request with explain"),
        ):
            if count > limit:
                raise TooLarge(f"{unit} may have {limit:,} tokens, got {count:,}")

    def _text(self, given: str) -> Iterator[RequestSentence]:
        if not self.takes_text:
            more = f"the model looks at more than words ({self._used_names()})"
            raise MtlError(f"{more}: expected columns or rows, got text")
        for line in _lines(given):
            for words, runs in self.task.tokenize(line):
                yield RequestSentence(tuple(self._padded((word,)) for word in words), runs)

    def _features(self, given: Any) -> Corpus:
        if not isinstance(given, list):
            raise MtlError("expected dicts as a list of sentences, each a list of feature dicts")
        lines = io.BytesIO("".join(json.dumps(sentence) + "\n" for sentence in given).encode())
        found = jsonl.stream(lines, source="dicts", batch_tokens=1 << 40, **dict_keys(self.model))
        return next(found, Corpus((), np.zeros(1, np.int64)))

    def _dicts(self, features: Corpus) -> Iterator[RequestSentence]:
        rows = [(row,) for row in str(features.extra).split("\n")]
        yield from (RequestSentence(tuple(rows[span])) for span in features.sentences())

    def _columns(self, given: str) -> Iterator[RequestSentence]:
        rows: list[tuple[Row, str | None]] = []
        for number, cells in enumerate(self.task.cells([*_lines(given), ""]), 1):
            if cells:
                rows.append(self._row(cells, number))
            elif cells is not None:  # a blank line
                yield from self._sentences(rows)
                rows = []

    def _rows(self, given: Any) -> Iterator[RequestSentence]:
        if not isinstance(given, list) or not all(isinstance(sentence, list) for sentence in given):
            raise MtlError("expected rows as a list of sentences, each a list of rows")
        for number, sentence in enumerate(given, 1):
            for row in sentence:
                if not isinstance(row, list) or not all(isinstance(cell, str) and cell for cell in row):
                    raise MtlError(f"sentence {number}: expected rows as lists of strings that are not empty")
                _lines("".join(row))
            yield from self._sentences([self._row(row, number, "sentence") for row in sentence])

    def _sentences(self, rows: list[tuple[Row, str | None]]) -> Iterator[RequestSentence]:
        """Yield rows as one sentence, or each as one if items stand alone."""
        for part in self.task.split_sentences(rows):
            cells, gold = zip(*part, strict=True)
            yield RequestSentence(cells, gold=gold if any(gold) else ())

    def _row(self, cells: Sequence[str], number: int, unit: str = "line") -> tuple[Row, str | None]:
        """Return a row of all columns and its label, if it has one."""
        if len(cells) in (self.width, self.width + 1):
            return tuple(cells[: self.width]), cells[self.width] if len(cells) > self.width else None
        if len(cells) == len(self.used):
            return self._padded(cells), None
        short = f", or the {len(self.used)} that the model looks at ({self._used_names()})"
        widths = f"{self.width} columns{short if len(self.used) < self.width else ''}"
        raise MtlError(f"{unit} {number}: expected {widths}, got {len(cells)}")

    def _used_names(self) -> str:
        return ", ".join(map(self.column_name, self.used))

    def _padded(self, cells: Sequence[str]) -> Row:
        """Return a row of all columns from the cells of those that the model uses."""
        row = [PADDING] * self.width
        for place, cell in zip(self.used, cells, strict=True):
            row[place] = cell
        return tuple(row)


def _lines(given: str) -> list[str]:
    if "\0" in given:
        raise MtlError("expected text, got a NUL character")
    if _SURROGATE.search(given):
        raise MtlError("expected text, got half of a surrogate pair")
    return given.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
