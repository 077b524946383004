"""Which labels may follow each other, by rules or by the scheme of chunks; standard library only.

A table of pairs has a row and a column for each label and one more for the edge of a sentence.
`interop.standalone` copies this module into the taggers that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mtlstruct.errors import IncompatibleError

Pairs = list[list[bool]]
"""Whether the label of a column may follow the label of a row."""


def allowed_pairs(rules: Iterable[str], labels: Sequence[str]) -> Pairs:
    """Return all pairs but those that a rule such as "O>I-*" forbids."""
    pairs = [[True] * (len(labels) + 1) for _ in range(len(labels) + 1)]
    for rule in rules:
        before, after = _sides(rule, labels)
        for a in before:
            for b in after:
                pairs[a][b] = False
    return pairs


def chunk_pairs(labels: Sequence[str]) -> Pairs:
    """Return the pairs of well-formed chunks (see `Constraints.valid_chunks`)."""
    tags = [_tag(label) for label in labels]
    begun = {tag.kind for tag in tags if tag.role == "B"}
    for label, tag in zip(labels, tags):
        if tag.role in "IE" and tag.kind not in begun:
            raise IncompatibleError(
                f"expected labels of chunks that begin with B: there is {label}, but no B{label[1:]}"
            )
    roles = {tag.role for tag in tags}
    final = {"E", "S", "O"}
    if "E" not in roles:
        final |= {"B", "I"}
    elif "S" not in roles:
        final |= {"B"}
    tags.append(_ChunkTag("O", ""))  # the edge of a sentence
    return [[_follows(a, b, final) for b in tags] for a in tags]


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
    if "*" not in side:
        return []
    pattern = re.compile(".*".join(map(re.escape, re.split(r"\*+", side))), re.DOTALL)
    return [index for index, label in enumerate(labels) if pattern.fullmatch(label)]
