"""Which labelings may be found: pairs of labels that may not follow each other, labels that are given.

Constraints say nothing of scores and do not search. A structure turns them into part scores that no path can afford
(`Structure.restrict`), so that the best labeling, the N best, and probabilities all keep to them, and searching
without constraints pays nothing. Letters: T tokens, L labels.

A rule is a text, "O>I-PER": after O no I-PER. `*` stands for any characters, and a side left empty for the edge of
a sentence: ">I-*" forbids a sentence to start with such a label. Refused: rules that match no label; for `valid`,
labels that are not those of chunks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Constraints:
    """What is allowed.

    pairs    bool[L+1, L+1] (label, the label after it), or None: all. Row L is the edge before the first token of a
             sentence, column L the edge after the last.
    labels   bool[T, L], the labels that each token of a corpus may have, or None: all
    """

    pairs: Mask | None = None
    labels: Mask | None = None

    def __and__(self, other: Constraints) -> Constraints:
        """What both allow."""
        return Constraints(_both(self.pairs, other.pairs), _both(self.labels, other.labels))


def keeping(given: NDArray[np.int32], labels: int) -> Constraints:
    """Labels that are known: int32[T], negative where a token may have any."""
    return Constraints(labels=(given[:, None] < 0) | (given[:, None] == np.arange(labels)))


def cutting(starts: NDArray[np.int64], tokens: int, labels: Sequence[str]) -> Constraints:
    """Chunks that end before each of the tokens `starts`, as they do at the edge of a sentence."""
    pairs = valid(labels).pairs
    assert pairs is not None
    allowed = np.ones((tokens, len(labels)), bool)
    allowed[starts] &= pairs[-1, :-1]
    allowed[starts[starts > 0] - 1] &= pairs[:-1, -1]
    return Constraints(labels=allowed)


def forbidding(rules: Iterable[str], labels: Sequence[str]) -> Constraints:
    """All pairs but those that a rule names."""
    pairs = np.ones((len(labels) + 1, len(labels) + 1), bool)
    for rule in rules:
        pairs[np.ix_(*_sides(rule, labels))] = False
    return Constraints(pairs)


def valid(labels: Sequence[str]) -> Constraints:
    """Only pairs that occur where chunks are written rightly: I-X goes on with an X, what was begun is ended.

    Which scheme it is the labels tell. With E (or L) among them, chunks end by it; then a chunk of one token is S (or
    U, W), or B if the labels have none of these. M is the same as I. A type is what stands after the first hyphen.
    """
    tags = [_tag(label) for label in labels]
    begun = {tag.kind for tag in tags if tag.role == "B"}
    for label, tag in zip(labels, tags, strict=True):
        if tag.role in "IE" and tag.kind not in begun:
            start = "B" + label.removeprefix(label[:1])
            raise IncompatibleError(
                f"expected labels of chunks that begin with B: there is {label}, but no {start}"
            )
    roles = {tag.role for tag in tags}
    closing = {
        "B": "E" not in roles or "S" not in roles,
        "I": "E" not in roles,
        "E": True,
        "S": True,
        "O": True,
    }
    edge = _Tag("O", "")
    return Constraints(
        np.array([[_follows(a, b, closing) for b in [*tags, edge]] for a in [*tags, edge]], bool)
    )


class _Tag(NamedTuple):
    """A label in two: its role (B I E S O) and the type of its chunk."""

    role: str
    kind: str


_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S", "O": "O"}


def _tag(label: str) -> _Tag:
    place, _, kind = label.partition("-")
    if place not in _ROLES:
        raise IncompatibleError(f"expected labels of chunks, such as B-X, I-X, E-X, S-X and O, got {label!r}")
    return _Tag(_ROLES[place], kind)


def _follows(a: _Tag, b: _Tag, closing: dict[str, bool]) -> bool:
    """Whether b may stand after a. `closing`: whether a role can be the last of its chunk."""
    if b.role in "IE":
        return a.role in "BI" and a.kind == b.kind
    return closing[a.role]


def _sides(rule: str, labels: Sequence[str]) -> tuple[list[int], list[int]]:
    """The numbers of the labels before and after, where len(labels) is the edge of a sentence."""
    cuts = [at for at, letter in enumerate(rule) if letter == ">"]
    if not cuts:
        raise IncompatibleError(f"expected LABEL>LABEL, got {rule!r}")
    found = [(_matching(rule[:at], labels), _matching(rule[at + 1 :], labels)) for at in cuts]
    readings = [sides for sides in found if all(sides) and sides != ([len(labels)], [len(labels)])]
    if len(readings) == 1:
        return readings[0]
    if readings:  # only where labels themselves contain >
        raise IncompatibleError(f"{rule!r} can be read in {len(readings)} ways")
    sides = [side for side in (rule[: cuts[0]], rule[cuts[0] + 1 :]) if not _matching(side, labels)]
    raise IncompatibleError(
        f"expected labels of the model ({shown(labels)}), got {sides[0] if sides else rule!r}"
    )


def _matching(side: str, labels: Sequence[str]) -> list[int]:
    if not side:
        return [len(labels)]
    if side in labels:
        return [labels.index(side)]
    pattern = re.compile(".*".join(map(re.escape, side.split("*"))), re.DOTALL)
    return [number for number, label in enumerate(labels) if pattern.fullmatch(label)]


def shown(labels: Sequence[str], most: int = 12) -> str:
    """Labels for a message."""
    return ", ".join(labels[:most]) + (" …" if len(labels) > most else "")


def _both(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
