"""Generated template sets: counts, order, names, and the paper's sets line by line."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.templates import PRESETS, TemplateSet, generate, preset

TP2 = "-2 -1 0 1 2 -2,-1,0 -1,0,1 0,1,2 -1,0 0,1 -2,-1 1,2 -2,0 -1,1 0,2 -2,1 -1,2"
"""The rows of the cells of each U template of cws-tp2; cws-tp1 is the first ten."""


def texts(templates):
    return [template.text for template in templates]


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "dependency"])
def test_presets_repeat_nothing_and_end_with_the_transition(name):
    templates = preset(name)
    cells = [(template.kind, frozenset(template.terms)) for template in templates]
    assert len(set(cells)) == len({template.name for template in templates}) == len(templates)
    kinds = "".join(template.kind for template in templates)
    if name == "dependency-labels":
        assert set(kinds) == {"A"}
    else:
        assert templates[-1].text == "B"
        assert kinds == "U" * kinds.count("U") + "B" * kinds.count("B")


def test_segmentation_sets_are_the_table():
    cells = ["/".join(f"%x[{row},0]" for row in rows.split(",")) for rows in TP2.split()]
    lines = [f"U{number:02}:{text}" for number, text in enumerate(cells)]
    assert texts(preset("cws-tp2")) == [*lines, "B"]
    assert texts(preset("cws-tp1")) == [*lines[:10], "B"]


def test_ner_blocks():
    templates = preset("ner-134")
    order = [tuple(term.column for term in template.terms) for template in templates]
    blocks = [((0,), 7), ((1,), 7), ((0, 0), 21), ((1, 1), 21), ((0, 1), 42), ((1, 1, 1), 35), ((), 1)]
    assert order == [columns for columns, count in blocks for _ in range(count)]
    assert templates.reach() == (3, 3)
    assert all(len({term.row for term in t.terms}) == len(t.terms) for t in templates)


@pytest.mark.parametrize(("name", "columns"), [("ner", 2), ("pos", 1), ("chunking", 2), ("segmentation", 1)])
def test_rich_sets_are_a_few_hundred_templates_under_headings(name, columns):
    templates = preset(name)
    assert 100 <= len(templates) <= 500
    templates.check_columns(columns)
    headings = [line for line in templates.lines if line.startswith("# ")]
    assert len(headings) >= 6
    assert TemplateSet.parse(templates.source) == templates


def test_defaults_are_unigrams_and_the_transition():
    assert texts(generate()) == [*(f"U{i:03}:%x[{i - 3},0]" for i in range(7)), "B"]
    assert texts(generate(orders=(1, 2)))[7] == "U007:%x[-3,0]/%x[-2,0]"


def test_cross_pairs_columns_at_different_offsets():
    templates = generate((0, 1), (2, 0), orders=(), cross=True, transitions=False)
    assert texts(templates) == ["U000:%x[0,2]/%x[1,0]", "U001:%x[1,2]/%x[0,0]"]


@given(
    st.integers(-6, 2),
    st.integers(0, 5),
    st.lists(st.integers(0, 4), unique=True, min_size=1, max_size=3),
    st.lists(st.integers(0, 4), unique=True, max_size=2),
)
def test_count_of_everything(first, more, columns, trigrams):
    templates = generate((first, first + more), columns, orders=(1, 2), trigrams=trigrams, cross=True)
    n, k = more + 1, len(columns)
    across = comb(k, 2) * n * (n - 1)
    assert len(templates) == k * n + k * comb(n, 2) + across + len(trigrams) * comb(n, 3) + 1
    assert len({t.terms for t in templates}) == len(templates)


def test_names_grow_past_three_digits():
    templates = generate((-10, 10), trigrams=(0,), transitions=False)
    assert (templates[0].name, templates[-1].name) == ("U0000", "U1350")


def test_functions_are_views_like_columns():
    views = ("shape[0]", "prefix[0,1-2]")
    lines = texts(generate((0, 1), (1,), functions=views, orders=(1, 2), transitions=False))
    macros = "%shape[0,0] %shape[1,0] %prefix[0,0,1] %prefix[1,0,1] %prefix[0,0,2] %prefix[1,0,2]"
    assert lines[2:8] == [f"U{number:03}:{macro}" for number, macro in enumerate(macros.split(), 2)]
    assert lines[8:10] == ["U008:%x[0,1]/%x[1,1]", "U009:%shape[0,0]/%shape[1,0]"]


def test_orders_and_gaps():
    wide = generate((0, 4), orders=(2, 4), transitions=False)
    assert len(wide) == comb(5, 2) + comb(5, 4)
    near = generate((0, 4), orders=(2, 4), gap=1, transitions=False)
    rows = [tuple(term.row for term in t.terms) for t in near]
    assert rows == [(0, 1), (1, 2), (2, 3), (3, 4), (0, 1, 2, 3), (1, 2, 3, 4)]
    assert len(generate((0, 4), orders=(2,), gap=2, transitions=False)) == 4 + 3


def test_what_two_rules_make_is_written_once():
    templates = generate((0, 2), (0, 1), orders=(1, 3, 3), trigrams=(1,), cross=True)
    assert len({frozenset(t.terms) for t in templates}) == len(templates) == 6 + 2 + 6 + 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"functions": ("shapes[0]",)}, "unknown function in 'shapes\\[0\\]'"),
        ({"functions": ("shape",)}, "expected a view such as"),
        ({"functions": ("shape[0,1]",)}, "expected %shape"),
        ({"functions": ("prefix[0]",)}, "expected %prefix"),
        ({"functions": ("prefix[0,3-1]",)}, "from 1 to 99"),
        ({"functions": ("shape[9999999]",)}, "expected a column up to"),
        ({"functions": ("0",)}, "expected different views"),
        ({"orders": (0,)}, "numbers from 1 to 8 for n-grams, got 0"),
        ({"gap": 0}, "a gap of at least 1, got 0"),
        *(({"window": w}, f"expected a window .* got {w[0]}:{w[1]}$") for w in ((1, 0), (-256, 0), (0, 256))),
        ({"columns": (0, 0)}, "different column numbers from 0 for columns, got 0,0$"),
        ({"trigrams": (-1,)}, "different column numbers from 0 for trigrams, got -1$"),
        ({"window": (-255, 255), "trigrams": (0,)}, "expected at most 100000 templates"),
    ],
)
def test_choices_that_make_no_sense(options, problem):
    with pytest.raises(MtlError, match=problem):
        generate(**options)


def test_nothing_asked_for():
    with pytest.raises(TemplateError, match="expected at least one template"):
        generate(orders=(), transitions=False)


def test_the_set_for_trees_has_the_papers_numbers():
    templates = preset("dependency")
    assert len(templates) == len({t.name for t in templates}) == 540
    assert {template.kind for template in templates} == {"A"}
    assert sum(any(term.anchor == "b" for term in t.terms) for t in templates) == 4 * 84
    assert sum(any(term.function == "distance" for term in t.terms) for t in templates) == 540 // 2


def test_the_set_for_trees_reaches_as_far_as_wanted():
    assert preset("dependency", 84).source == preset("dependency").source
    assert len(preset("dependency", 2)) == 204 + 8
    assert len(preset("dependency", 100)) == 204 + 400
    for name, reach in (("dependency", 0), ("dependency", 256), ("ner", 3)):
        with pytest.raises(MtlError, match="reach"):
            preset(name, reach)
