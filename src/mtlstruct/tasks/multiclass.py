"""Classes: column files in which each line that is not blank is an item that stands alone."""

from __future__ import annotations

from collections.abc import Sequence as List

from mtlstruct.corpus import Corpus
from mtlstruct.evaluation.classification import class_scores
from mtlstruct.evaluation.scores import Scores
from mtlstruct.tasks.base import T
from mtlstruct.tasks.sequence import Sequence, Side


class Multiclass(Sequence):
    """A class for each item, which is a sentence of one token."""

    unit, token_unit = "item", "items"
    scores = ("accuracy",)
    alone = True
    ends_at_blank_line = False

    def _headers(self, probabilities: list[list[float]], *, ranks: bool) -> list[list[str]]:
        """Return lines for N best only: the probability of one item stands beside its class."""
        return super()._headers(probabilities, ranks=True) if ranks else [[""] for _ in probabilities]

    def summary(self, corpus: Corpus) -> str:
        return f"{corpus.tokens:,} items, {len(corpus.labels)} classes"

    def warning(self, corpus: Corpus) -> str | None:
        return None

    def _compared(self, gold: Side, predicted: Side, labels: List[str], source: str) -> Scores:
        return class_scores(gold[1], predicted[1], source=source)

    def split_sentences(self, rows: List[T]) -> list[List[T]]:
        return [[row] for row in rows]
