"""Scores of items with one class each: accuracy; precision, recall and F1 by class and on average.

Labels of sequences that mark no chunks (parts of speech) are scored as items, too. Figures are
percents, unrounded, and equal those of scikit-learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlstruct.errors import FormatError
from mtlstruct.evaluation.counts import Counts, Sentences, TypeScores, equal_sentences, percent, tally


@dataclass(frozen=True)
class ClassScores(TypeScores):
    """Accuracy, and precision, recall and F1 of each class and on average.

    Averages give each class of gold or prediction the same weight (macro). The micro average of all
    three is the accuracy, because every item has one class.
    """

    items: int

    unit = "items"

    @property
    def accuracy(self) -> float:
        """The percent of items whose class is right."""
        return percent(sum(counts.correct for counts in self.types.values()), self.items)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names of `score --json`, with macro averages."""
        every = [counts.as_dict() for counts in self.types.values()]
        macro = {name: sum(c[name] for c in every) / len(every) for name in ("precision", "recall", "f1")}
        micro = {"accuracy": self.accuracy, "micro_f1": self.accuracy}
        return macro | micro | {"per_type": self.per_type, "sentences": self.items, "tokens": self.items}

    def table(self) -> str:
        """Return a line for all and one for each class, in the style of conlleval."""
        values, right = self.as_dict(), sum(counts.correct for counts in self.types.values())
        lines = [
            f"processed {self.items} {self.unit} of {len(self.types)} classes; correct: {right}.",
            f"accuracy: {self.accuracy:6.2f}%; macro precision: {values['precision']:6.2f}%; "
            f"macro recall: {values['recall']:6.2f}%; macro F1: {values['f1']:6.2f}",
        ]
        return "\n".join(lines + self.type_lines()) + "\n"


@dataclass(frozen=True)
class LabelScores(ClassScores):
    """Scores of sequences whose labels mark no chunks: a token is an item, its label the class."""

    sentences: int
    correct_sentences: int

    unit = "tokens"

    @property
    def sequence_accuracy(self) -> float:
        """The percent of sentences whose labels are all right."""
        return percent(self.correct_sentences, self.sentences)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names of `score --json`, with macro averages."""
        whole = {"sequence_accuracy": self.sequence_accuracy, "scheme": "classes"}
        return super().as_dict() | whole | {"sentences": self.sentences}


def class_scores(gold: Sequence[str], predicted: Sequence[str], *, source: str = "prediction") -> ClassScores:
    """Score items that have one class each."""
    if len(gold) != len(predicted):
        raise FormatError(source, None, f"expected {len(gold)} items as in gold, got {len(predicted)}")
    return ClassScores(_counts(gold, predicted), len(gold))


def label_scores(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> LabelScores:
    """Score the labels of sentences as classes of tokens."""
    whole = equal_sentences(gold, predicted, source)
    theirs, ours = ([label for sentence in side for label in sentence] for side in (gold, predicted))
    return LabelScores(_counts(theirs, ours), len(theirs), len(gold), whole)


def _counts(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Counts]:
    both = Counter(g for g, p in zip(gold, predicted, strict=True) if g == p)
    return tally(Counter(gold), Counter(predicted), both)
