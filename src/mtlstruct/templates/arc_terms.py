"""Templates of arcs (kind A): cells counted from words of an arc, functions of arcs.

A cell is counted from an anchor: h (head), m (modifier), l and r (the left and the right one of the
two), b (each word between them in turn), b@2 or b@-1 (the second or the last word between). The
root stands before the first word, at place 0, and every cell of it is ROOT. A step from one end of
the arc that comes to the other end, or would pass it, gives MIDDLE: `l+1` is the first word
*between*. A template that looks at a word between does not fire where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mtlstruct.corpus import Corpus
from mtlstruct.templates.terms import NO_COLUMN, Line, Term

ANCHORS = ("h", "m", "l", "r", "b")

ROOT, MIDDLE = "_ROOT", "_MID"
"""A cell of the root; a step that ends at the other end of the arc."""

BINS = (0, 1, 2, 3, 4, 5, 10)
"""First distances of bins, in words between: 5 is for 5 to 9, 10 for 10 and more."""

CELL = "with a place like h, m-1, l+1, b or b@2 and a column like pos or 0, without blanks"


def reach_of(corpus: Corpus) -> int:
    """Return the most words between the ends of an arc of the trees, at least one."""
    assert corpus.outputs is not None
    spans = (abs(head - place) for s in corpus.sentences() for place, head in enumerate(corpus.outputs[s], 1))
    return max(1, int(max(spans)) - 1)


class SiteFunction(NamedTuple):
    """A function of an arc: the anchors in its macro, and what it gives."""

    anchor: str
    doc: str


FUNCTIONS: dict[str, SiteFunction] = {
    "direction": SiteFunction("hm", "left or right: where the modifier lies, seen from the head"),
    "distance": SiteFunction("hm", "how many words lie between: 0, 1, 2, 3, 4, 5 (to 9) or 10 (and more)"),
    "position": SiteFunction("b", "the position of the word between, counted from the left"),
}
"""Functions of an arc by name."""


def site_macro(line: Line, at: int, name: str) -> tuple[Term, int]:
    """Return the function of an arc at a position of the line, and where it ends."""
    anchor = FUNCTIONS[name].anchor
    wanted = f"%{name}[{','.join(anchor)}]"
    if not line.text.startswith(wanted, at):
        raise line.bad_macro(at, wanted)
    return Term(0, NO_COLUMN, name, anchor=anchor), at + len(wanted)


def sound(anchor: str, absolute: str, sign: str, digits: str) -> bool:
    """Return whether an anchor is followed by nothing, +1, -1, or for b also @1 or @-1."""
    if absolute:
        return anchor == "b" and bool(digits) and sign != "+"
    return bool(sign) == bool(digits)


def check(line: Line, terms: Sequence[Term]) -> None:
    """Reject terms that do not go together."""
    anchors = {term.anchor for term in terms if term.sees}
    if anchors & set("hm") and anchors & set("lr"):
        raise line.error("expected cells counted from h and m, or from l and r, got both")
    cells = [term for term in terms if term.sees and term.anchor == "b"]
    places = {(term.absolute, term.row if term.absolute else 0) for term in cells}
    if len(places) > 1:
        raise line.error("expected one place between (b, or one b@k), got several")


_BETWEEN = re.compile(r"b@1\b")


def stretched(lines: Sequence[str], reach: int) -> list[str]:
    """Repeat lines with b@1 for b@1, b@2, … b@reach; drop lines with another b@k."""
    out: list[str] = []
    waiting: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("A") and "b@" in line:
            waiting += [line] if _BETWEEN.search(line) else []
            continue
        out += [_BETWEEN.sub(f"b@{k}", one) for k in range(1, reach + 1) for one in waiting]
        waiting = []
        out.append(line)
    return out[:-1]
