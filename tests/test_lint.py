"""Lint: each finding with its line, and quiet on files that are fine; files of the size real projects keep."""

from __future__ import annotations

from itertools import count

import pytest

from mtlstruct.templates import PRESETS, TemplateSet, preset
from mtlstruct.templates.lint import CROWDED, ERROR, WARNING, Facts, Finding, check, check_data


def found(text: str, **options: object) -> list[tuple[int, str, str]]:
    return [(f.line, f.severity, f.code) for f in check(text, **options)]  # type: ignore[arg-type]


def header_templates() -> str:
    """In the style of GROBID's header model: 27 columns, windows of single columns, pairs of layout features."""
    lines, number = ["# Features of the header of a paper", "", "# the words themselves"], count()
    for column, rows in [(0, range(-4, 5)), (1, range(-2, 3)), *((c, range(-1, 2)) for c in range(2, 27))]:
        lines += [f"# column {column}", *(f"U{next(number):02}:%x[{row},{column}]" for row in rows)]
    lines.append("# layout of the line together")
    lines += [f"U{next(number):02}:%x[0,{column}]/%x[0,{column + 1}]" for column in range(20, 26)]
    return "\n".join([*lines, "", "# the plain transition", "B", ""])


def reference_templates() -> str:
    """In the style of AnyStyle's patterns: Wapiti, 20 columns, short windows, comments behind lines."""
    lines = ["# Patterns for references", "*  # every transition, and a bias", ""]
    for column in range(20):
        lines += [f"u:{column:02}-1=%x[-1,{column}]", f"u:{column:02}+0=%x[ 0,{column}]  # here"]
    lines += [f"u:lo{row:+d}=%X[{row:+d},0]" for row in (-2, -1, 0, 1, 2)]
    lines += [
        'u:year=%t[0,0,"^\\d\\d\\d\\d$"]',
        'u:num=%m[0,0,"\\d*$"]',
        "b:pos=%x[0,19]",
        "u:first=%x[@1,0]",
    ]
    return "\n".join(lines)


def test_files_as_real_projects_have_them_are_fine() -> None:
    grobid, anystyle = header_templates(), reference_templates()
    assert 30 <= len(TemplateSet.parse(grobid)) <= 150
    assert 30 <= len(TemplateSet.parse(anystyle, dialect="wapiti")) <= 150
    assert found(grobid, columns=27) == found(anystyle, dialect="wapiti", columns=20) == []


def test_slips_in_such_files_are_found_where_they_are() -> None:
    lines = header_templates().splitlines()
    lines[4] = lines[5]  # a copied line
    lines[40] = lines[40].replace("%x", "%y")
    lines[50] = lines[50].replace("]", "")
    lines.insert(60, "U99x:%x[0,27]")
    slips = [(41, ERROR, "syntax"), (51, ERROR, "syntax"), (61, ERROR, "column")]
    assert found("\n".join(lines), columns=27) == [(6, WARNING, "duplicate"), *slips]


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "dependency"])
def test_presets_are_fine(name: str) -> None:
    assert found(preset(name).source) == []


def test_the_papers_set_for_trees_repeats_itself_and_nothing_worse() -> None:
    problems = found(preset("dependency").source)
    assert {(severity, code) for _, severity, code in problems} == {(WARNING, "duplicate")}
    assert len(problems) == 42  # six sets of two observations share their single ones and pairs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("U1:%x[0,0]\nU1:%x[0,0]", [(2, WARNING, "duplicate")]),
        ("U1:%x[0,0]\nU2=%x[0,0]", [(2, WARNING, "duplicate")]),
        ("U1:%x[0,0]\nB1:%x[0,0]", []),
        ("B\nB\n", [(2, WARNING, "duplicate")]),
        ("U1:%x[0,0]/%x[1,0]\n#\nU2:%x[1,0]/%x[0,0]", [(3, WARNING, "permuted")]),
        ("U1:%x[0,0]\nU1:%x[0,0]/%x[1,0]", [(2, WARNING, "name")]),
        ("U1:%x[0,0]\nU1:%x[1,0]", [(2, WARNING, "merged")]),
        ("U:%x[0,0]\nU:%x[1,0]\nU:%x[0,0]/%x[1,0]", [(2, WARNING, "merged")]),
        ("U%lower[0,0]\nU%x[0,0]", [(2, WARNING, "merged")]),
        ("X\n\nU:%x[0 ,0]\nU:%x[0,0]\n B", [(line, ERROR, "syntax") for line in (1, 3, 5)]),
        ("# nothing\n", [(1, ERROR, "empty")]),
        ("U:%x[0,2]/%x[0,3]", [(1, ERROR, "column"), (1, ERROR, "column")]),
    ],
)
def test_rules(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert found(text, columns=2) == expected


def test_what_crfpp_drops() -> None:
    text = "U:%x[0,0]\nX:%x[0,0]\nB"
    assert found(text) == [(2, ERROR, "syntax")]
    assert found(text, dialect="crfpp") == [(2, WARNING, "dropped")]


def test_lists_that_are_not_there(tmp_path: object) -> None:
    assert found('U:%in[0,0,"no.txt"]', folder=tmp_path) == [(1, ERROR, "syntax")]
    assert found('U:%in[0,0,"no.txt"]') == []  # nothing is read


def test_a_finding_says_what_and_what_to_do() -> None:
    text = str(*check("B\nU:%y[0,0]"))
    assert text.startswith("line 2: error: at character 3 unknown macro '%y': expected %x[row,column] or")
    assert text.endswith(": correct it or make it a comment with # (U:%y[0,0])")
    problem, advice = "looks at the same cells as line 1", "leave one of them out"
    assert check("U1:%x[0,0]\nU2:%x[0,0]") == [
        Finding(2, WARNING, "duplicate", "U2:%x[0,0]", problem, advice)
    ]


@pytest.mark.parametrize(
    ("line", "fact", "code"),
    [
        ("U:%x[0,0]", Facts(100, 0, 9), "never"),
        ("U:%x[0,0]", Facts(100, 1, 9), "constant"),
        ("U:%x[0,0]", Facts(100, round(100 * CROWDED) + 1, 9), "crowded"),
        ("U:%x[9,0]/%x[-9,0]", Facts(100, 5, 9), "outside"),
        ("U:%x[@10,0]", Facts(100, 5, 9), "outside"),
        ("U:%x[@9,0]", Facts(100, 5, 9), ""),
        ("U:%x[0,0]/%x[-9,0]", Facts(100, 5, 9), ""),
        ("U", Facts(100, 1, 9), ""),
    ],
)
def test_data(line: str, fact: Facts, code: str) -> None:
    assert [finding.code for finding in check_data(TemplateSet.parse(line), [fact])] == [code] * bool(code)
