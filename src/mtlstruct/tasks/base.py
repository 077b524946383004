"""Labelled data and predictions of a task -> scores: what `train --valid`, `evaluate` and `score` share."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.evaluation.classification import class_scores
from mtlstruct.evaluation.scores import (
    Scores,
    by_sentence,
    headline,
    printed,
    scores,
    scores_of,
    sequence_scores,
    tree_scores,
    without_chunks,
)
from mtlstruct.evaluation.words import word_scores
from mtlstruct.formats import columns, conll, segmented, text
from mtlstruct.formats import jsonl as dicts

if TYPE_CHECKING:
    from mtlstruct.model.model import Model

__all__ = [
    "Scores", "headline", "printed", "read", "read_for", "score_files", "scores", "scores_of", "vocabulary",
    "without_chunks",
]  # fmt: skip


def read(
    path: Path,
    task: str,
    *,
    tags: str = "bie",
    encoding: str = "utf-8",
    width: int = 0,
    single_root: bool = False,
) -> Corpus:
    """Labelled data of a task. A column file must have `width` observation columns, if that is known."""
    if task == "dependency":
        return conll.read(path, single_root=single_root, encoding=encoding)
    if task == "segmentation":
        return segmented.read(path, tags=tags, encoding=encoding)
    names = [str(number) for number in range(width)]
    return columns.read(path, encoding=encoding, names=names, alone=task == "multiclass")


def read_for(model: Model, path: Path, encoding: str) -> Corpus:
    """Labelled data that fit a model."""
    if model.takes_dicts:
        alone = model.task == "multiclass"
        return dicts.read(path, encoding=encoding, names=model.names, groups=model.groups, alone=alone)
    return read(path, model.task, tags=model.facts["tags"], encoding=encoding, width=model.columns)


def score_files(gold: Path, predicted: Path, task: str, vocabulary: Set[str] | None, encoding: str) -> Scores:
    """The scores of one file against another about the same text."""
    if task == "segmentation":
        right_words, our_words = (
            list(segmented.words(path, encoding=encoding)) for path in (gold, predicted)
        )
        return word_scores(right_words, our_words, vocabulary, source=str(predicted))
    if task == "dependency":
        return _score_trees(gold, predicted, encoding)
    right, ours = (read(path, task, encoding=encoding) for path in (gold, predicted))
    _check_same_words(right, ours, gold, predicted, encoding)
    if task == "multiclass":
        return class_scores(_gold_labels(right), _gold_labels(ours), source=str(predicted))
    theirs, mine = (by_sentence(corpus, _gold_labels(corpus)) for corpus in (right, ours))
    return sequence_scores(theirs, mine, (*right.labels, *ours.labels), source=str(predicted))


def _score_trees(gold: Path, predicted: Path, encoding: str) -> Scores:
    right = conll.read(gold, encoding=encoding)
    ours = conll.read(predicted, trees=False, encoding=encoding)
    _check_same_trees(right, ours, gold, predicted)
    assert ours.outputs is not None
    relations = conll.relations(right).cells(), conll.relations(ours).cells()
    return tree_scores(right, ours.outputs, relations)


def _check_same_trees(right: Corpus, ours: Corpus, gold: Path, predicted: Path) -> None:
    """Both must have the same words in the same sentences."""
    expected, got = right.columns[0].cells(), ours.columns[0].cells()
    pairs = enumerate(zip(expected, got, strict=False))
    token = next((number for number, (a, b) in pairs if a != b), None)
    if token is not None:
        problem = f"expected the word {expected[token]!r} as in {gold}, got {got[token]!r}"
        raise FormatError(predicted, int(ours.extra.tokens[token]) + 1, problem)
    if right.ptr.tolist() != ours.ptr.tolist():
        problem = f"expected {len(right)} sentences of the lengths in {gold}, got {len(ours)} of others"
        raise FormatError(predicted, None, problem)


def vocabulary(path: Path | None, task: str, encoding: str) -> set[str] | None:
    """The words of a file, if one is given and means something for the task."""
    if path is None:
        return None
    if task != "segmentation":
        raise IncompatibleError(f"--words is for segmentation: the task is {task}")
    return segmented.vocabulary(path, encoding=encoding)


def _gold_labels(corpus: Corpus) -> list[str]:
    assert corpus.outputs is not None
    return text.named(corpus.outputs, corpus.labels)


def _check_same_words(right: Corpus, ours: Corpus, gold: Path, predicted: Path, encoding: str) -> None:
    """Both must be about the same words: the first cells agree, token by token."""
    expected, got = right.columns[0].cells(), ours.columns[0].cells()
    pairs = enumerate(zip(expected, got, strict=False))
    token = next((number for number, (a, b) in pairs if a != b), None)
    if token is not None:
        problem = f"expected {expected[token]!r} in the first column as in {gold}, got {got[token]!r}"
        raise FormatError(predicted, _line_of(predicted, token, encoding), problem)


def _line_of(path: Path, token: int, encoding: str) -> int:
    """The line on which a token stands; found by reading again, since only a message wants it."""
    lines = text.tidy(text.load(path, encoding))
    filled = (number for number, line in enumerate(lines, 1) if line)
    return next(number for index, number in enumerate(filled) if index == token)
