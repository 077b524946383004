"""Official scores of label sequences, and the table and headline of any scores."""

from __future__ import annotations

from collections.abc import Iterable

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.attachment import AttachmentScores
from mtlstruct.evaluation.chunks import CLASSES, ChunkScores, chunk_scores, scheme_of
from mtlstruct.evaluation.classification import ClassScores, LabelScores, label_scores
from mtlstruct.evaluation.counts import Sentences
from mtlstruct.evaluation.words import WordScores
from mtlstruct.structures.schemes import SCHEMES, Recoding

Scores = AttachmentScores | ChunkScores | ClassScores | WordScores


def sequence_scores(
    gold: Sentences,
    predicted: Sentences,
    labels: Iterable[str] = (),
    *,
    source: str = "prediction",
    scheme: str | None = None,
) -> ChunkScores | LabelScores:
    """Score labels of sentences: as chunks of a scheme, or as classes.

    Parameters
    ----------
    gold, predicted : sequence of sequences of str
        The labels of each sentence.
    labels : iterable of str
        More labels by which the scheme is recognised, such as all labels of a model.
    source : str, default "prediction"
        The name of the prediction in messages.
    scheme : str or None, default None
        A key of `structures.schemes.SCHEMES`, "conlleval" or "classes"; None: recognise it.
    """
    every = {*labels, *(label for sentence in (*gold, *predicted) for label in sentence)}
    if scheme is None:
        scheme = scheme_of(gold, every)
    elif scheme in SCHEMES:
        Recoding(sorted(every), SCHEMES[scheme], SCHEMES[scheme])  # raises for a label of another form
    if scheme == CLASSES:
        return label_scores(gold, predicted, source=source)
    return chunk_scores(gold, predicted, source=source, scheme=scheme)


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
    """Return the table of scores; of labels, also whole sequences right and the label scheme."""
    if not isinstance(found, ChunkScores | LabelScores):
        return found.table()
    count = f"{found.correct_sentences} of {found.sentences}"
    scheme = "none, labels are scored as classes"
    if isinstance(found, ChunkScores):
        scheme = SCHEMES[found.scheme].title if found.scheme in SCHEMES else "unknown, read as by conlleval"
    whole = f"whole sequences right: {count}, {found.sequence_accuracy:.2f}%"
    return f"{found.table()}{whole}\nlabel scheme: {scheme}\n"


def without_chunks(found: Scores) -> bool:
    """Return whether there are no chunks (parts of speech, classes, O alone)."""
    return isinstance(found, ClassScores) or (
        isinstance(found, ChunkScores) and found.chunks.gold == found.chunks.predicted == 0
    )


def by_sentence(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    """Return the labels of each sentence."""
    return [labels[span] for span in corpus.sentences()]
