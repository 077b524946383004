"""Dependency trees as inline SVG: words in a row, arcs from head to modifier above them.

If the right tree is known, wrong arcs have another colour, and missed ones are drawn below the
words. Colours are variables of the page. The width of letters is estimated, since no font is
available.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import Any

WORD_LETTER, TAG_LETTER = 8.4, 6.4
"""Estimated widths of a letter in words and in small text, in pixels; Chinese ones are doubled."""

GAP, MARGIN, LEVEL, CORNER = 20.0, 24.0, 24.0, 9.0
"""Gap between words, margin, height of a level of arcs, radius of a corner, in pixels."""


@dataclass(frozen=True)
class Tree:
    """A sentence and its heads (0 is the root), with relations and the right tree, if known."""

    words: Sequence[str]
    tags: Sequence[str]
    heads: Sequence[int]
    relations: Sequence[str] | None = None
    gold: Sequence[int] | None = None
    gold_relations: Sequence[str] | None = None

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]], heads: Sequence[int], *more: Sequence[Any] | None) -> Tree:
        """Return the tree over cells of a CoNLL sentence, FORM to FEATS; fine tags come first.

        `more` are relations, gold and gold relations.
        """
        words, _, coarse, fine, _ = zip(*rows, strict=True)
        tags = [one if one != "_" else other for one, other in zip(fine, coarse, strict=True)]
        return cls(words, tags, heads, *more)

    @property
    def missed(self) -> list[int]:
        """Tokens, from 1, whose head is not the right one."""
        right = self.heads if self.gold is None else self.gold
        return [m for m, (a, b) in enumerate(zip(self.heads, right, strict=True), 1) if a != b]

    @property
    def mislabelled(self) -> list[int]:
        """Tokens whose head is right and whose relation is not."""
        if self.relations is None or self.gold_relations is None or self.gold is None:
            return []
        missed = set(self.missed)
        pairs = enumerate(zip(self.relations, self.gold_relations, strict=True), 1)
        return [m for m, (a, b) in pairs if a != b and m not in missed]


@dataclass(frozen=True)
class Arc:
    """An arc to draw: `kind` is a class of the page's style, `right` the right relation."""

    head: int
    modifier: int
    kind: str
    relation: str = ""
    right: str = ""

    @property
    def ends(self) -> tuple[int, int]:
        """Left and right word; equal for an arc from the root."""
        head = self.head or self.modifier
        return min(head, self.modifier), max(head, self.modifier)

    @property
    def label(self) -> str:
        """Relation, with the right one behind it if it is wrong."""
        return f"{self.relation} ({self.right})" if self.right else self.relation


def tree_svg(tree: Tree) -> str:
    """Return the drawing of a sentence."""
    return "".join(_svg_parts(tree))


def _svg_parts(tree: Tree) -> Iterator[str]:
    """Yield the parts of the SVG; predicted arcs are above the words, missed ones below."""
    above, below = _arcs(tree)
    centres = _centres(tree, [*above, *below])
    base = MARGIN + LEVEL * (max(levels(above), default=0) + 0.5)
    foot = base + 52
    height = foot + (LEVEL * (max(levels(below)) + 0.5) if below else 0) + MARGIN / 2
    last = max(width(tree.words[-1], WORD_LETTER), width(tree.tags[-1], TAG_LETTER)) / 2
    size = f"{centres[-1] + last + MARGIN:.0f}", f"{height:.0f}"
    yield f'<svg class="tree" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img">'
    yield f"<title>{escape(' '.join(tree.words))}</title>"
    for x, word, tag in zip(centres, tree.words, tree.tags, strict=True):
        yield f'<text class="word" x="{x:.1f}" y="{base + 22:.1f}">{escape(word)}</text>'
        yield f'<text class="tag" x="{x:.1f}" y="{base + 39:.1f}">{escape(tag)}</text>'
    yield from _draw(above, tree.words, centres, base, -1)
    yield from _draw(below, tree.words, centres, foot, 1)
    yield "</svg>\n"


def _arcs(tree: Tree) -> tuple[list[Arc], list[Arc]]:
    """Return the predicted arcs, and the right arcs of tokens whose head is wrong."""
    missed, mislabelled = set(tree.missed), set(tree.mislabelled)
    relations = tree.relations or [""] * len(tree.words)
    right = tree.gold_relations or [""] * len(tree.words)
    above = []
    for m, head in enumerate(tree.heads, 1):
        wanted = right[m - 1] if m in mislabelled else ""
        above.append(Arc(head, m, "wrong" if m in missed else "arc", relations[m - 1], wanted))
    gold = tree.gold or tree.heads
    return above, [Arc(gold[m - 1], m, "missed", right[m - 1]) for m in sorted(missed)]


def _centres(tree: Tree, arcs: Sequence[Arc]) -> list[float]:
    """Return the centre of each word; the label of an arc fits between neighbours."""
    pairs = zip(tree.words, tree.tags, strict=True)
    half = [max(width(word, WORD_LETTER), width(tag, TAG_LETTER), 14.0) / 2 for word, tag in pairs]
    gaps = [a + GAP + b for a, b in pairwise(half)]
    for arc in arcs:
        left, right = arc.ends
        if right == left + 1:
            gaps[left - 1] = max(gaps[left - 1], width(arc.label, TAG_LETTER) + 2 * CORNER + 14)
    return list(accumulate(gaps, initial=MARGIN + half[0]))


def _draw(
    arcs: Sequence[Arc], words: Sequence[str], centres: Sequence[float], base: float, side: int
) -> Iterator[str]:
    """Yield the arcs on one side of the words: −1 above them, 1 below."""
    places = _places(arcs, centres)
    for arc, level in zip(arcs, levels(arcs), strict=True):
        start, stop = places[arc, arc.head or arc.modifier], places[arc, arc.modifier]
        y = base + side * LEVEL * (level + 0.35)
        head = words[arc.head - 1] if arc.head else "ROOT"
        named = f": {arc.label}" if arc.label else ""
        yield f'<g class="{arc.kind}"><title>{escape(f"{head} → {words[arc.modifier - 1]}{named}")}</title>'
        yield f'<path class="line" d="{_line(arc, start, stop, base, y, side)}"/>'
        yield f'<path class="tip" d="M{stop - 4:.1f} {base + side * 7:.1f}h8L{stop:.1f} {base:.1f}z"/>'
        yield _label(arc, (start + stop) / 2, y + 3.5 if arc.head else y + 3.5 + side * 7)
        yield "</g>"


def _places(arcs: Sequence[Arc], centres: Sequence[float]) -> dict[tuple[Arc, int], float]:
    """Return where each arc meets its words, ordered so that arcs do not cross there."""
    touching: dict[int, list[tuple[tuple[int, int], Arc]]] = {}
    for arc in arcs:
        for here, there in ((arc.head, arc.modifier), (arc.modifier, arc.head or arc.modifier)):
            if here:
                order = ((there > here) - (there < here), -there)
                touching.setdefault(here, []).append((order, arc))
    found = {}
    for word, ends in touching.items():
        step = min(9.0, 26.0 / len(ends))
        for k, (_, arc) in enumerate(sorted(ends, key=lambda end: end[0])):
            found[arc, word] = centres[word - 1] + (k - (len(ends) - 1) / 2) * step
    return found


def levels(arcs: Sequence[Arc]) -> list[int]:
    """Return the level of each arc, from 0: above all shorter ones that it overlaps."""
    out = [0] * len(arcs)
    longest = max((arc.ends[1] for arc in arcs), default=0)
    highest = [-1] * (longest + 1)  # the highest arc so far between word i and the next
    for k in sorted(range(len(arcs)), key=lambda k: arcs[k].ends[1] - arcs[k].ends[0]):
        left, right = arcs[k].ends
        if left < right:
            out[k] = max(highest[left:right]) + 1
            highest[left:right] = [out[k]] * (right - left)
    for k, arc in enumerate(arcs):
        if arc.head == 0:  # straight up, as high as the arcs beside the word
            out[k] = max(highest[max(0, arc.modifier - 1) : arc.modifier + 1], default=-1) + 1
    return out


def width(text: str, letter: float) -> float:
    """Return the estimated width of a text."""
    return letter * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _label(arc: Arc, x: float, y: float) -> str:
    """Return the label of an arc, with the right relation if it is wrong."""
    label = arc.relation or ("" if arc.head else "root")
    right = f'<tspan class="right"> ({escape(arc.right)})</tspan>' if arc.right else ""
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}">{escape(label)}{right}</text>' if label else ""


def _line(arc: Arc, start: float, stop: float, base: float, y: float, side: int) -> str:
    """Return the path of an arc: up, across with round corners, and down; for the root straight."""
    if arc.head == 0:
        return f"M{stop:.1f} {y:.1f}V{base + side * 5:.1f}"
    turn = min(CORNER, abs(stop - start) / 2)
    across = turn if stop > start else -turn
    return (
        f"M{start:.1f} {base:.1f}V{y - side * turn:.1f}Q{start:.1f} {y:.1f} {start + across:.1f} {y:.1f}"
        f"H{stop - across:.1f}Q{stop:.1f} {y:.1f} {stop:.1f} {y - side * turn:.1f}V{base + side * 5:.1f}"
    )
