"""Label sequences in column files: one token per line, the label last."""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as List
from pathlib import Path
from typing import Any, BinaryIO

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError
from mtlstruct.evaluation.scores import Scores, by_sentence, class_scores, sequence_scores
from mtlstruct.formats import columns, jsonl, text
from mtlstruct.model.lattice import Outputs
from mtlstruct.model.model import Model
from mtlstruct.tasks import plain_text
from mtlstruct.tasks.base import FileOptions, OnBlanks, OutputOptions, T, Task, Words

UNKNOWN_LABELS = ("_", "?")
"""Marks of a label that is to be predicted, unless the model has a label of that name."""

Side = tuple[Corpus, list[str]]
"""A text and its labels."""


class Sequence(Task):
    """A label for each token of a sentence, scored as chunks where labels mark chunks."""

    alone = False

    def __init__(self, name: str, scheme: str | None = None) -> None:
        super().__init__(name)
        self.scheme = scheme

    def with_scheme(self, scheme: str | None) -> Task:
        return super().with_scheme(scheme) if self.alone else Sequence(self.name, scheme)

    def read(self, path: Path, options: FileOptions | None = None) -> Corpus:
        options = options or FileOptions()
        if path.name.endswith(jsonl.SUFFIXES):
            return jsonl.read(path, encoding=options.encoding, alone=self.alone)
        return super().read(path, options)

    def read_file(self, path: Path | text.Part, options: FileOptions) -> Corpus:
        names = [str(number) for number in range(options.columns)]
        how: dict[str, Any] = {"encoding": options.encoding, "cells": options.cells}
        return columns.read(path, names=names, alone=self.alone, **how)

    def _stream(
        self, model: Model, lines: BinaryIO, output: OutputOptions, note: OnBlanks, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        if output.raw:
            return plain_text.stream(model, lines, alone=self.alone, **how)
        known = {*model.labels, *UNKNOWN_LABELS} if output.partial else None
        how |= {"columns": model.columns, "alone": self.alone, "cells": model.cell_format}
        return columns.stream(lines, known=known, **how)

    def labelled(self, batch: Corpus, outputs: Outputs, labels: List[str]) -> str:
        return columns.format_text(batch, outputs, labels, alone=self.alone)

    def _blocks(self, batch: Corpus, cells: list[str]) -> list[str]:
        return columns.format_sentences(batch, cells, alone=self.alone)

    def warning(self, corpus: Corpus) -> str | None:
        if not _are_trees(corpus):
            return None
        return "the data look like CoNLL trees, which need --task dependency; the last column is read as the label"

    def score(self, gold: Corpus, outputs: Outputs, labels: List[str], *_: object) -> Scores:
        theirs, ours = _gold_labels(gold), text.named(outputs, labels)
        return self._compared((gold, theirs), (gold, ours), (*labels, *gold.labels), "prediction")

    def score_files(self, gold: Path, predicted: Path, words: Words, options: FileOptions) -> Scores:
        right, ours = (self.read_file(path, options) for path in (gold, predicted))

        def line_of(token: int) -> int:
            lines = text.tidy(text.load(predicted, options.encoding))
            return [number for number, line in enumerate(lines, 1) if line][token]

        check_same_words(right, ours, gold, predicted, line_of)
        sides = (right, _gold_labels(right)), (ours, _gold_labels(ours))
        return self._compared(*sides, (*right.labels, *ours.labels), str(predicted))

    def _compared(self, gold: Side, predicted: Side, labels: List[str], source: str) -> Scores:
        sides = by_sentence(*gold), by_sentence(*predicted)
        return sequence_scores(*sides, labels, source=source, scheme=self.scheme)


def _gold_labels(corpus: Corpus) -> list[str]:
    assert corpus.outputs is not None
    return text.named(corpus.outputs, corpus.labels)


def check_same_words(
    right: Corpus, ours: Corpus, gold: Path, predicted: Path, line_of: Callable[[int], int]
) -> None:
    """Raise unless the first cells of all tokens agree; `line_of`: the line of a token."""
    pairs = zip(right.columns[0].cells(), ours.columns[0].cells(), strict=False)
    for token, (expected, got) in enumerate(pairs):
        if expected != got:
            problem = f"expected {expected!r} as in {gold}, got {got!r}"
            raise FormatError(predicted, line_of(token), problem)


def _are_trees(corpus: Corpus) -> bool:
    """Return whether a column file has ten columns, token numbers, and heads in the seventh."""
    if len(corpus.columns) != 9:
        return False
    ids, heads = corpus.columns[0].cells(), corpus.columns[6].strings
    return all(ids[start] == "1" for start in corpus.ptr[:-1].tolist()) and all(map(str.isdecimal, heads))


class Multiclass(Sequence):
    """A class for each item, which is a sentence of one token."""

    unit, token_unit = "item", "items"
    scores = ("accuracy",)
    alone = True
    ends_at_blank_line = False

    def _headers(self, probabilities: list[list[float]], *, ranks: bool) -> list[list[str]]:
        """Return lines for N best only: the probability of one item stands beside its class."""
        return super()._headers(probabilities, ranks=True) if ranks else [[""] for _ in probabilities]

    def summary(self, corpus: Corpus) -> str:
        return f"{corpus.tokens:,} items, {len(corpus.labels)} classes"

    def warning(self, corpus: Corpus) -> str | None:
        return None

    def _compared(self, gold: Side, predicted: Side, labels: List[str], source: str) -> Scores:
        return class_scores(gold[1], predicted[1], source=source)

    def split_sentences(self, rows: List[T]) -> list[List[T]]:
        return [[row] for row in rows]
