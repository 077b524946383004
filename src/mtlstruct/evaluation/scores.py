"""Official scores of label sequences and of classes, and the table and headline of any scores.

Labels of sequences that mark no chunks (parts of speech) are scored as items with one class each:
accuracy, and precision, recall and F1 by class and on average. Figures are percents, unrounded, and
equal those of scikit-learn.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError
from mtlstruct.evaluation.attachment import AttachmentScores
from mtlstruct.evaluation.chunks import CLASSES, ChunkScores, chunk_scores, scheme_of
from mtlstruct.evaluation.counts import Counts, Sentences, TypeScores, equal_sentences, percent, tally
from mtlstruct.evaluation.words import WordScores
from mtlstruct.structures.schemes import OUTSIDE, SCHEMES, Recoding


@dataclass(frozen=True)
class ClassScores(TypeScores):
    """Accuracy, and precision, recall and F1 of each class and on average.

    Averages give each class of gold or prediction the same weight (macro). The micro average of all
    three is the accuracy, because every token has one class. Items are sentences of one token.
    """

    field_f1: float | None = None
    """Of labels of sentences: F1 of fields, which are runs of equal labels other than O."""

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names of `score --json`, with macro averages."""
        every = [counts.as_dict() for counts in self.types.values()]
        found = {name: sum(c[name] for c in every) / len(every) for name in ("precision", "recall", "f1")}
        found |= {"accuracy": self.accuracy, "micro_f1": self.accuracy} | self.size_dict()
        if self.field_f1 is None:
            return found
        more = {"sequence_accuracy": self.sequence_accuracy, "field_f1": self.field_f1}
        return found | more | {"scheme": CLASSES}

    def table(self) -> str:
        """Return a line for all and one for each class, in the style of conlleval."""
        values, unit = self.as_dict(), "items" if self.field_f1 is None else "tokens"
        lines = [
            f"processed {self.tokens} {unit} of {len(self.types)} classes; correct: {self.correct_tokens}.",
            f"accuracy: {self.accuracy:6.2f}%; macro precision: {values['precision']:6.2f}%; "
            f"macro recall: {values['recall']:6.2f}%; macro F1: {values['f1']:6.2f}",
        ]
        return "\n".join(lines + self.type_lines()) + "\n"


def class_scores(gold: Sequence[str], predicted: Sequence[str], *, source: str = "prediction") -> ClassScores:
    """Score items that have one class each."""
    if len(gold) != len(predicted):
        raise FormatError(source, None, f"expected {len(gold)} items as in gold, got {len(predicted)}")
    types, right = _counts(gold, predicted)
    return ClassScores(types, len(gold), right, len(gold), right)


def label_scores(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> ClassScores:
    """Score the labels of sentences as classes of tokens."""
    whole = equal_sentences(gold, predicted, source)
    theirs, ours = (list(chain.from_iterable(side)) for side in (gold, predicted))
    types, right = _counts(theirs, ours)
    fields, found = _fields(gold), _fields(predicted)
    field_f1 = percent(2 * len(fields & found), len(fields) + len(found))
    return ClassScores(types, len(theirs), right, len(gold), whole, field_f1)


def _fields(sentences: Sentences) -> set[tuple[int, int, int, str]]:
    """Return sentence, first token, end and label of each run of equal labels other than O."""
    found = set()
    for number, labels in enumerate(sentences):
        end = 0
        for label, run in groupby(labels):
            first, end = end, end + sum(1 for _ in run)
            found.add((number, first, end, label))
    return {field for field in found if field[3] != OUTSIDE}


def _counts(gold: Sequence[str], predicted: Sequence[str]) -> tuple[dict[str, Counts], int]:
    right = Counter(g for g, p in zip(gold, predicted, strict=True) if g == p)
    return tally(Counter(gold), Counter(predicted), right), right.total()


def sequence_scores(
    gold: Sentences,
    predicted: Sentences,
    labels: Iterable[str] = (),
    *,
    source: str = "prediction",
    scheme: str | None = None,
) -> ChunkScores | ClassScores:
    """Score labels of sentences: as chunks of a scheme, or as classes.

    labels   more labels by which the scheme is recognised, such as all labels of a model
    source   the name of the prediction in messages
    scheme   a key of `structures.schemes.SCHEMES`, "conlleval" or "classes"; None: recognise it
    """
    every = {*labels, *(label for sentence in (*gold, *predicted) for label in sentence)}
    if scheme is None:
        scheme = scheme_of(gold, every)
    elif scheme in SCHEMES:
        Recoding(sorted(every), SCHEMES[scheme], SCHEMES[scheme])  # raises for a label of another form
    if scheme == CLASSES:
        return label_scores(gold, predicted, source=source)
    return chunk_scores(gold, predicted, source=source, scheme=scheme)


Scores = AttachmentScores | ChunkScores | ClassScores | WordScores


def headline(found: Scores) -> str:
    """Return the scores in one line."""
    values = found.as_dict()
    names = (
        ("accuracy",) if without_chunks(found) else ("precision", "recall", "f1", "uas", "uasp", "acc", "las")
    )
    line = [f"{name} {values[name]:.2f}" for name in names if name in values]
    if isinstance(found, ClassScores):
        line.append(f"macro f1 {values['f1']:.2f}")
    if "sequence_accuracy" in values:
        line.append(f"whole sequences {values['sequence_accuracy']:.2f}")
    note = " (labels scored as classes)" if "field_f1" in values else ""
    return " · ".join(line) + note


def printed(found: Scores) -> str:
    """Return the table of scores; of labels, also whole sequences right and the label scheme."""
    values = found.as_dict()
    if "scheme" not in values:
        return found.table()
    if values["scheme"] == CLASSES:
        scheme = f"none, labels are scored as classes; F1 of runs of equal labels: {values['field_f1']:.2f}%"
    else:
        known = SCHEMES.get(values["scheme"])
        scheme = "unknown, read as by conlleval" if known is None else known.title
    assert isinstance(found, TypeScores)
    whole = f"{found.correct_sentences} of {found.sentences}, {found.sequence_accuracy:.2f}%"
    return f"{found.table()}whole sequences right: {whole}\nlabel scheme: {scheme}\n"


def without_chunks(found: Scores) -> bool:
    """Return whether there are no chunks (parts of speech, classes, O alone)."""
    empty = isinstance(found, ChunkScores) and found.chunks.gold == found.chunks.predicted == 0
    return empty or isinstance(found, ClassScores)


def by_sentence(corpus: Corpus, labels: list[str]) -> list[list[str]]:
    """Return the labels of each sentence."""
    return [labels[span] for span in corpus.sentences()]
