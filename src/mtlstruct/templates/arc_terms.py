"""Templates of arcs (kind A): cells seen from the two words of an arc, and functions of the arc itself.

An arc leads from a head to its modifier. A cell is counted from an anchor:

    h   the head            l   the left one of the two        b     each word between them in turn
    m   the modifier        r   the right one                  b@2   the second word between, from the left;
                                                               b@-1  the last one

`h-1` is the word before the head, `b+1` the one after a word between. The root stands before the first word, at
place 0, and every cell of it is ROOT; what lies before it or after the last word is a boundary mark. A step from
one end of the arc that comes to the other end, or would pass it, gives MIDDLE: `l+1` is the first word *between*.
A template that looks at a word between does not fire where there is none.

Refused: cells counted from h or m beside cells counted from l or r, and two places between in one template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mtlstruct.corpus import Corpus
from mtlstruct.templates.functions import Lists, bound
from mtlstruct.templates.lines import Line, clipped
from mtlstruct.templates.terms import MAX_ROW, NO_COLUMN, Template, Term, boundary

ANCHORS = ("h", "m", "l", "r", "b")

ROOT, MIDDLE = "_ROOT", "_MID"
"""A cell of the root; a step that ends at the other end of the arc."""

BINS = (0, 1, 2, 3, 4, 5, 10)
"""Where the bins of distances begin, in words between: 5 stands for 5 to 9, 10 for all from 10 on."""

CELL = "with a place like h, m-1, l+1, b or b@2 and a column like pos or 0, without blanks"


def reach_of(corpus: Corpus) -> int:
    """How many words between to look at: as many as the longest arc of the trees has, at least one."""
    assert corpus.outputs is not None
    spans = (abs(head - place) for s in corpus.sentences() for place, head in enumerate(corpus.outputs[s], 1))
    return max(1, int(max(spans)) - 1)


@dataclass(frozen=True)
class SiteFunction:
    """A row of FUNCTIONS: of the arc (head, modifier, place of the word between) a string."""

    anchor: str
    apply: Callable[[int, int, int], str]
    doc: str


def direction(head: int, modifier: int) -> str:
    """Where the modifier lies, seen from the head."""
    return "right" if modifier > head else "left"


def distance(head: int, modifier: int) -> int:
    """How many words lie between the two, the first of its bin."""
    return max(first for first in BINS if first < abs(head - modifier))


def position(head: int, modifier: int, between: int) -> int:
    """The how-manyth word between it is, from the left; MAX_ROW if there are more."""
    return min(between - min(head, modifier), MAX_ROW)


FUNCTIONS: dict[str, SiteFunction] = {
    "direction": SiteFunction(
        "hm", lambda h, m, b: direction(h, m), "left or right: where the modifier lies, seen from the head"
    ),
    "distance": SiteFunction(
        "hm",
        lambda h, m, b: str(distance(h, m)),
        "how many words lie between: 0, 1, 2, 3, 4, 5 (to 9) or 10 (and more)",
    ),
    "position": SiteFunction(
        "b", lambda h, m, b: str(position(h, m, b)), "the how-manyth word between it is, from the left"
    ),
}
"""Functions of an arc by name."""


def site_macro(line: Line, at: int, name: str) -> tuple[Term, int]:
    """The function of an arc that stands at a place of the line, and where it ends."""
    anchor = FUNCTIONS[name].anchor
    wanted = f"%{name}[{','.join(anchor)}]"
    if not line.text.startswith(wanted, at):
        opened, closing, _ = line.text[at:].partition("]")
        raise line.error(f"expected {wanted}, got {clipped(opened + closing)!r}", at + 1)
    return Term(0, NO_COLUMN, name, anchor=anchor), at + len(wanted)


def sound(anchor: str, absolute: str, sign: str, digits: str) -> bool:
    """Whether what stands behind an anchor is one of nothing, +1, -1, and behind b also @1 and @-1."""
    if absolute:
        return anchor == "b" and bool(digits) and sign != "+"
    return bool(sign) == bool(digits)


def check(line: Line, terms: Sequence[Term]) -> None:
    """Refuses terms that do not go together."""
    anchors = {term.anchor for term in terms if term.sees}
    if anchors & set("hm") and anchors & set("lr"):
        raise line.error("expected cells counted from h and m, or from l and r, got both")
    cells = [term for term in terms if term.sees and term.anchor == "b"]
    places = {(term.absolute, term.row if term.absolute else 0) for term in cells}
    if len(places) > 1:
        raise line.error("expected one place between (b, or one b@k), got several")


@dataclass(frozen=True)
class Arc:
    """An arc of a sentence with `length` words: places are 1..length, 0 is the root."""

    head: int
    modifier: int
    length: int

    def between(self, template: Template) -> list[int]:
        """The words between that a template looks at; [0] if it looks at none, [] if there is none to look at."""
        terms = [term for term in template.terms if term.anchor == "b"]
        words = range(min(self.head, self.modifier) + 1, max(self.head, self.modifier))
        if not terms:
            return [0]
        row = next((term.row for term in terms if term.absolute), None)
        if row is None:
            return list(words)
        place = row - 1 if row > 0 else len(words) + row
        return [words[place]] if 0 <= place < len(words) else []

    def place(self, term: Term, between: int) -> int | None:
        """Where the cell of a term lies, None where the step comes to the other end."""
        left, right = sorted((self.head, self.modifier))
        start = {"h": self.head, "m": self.modifier, "l": left, "r": right, "b": between}[term.anchor]
        if term.absolute or term.row == 0:
            return start
        place = start + term.row
        if term.anchor != "b" and ((start == left and place >= right) or (start == right and place <= left)):
            return None
        return place


def expand_arc(
    template: Template, arc: Arc, cells: Callable[[int, int], str], lists: Mapping[str, Lists] | None = None
) -> list[str]:
    """The distinct strings of a template on an arc; cells(place, column) reads a word's cell.

    The slow and obvious definition, for tests and explanations.
    """
    found = []
    for between in arc.between(template):
        values = [_value(term, arc, between, cells, lists or {}) for term in template.terms]
        rest = "".join(value + piece for value, piece in zip(values, template.pieces[1:], strict=True))
        found.append(template.pieces[0] + rest)
    return list(dict.fromkeys(found))


def _value(
    term: Term, arc: Arc, between: int, cells: Callable[[int, int], str], lists: Mapping[str, Lists]
) -> str:
    if not term.sees:
        return FUNCTIONS[term.function].apply(arc.head, arc.modifier, between)
    place = arc.place(term, between)
    if place is None:
        return MIDDLE
    if place == 0:
        return ROOT
    if not 0 < place <= arc.length:
        return boundary(place if place < 0 else place - arc.length)
    return bound(term.function, term.arguments, lists)(cells(place, term.column))


_BETWEEN = re.compile(r"b@1\b")


def stretched(lines: Sequence[str], reach: int) -> list[str]:
    """Lines that look at b@1 repeated for b@1, b@2, … b@reach; those that look at another b@k go."""
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
