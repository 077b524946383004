"""Precision, recall and F1 from counts, and the checks that all scores share. All figures are percents, unrounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlstruct.errors import FormatError

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Counts:
    """How many there are in gold and prediction, and how many are in both."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """Of the predicted ones, how many are right; 0 if there are none."""
        return percent(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """Of the gold ones, how many were found; 0 if there are none."""
        return percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 if both are 0."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_dict(self) -> dict[str, Any]:
        """precision, recall, f1."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}


def percent(count: int, total: int) -> float:
    """How much of the total; 0 of nothing."""
    return 100 * count / total if total else 0.0


def correct_sentences(gold: Sentences, predicted: Sentences) -> int:
    """Count the sentences whose labels are all right."""
    return sum(list(g) == list(p) for g, p in zip(gold, predicted, strict=True))


def check_tokens(gold: Sentences, predicted: Sentences, source: str) -> None:
    """Both must have the same sentences, of the same lengths."""
    for number, (g, p) in enumerate(zip(gold, predicted, strict=False), 1):
        if len(g) != len(p):
            problem = f"sentence {number}: expected {len(g)} tokens as in gold, got {len(p)}"
            raise FormatError(source, None, problem)
    if len(gold) != len(predicted):
        raise FormatError(source, None, f"expected {len(gold)} sentences as in gold, got {len(predicted)}")
