"""Scores of words in segmented text that equal those of SIGHAN's `score`."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from mtlstruct.errors import FormatError
from mtlstruct.evaluation.counts import Counts, Sentences, percent


@dataclass(frozen=True)
class WordScores:
    """The scores of SIGHAN's script.

    iv, oov   the numbers of gold words in and out of a vocabulary, if given, and how many of them
              were missed
    """

    words: Counts
    sentences: int
    tokens: int
    iv: tuple[int, int] | None = None
    oov: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as `score --json` prints them; a recall of no words is None."""
        known = {}
        if self.iv and self.oov:
            rates = [100 * (1 - missed / total) if total else None for total, missed in (self.iv, self.oov)]
            known = {"r_iv": rates[0], "r_oov": rates[1], "oov_rate": percent(self.oov[0], self.words.gold)}
        return self.words.as_dict() | known | {"sentences": self.sentences, "tokens": self.tokens}

    def table(self) -> str:
        """Return the summary of the script, without its counts of aligned words."""
        recall = _part(self.words.correct, self.words.gold)
        precision = _part(self.words.correct, self.words.predicted)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        lines = [
            f"=== TOTAL TRUE WORD COUNT:\t{self.words.gold}",
            f"=== TOTAL TEST WORD COUNT:\t{self.words.predicted}",
            f"=== TOTAL TRUE WORDS RECALL:\t{recall:.3f}",
            f"=== TOTAL TEST WORDS PRECISION:\t{precision:.3f}",
            f"=== F MEASURE:\t{f1:.3f}",
        ]
        if self.iv and self.oov:
            lines += [
                f"=== OOV Rate:\t{_part(self.oov[0], self.words.gold):.3f}",
                f"=== OOV Recall Rate:\t{_recall(*self.oov)}",
                f"=== IV Recall Rate:\t{_recall(*self.iv)}",
            ]
        return "\n".join(lines) + "\n"


def word_scores(
    gold: Sentences, predicted: Sentences, vocabulary: Set[str] | None = None, *, source: str = "prediction"
) -> WordScores:
    """Score segmentations, the words of each line.

    The script aligns the two lines with `diff`, so the right words are a longest common
    subsequence.
    """
    lines = list(zip_longest(gold, predicted, fillvalue=()))
    _check_text(lines, source)
    found = [hit for line in lines for hit in _found(*line)]
    words = Counts(len(found), sum(map(len, predicted)), sum(found))
    sentences, tokens = sum(map(bool, gold)), sum(len(word) for line in gold for word in line)
    if vocabulary is None:
        return WordScores(words, sentences, tokens)
    known = [word in vocabulary for line in gold for word in line]
    seen = Counter(zip(known, found, strict=True))
    iv, oov = ((seen[sort, True] + seen[sort, False], seen[sort, False]) for sort in (True, False))
    return WordScores(words, sentences, tokens, iv, oov)


def _found(gold: Sequence[str], predicted: Sequence[str]) -> list[bool]:
    """Return which gold words are in a longest common subsequence with the predicted ones."""
    if list(gold) == list(predicted):
        return [True] * len(gold)
    found = [False] * len(gold)
    steps = _subsequence_steps(gold, predicted)
    i, j = len(gold), len(predicted)
    while i and j:
        if steps[j] >> (i - 1) & 1:  # gold word i adds nothing here
            i -= 1
        elif not steps[j - 1] >> (i - 1) & 1:  # it added as much without predicted word j
            j -= 1
        else:
            i, j = i - 1, j - 1
            found[i] = True
    return found


def _subsequence_steps(gold: Sequence[str], predicted: Sequence[str]) -> list[int]:
    """Bit i of entry j is 0 if gold word i lengthens the common subsequence with j predicted words.

    Bit-parallel longest common subsequence (Crochemore et al., 2001): one integer per table row.
    """
    places: dict[str, int] = {}
    for i, word in enumerate(gold):
        places[word] = places.get(word, 0) | 1 << i
    every = (1 << len(gold)) - 1
    steps = [every]
    for word in predicted:
        row = steps[-1]
        hit = row & places.get(word, 0)
        steps.append((row + hit | row - hit) & every)
    return steps


def _part(count: int, total: int) -> float:
    return count / total if total else 0.0


def _recall(total: int, missed: int) -> str:
    return f"{1 - missed / total:.3f}" if total else "--"


def _check_text(lines: list[tuple[Sequence[str], Sequence[str]]], source: str) -> None:
    """Raise unless both have the same text on each line; a missing line is empty."""
    for number, line in enumerate(lines, 1):
        expected, got = map("".join, line)
        if expected != got:
            same = [a == b for a, b in zip(expected, got, strict=False)]
            at = [*same, False].index(False)
            span = slice(max(0, at - 5), at + 10)
            problem = (
                f"expected the text of gold, {expected[span]!r} around character {at + 1}, got {got[span]!r}"
            )
            raise FormatError(source, number, problem)
