"""Constraints on labelings: pairs of labels that may not follow each other, labels that are given.

A structure turns constraints into part scores that no best path can have (`Structure.restrict`), so
that the best labeling, the N best and probabilities all satisfy them. Letters: T tokens, L labels.

A rule is a text, "O>I-PER": no I-PER after O. `*` stands for any characters, and an empty side for
the edge of a sentence: ">I-*" forbids such labels at the start of a sentence. Errors: rules that
match no label; for `valid_chunks`, labels that do not mark chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Constraints:
    """Allowed labels and pairs of labels; `a & b` allows what both allow.

    Parameters
    ----------
    pairs : bool[L+1, L+1], optional
        The allowed pairs (label, next label); all by default. Row L is the edge before the first
        token of a sentence, column L the edge after the last.
    labels : bool[T, L], optional
        The labels that each token of a corpus may have; all by default.
    """

    pairs: Mask | None = None
    labels: Mask | None = None

    def __and__(self, other: Constraints) -> Constraints:
        return Constraints(_both(self.pairs, other.pairs), _both(self.labels, other.labels))

    @classmethod
    def from_labels(cls, given: NDArray[np.int32], labels: int) -> Constraints:
        """Allow only the given label of each token, int32[T]; negative where any is allowed."""
        return cls(labels=(given[:, None] < 0) | (given[:, None] == np.arange(labels)))

    @classmethod
    def from_boundaries(cls, starts: NDArray[np.int64], tokens: int, labels: Sequence[str]) -> Constraints:
        """End all chunks before each of the tokens `starts`, as at the edge of a sentence."""
        pairs = cls.valid_chunks(labels).pairs
        assert pairs is not None
        allowed = np.ones((tokens, len(labels)), bool)
        allowed[starts] &= pairs[-1, :-1]
        allowed[starts[starts > 0] - 1] &= pairs[:-1, -1]
        return cls(labels=allowed)

    @classmethod
    def from_rules(cls, rules: Iterable[str], labels: Sequence[str]) -> Constraints:
        """Allow all pairs except those that a rule forbids."""
        pairs = np.ones((len(labels) + 1, len(labels) + 1), bool)
        for rule in rules:
            pairs[np.ix_(*_sides(rule, labels))] = False
        return cls(pairs)

    @classmethod
    def valid_chunks(cls, labels: Sequence[str]) -> Constraints:
        """Allow only well-formed chunks: I-X continues a chunk X, and chunks that begin also end.

        The scheme follows from the labels. With E (or L) among them, chunks end with it; then a
        chunk of one token is S (or U, W), or B if there is none of these. M is the same as I. The
        type is what follows the first hyphen.
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
        final = {"E", "S", "O"}
        if "E" not in roles:
            final |= {"B", "I"}
        elif "S" not in roles:
            final |= {"B"}
        tags.append(_ChunkTag("O", ""))  # the edge of a sentence
        return cls(np.array([[_follows(a, b, final) for b in tags] for a in tags], bool))


class _ChunkTag(NamedTuple):
    """The role of a label (B I E S O) and the type of its chunk."""

    role: str
    kind: str


_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S", "O": "O"}
_ROLES |= {"B2": "I", "B3": "I"}  # of segmentation with six labels


def _tag(label: str) -> _ChunkTag:
    place, _, kind = label.partition("-")
    if place not in _ROLES:
        raise IncompatibleError(f"expected labels of chunks, such as B-X, I-X, E-X, S-X and O, got {label!r}")
    return _ChunkTag(_ROLES[place], kind)


def _follows(a: _ChunkTag, b: _ChunkTag, final: set[str]) -> bool:
    """Return whether b may follow a; `final`: the roles that can be the last of a chunk."""
    if b.role in "IE":
        return a.role in "BI" and a.kind == b.kind
    return a.role in final


def _sides(rule: str, labels: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the indices of the labels before and after; len(labels) is the edge of a sentence."""
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
    some = ", ".join(labels[:12]) + (" …" if len(labels) > 12 else "")
    raise IncompatibleError(f"expected labels of the model ({some}), got {sides[0] if sides else rule!r}")


def _matching(side: str, labels: Sequence[str]) -> list[int]:
    if not side:
        return [len(labels)]
    if side in labels:
        return [labels.index(side)]
    parts = side.split("*")
    return [index for index, label in enumerate(labels) if len(parts) > 1 and _matches(parts, label)]


def _matches(parts: Sequence[str], label: str) -> bool:
    """Return whether a label is the parts in this order with any text between them."""
    first, *middle, last = parts
    at, end = len(first), len(label) - len(last)
    for part in middle:
        at = label.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return at <= end and label.startswith(first) and label.endswith(last)


def _both(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
