"""A dependency tree as a drawing: inline SVG, words in a row, arcs from head to modifier above them.

Where the right tree is known, arcs that are wrong have another colour, and the right ones that were missed stand
below the words. Colours are variables of the page (web/assets). Texts are escaped; how wide letters are is guessed,
as no font is at hand.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

LETTER, SMALL = 8.4, 6.4
"""About how wide a letter is, of words and of what is written smaller, in pixels; Chinese ones take two."""

GAP, MARGIN, LEVEL, CORNER = 20.0, 24.0, 24.0, 9.0
"""Between words; around the drawing; between arcs one above the other; how round an arc turns."""


@dataclass(frozen=True)
class Tree:
    """A sentence and its heads (0 is the root), with relations and with the right tree, as far as they are known."""

    words: Sequence[str]
    tags: Sequence[str]
    heads: Sequence[int]
    relations: Sequence[str] | None = None
    gold: Sequence[int] | None = None
    gold_relations: Sequence[str] | None = None

    @classmethod
    def of(
        cls,
        rows: Sequence[Sequence[str]],
        heads: Sequence[int],
        relations: Sequence[str] | None = None,
        gold: Sequence[int] | None = None,
        gold_relations: Sequence[str] | None = None,
    ) -> Tree:
        """A tree over the cells of a CoNLL sentence, FORM to FEATS; tags are the fine ones where there are any."""
        words, _, coarse, fine, _ = zip(*rows, strict=True)
        tags = [one if one != "_" else other for one, other in zip(fine, coarse, strict=True)]
        return cls(words, tags, heads, relations, gold, gold_relations)

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
    """An arc to draw: `kind` is a class of the page's style, `right` a relation that should have been."""

    head: int
    modifier: int
    kind: str
    relation: str = ""
    right: str = ""

    @property
    def ends(self) -> tuple[int, int]:
        """The places of both words, left and right; a root's are the same."""
        if self.head == 0:
            return self.modifier, self.modifier
        return min(self.head, self.modifier), max(self.head, self.modifier)

    @property
    def label(self) -> str:
        """What is written at the arc."""
        return f"{self.relation} ({self.right})" if self.right else self.relation


def tree_svg(tree: Tree) -> str:
    """The drawing of a sentence."""
    return "".join(_Drawing(tree).parts())


class _Drawing:
    """Where everything goes: words by their centres, arcs by levels, found ones above and missed ones below."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        missed, mislabelled = set(tree.missed), set(tree.mislabelled)
        relations = tree.relations or [""] * len(tree.words)
        right = tree.gold_relations or [""] * len(tree.words)
        self.above = [
            Arc(
                head,
                m,
                "wrong" if m in missed else "arc",
                relations[m - 1],
                right[m - 1] if m in mislabelled else "",
            )
            for m, head in enumerate(tree.heads, 1)
        ]
        gold = tree.gold or tree.heads
        self.below = [Arc(gold[m - 1], m, "missed", right[m - 1]) for m in sorted(missed)]

    @cached_property
    def centres(self) -> list[float]:
        """Where each word stands; neighbours have room for the label of an arc between them."""
        pairs = zip(self.tree.words, self.tree.tags, strict=True)
        half = [max(width(word, LETTER), width(tag, SMALL), 14.0) / 2 for word, tag in pairs]
        least = dict.fromkeys(range(1, len(half)), 0.0)
        for arc in (*self.above, *self.below):
            left, right = arc.ends
            if right == left + 1:
                least[left] = max(least[left], width(arc.label, SMALL) + 2 * CORNER + 14)
        at = [MARGIN + half[0]]
        for i, (a, b) in enumerate(pairwise(half), 1):
            at.append(at[-1] + max(a + GAP + b, least[i]))
        return at

    def parts(self) -> Iterator[str]:
        """The SVG, piece by piece."""
        up, down = levels(self.above), levels(self.below)
        base = MARGIN + LEVEL * (max(up, default=0) + 0.5)
        foot = base + 52
        height = foot + (LEVEL * (max(down) + 0.5) if down else 0) + MARGIN / 2
        last = max(width(self.tree.words[-1], LETTER), width(self.tree.tags[-1], SMALL)) / 2
        size = f"{self.centres[-1] + last + MARGIN:.0f}", f"{height:.0f}"
        yield f'<svg class="tree" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img">'
        yield f"<title>{escape(' '.join(self.tree.words))}</title>"
        yield from self._words(base)
        yield from self._arcs(self.above, up, base, -1)
        yield from self._arcs(self.below, down, foot, 1)
        yield "</svg>\n"

    def _words(self, base: float) -> Iterator[str]:
        for x, word, tag in zip(self.centres, self.tree.words, self.tree.tags, strict=True):
            yield f'<text class="word" x="{x:.1f}" y="{base + 22:.1f}">{escape(word)}</text>'
            yield f'<text class="tag" x="{x:.1f}" y="{base + 39:.1f}">{escape(tag)}</text>'

    def _arcs(self, arcs: Sequence[Arc], heights: Sequence[int], base: float, side: int) -> Iterator[str]:
        """Arcs on one side of the words: −1 above them, 1 below."""
        places = self._places(arcs)
        for arc, level in zip(arcs, heights, strict=True):
            start, stop = places[arc, arc.head], places[arc, arc.modifier]
            y = base + side * LEVEL * (level + 0.35)
            yield f'<g class="{arc.kind}"><title>{escape(self._said(arc))}</title>'
            yield f'<path class="line" d="{_line(arc, start, stop, base, y, side)}"/>'
            yield f'<path class="tip" d="M{stop - 4:.1f} {base + side * 7:.1f}h8L{stop:.1f} {base:.1f}z"/>'
            yield _label(arc, (start + stop) / 2, y + 3.5 if arc.head else y + 3.5 + side * 7)
            yield "</g>"

    def _said(self, arc: Arc) -> str:
        head = self.tree.words[arc.head - 1] if arc.head else "ROOT"
        named = f": {arc.label}" if arc.label else ""
        return f"{head} → {self.tree.words[arc.modifier - 1]}{named}"

    def _places(self, arcs: Sequence[Arc]) -> dict[tuple[Arc, int], float]:
        """Where each arc touches its words: beside each other, in such an order that they do not cross there."""
        touching: dict[int, list[tuple[tuple[int, int], Arc]]] = {}
        for arc in arcs:
            for here, there in ((arc.head, arc.modifier), (arc.modifier, arc.head)):
                if here:
                    other = there or here
                    side = (other > here) - (other < here)
                    touching.setdefault(here, []).append(((side, -other), arc))
        found: dict[tuple[Arc, int], float] = {}
        for word, ends in touching.items():
            step = min(9.0, 26.0 / len(ends))
            ordered = sorted(ends, key=lambda end: end[0])
            for k, (_, arc) in enumerate(ordered):
                found[arc, word] = self.centres[word - 1] + (k - (len(ordered) - 1) / 2) * step
        found.update({(arc, 0): found[arc, arc.modifier] for arc in arcs if arc.head == 0})
        return found


def levels(arcs: Sequence[Arc]) -> list[int]:
    """How high each arc goes, from 0: above all shorter ones that it shares ground with."""
    out = [0] * len(arcs)
    longest = max((arc.ends[1] for arc in arcs), default=0)
    ground = [-1] * (longest + 1)  # the highest arc so far between word i and the next
    roots = []
    for k in sorted(range(len(arcs)), key=lambda k: arcs[k].ends[1] - arcs[k].ends[0]):
        left, right = arcs[k].ends
        if left == right:
            roots.append(k)
            continue
        out[k] = max(ground[left:right]) + 1
        ground[left:right] = [out[k]] * (right - left)
    for k in roots:  # straight up, as high as what stands beside the word
        word = arcs[k].modifier
        out[k] = max(ground[max(0, word - 1) : word + 1], default=-1) + 1
    return out


def width(text: str, letter: float) -> float:
    """About how wide a text is."""
    return letter * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _label(arc: Arc, x: float, y: float) -> str:
    """What is written at an arc, and what should have been."""
    label = arc.relation or ("" if arc.head else "root")
    right = f'<tspan class="right"> ({escape(arc.right)})</tspan>' if arc.right else ""
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}">{escape(label)}{right}</text>' if label else ""


def _line(arc: Arc, start: float, stop: float, base: float, y: float, side: int) -> str:
    """The path of an arc: up, across with round corners, and down; of the root straight."""
    if arc.head == 0:
        return f"M{stop:.1f} {y:.1f}V{base + side * 5:.1f}"
    turn = min(CORNER, abs(stop - start) / 2)
    across = turn if stop > start else -turn
    return (
        f"M{start:.1f} {base:.1f}V{y - side * turn:.1f}Q{start:.1f} {y:.1f} {start + across:.1f} {y:.1f}"
        f"H{stop - across:.1f}Q{stop:.1f} {y:.1f} {stop:.1f} {y - side * turn:.1f}V{base + side * 5:.1f}"
    )
