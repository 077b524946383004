"""Drawings of trees: nothing lies on anything else, texts are escaped, colours say what is wrong."""

import json
import math
from itertools import combinations
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.report.html_report import explanation_page
from mtlstruct.report.tree_svg import Arc, Tree, levels, tree_svg, width


@st.composite
def heads(draw):
    n = draw(st.integers(1, 12))
    return [draw(st.integers(0, n).filter(lambda h, m=m: h != m)) for m in range(1, n + 1)]


@given(heads())
def test_arcs_that_overlap_have_different_heights(found):
    arcs = [Arc(head, m, "arc") for m, head in enumerate(found, 1)]
    for (one, height), (other, level) in combinations(zip(arcs, levels(arcs), strict=True), 2):
        if max(one.ends[0], other.ends[0]) < min(one.ends[1], other.ends[1]):
            assert height != level


@given(heads())
def test_a_drawing_has_all_arcs_and_words(found):
    n = len(found)
    svg = ElementTree.fromstring(tree_svg(Tree([f"w{m}" for m in range(n)], ["T"] * n, found)))
    assert len(svg.findall(".//path[@class='line']")) == n
    assert [text.text for text in svg.findall("text[@class='word']")] == [f"w{m}" for m in range(n)]


def test_colours_say_what_is_wrong():
    words, tags = ["<b>", "&", "c", "d"], ["T<", "T", "T", "T"]
    tree = Tree(words, tags, [2, 0, 2, 3], ["x", "root", "y", "z"], [2, 0, 2, 1], ["x", "root", "Y<", "z"])
    assert (tree.missed, tree.mislabelled) == ([4], [3])
    svg = ElementTree.fromstring(tree_svg(tree))
    assert [group.get("class") for group in svg.findall("g")] == ["arc", "arc", "arc", "wrong", "missed"]
    assert svg.findtext("title") == "<b> & c d"
    assert svg.findtext(".//tspan[@class='right']") == " (Y<)"
    bare = Tree(words, tags, [2, 0, 2, 3])
    assert (bare.missed, bare.mislabelled) == ([], [])


def test_chinese_letters_are_wide():
    assert width("中", 8) == 2 * width("a", 8)


def test_the_page_of_explanations_carries_records_and_drawings_as_json():
    token = {"token": 1, "cells": ["</script>"], "elsewhere": math.inf}
    tree = Tree(["</script>"], ["_"], [0], ["<i>"], [0], ["z"])
    html = explanation_page("a < b", "sentence", [({"sentence": 1, "tokens": [token]}, tree)]).html
    assert html.count("</script>") == 2
    assert "<title>a &lt; b</title>" in html
    found = json.loads(html.partition('type="application/json">')[2].partition("</script>")[0])
    (sentence,) = found["sentences"]
    assert sentence["tokens"] == [token | {"elsewhere": None}]
    counts = {"wrong": 0, "mislabelled": 1, "words": 1}
    assert sentence["tree"] == {"drawing": tree_svg(tree), "gold": counts}
