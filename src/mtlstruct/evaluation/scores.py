"""Official scores of label sequences and trees, and the table and headline of any scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.attachment import AttachmentScores, attachment_scores
from mtlstruct.evaluation.chunks import ChunkScores, are_chunk_labels, chunk_scores
from mtlstruct.evaluation.classification import ClassScores, LabelScores, label_scores
from mtlstruct.evaluation.counts import Sentences
from mtlstruct.evaluation.words import WordScores

Scores = AttachmentScores | ChunkScores | ClassScores | WordScores


def sequence_scores(
    gold: Sentences, predicted: Sentences, labels: Iterable[str], *, source: str = "prediction"
) -> ChunkScores | LabelScores:
    """Score the labels of sentences: as chunks if all possible `labels` mark chunks, else as classes."""
    score = chunk_scores if are_chunk_labels(labels) else label_scores
    return score(gold, predicted, source=source)


def tree_scores(
    gold: Corpus, heads: NDArray[np.int32], relations: tuple[list[str], list[str]] | None = None
) -> Scores:
    """Score heads, and relations (gold's and the predicted) if both are known."""
    assert gold.outputs is not None
    return attachment_scores(gold.columns[0].cells(), gold.ptr, gold.outputs, heads, relations)


def headline(found: Scores) -> str:
    """Return the scores in one line."""
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
    """Return the table of the scores, for label sequences with a line on whole sequences."""
    if not isinstance(found, ChunkScores | LabelScores):
        return found.table()
    count = f"{found.correct_sentences} of {found.sentences}"
    return f"{found.table()}whole sequences right: {count}, {found.sequence_accuracy:.2f}%\n"


def without_chunks(found: Scores) -> bool:
    """Return whether there are no chunks (parts of speech, classes, O alone)."""
    return isinstance(found, ClassScores) or (
        isinstance(found, ChunkScores) and found.chunks.gold == found.chunks.predicted == 0
    )


def by_sentence(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    """Return the labels of each sentence."""
    return [labels[span] for span in corpus.sentences()]
