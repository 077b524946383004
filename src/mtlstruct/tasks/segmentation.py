"""Segmentation: one sentence per line, words separated by blanks; tokens are characters."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation.scores import Scores
from mtlstruct.evaluation.words import word_scores
from mtlstruct.formats import segmented, text
from mtlstruct.model.lattice import Outputs
from mtlstruct.model.model import Model
from mtlstruct.structures.constraints import Constraints
from mtlstruct.tasks.base import FileOptions, Names, OnBlanks, OutputOptions, Scored, Task, Texts, Words


class Segmentation(Task):
    """The words of a text, scored as words."""

    ends_at_blank_line = False

    def read_file(self, path: Path | text.Part, options: FileOptions) -> Corpus:
        return segmented.read(path, tags=options.tags, encoding=options.encoding)

    def _stream(
        self, model: Model, lines: BinaryIO, output: OutputOptions, note: OnBlanks, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        raw = output.raw or output.partial
        return segmented.stream(lines, raw=raw, on_blanks=note, **how)

    def check_options(self, output: OutputOptions, model: Model, path: Path) -> None:
        """Raise for probabilities of all labels, which have no place in segmented text."""
        if output.scores == "all":
            raise IncompatibleError(f"--scores all is for labels in columns: {path} is for segmentation")

    def partial_constraints(self, model: Model, batch: Corpus) -> Constraints:
        """Return constraints that keep the blanks of the input as word ends."""
        return Constraints.from_boundaries(segmented.run_starts(batch), batch.tokens, model.labels)

    def labelled(self, batch: Corpus, outputs: Outputs, labels: Sequence[str]) -> str:
        return segmented.format_text(batch, outputs, labels)

    def records(self, model: Model, batch: Corpus, outputs: Outputs) -> list[dict[str, Any]]:
        found = segmented.words_of(batch, text.named(outputs, model.labels))
        words = segmented.word_texts(batch, found)
        return [{"words": words[first:last]} for first, last in pairwise(found.lines) if first < last]

    def _blocks(self, batch: Corpus, cells: list[str]) -> list[str]:
        return segmented.format_lines(batch, segmented.words_of(batch, cells))

    def _scored(self, batch: Corpus, by: Scored, outputs: Outputs, names: Texts, others: Texts) -> Texts:
        """Return each line with WORD/PROBABILITY."""
        words = segmented.words_of(batch, names)
        starts = np.array(words.starts, np.int64)
        stops = np.array(segmented.label_stops(batch, words, names), np.int64)
        chances = by[0].spans(outputs, starts, stops, by[1])
        return segmented.format_lines(batch, words, [f"/{p:f}" for p in chances.tolist()])

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        ours = segmented.words_by_sentence(gold, text.named(outputs, labels))
        return word_scores(segmented.words_by_sentence(gold), ours, words)

    def score_files(self, gold: Path, predicted: Path, words: Words, options: FileOptions) -> Scores:
        right, ours = (list(segmented.words(path, encoding=options.encoding)) for path in (gold, predicted))
        return word_scores(right, ours, words, source=str(predicted))

    def vocabulary(self, path: Path | None, encoding: str) -> set[str] | None:
        return None if path is None else segmented.vocabulary(path, encoding=encoding)

    def known_words(self, trained: Corpus, given: Words) -> Words:
        return set().union(*segmented.words_by_sentence(trained)) if given is None else given

    def tokenize(self, line: str) -> list[tuple[list[str], tuple[int, ...]]]:
        """Return the characters of a line, and the lengths of its runs between blanks."""
        runs = line.split()
        return [(list("".join(runs)), tuple(map(len, runs)))] if runs else []
