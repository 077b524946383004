"""Counts, precision, recall and F1 in unrounded percent, and checks that all scores share."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mtlstruct.errors import FormatError

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Counts:
    """The numbers of items in gold, in the prediction, and in both."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """The percent of predicted items that are right; 0 if there are none."""
        return percent(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """The percent of gold items that were found; 0 if there are none."""
        return percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 if both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def conlleval_line(self) -> str:
        """Return precision, recall and F1 as conlleval prints them."""
        return f"precision: {self.precision:6.2f}%; recall: {self.recall:6.2f}%; FB1: {self.f1:6.2f}"

    def as_dict(self) -> dict[str, Any]:
        """Return precision, recall and f1."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}

    def full_dict(self) -> dict[str, Any]:
        """Return precision, recall, f1 and the counts that they come from."""
        return self.as_dict() | vars(self)


@dataclass(frozen=True)
class TypeScores:
    """Counts of each chunk type or class, sorted by name, and of tokens and sentences."""

    types: dict[str, Counts]
    tokens: int
    correct_tokens: int
    sentences: int
    correct_sentences: int

    @property
    def accuracy(self) -> float:
        """The percent of tokens whose labels are right: tag and type of chunks, or class."""
        return percent(self.correct_tokens, self.tokens)

    @property
    def sequence_accuracy(self) -> float:
        """The percent of sentences whose labels are all right."""
        return percent(self.correct_sentences, self.sentences)

    @property
    def per_type(self) -> dict[str, dict[str, Any]]:
        """Precision, recall, f1 and counts of each type."""
        return {name: counts.full_dict() for name, counts in self.types.items()}

    def size_dict(self) -> dict[str, Any]:
        """Return counts by type, and the number of sentences and tokens."""
        return {"per_type": self.per_type, "sentences": self.sentences, "tokens": self.tokens}

    def type_lines(self) -> list[str]:
        """Return the lines of each type that conlleval prints."""
        rows = self.types.items()
        return [f"{name:>17}: {counts.conlleval_line()}  {counts.predicted}" for name, counts in rows]


def tally(
    gold: Counter[str], predicted: Counter[str], correct: Counter[str], names: Iterable[str] | None = None
) -> dict[str, Counts]:
    """Return the counts of each name that occurs, in the order of `names` or else sorted."""
    order = sorted(gold | predicted) if names is None else [n for n in names if gold[n] or predicted[n]]
    return {name: Counts(gold[name], predicted[name], correct[name]) for name in order}


def percent(count: int, total: int) -> float:
    """Return count as a percent of total; 0 if total is 0."""
    return 100 * count / total if total else 0.0


def equal_sentences(gold: Sentences, predicted: Sentences, source: str) -> int:
    """Count the sentences whose labels are all right; raise unless all have the same lengths."""
    for number, (g, p) in enumerate(zip(gold, predicted, strict=False), 1):
        if len(g) != len(p):
            problem = f"sentence {number}: expected {len(g)} tokens as in gold, got {len(p)}"
            raise FormatError(source, None, problem)
    if len(gold) != len(predicted):
        raise FormatError(source, None, f"expected {len(gold)} sentences as in gold, got {len(predicted)}")
    return sum(list(g) == list(p) for g, p in zip(gold, predicted, strict=True))
