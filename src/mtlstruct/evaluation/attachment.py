"""Scores of dependency trees that equal those of CoNLL-X's eval.pl.

Tokens of Unicode punctuation do not count, except in the paper's UASP and ACC: the heads of all
tokens, and sentences in which all of these are right. Figures are percents, unrounded; `table()`
rounds as the script prints.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus


class Attachment(NamedTuple):
    """The number of tokens, and of those with the right head, relation (if predicted), both."""

    total: int
    heads: int
    relations: int | None = None
    labelled: int | None = None


@dataclass(frozen=True)
class AttachmentScores:
    """The scores of eval.pl without -p (`words`) and with it (`all`), and the right sentences."""

    words: Attachment
    all: Attachment
    sentences: int
    correct_sentences: int

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names that `score --json` prints.

        uas, las and label_accuracy (heads, heads and relations, relations) count tokens other than
        punctuation, uasp the heads of all tokens, acc sentences in which all heads are right.
        """
        total, heads, relations, labelled = self.words
        found = {"uas": _percent(heads, total), "uasp": _percent(self.all.heads, self.all.total)}
        found["acc"] = _percent(self.correct_sentences, self.sentences)
        if relations is not None and labelled is not None:
            found |= {"las": _percent(labelled, total), "label_accuracy": _percent(relations, total)}
        return found | {"sentences": self.sentences, "tokens": self.all.total}

    def table(self) -> str:
        """Return the lines of `eval.pl -q`, then those for all tokens and for sentences."""
        words = self.words
        rows = (
            ("Labeled   attachment score: ", words.labelled, words.total),
            ("Unlabeled attachment score: ", words.heads, words.total),
            ("Label accuracy score:       ", words.relations, words.total),
            ("with punctuation:           ", self.all.heads, self.all.total),
            ("whole sentences:            ", self.correct_sentences, self.sentences),
        )
        return "".join(
            f"  {name}{right} / {total} * 100 = {_percent(right, total):.2f} %\n"
            for name, right, total in rows
            if right is not None
        )


def attachment_scores(
    gold: Corpus, heads: NDArray[np.int32], relations: tuple[Sequence[str], Sequence[str]] | None = None
) -> AttachmentScores:
    """Score predicted heads int32[T], and relations (gold, predicted) if both are known."""
    right = np.asarray(gold.outputs == heads)
    kinds = [np.ones(len(right), bool), right]
    if relations is not None:
        same = np.array([a == b for a, b in zip(*relations, strict=True)], bool)
        kinds += [same, right & same]
    words = ~punctuation(gold.columns[0].cells())
    sentences = np.logical_and.reduceat(right, gold.ptr[:-1]) if len(right) else np.zeros(0, bool)
    return AttachmentScores(
        Attachment(*(int((kind & words).sum()) for kind in kinds)),
        Attachment(*(int(kind.sum()) for kind in kinds)),
        len(sentences),
        int(sentences.sum()),
    )


def punctuation(forms: Sequence[str]) -> NDArray[np.bool_]:
    """Return which words consist of characters of the Unicode category P only."""
    known = {form: all(unicodedata.category(c)[0] == "P" for c in form) for form in set(forms)}
    return np.array([known[form] for form in forms], bool)


def _percent(right: int, total: int) -> float:
    """Return the percent as the script computes it, so that halves round in the same way."""
    return 100 - (total - right) * 100.0 / total if total else 0.0
