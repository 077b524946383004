"""`templates generate | check | convert` and `train --dialect`, as people call them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from mtlstruct import cli
from mtlstruct.cli.options import Dialect
from mtlstruct.templates import DIALECTS, preset

DATA = "Ann NNP B-PER\nlives VBZ O\nin IN O\nOslo NNP B-LOC\n\nBob NNP B-PER\nsleeps VBZ O\n"

Ran = tuple[int, str, str]
Run = Callable[..., Ran]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(DATA)
    return tmp_path


@pytest.fixture
def run(place: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> Ran:
        code = cli.run(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def checked(run: Run, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, err = run("templates", "check", *arguments, "--json")
    assert err == ""
    return code, json.loads(out)


def test_dialects_of_the_options_are_those_of_the_table() -> None:
    assert set(get_args(Dialect)) == set(DIALECTS)


# --- check


def test_a_clean_file(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("U1:%x[0,0]\nU2:%x[0,1]\nB\n")
    assert run("templates", "check", "a.tpl") == (0, "a.tpl: no errors, no warnings\n", "")


def test_warnings_do_not_fail(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("U1:%x[0,0]\nU2:%x[0,0]\n")
    code, out, _ = run("templates", "check", "a.tpl")
    assert code == 0
    first, last = out.splitlines()
    assert first == (
        "a.tpl, line 2: warning: looks at the same cells as line 1: leave one of them out (U2:%x[0,0])"
    )
    assert last == "a.tpl: no errors, 1 warning"


def test_errors_do_and_all_lines_are_reported(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("x\nU1:%x[0,0]\nU2:%y[0,0]\n")
    code, out, _ = run("templates", "check", "a.tpl")
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["a.tpl, line 1", "a.tpl, line 3", "a.tpl"]


def test_data_is_counted(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("U1:%x[0,1]\nU2:%x[0,0]\nU3:%digits[0,0]\nU4:%x[9,0]\nB\nB1:%x[0,1]\n")
    code, found = checked(run, "a.tpl", "--data", "train.txt")
    assert code == 0
    assert [(f["line"], f["code"]) for f in found["findings"]] == [
        (2, "crowded"),
        (3, "constant"),
        (4, "outside"),
    ]
    assert (found["errors"], found["warnings"], found["path"]) == (0, 3, "a.tpl")


def test_a_template_that_never_fires(run: Run, place: Path) -> None:
    (place / "short.txt").write_text("a x A\n\nb x B\n\na x A\n")
    (place / "a.tpl").write_text("U1:%x[0,0]\nB1:%x[0,0]\n")
    code, found = checked(run, "a.tpl", "--data", "short.txt")
    assert (code, [f["code"] for f in found["findings"]]) == (0, ["never"])


def test_columns_beyond_the_data(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("U1:%x[0,2]\nB\n")
    code, found = checked(run, "a.tpl", "--data", "train.txt")
    assert (code, found["errors"]) == (1, 1)
    assert found["findings"][0]["problem"] == "names column 2, but the data has 2 observation columns (0..1)"


def test_data_is_counted_for_the_lines_that_can_be_read(run: Run, place: Path) -> None:
    (place / "a.tpl").write_text("U1:%x[0,1]\nU2:%x[0,7]\nU3:%q[0,0]\nU4:%x[9,0]\nB\n")
    code, found = checked(run, "a.tpl", "--data", "train.txt")
    assert code == 1
    assert [(f["line"], f["code"]) for f in found["findings"]] == [
        (2, "column"),
        (3, "syntax"),
        (4, "outside"),
    ]
    (place / "a.tpl").write_text("U3:%q[0,0]\n")
    assert checked(run, "a.tpl", "--data", "train.txt")[1]["errors"] == 1


def test_segmented_data_and_dialects(run: Run, place: Path) -> None:
    (place / "words.txt").write_text("ab c ab\nc ab\n")
    (place / "a.tpl").write_text("u:%X[0,0] # c\n*\n")
    code, _ = checked(run, "a.tpl", "--data", "words.txt", "--task", "segmentation", "--dialect", "wapiti")
    assert code == 0
    (place / "b.tpl").write_text("x\nB\n")
    assert checked(run, "b.tpl")[0] == 1
    assert checked(run, "b.tpl", "--dialect", "crfpp")[0] == 0


@pytest.mark.parametrize("arguments", [("no.tpl",), ("a.tpl", "--data", "no.txt")])
def test_bad_usage_is_not_a_finding(run: Run, place: Path, arguments: tuple[str, ...]) -> None:
    (place / "a.tpl").write_text("B\n")
    code, out, err = run("templates", "check", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mtlstruct: ")


# --- generate


def test_generate_with_functions_and_observed_transitions(run: Run) -> None:
    options = ["--window", "0:1", "--functions", "case[0] suffix[0,2-3]", "--observed", "1"]
    assert run("templates", "generate", *options)[1].splitlines() == [
        *("U000:%x[0,0]", "U001:%x[1,0]", "U002:%case[0,0]", "U003:%case[1,0]"),
        *("U004:%suffix[0,0,2]", "U005:%suffix[1,0,2]", "U006:%suffix[0,0,3]", "U007:%suffix[1,0,3]"),
        *("B000:%x[0,1]", "B"),
    ]


def test_generate_orders_and_gap(run: Run) -> None:
    options = ["--window", "0:2", "--columns", "0,1", "--ngrams", "2,3", "--gap", "1"]
    assert run("templates", "generate", *options)[1].splitlines() == [
        *("U000:%x[0,0]/%x[1,0]", "U001:%x[1,0]/%x[2,0]", "U002:%x[0,1]/%x[1,1]", "U003:%x[1,1]/%x[2,1]"),
        *("U004:%x[0,0]/%x[1,0]/%x[2,0]", "U005:%x[0,1]/%x[1,1]/%x[2,1]", "B"),
    ]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (["--unigrams"], []),
        (["--bigrams"], ["--ngrams", "1,2"]),
        (["--unigrams", "--bigrams", "--trigrams", "0"], ["--ngrams", "1,2,3"]),
        (["--ngrams", "3", "--bigrams"], ["--ngrams", "3,2,1"]),
    ],
)
def test_short_options_of_generate_add_to_the_orders(run: Run, short: list[str], long: list[str]) -> None:
    assert run("templates", "generate", *short) == run("templates", "generate", *long)


def test_rich_presets_come_with_headings(run: Run) -> None:
    code, out, _ = run("templates", "generate", "--preset", "ner")
    assert (code, out) == (0, preset("ner").source)
    assert out.startswith("# words\nU000:")


# --- convert


def test_convert(run: Run, place: Path) -> None:
    (place / "w.tpl").write_text("# c\n*:%X[0,0]\n")
    assert run("templates", "convert", "w.tpl", "--dialect", "wapiti", "--to", "mtlstruct") == (
        *(0, "# c\nU:%lower[0,0]\nB:%lower[0,0]\n", ""),
    )
    code, out, err = run("templates", "convert", "w.tpl", "--dialect", "wapiti", "--to", "crfpp")
    assert (code, out) == (2, "")
    assert "w.tpl, line 2: CRF++ cannot express %lower[0,0]" in err
    assert run("templates", "convert", "w.tpl", "--to", "wapiti", "-o", "w.tpl")[0] == 2
    (place / "c.tpl").write_text("U1:%x[0,0]\nB\n")
    assert run("templates", "convert", "c.tpl", "--to", "wapiti", "-o", "d.tpl")[0] == 0
    assert (place / "d.tpl").read_text() == "u1:%x[0,0]\nb\n"


# --- train


def test_train_reads_dialects(run: Run, place: Path) -> None:
    (place / "w.tpl").write_text("*:%X[0,0] # c\nu:%x[@1,0]\n")
    code, _, err = run("train", "w.tpl", "train.txt", "w.mtl", "-q", "--dialect", "wapiti")
    assert (code, err) == (0, "")
    (place / "o.tpl").write_text("U:%lower[0,0]\nB:%lower[0,0]\nU:%x[@1,0]\n")
    assert run("train", "o.tpl", "train.txt", "o.mtl", "-q")[0] == 0
    assert (place / "w.mtl").read_bytes() == (place / "o.mtl").read_bytes()
    assert run("predict", "w.mtl", "train.txt")[0] == 0


def test_train_warns_of_lines_that_crfpp_drops(run: Run, place: Path) -> None:
    (place / "c.tpl").write_text("U:%x[0,0]\nx:%x[0,0]\nB\n")
    assert run("train", "c.tpl", "train.txt", "c.mtl", "-q")[0] == 2
    code, _, err = run("train", "c.tpl", "train.txt", "c.mtl", "-q", "--dialect", "crfpp")
    assert code == 0
    assert err == "mtlstruct: c.tpl, line 2: CRF++ drops this line, and so do we in 'x:%x[0,0]'\n"


def test_lists_travel_in_the_model(run: Run, place: Path) -> None:
    (place / "towns.txt").write_text("Oslo\nParis\n")
    (place / "a.tpl").write_text('U:%in[0,0,"towns.txt"]\nU:%x[0,1]\nB\n')
    assert run("train", "a.tpl", "train.txt", "a.mtl", "-q")[0] == 0
    (place / "towns.txt").unlink()
    (place / "new.txt").write_text("Paris NNP\n")
    assert run("predict", "a.mtl", "new.txt")[1].split() == ["Paris", "NNP", "B-LOC"]
