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
from typing import Any, NamedTuple

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
        pairs = enumerate(zip(self.relations, self.gold_relations, strict=True), 1)
        return [m for m, (a, b) in pairs if a != b and m not in self.missed]


class Arc(NamedTuple):
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
    """Return the drawing of a sentence; predicted arcs are above the words, missed ones below."""
    missed, none = tree.missed, [""] * len(tree.words)
    relations, right, gold = tree.relations or none, tree.gold_relations or none, tree.gold or tree.heads
    above = [
        Arc(head, m, "wrong" if m in missed else "arc", relation, wanted if m in tree.mislabelled else "")
        for m, (head, relation, wanted) in enumerate(zip(tree.heads, relations, right, strict=True), 1)
    ]
    below = [Arc(gold[m - 1], m, "missed", right[m - 1]) for m in missed]
    half = [
        max(width(w, WORD_LETTER), width(t, TAG_LETTER), 14.0) / 2
        for w, t in zip(tree.words, tree.tags, strict=True)
    ]
    gaps = [a + GAP + b for a, b in pairwise(half)]
    for arc in (*above, *below):  # the label of an arc fits between neighbours
        left, end = arc.ends
        if end == left + 1:
            gaps[left - 1] = max(gaps[left - 1], width(arc.label, TAG_LETTER) + 2 * CORNER + 14)
    centres = list(accumulate(gaps, initial=MARGIN + half[0]))
    base = MARGIN + LEVEL * (max(levels(above), default=0) + 0.5)
    foot = base + 52
    high = foot + (LEVEL * (max(levels(below)) + 0.5) if below else 0) + MARGIN / 2
    wide = centres[-1] + half[-1] + MARGIN
    size = f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}"'
    parts = [f'<svg class="tree" {size} role="img"><title>{escape(" ".join(tree.words))}</title>']
    for x, word, tag in zip(centres, tree.words, tree.tags, strict=True):
        parts.append(f'<text class="word" x="{x:.1f}" y="{base + 22:.1f}">{escape(word)}</text>')
        parts.append(f'<text class="tag" x="{x:.1f}" y="{base + 39:.1f}">{escape(tag)}</text>')
    parts += _draw(above, tree.words, centres, base, -1)
    parts += _draw(below, tree.words, centres, foot, 1)
    return "".join(parts) + "</svg>\n"


def _draw(
    arcs: Sequence[Arc], words: Sequence[str], centres: Sequence[float], base: float, side: int
) -> Iterator[str]:
    """Yield the arcs on one side of the words: −1 above them, 1 below."""
    for arc, level in zip(arcs, levels(arcs), strict=True):
        stop = start = centres[arc.modifier - 1]
        y, foot = base + side * LEVEL * (level + 0.35), base + side * 5
        line, label_y = f"M{stop:.1f} {y:.1f}V{foot:.1f}", y + 3.5 + side * 7  # straight from the root
        if arc.head:  # up, across with round corners, and down
            across = CORNER if arc.modifier > arc.head else -CORNER
            start, label_y = centres[arc.head - 1] + across / 2, y + 3.5
            line = (
                f"M{start:.1f} {base:.1f}V{y - side * CORNER:.1f}Q{start:.1f} {y:.1f} {start + across:.1f} {y:.1f}"
                f"H{stop - across:.1f}Q{stop:.1f} {y:.1f} {stop:.1f} {y - side * CORNER:.1f}V{foot:.1f}"
            )
        name = f"{words[arc.head - 1] if arc.head else 'ROOT'} → {words[arc.modifier - 1]}"
        name += f": {arc.label}" if arc.label else ""
        yield f'<g class="{arc.kind}"><title>{escape(name)}</title><path class="line" d="{line}"/>'
        yield f'<path class="tip" d="M{stop - 4:.1f} {base + side * 7:.1f}h8L{stop:.1f} {base:.1f}z"/>'
        if label := arc.relation or ("" if arc.head else "root"):
            right = f'<tspan class="right"> ({escape(arc.right)})</tspan>' if arc.right else ""
            place = f'x="{(start + stop) / 2:.1f}" y="{label_y:.1f}"'
            yield f'<text class="label" {place}>{escape(label)}{right}</text>'
        yield "</g>"


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
