"""Scores of chunks that equal those of conlleval, also for labels of an unusual form.

The script knows the schemes IOB1, IOB2, IOE1 and IOE2. Labels of other schemes are converted to
IOB2 before their chunks are counted. `table()` rounds as the script prints.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

from mtlstruct.evaluation.counts import Counts, Sentences, TypeScores, equal_sentences, tally
from mtlstruct.structures import schemes

CHUNK_LABEL = re.compile(r"O|[BIESLUM\[\].]-.+", re.DOTALL)
"""A label that conlleval reads as O, or as a place in a chunk and the chunk's type."""

CONLLEVAL = "conlleval"
"""The scheme of other labels of that form: they are read as the script does."""

CLASSES = "classes"
"""The scheme of labels that mark no chunks."""

CONVERTED = ("bioes", "bilou", "bmes", "grobid")
"""The schemes that the script does not know."""


def scheme_of(gold: Sentences, labels: Iterable[str] = ()) -> str:
    """Return the scheme of gold labels, given all labels that gold and prediction may have.

    One gold label of another form (NOUN) makes all of them classes; other labels of another form
    do not, if gold labels have types: they are errors.
    """
    found, outputs, ptr = schemes.numbered(gold, tuple(labels))
    name = schemes.recognised(found, outputs, ptr)
    if name is None and all(map(CHUNK_LABEL.fullmatch, found)):
        return CONLLEVAL
    own, outputs, ptr = schemes.numbered(gold)
    if name is not None or max(map(len, own), default=0) < 2:
        return name or CLASSES
    name = schemes.recognised(own, outputs, ptr)
    return CLASSES if name is None else name if name in CONVERTED else CONLLEVAL


@dataclass(frozen=True)
class ChunkScores(TypeScores):
    """The scores of conlleval."""

    chunks: Counts
    scheme: str = CONLLEVAL

    def as_dict(self) -> dict[str, Any]:
        """Return the scores under the names that `score --json` prints."""
        whole = {"accuracy": self.accuracy, "sequence_accuracy": self.sequence_accuracy}
        return self.chunks.as_dict() | whole | {"scheme": self.scheme} | self.size_dict()

    def table(self) -> str:
        """Return the lines that conlleval prints."""
        found = f"with {self.chunks.gold} phrases; found: {self.chunks.predicted} phrases"
        lines = [f"processed {self.tokens} tokens {found}; correct: {self.chunks.correct}."]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {self.chunks.conlleval_line()}")
        return "\n".join(lines + self.type_lines()) + "\n"


def chunk_scores(
    gold: Sentences, predicted: Sentences, *, source: str = "prediction", scheme: str = CONLLEVAL
) -> ChunkScores:
    """Score the labels of sentences (B-PER, I-PER, O ...) by conlleval's rules.

    GROBID's chunks <other> do not count, as in its own evaluation.
    """
    whole = equal_sentences(gold, predicted, source)
    tokens = zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True)
    right = sum(_split(g) == _split(p) for g, p in tokens)
    sides = (gold, predicted)
    if scheme in CONVERTED:
        place_of, given = schemes.SCHEMES[scheme].split, [*gold, *predicted]
        known = [[label if place_of(label) else schemes.OUTSIDE for label in sentence] for sentence in given]
        both = schemes.converted(known, scheme, "bio")
        both = [["O" if label == schemes.OTHER else label for label in sentence] for sentence in both]
        sides = both[: len(gold)], both[len(gold) :]
    tags = [[tag for labels in side for tag in (*map(_split, labels), _OUTSIDE)] for side in sides]
    counters = _chunk_counters(*tags)
    if scheme == "grobid":
        for counter in counters:
            del counter[schemes.OTHER]
    types, chunks = tally(*counters), Counts(*(counter.total() for counter in counters))
    return ChunkScores(types, sum(map(len, gold)), right, len(gold), whole, chunks, scheme)


class _Tag(NamedTuple):
    """The place of a label in a chunk (B, I, E, O ...) and the type of the chunk ("" for none)."""

    place: str
    kind: str


_OUTSIDE = _Tag("O", "")
"""The tag between two sentences, which ends all chunks."""

_STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
_ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
"""Pairs of places between which a chunk starts or ends in the script. E B is in neither: B right
after an E of the same type continues that chunk. S, L, U and all others are unknown to the script:
only a change of type starts or ends their chunks, so that S-X S-X is one chunk."""

_BRACKETS = {"[", "]"}
"""Chunks of one token."""


@lru_cache(maxsize=1 << 16)
def _split(label: str) -> _Tag:
    """Split a label at its first hyphen. The type "0" is none: it is false in the script."""
    place, _, kind = label.partition("-")
    return _Tag(place, "" if kind == "0" else kind)


@lru_cache(maxsize=1 << 16)
def _starts(before: _Tag, tag: _Tag) -> bool:
    """Return whether a chunk starts at `tag`."""
    changed = before.kind != tag.kind and tag.place not in ("O", ".")
    return changed or (before.place, tag.place) in _STARTS or tag.place in _BRACKETS


@lru_cache(maxsize=1 << 16)
def _ends(before: _Tag, tag: _Tag) -> bool:
    """Return whether the chunk of `before` ends before `tag`."""
    changed = before.kind != tag.kind and before.place not in ("O", ".")
    return changed or (before.place, tag.place) in _ENDS or before.place in _BRACKETS


def _chunk_counters(gold: list[_Tag], predicted: list[_Tag]) -> tuple[Counter[str], ...]:
    """Count gold, predicted and right chunks by type; after each sentence there is _OUTSIDE.

    A chunk is right if it starts and ends at the same tokens in both, with the same type
    throughout; `agree` is whether this holds so far for the open chunk, also at the very end.
    """
    correct: Counter[str] = Counter()
    pairs, agree = zip(pairwise([_OUTSIDE, *gold]), pairwise([_OUTSIDE, *predicted]), strict=True), False
    for theirs, ours in pairs:
        ends, same = _ends(*theirs), theirs[1].kind == ours[1].kind
        if agree and ends == _ends(*ours):
            correct[theirs[0].kind] += ends
            agree = same and not ends
        else:
            agree = False
        agree |= same and _starts(*theirs) and _starts(*ours)
    correct[_OUTSIDE.kind] += agree
    return *map(_started, (gold, predicted)), correct


def _started(tags: list[_Tag]) -> Counter[str]:
    """Count chunks by type."""
    return Counter(tag.kind for before, tag in pairwise([_OUTSIDE, *tags]) if _starts(before, tag))
