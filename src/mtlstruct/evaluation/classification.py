"""Scores of items with one class each: accuracy, and precision, recall and F1 of each class and on average.

Labels of sequences that mark no chunks (parts of speech) are scored in the same way, a token an item.
Figures are percents, unrounded, and equal to those of scikit-learn. Refused: predictions about other items than gold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlstruct.errors import FormatError
from mtlstruct.evaluation.chunks import conlleval_line
from mtlstruct.evaluation.counts import Counts, Sentences, check_tokens, correct_sentences, percent


@dataclass(frozen=True)
class ClassScores:
    """Accuracy, and precision, recall and F1 of each class and on average.

    `types` has the counts of each class that is in gold or prediction, in byte order of their names. Averages are
    over these classes, each with the same weight (macro), as scikit-learn does it. The micro average of all three
    is the accuracy, since every item has one class.
    """

    types: dict[str, Counts]
    items: int

    unit = "items"

    @property
    def accuracy(self) -> float:
        """The percent of items whose class is right."""
        return percent(sum(counts.correct for counts in self.types.values()), self.items)

    @property
    def per_type(self) -> dict[str, dict[str, Any]]:
        """For each class its precision, recall and f1, and the counts they come from."""
        return {name: counts.as_dict() | vars(counts) for name, counts in self.types.items()}

    def as_dict(self) -> dict[str, Any]:
        """The scores under the names that `score --json` prints; precision, recall and f1 are macro averages."""
        every = [counts.as_dict() for counts in self.types.values()]
        macro = {name: sum(c[name] for c in every) / len(every) for name in ("precision", "recall", "f1")}
        micro = {"accuracy": self.accuracy, "micro_f1": self.accuracy}
        return macro | micro | {"per_type": self.per_type, "sentences": self.items, "tokens": self.items}

    def table(self) -> str:
        """A line for all, then one for each class with how often it was predicted: the style of conlleval."""
        values, right = self.as_dict(), sum(counts.correct for counts in self.types.values())
        lines = [
            f"processed {self.items} {self.unit} of {len(self.types)} classes; correct: {right}.",
            f"accuracy: {self.accuracy:6.2f}%; macro precision: {values['precision']:6.2f}%; "
            f"macro recall: {values['recall']:6.2f}%; macro F1: {values['f1']:6.2f}",
        ]
        for name, counts in self.types.items():
            lines.append(f"{name:>17}: {conlleval_line(counts)}  {counts.predicted}")
        return "\n".join(lines) + "\n"


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
        """The scores under the names that `score --json` prints; precision, recall and f1 are macro averages."""
        whole = {"sequence_accuracy": self.sequence_accuracy, "scored_as": "classes"}
        return super().as_dict() | whole | {"sentences": self.sentences}

    def table(self) -> str:
        """How the labels are read, then the lines of classes."""
        return f"{AS_CLASSES}\n{super().table()}"


AS_CLASSES = "note: not all labels are O or have a chunk prefix (B-, I- ...): they are scored as classes"
"""What is said of labels that conlleval's rules do not fit."""


def class_scores(gold: Sequence[str], predicted: Sequence[str], *, source: str = "prediction") -> ClassScores:
    """Scores items that have one class each."""
    if len(gold) != len(predicted):
        raise FormatError(source, None, f"expected {len(gold)} items as in gold, got {len(predicted)}")
    return ClassScores(_counts(gold, predicted), len(gold))


def label_scores(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> LabelScores:
    """Score the labels of sentences as classes of tokens."""
    check_tokens(gold, predicted, source)
    theirs, ours = ([label for sentence in side for label in sentence] for side in (gold, predicted))
    whole = correct_sentences(gold, predicted)
    return LabelScores(_counts(theirs, ours), len(theirs), len(gold), whole)


def _counts(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, Counts]:
    theirs, ours = Counter(gold), Counter(predicted)
    both = Counter(g for g, p in zip(gold, predicted, strict=True) if g == p)
    names = sorted(theirs | ours, key=str.encode)
    return {name: Counts(theirs[name], ours[name], both[name]) for name in names}
