"""Scores of chunks that equal those of conlleval, also for labels of an unusual form.

`table()` rounds as the script prints.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from mtlstruct.evaluation.counts import Counts, Sentences, check_tokens, correct_sentences, percent, tally

CHUNK_LABEL = re.compile(r"O|[BIESLUM\[\].]-.+", re.DOTALL)
"""A label that conlleval reads as O, or as a place in a chunk and the chunk's type."""

UNTYPED = frozenset("BIO")
"""Labels of chunks that have no type."""


def are_chunk_labels(labels: Iterable[str]) -> bool:
    """Return whether the labels of a data set mark chunks, so that conlleval's F1 has a meaning.

    They do if each is O or a prefix of conlleval's schemes, a hyphen and a type (B-PER, S-PER ...),
    or if all are B, I or O. One label of another form (NOUN, <date>) makes all of them classes.
    """
    found = set(labels)
    return found <= UNTYPED or all(CHUNK_LABEL.fullmatch(label) for label in found)


@dataclass(frozen=True)
class ChunkScores:
    """The scores of conlleval. `types` has the counts of each chunk type, sorted by name."""

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
        """Precision, recall, f1 and counts of each chunk type."""
        return {name: counts.full_dict() for name, counts in self.types.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names that `score --json` prints."""
        rest = {"per_type": self.per_type, "sentences": self.sentences, "tokens": self.tokens}
        whole = {"accuracy": self.accuracy, "sequence_accuracy": self.sequence_accuracy}
        return self.chunks.as_dict() | whole | {"scored_as": "chunks"} | rest

    def table(self) -> str:
        """Return the lines that conlleval prints."""
        found = f"with {self.chunks.gold} phrases; found: {self.chunks.predicted} phrases"
        lines = [f"processed {self.tokens} tokens {found}; correct: {self.chunks.correct}."]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {conlleval_line(self.chunks)}")
        for name, counts in self.types.items():
            lines.append(f"{name:>17}: {conlleval_line(counts)}  {counts.predicted}")
        return "\n".join(lines) + "\n"


def conlleval_line(counts: Counts) -> str:
    """Return precision, recall and F1 as conlleval prints them."""
    scores = f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; "
    return scores + f"FB1: {counts.f1:6.2f}"


def chunk_scores(gold: Sentences, predicted: Sentences, *, source: str = "prediction") -> ChunkScores:
    """Score the labels of sentences (B-PER, I-PER, O ...) by conlleval's rules."""
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
after an E of the same type goes on with that chunk. Of S, L, U and all others the script knows
nothing: only
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
    """Whether a chunk starts at `tag`. After an O, of labels without a hyphen only B, I, E start one."""
    changed = before.kind != tag.kind and tag.place not in ("O", ".")
    return changed or (before.place, tag.place) in _STARTS or tag.place in _BRACKETS


@lru_cache(maxsize=1 << 16)
def _ends(before: _Tag, tag: _Tag) -> bool:
    """Whether the chunk of `before` ends ahead of `tag`."""
    changed = before.kind != tag.kind and before.place not in ("O", ".")
    return changed or (before.place, tag.place) in _ENDS or before.place in _BRACKETS


class _ChunkTally:
    """Counts chunks in one pass over gold and predicted tags side by side.

    A chunk is right if it starts and ends at the same tokens in both, with one type all the way;
    `agree` says that this holds so far for the chunk that is open in both.
    """

    def __init__(self) -> None:
        self.gold: Counter[str] = Counter()
        self.predicted: Counter[str] = Counter()
        self.correct: Counter[str] = Counter()
        self.last = (_OUTSIDE, _OUTSIDE)
        self.agree = False

    def see(self, gold: _Tag, predicted: _Tag) -> None:
        """Count the next token."""
        last_gold, last_predicted = self.last
        if self.agree:
            self._close(_ends(last_gold, gold), _ends(last_predicted, predicted), gold.kind == predicted.kind)
        starts = _starts(last_gold, gold), _starts(last_predicted, predicted)
        self.agree |= all(starts) and gold.kind == predicted.kind
        self.gold[gold.kind] += starts[0]
        self.predicted[predicted.kind] += starts[1]
        self.last = gold, predicted

    def _close(self, gold_ends: bool, predicted_ends: bool, same_kind: bool) -> None:
        """End the agreement, with or without a right chunk, or let it go on."""
        last_gold, last_predicted = self.last
        if gold_ends and predicted_ends and last_gold.kind == last_predicted.kind:
            self.correct[last_gold.kind] += 1
            self.agree = False
        elif gold_ends != predicted_ends or not same_kind:
            self.agree = False

    def finish(self) -> tuple[Counts, dict[str, Counts]]:
        """Return the counts of all chunks, and of each type. A chunk that still agrees is right."""
        self.correct[self.last[0].kind] += self.agree
        total = Counts(self.gold.total(), self.predicted.total(), self.correct.total())
        return total, tally(self.gold, self.predicted, self.correct)
