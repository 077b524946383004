"""Drawings of trees: nothing lies on anything else, texts are escaped, colours say what is wrong."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.report.html_explanation import explanation_page
from mtlstruct.report.tree_svg import Arc, Tree, levels, tree_svg, width


@st.composite
def heads(draw: st.DrawFn) -> list[int]:
    n = draw(st.integers(1, 12))
    return [draw(st.integers(0, n).filter(lambda h, m=m: h != m)) for m in range(1, n + 1)]


@given(heads())
def test_arcs_that_share_ground_have_different_heights(found: list[int]) -> None:
    arcs = [Arc(head, m, "arc") for m, head in enumerate(found, 1)]
    placed = list(zip(arcs, levels(arcs), strict=True))
    for (one, height), (other, level) in combinations(placed, 2):
        left, right = max(one.ends[0], other.ends[0]), min(one.ends[1], other.ends[1])
        if left < right:
            assert height != level


@given(heads())
def test_every_tree_is_a_sound_drawing(found: list[int]) -> None:
    n = len(found)
    svg = ElementTree.fromstring(tree_svg(Tree([f"w{m}" for m in range(n)], ["T"] * n, found)))
    assert len(svg.findall(".//path[@class='line']")) == n
    assert [text.text for text in svg.findall("text[@class='word']")] == [f"w{m}" for m in range(n)]


def test_colours_say_what_is_wrong() -> None:
    words, tags = ["<b>", "&", "c", "d"], ["T<", "T", "T", "T"]
    tree = Tree(words, tags, [2, 0, 2, 3], ["x", "root", "y", "z"], [2, 0, 2, 1], ["x", "root", "Y<", "z"])
    assert (tree.missed, tree.mislabelled) == ([4], [3])
    svg = ElementTree.fromstring(tree_svg(tree))
    assert [group.get("class") for group in svg.findall("g")] == ["arc", "arc", "arc", "wrong", "missed"]
    assert svg.findtext("title") == "<b> & c d"
    assert svg.findtext(".//tspan[@class='right']") == " (Y<)"
    bare = Tree(words, tags, [2, 0, 2, 3])
    assert (bare.missed, bare.mislabelled) == ([], [])


def test_chinese_letters_are_wide() -> None:
    assert width("中", 8) == 2 * width("a", 8)


class Tags(HTMLParser):
    """Counts tags, and checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "path":
            assert self.open.pop() == tag


@pytest.mark.parametrize("wrong", [False, True])
def test_a_page_is_one_sound_file(wrong: bool) -> None:
    voice = {"index": 0, "name": "A0", "text": "A0:<script>%x[h,0]", "value": 1.5}
    choice = {"templates": [voice], "others": 0.0, "margin": 1.5}
    arc = {"head": 0, "head_word": "ROOT", "runner_up": None, "runner_up_word": None}
    label = {"label": "<i>", "runner_up": "b"}
    token = {
        "token": 1,
        "cells": ["<script>", "_"],
        "elsewhere": -0.25,
        **choice,
        **arc,
        "relation": choice | label,
    }
    gold = ([0], ["<i>" if not wrong else "z"])
    tree = Tree(["<script>"], ["_"], [0], ["<i>"], *gold)
    text = explanation_page("a < b", "sentence", [({"sentence": 1, "tokens": [token]}, tree)])
    reader = Tags()
    reader.feed(text)
    assert not reader.open
    assert "script" not in reader.seen
    assert "i" not in reader.seen
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text
    assert ("All heads are right" in text) != wrong
    assert ("1 has a wrong label" in text) == wrong
