"""The interface of a task, with what tasks that predict labels have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError
from mtlstruct.evaluation import error_analysis
from mtlstruct.evaluation.scores import Scores
from mtlstruct.formats import jsonl, partition, text
from mtlstruct.model.lattice import Lattice, Marginals, Outputs, Ranked
from mtlstruct.model.model import Model
from mtlstruct.structures.base import Sites
from mtlstruct.structures.constraints import Constraints, keeping
from mtlstruct.structures.sequence import SequenceStructure

BATCH = 20_000
"""Tokens of a batch of `stream`."""

WORD = re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]")
"""A token of plain text: a word with inner apostrophes, points and hyphens, or any other sign."""

Rows = Sequence[tuple[str, ...]]
Note = Callable[[int], None] | None
Words = Set[str] | None
Names = list[str] | None
T = TypeVar("T")


@dataclass(frozen=True)
class Form:
    """How labelled files are written; `columns` is the number of observation columns, 0 if unknown."""

    encoding: str = "utf-8"
    tags: str = "bie"
    columns: int = 0
    single_root: bool = False


UTF8 = Form()


@dataclass(frozen=True)
class Wanted:
    """What to predict.

    scores    write probabilities: of the chosen labels (best), or of all labels of each token (all)
    nbest     how many labelings of each sentence to write; None for the best without a rank
    raw       blanks of text to be segmented stay word boundaries
    partial   labels or blanks of the input are kept
    size      tokens of a batch
    """

    scores: Literal["best", "all"] | None = None
    nbest: int | None = None
    raw: bool = False
    partial: bool = False
    size: int = BATCH

    @property
    def probabilities(self) -> bool:
        """Whether any number is written."""
        return self.scores is not None or self.nbest is not None


PLAIN = Wanted()


@dataclass(frozen=True)
class Source:
    """An input of `predict`: its bytes, its name for messages, its encoding."""

    lines: BinaryIO
    name: str
    encoding: str = "utf-8"


class Answer(NamedTuple):
    """A batch with all that is known of its predictions."""

    model: Model
    batch: Corpus
    lattice: Lattice
    marginals: Marginals


class Task:
    """What differs between tasks outside of the structure."""

    unit = "sentence"
    token_unit = "tokens"
    minimum = "f1"
    """The score that `score --min` compares."""
    scores: tuple[str, ...] = ("f1", "accuracy")
    """The scores that may choose between models, the first that is not 0 throughout."""
    divisible = True
    """Whether encoded data can be split into parts."""
    ends_at_blank_line = True
    """Whether a sentence of a file ends at a blank line, not at each line."""
    longest_request = 2_000
    """Tokens of a sentence that a server accepts."""

    def __init__(self, name: str) -> None:
        self.name = name

    # Reading -----------------------------------------------------------------------------------------------

    def read(self, path: Path, form: Form = UTF8) -> Corpus:
        """Read a labelled file, or the files of a folder as one corpus."""
        if not path.is_dir():
            return self.read_file(path, form)
        return partition.joined_files(path, lambda file: self.read_file(file, form))

    def read_file(self, path: Path | text.Part, form: Form) -> Corpus:
        """Read a labelled file."""
        raise NotImplementedError

    def read_for(self, model: Model, path: Path, encoding: str) -> Corpus:
        """Read a labelled file with the columns of a model."""
        if model.takes_dicts:
            return jsonl.read(path, encoding=encoding, **_keys(model))
        return self.read_file(path, Form(encoding, model.tags, model.columns))

    def stream(
        self,
        model: Model,
        source: Source,
        wanted: Wanted = PLAIN,
        on_blanks: Callable[[str, int], None] | None = None,
    ) -> Iterator[Corpus]:
        """Yield whole sentences of an unlabelled input, as they come in, in batches of `wanted.size` tokens.

        `on_blanks` is called once with the name of the input and the first line whose blanks are dropped.
        """
        how: dict[str, Any] = {
            "source": source.name,
            "encoding": source.encoding,
            "batch_tokens": wanted.size,
        }
        if model.takes_dicts:
            return jsonl.stream(source.lines, **how, **_keys(model))
        note = None if on_blanks is None else partial(on_blanks, source.name)
        return self._stream(model, source.lines, wanted, note, how)

    def _stream(
        self, model: Model, lines: BinaryIO, wanted: Wanted, note: Note, how: dict[str, Any]
    ) -> Iterator[Corpus]:
        raise NotImplementedError

    def check(self, wanted: Wanted, model: Model, path: Path) -> None:
        """Raise an error for options of `predict` that the model of a file cannot follow."""
        if wanted.raw:
            raise IncompatibleError(
                f"--raw is for segmentation models: {path} is one for {self.name} labelling"
            )
        if wanted.partial and model.takes_dicts:
            raise IncompatibleError("--partial is for columns and text: the model takes JSON lines of dicts")

    def given(self, model: Model, batch: Corpus) -> Constraints:
        """Return constraints that keep the labels, or the word ends, of the input."""
        outputs = batch.relabelled(model.labels).outputs
        assert outputs is not None
        return keeping(outputs, len(model.labels))

    def summary(self, corpus: Corpus) -> str:
        """Return in a few words how much labelled data there is."""
        labels = f", {len(corpus.labels)} labels" if corpus.labels else ""
        return f"{len(corpus):,} sentences, {corpus.tokens:,} tokens{labels}"

    def note(self, corpus: Corpus) -> str | None:
        """Return what looks odd about labelled data, if anything does."""
        return None

    def sites(self, corpus: Corpus) -> tuple[Sites, ...]:
        """Return where templates may look."""
        return SequenceStructure(max(2, len(corpus.labels))).sites(corpus.ptr)

    # Writing, as crf_test does. Before each labelling that has a probability stands a line, "# PROBABILITY" or, among
    # N best, "# RANK PROBABILITY". A label becomes LABEL/PROBABILITY.

    def format(self, model: Model, batch: Corpus, lattice: Lattice, wanted: Wanted) -> str:
        """Return the text of a batch with its predictions."""
        if not wanted.probabilities:
            return "".join(self._blocks(batch, text.named(lattice.best(), model.labels)))
        marginals = lattice.marginals(model.temperature)
        if wanted.nbest is None:
            best = lattice.best()
            ranked = Ranked(best[None], lattice.evaluate(best)[:, None])
        else:
            ranked = lattice.nbest(wanted.nbest)
        counts = (ranked.values > -np.inf).sum(axis=1)
        labelings = ranked.outputs[: max(1, counts.max(initial=0))]
        if wanted.scores is None:
            found = [self._blocks(batch, text.named(outputs, model.labels)) for outputs in labelings]
        else:
            others = _all_labels(model, marginals) if wanted.scores == "all" else [""] * batch.tokens
            answer = Answer(model, batch, lattice, marginals)
            found = [self._scored(answer, outputs, others) for outputs in labelings]
        heads = self._heads(marginals.sequence(ranked.values).tolist(), ranks=wanted.nbest is not None)
        return "".join(_interleaved(found, heads, counts.tolist()))

    def _blocks(self, batch: Corpus, cells: list[str]) -> list[str]:
        """Return the text of each sentence (or line) with these labels."""
        raise NotImplementedError

    def _scored(self, found: Answer, outputs: Outputs, others: Sequence[str]) -> list[str]:
        """Return the text of each sentence with labels int32[T], their probabilities and other cells."""
        labels = text.named(outputs, found.model.labels)
        cells = zip(labels, found.marginals.chosen(outputs).tolist(), others, strict=True)
        return self._blocks(found.batch, [f"{label}/{p:f}{other}" for label, p, other in cells])

    def _heads(self, probabilities: list[list[float]], *, ranks: bool) -> list[list[str]]:
        """Return for each sentence the lines before its labelings."""
        return [
            [f"# {rank} {p:f}\n" if ranks else f"# {p:f}\n" for rank, p in enumerate(row)]
            for row in probabilities
        ]

    # Scores ------------------------------------------------------------------------------------------------

    def score(
        self, gold: Corpus, outputs: Outputs, labels: Sequence[str], words: Words = None, arcs: Names = None
    ) -> Scores:
        """Return the official scores of predictions int32[T], which are numbers into `labels`, or heads.

        words   words that count as known, for segmentation
        arcs    the predicted labels of arcs, for trees
        """
        raise NotImplementedError

    def score_model(
        self, model: Model, gold: Corpus, outputs: Outputs, words: Words = None, arcs: Outputs | None = None
    ) -> Scores:
        """Return the official scores of a model's predictions; `arcs` are those of its second stage, if known."""
        found = None
        if model.relations is not None:
            numbers = model.relate(gold, outputs) if arcs is None else arcs
            found = text.named(numbers, model.relations.labels)
        return self.score(gold, outputs, model.labels, words, found)

    def score_files(self, gold: Path, predicted: Path, words: Words, encoding: str) -> Scores:
        """Return the official scores of one file against another of the same text."""
        raise NotImplementedError

    def assess(self, model: Model, gold: Corpus, source: str) -> error_analysis.Assessment:
        """Return scores, error counts and calibration of a model on labelled data called `source`."""
        return error_analysis.assess(model, gold, source, self.score_model)

    def chosen_score(self, results: Sequence[Mapping[str, Any]]) -> str:
        """Return the name of the score by which results of `tune` are compared."""
        found = [result["scores"] for result in results]
        names = ("accuracy",) if any(s.get("scored_as") == "classes" for s in found) else self.scores
        return next((name for name in names if any(s.get(name) for s in found)), names[0])

    def vocabulary(self, path: Path | None, encoding: str) -> set[str] | None:
        """Return the words of a file, for the recall of known and unknown words."""
        if path is not None:
            raise IncompatibleError(f"--words is for segmentation: the task is {self.name}")
        return None

    def known_words(self, trained: Corpus, given: Words) -> Words:
        """Return the words that count as known after training: those given, or those of the data."""
        return None

    # Requests to a server ----------------------------------------------------------------------------------

    def tokenize(self, line: str) -> list[tuple[list[str], tuple[int, ...]]]:
        """Return the sentences of a line of plain text, with the lengths of their runs between blanks, if needed."""
        return [(list(words), ()) for words in self.divided(WORD.findall(line))]

    def cells(self, lines: Sequence[str]) -> Iterator[list[str] | None]:
        """Yield the cells of each line of column text; None for a line that is neither blank nor a token."""
        return ([cell for cell in text.tidy(line)[0].split(" ") if cell] for line in lines)

    def divided(self, rows: Sequence[T]) -> list[Sequence[T]]:
        """Return the sentences of rows that came together."""
        return [rows] if rows else []

    def answer(self, model: Model, rows: Rows, runs: Sequence[int], outputs: Outputs) -> dict[str, Any]:
        """Return a predicted sentence as an object: its tokens, and its words where the task has words."""
        pairs = zip(rows, outputs.tolist(), strict=True)
        return {"tokens": [{"cells": list(row), "label": model.labels[y]} for row, y in pairs]}


def _keys(model: Model) -> dict[str, Any]:
    """Return what reading feature dicts for a model takes."""
    return {"names": model.names, "groups": model.groups, "alone": model.alone}


def _all_labels(model: Model, marginals: Marginals) -> list[str]:
    """Return for each token all labels with their probabilities, in cells of their own."""
    names = [f"\t{label}/" for label in model.labels]
    return [
        "".join([f"{name}{p:f}" for name, p in zip(names, row, strict=True)])
        for row in marginals.node.tolist()
    ]


def _interleaved(found: Sequence[list[str]], heads: list[list[str]], counts: list[int]) -> Iterator[str]:
    """Yield all labelings of the first sentence, of the second, ... An empty line is no sentence and comes back once.

    found[k][i]: the text of line i under its k-th labelling; sentence s has counts[s] of them.
    """
    sentences = zip(heads, counts, strict=True)
    for texts in zip(*found, strict=True):
        if texts[0] == "\n":
            yield "\n"
            continue
        lines, count = next(sentences)
        yield from (head + text for head, text in zip(lines[:count], texts[:count], strict=True))
