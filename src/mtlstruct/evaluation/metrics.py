"""Scores that equal those of the official scripts: conlleval for chunks, SIGHAN's `score` for words.

All figures are percents, unrounded; `table()` rounds as the script prints. Refused: a prediction that is not
about the same text as the gold file (where, expected, got). What the scripts do with odd labels is done here
too, since a score is worth something only if it is the one that others report; such rules are said below.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

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


def token_accuracy(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> float:
    """The percent of tokens whose label is right, for tasks without chunks."""
    check_tokens(gold, predicted, source)
    right = sum(g == p for pair in zip(gold, predicted, strict=True) for g, p in zip(*pair, strict=True))
    return percent(right, sum(map(len, gold)))


# Chunks ----------------------------------------------------------------------------------------------------

CHUNK_LABEL = re.compile(r"O|[BIESLUM\[\].]-.+", re.DOTALL)
"""A label that conlleval reads as outside all chunks, or as a place in a chunk and the chunk's type."""

UNTYPED = frozenset("BIO")
"""Labels of chunks that have no type."""


def are_chunk_labels(labels: Iterable[str]) -> bool:
    """Decide whether the labels of a data set mark chunks, so that conlleval's F1 means something.

    They do if each of them is O or a prefix of conlleval's schemes, a hyphen and a type (B-PER, I-PER, E-PER,
    S-PER ...), or if there are no others than B, I and O. One label of another form (NOUN, <date>) makes all of
    them classes: conlleval would take I-<date> and <date> for a chunk and a part of no chunk.
    """
    found = set(labels)
    return found <= UNTYPED or all(CHUNK_LABEL.fullmatch(label) for label in found)


@dataclass(frozen=True)
class ChunkScores:
    """What conlleval says. `types` has the counts of each chunk type, in byte order of their names."""

    chunks: Counts
    types: dict[str, Counts]
    sentences: int
    tokens: int
    correct_tokens: int
    correct_sentences: int

    @property
    def accuracy(self) -> float:
        """The percent of tokens whose tag and type are right."""
        return percent(self.correct_tokens, self.tokens)

    @property
    def sequence_accuracy(self) -> float:
        """The percent of sentences whose labels are all right."""
        return percent(self.correct_sentences, self.sentences)

    @property
    def per_type(self) -> dict[str, dict[str, Any]]:
        """For each chunk type its precision, recall and f1, and the counts they come from."""
        return {name: counts.as_dict() | vars(counts) for name, counts in self.types.items()}

    def as_dict(self) -> dict[str, Any]:
        """The scores under the names that `score --json` prints."""
        rest = {"per_type": self.per_type, "sentences": self.sentences, "tokens": self.tokens}
        whole = {"accuracy": self.accuracy, "sequence_accuracy": self.sequence_accuracy}
        return self.chunks.as_dict() | whole | {"scored_as": "chunks"} | rest

    def table(self) -> str:
        """The lines that conlleval prints."""
        found = f"with {self.chunks.gold} phrases; found: {self.chunks.predicted} phrases"
        head = f"processed {self.tokens} tokens {found}; correct: {self.chunks.correct}."
        lines = [head]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {conlleval_line(self.chunks)}")
        for name, counts in self.types.items():
            lines.append(f"{name:>17}: {conlleval_line(counts)}  {counts.predicted}")
        return "\n".join(lines) + "\n"


def conlleval_line(counts: Counts) -> str:
    """Precision, recall and F1 as conlleval prints them."""
    scores = f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; "
    return scores + f"FB1: {counts.f1:6.2f}"


def chunk_scores(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> ChunkScores:
    """Scores the labels of sentences (B-PER, I-PER, O and the like) by conlleval's rules."""
    check_tokens(gold, predicted, source)
    tally, right = _ChunkTally(), 0
    for pair in zip(gold, predicted, strict=True):
        tags = [(_split(g), _split(p)) for g, p in zip(*pair, strict=True)]
        right += sum(g == p for g, p in tags)
        for g, p in [*tags, (_OUTSIDE, _OUTSIDE)]:
            tally.see(g, p)
    overall, types = tally.finish()
    whole = correct_sentences(gold, predicted)
    return ChunkScores(overall, types, len(gold), sum(map(len, gold)), right, whole)


class _Tag(NamedTuple):
    """A label in two: its place in a chunk (B, I, E, O ...) and the chunk's type ("" for none)."""

    place: str
    kind: str


_OUTSIDE = _Tag("O", "")
"""What stands between two sentences, so that no chunk reaches from one into the next."""

_STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
_ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
"""Places before and after, between which a chunk starts or ends, by the script. E B is in neither: B right
after an E of the same type goes on with that chunk. Of S, L, U and all others the script knows nothing: only
a change of type starts or ends their chunks, so that S-X S-X is one chunk."""

_BRACKETS = {"[", "]"}
"""Chunks of one token."""


@lru_cache(maxsize=1 << 16)
def _split(label: str) -> _Tag:
    """The label at its first hyphen. A type "0" is none: it is false to the script."""
    place, _, kind = label.partition("-")
    return _Tag(place, "" if kind == "0" else kind)


@lru_cache(maxsize=1 << 16)
def _starts(before: _Tag, tag: _Tag) -> bool:
    """Whether a chunk starts at `tag`. A label without a hyphen, other than B I E, starts none after an O."""
    changed = before.kind != tag.kind and tag.place not in ("O", ".")
    return changed or (before.place, tag.place) in _STARTS or tag.place in _BRACKETS


@lru_cache(maxsize=1 << 16)
def _ends(before: _Tag, tag: _Tag) -> bool:
    """Whether the chunk of `before` ends ahead of `tag`."""
    changed = before.kind != tag.kind and before.place not in ("O", ".")
    return changed or (before.place, tag.place) in _ENDS or before.place in _BRACKETS


class _ChunkTally:
    """Counts chunks in one pass over gold and predicted tags side by side.

    A chunk is right if it starts and ends at the same tokens in both, with one type all the way; `agree` says
    that this holds so far for the chunk that is open in both.
    """

    def __init__(self) -> None:
        self.gold: Counter[str] = Counter()
        self.predicted: Counter[str] = Counter()
        self.correct: Counter[str] = Counter()
        self.last = (_OUTSIDE, _OUTSIDE)
        self.agree = False

    def see(self, gold: _Tag, predicted: _Tag) -> None:
        """The next token."""
        last_gold, last_predicted = self.last
        if self.agree:
            self._close(_ends(last_gold, gold), _ends(last_predicted, predicted), gold.kind == predicted.kind)
        starts = _starts(last_gold, gold), _starts(last_predicted, predicted)
        self.agree |= all(starts) and gold.kind == predicted.kind
        self.gold[gold.kind] += starts[0]
        self.predicted[predicted.kind] += starts[1]
        self.last = gold, predicted

    def _close(self, gold_ends: bool, predicted_ends: bool, same_kind: bool) -> None:
        """Ends the agreement, with or without a right chunk, or lets it go on."""
        last_gold, last_predicted = self.last
        if gold_ends and predicted_ends and last_gold.kind == last_predicted.kind:
            self.correct[last_gold.kind] += 1
            self.agree = False
        elif gold_ends != predicted_ends or not same_kind:
            self.agree = False

    def finish(self) -> tuple[Counts, dict[str, Counts]]:
        """The counts of all chunks, and of each type. What still agrees at the end is right."""
        self.correct[self.last[0].kind] += self.agree
        names = sorted(self.gold | self.predicted, key=str.encode)
        types = {name: Counts(self.gold[name], self.predicted[name], self.correct[name]) for name in names}
        return Counts(self.gold.total(), self.predicted.total(), self.correct.total()), types


# Words -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recall:
    """How many gold words there are of a sort, and how many of them were missed."""

    total: int
    missed: int

    @property
    def rate(self) -> float | None:
        """The part that was found, from 0 to 1; None if there are no such words."""
        return 1 - self.missed / self.total if self.total else None

    @property
    def percent(self) -> float | None:
        """The rate times 100."""
        return None if self.rate is None else 100 * self.rate


@dataclass(frozen=True)
class WordScores:
    """What SIGHAN's script says. `iv` and `oov` are the words in and out of the vocabulary, if one was given.

    Tokens are characters.
    """

    words: Counts
    sentences: int
    tokens: int
    iv: Recall | None = None
    oov: Recall | None = None

    @property
    def oov_rate(self) -> float | None:
        """The percent of gold words that are not in the vocabulary."""
        return None if self.oov is None else percent(self.oov.total, self.words.gold)

    def as_dict(self) -> dict[str, Any]:
        """The scores under the names that `score --json` prints; a recall of no words at all is None."""
        known = {}
        if self.iv and self.oov:
            known = {"r_iv": self.iv.percent, "r_oov": self.oov.percent, "oov_rate": self.oov_rate}
        return self.words.as_dict() | known | {"sentences": self.sentences, "tokens": self.tokens}

    def table(self) -> str:
        """The summary that the script prints, as far as it does not tell of its way to align the words."""
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
                f"=== OOV Rate:\t{_part(self.oov.total, self.words.gold):.3f}",
                f"=== OOV Recall Rate:\t{_rate(self.oov)}",
                f"=== IV Recall Rate:\t{_rate(self.iv)}",
            ]
        return "\n".join(lines) + "\n"


def _rate(recall: Recall) -> str:
    return "--" if recall.rate is None else f"{recall.rate:.3f}"


def word_scores(
    gold: Sentences, predicted: Sentences, vocabulary: Set[str] | None = None, *, source: str = "prediction"
) -> WordScores:
    """Scores segmentations, the words of each line.

    The script aligns the two lines with `diff`, so the right words are a longest common subsequence. (GNU diff
    takes short cuts: on a segmenter's output for 100,000 words it lost one pair that is counted here.)
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
    iv, oov = (Recall(seen[sort, True] + seen[sort, False], seen[sort, False]) for sort in (True, False))
    return WordScores(words, sentences, tokens, iv, oov)


def _found(gold: Sequence[str], predicted: Sequence[str]) -> list[bool]:
    """Which of the gold words are in a longest common subsequence with the predicted ones."""
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
    """Bit i of entry j is 0 where gold word i lengthens the common subsequence with the first j predicted words.

    All columns of the usual table at once, as one big integer a row (Crochemore and others, 2001).
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


# What both need --------------------------------------------------------------------------------------------


def _part(count: int, total: int) -> float:
    return count / total if total else 0.0


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


def _check_text(lines: list[tuple[Sequence[str], Sequence[str]]], source: str) -> None:
    """Both must have the same text on each line; a line that is not there is empty."""
    for number, line in enumerate(lines, 1):
        expected, got = map("".join, line)
        if expected != got:
            raise FormatError(source, number, _difference(expected, got))


def _difference(expected: str, got: str) -> str:
    """Where two texts part, with a few characters of each."""
    same = (a == b for a, b in zip(expected, got, strict=False))
    at = next((i for i, equal in enumerate(same) if not equal), min(len(expected), len(got)))
    span = slice(max(0, at - 5), at + 10)
    return f"expected the text of gold, {expected[span]!r} around character {at + 1}, got {got[span]!r}"
