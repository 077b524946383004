"""Predictions of a task -> its official scores. Every task has one kind of them, and one line that says the most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.attachment import AttachmentScores, attachment_scores
from mtlstruct.evaluation.chunks import ChunkScores, are_chunk_labels, chunk_scores
from mtlstruct.evaluation.classification import ClassScores, LabelScores, class_scores, label_scores
from mtlstruct.evaluation.counts import Sentences
from mtlstruct.evaluation.words import WordScores, word_scores
from mtlstruct.formats import conll, segmented, text
from mtlstruct.model.model import Model

Scores = AttachmentScores | ChunkScores | ClassScores | WordScores


def scores(
    task: str,
    gold: Corpus,
    predictions: NDArray[np.int32],
    labels: Sequence[str],
    vocabulary: Set[str] | None = None,
) -> Scores:
    """The official scores of predictions, which are ids into `labels`. int32[T]"""
    assert gold.outputs is not None
    if task == "dependency":
        return tree_scores(gold, predictions)
    ours = text.named(predictions, labels)
    theirs = text.named(gold.outputs, gold.labels)
    if task == "segmentation":
        return word_scores(_words(gold, theirs), _words(gold, ours), vocabulary)
    if task == "multiclass":
        return class_scores(theirs, ours)
    sides = by_sentence(gold, theirs), by_sentence(gold, ours)
    return sequence_scores(*sides, (*labels, *gold.labels))


def sequence_scores(
    gold: Sentences, predicted: Sentences, labels: Iterable[str], *, source: str = "prediction"
) -> ChunkScores | LabelScores:
    """Score the labels of sentences: as chunks if `labels`, all that there may be, mark chunks, else as classes."""
    score = chunk_scores if are_chunk_labels(labels) else label_scores
    return score(gold, predicted, source=source)


def scores_of(
    model: Model,
    gold: Corpus,
    predictions: NDArray[np.int32],
    vocabulary: Set[str] | None = None,
    relations: NDArray[np.int32] | None = None,
) -> Scores:
    """The same for outputs of a model; what its second stage says, if it has one, is found where it is not given."""
    if model.relations is None:
        return scores(model.task, gold, predictions, model.labels, vocabulary)
    numbers = model.relate(gold, predictions) if relations is None else relations
    found = text.named(numbers, model.relations.labels)
    return tree_scores(gold, predictions, (conll.relations(gold).cells(), found))


def tree_scores(
    gold: Corpus, heads: NDArray[np.int32], relations: tuple[list[str], list[str]] | None = None
) -> Scores:
    """The scores of heads, and of relations (gold's and the predicted) if both are known."""
    assert gold.outputs is not None
    return attachment_scores(gold.columns[0].cells(), gold.ptr, gold.outputs, heads, relations)


def headline(found: Scores) -> str:
    """The scores in one line."""
    values = found.as_dict()
    names: tuple[str, ...] = ("accuracy",) if without_chunks(found) else ("precision", "recall", "f1")
    if isinstance(found, AttachmentScores):
        names = tuple(name for name in ("uas", "uasp", "acc", "las") if name in values)
    macro = f" · macro f1 {values['f1']:.2f}" if isinstance(found, ClassScores) else ""
    whole = ""
    if isinstance(found, ChunkScores | LabelScores):
        whole = f" · whole sequences {found.sequence_accuracy:.2f}"
    note = " (labels scored as classes)" if isinstance(found, LabelScores) else ""
    return " · ".join(f"{name} {values[name]:.2f}" for name in names) + macro + whole + note


def printed(found: Scores) -> str:
    """The table of the scores; after that of label sequences a line says how many are right as a whole."""
    if not isinstance(found, ChunkScores | LabelScores):
        return found.table()
    count = f"{found.correct_sentences} of {found.sentences}"
    return f"{found.table()}whole sequences right: {count}, {found.sequence_accuracy:.2f}%\n"


def without_chunks(found: Scores) -> bool:
    """Whether there are no chunks (parts of speech, classes, O alone), so that the accuracy says most."""
    return isinstance(found, ClassScores) or (
        isinstance(found, ChunkScores) and found.chunks.gold == found.chunks.predicted == 0
    )


def by_sentence(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    """The labels of each sentence."""
    return [labels[span] for span in corpus.sentences()]


def _words(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    characters = "".join(corpus.columns[0].cells())
    return [segmented.cut(characters[span], labels[span]) for span in corpus.sentences()]
