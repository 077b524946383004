"""Lint: each finding with its line, and no findings about presets."""

import pytest

from mtlstruct.templates import PRESETS, TemplateSet, preset
from mtlstruct.templates.lint import (
    ERROR,
    MAX_SINGLETON_SHARE,
    WARNING,
    Facts,
    LintFinding,
    check,
    check_data,
)


def found(text, **options):
    return [(f.line, f.severity, f.code) for f in check(text, **options)]


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "dependency"])
def test_presets_are_fine(name):
    assert found(preset(name).source) == []


def test_slips_in_a_long_file_are_found():
    lines = preset("ner-134").source.splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("U")]
    lines[at[4]] = lines[at[5]]  # a copied line
    lines[at[40]] = lines[at[40]].replace("%x", "%y")
    lines[at[50]] = lines[at[50]].replace("]", "")
    lines.insert(at[60], "U99x:%x[0,27]")
    slips = [(at[40] + 1, ERROR, "syntax"), (at[50] + 1, ERROR, "syntax"), (at[60] + 1, ERROR, "column")]
    assert found("\n".join(lines), columns=27) == [(at[5] + 1, WARNING, "duplicate"), *slips]


def test_the_paper_preset_for_trees_has_duplicates_only():
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
def test_rules(text, expected):
    assert found(text, columns=2) == expected


@pytest.mark.parametrize(
    ("text", "codes"), [("U:%x[0,0]\nU", ["transitions"]), ("U\nB:%x[0,0]", []), ("A", [])]
)
def test_linked_labels_need_a_b_line(text, codes):
    assert [code for _, _, code in found(text, linked=True)] == codes


def test_lists_that_are_not_there(tmp_path):
    assert found('U:%in[0,0,"no.txt"]', folder=tmp_path) == [(1, ERROR, "syntax")]
    assert found('U:%in[0,0,"no.txt"]') == []  # nothing is read


def test_a_finding_says_what_and_what_to_do():
    text = str(*check("B\nU:%y[0,0]"))
    assert text.startswith("line 2: error: at character 3 unknown macro '%y': expected %x[row,column] or")
    assert text.endswith(": correct it or make it a comment with # (U:%y[0,0])")
    problem, advice = "looks at the same cells as line 1", "leave one of them out"
    assert check("U1:%x[0,0]\nU2:%x[0,0]") == [
        LintFinding(2, WARNING, "duplicate", "U2:%x[0,0]", problem, advice)
    ]


@pytest.mark.parametrize(
    ("line", "fact", "code"),
    [
        ("U:%x[0,0]", Facts(100, 0, 0, 9), "never"),
        ("U:%x[0,0]", Facts(100, 1, 0, 9), "constant"),
        ("U:%x[0,0]", Facts(100, 70, round(100 * MAX_SINGLETON_SHARE) + 1, 9), "memorises"),
        ("U:%x[9,0]/%x[-9,0]", Facts(100, 5, 2, 9), "outside"),
        ("U:%x[@10,0]", Facts(100, 5, 2, 9), "outside"),
        ("U:%x[@9,0]", Facts(100, 5, 2, 9), ""),
        ("U:%x[0,0]/%x[-9,0]", Facts(100, 5, 2, 9), ""),
        ("U", Facts(100, 1, 0, 9), ""),
    ],
)
def test_data(line, fact, code):
    assert [finding.code for finding in check_data(TemplateSet.parse(line), [fact])] == [code] * bool(code)
