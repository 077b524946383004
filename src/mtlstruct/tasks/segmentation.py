"""Segmentation: a sentence a line, words separated by blanks; tokens are characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.metrics import word_scores
from mtlstruct.evaluation.scores import Scores
from mtlstruct.formats import segmented, text
from mtlstruct.model.lattice import Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.constraints import Constraints, cutting
from mtlstruct.tasks.base import Answer, Form, Names, Note, Rows, Task, Wanted, Words


class Segmentation(Task):
    """The words of a text, scored as words."""

    ends_at_blank_line = False

    def read_file(self, path: Path | text.Part, form: Form) -> Corpus:
        return segmented.read(path, tags=form.tags, encoding=form.encoding)

    def _stream(
        self, model: Model, lines: BinaryIO, wanted: Wanted, note: Note, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        raw = wanted.raw or wanted.partial
        return segmented.stream(lines, raw=raw, on_blanks=note, **how)

    def check(self, wanted: Wanted, model: Model, path: Path) -> None:
        """Raise an error for probabilities of all labels, which words have no place for."""
        if wanted.scores == "all":
            raise IncompatibleError(f"--scores all is for labels in columns: {path} is for segmentation")

    def given(self, model: Model, batch: Corpus) -> Constraints:
        """Return constraints that keep the blanks of the input as word ends."""
        return cutting(segmented.stretches(batch), batch.tokens, model.labels)

    def _blocks(self, batch: Corpus, cells: list[str]) -> list[str]:
        return segmented.blocks(batch, segmented.words_of(batch, cells))

    def _scored(self, found: Answer, outputs: Outputs, others: Sequence[str]) -> list[str]:
        """Return each line with WORD/PROBABILITY."""
        labels = text.named(outputs, found.model.labels)
        words = segmented.words_of(found.batch, labels)
        starts = np.array(words.starts, np.int64)
        stops = np.array(segmented.reaches(found.batch, words, labels), np.int64)
        chances = found.lattice.spans(outputs, starts, stops, found.marginals)
        return segmented.blocks(found.batch, words, [f"/{p:f}" for p in chances.tolist()])

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        assert gold.outputs is not None
        sides = text.named(gold.outputs, gold.labels), text.named(outputs, labels)
        theirs, ours = (_words(gold, side) for side in sides)
        return word_scores(theirs, ours, words)

    def score_files(self, gold: Path, predicted: Path, words: Words, encoding: str) -> Scores:
        right, ours = (list(segmented.words(path, encoding=encoding)) for path in (gold, predicted))
        return word_scores(right, ours, words, source=str(predicted))

    def vocabulary(self, path: Path | None, encoding: str) -> set[str] | None:
        return None if path is None else segmented.vocabulary(path, encoding=encoding)

    def known_words(self, trained: Corpus, given: Words) -> Words:
        return segmented.known_words(trained) if given is None else given

    def tokenize(self, line: str) -> list[tuple[list[str], tuple[int, ...]]]:
        """Return the characters of a line, and the lengths of its stretches between blanks."""
        stretches = line.split()
        return [(list("".join(stretches)), tuple(map(len, stretches)))] if stretches else []

    def answer(self, model: Model, rows: Rows, runs: Sequence[int], outputs: Outputs) -> dict[str, Any]:
        """Return a predicted line as an object with its words; blanks stay boundaries."""
        characters = "".join(row[0] for row in rows)
        labels = text.named(outputs, model.labels)
        spans = pairwise(accumulate(runs or (len(characters),), initial=0))
        cut = (segmented.cut(characters[a:b], labels[a:b]) for a, b in spans)
        return super().answer(model, rows, runs, outputs) | {
            "words": [word for words in cut for word in words]
        }


def _words(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    characters = "".join(corpus.columns[0].cells())
    return [segmented.cut(characters[span], labels[span]) for span in corpus.sentences()]
