"""The bundled corpus, and the journey on it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from mtlstruct import cli
from mtlstruct.errors import FormatError
from mtlstruct.formats import columns
from mtlstruct.samples import recipes as demo


def test_brackets_are_spans() -> None:
    [line] = demo.read(["# a remark", "", "[QTY 1 1/2] [UNIT cups] of [NAME flour] , [PREP sifted]"])
    assert line.tokens == ("1", "1/2", "cups", "of", "flour", ",", "sifted")
    assert line.labels == ("B-QTY", "I-QTY", "B-UNIT", "O", "B-NAME", "O", "B-PREP")


@pytest.mark.parametrize("text", ["[QTY 1", "QTY 1]", "[QTY]", "[QTY [UNIT g]]", "[qty 1]", "[QTY 1]g"])
def test_brackets_that_do_not_pair_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"ingredients\.txt, line 2: expected a token or \[TYPE tokens\]"):
        demo.read(["salt", text])


def test_the_corpus_goes_there_and_back() -> None:
    source = files("mtlstruct.samples").joinpath("ingredients.txt").read_text(encoding="utf-8")
    lines = [line for line in source.splitlines() if line and not line.startswith("#")]
    assert [demo.bracketed(line.tokens, line.labels) for line in demo.bundled()] == lines


def test_the_corpus_has_what_it_promises() -> None:
    labels = Counter(label for line in demo.bundled() for label in line.labels)
    assert len(demo.bundled()) > 500
    assert {label[2:] for label in labels if label != "O"} == {"QTY", "UNIT", "NAME", "PREP", "COMMENT"}
    assert min(labels.values()) > 20


def test_predicted_spans_may_start_with_i() -> None:
    assert demo.bracketed(["a", "b", "c"], ["B-QTY", "I-NAME", "O"]) == "[QTY a] [NAME b] c"


def test_the_split_is_three_to_one() -> None:
    train, test = demo.split(demo.bundled())
    assert len(train) + len(test) == len(demo.bundled())
    assert 2.9 < len(train) / len(test) < 3.1


def test_columns_of_a_line(tmp_path: Path) -> None:
    lines = demo.read(["[QTY 14-ounce] [NAME McCoy Sauce] ( [COMMENT the best] )"])
    path = tmp_path / "line.txt"
    path.write_text(demo.column_file(lines, seed=1))
    corpus = columns.read(path)
    word, lower, suffix, shape, position, inside, noise, line_noise = (c.cells() for c in corpus.columns)
    assert word == list(lines[0].tokens)
    assert lower[1] == "mccoy"
    assert suffix[0] == "nce"
    assert shape == ["9-x", "XxXx", "Xx", "(", "x", "x", ")"]
    assert position == ["0", "1", "2", "3-4", "3-4", "5-8", "5-8"]
    assert inside == ["out", "out", "out", "out", "in", "in", "out"]
    assert set(noise + line_noise) <= set(demo.LETTERS)
    assert len(set(line_noise)) == 1


def test_noise_depends_on_the_seed_alone() -> None:
    lines = demo.bundled()[:20]
    assert demo.column_file(lines, seed=1) == demo.column_file(lines, seed=1)
    assert demo.column_file(lines, seed=1) != demo.column_file(lines, seed=2)


def test_the_journey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["demo"]) == 0
    out, err = capsys.readouterr()
    made = {path.name for path in (tmp_path / "demo").iterdir()}
    assert made == {
        "ingredients.tpl",
        "train.txt",
        "test.txt",
        "model.mtl",
        "model.mtl.log.jsonl",
        "weights.png",
        "report.html",
    }
    assert "pass 1 " in err
    assert [f"\n{step}. " in out for step in range(1, 8)] == [True] * 7
    assert _f1(out) > 80
    assert cli.run(["demo"]) == 0, "a second time, in the same place"


def test_the_noise_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    assert cli.run(["demo", "--out", str(tmp_path / "d")]) == 0
    capsys.readouterr()
    cli.run(["weights", str(tmp_path / "d" / "model.mtl"), "--json"])
    weights = json.loads(capsys.readouterr().out)
    noise = [w for w in weights if any(f",{column}]" in w["text"] for column in demo.NOISE)]
    assert sum(w["features"] == 0 for w in noise) > 0.8 * len(noise)
    assert sum(w["mu"] for w in noise) < 0.02


def test_the_commands_do_the_same_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.run(["demo"])
    printed = capsys.readouterr().out.replace("\\\n", " ").splitlines()
    commands = [line.split()[1:] for line in printed if line.startswith("mtlstruct ")]
    model = (tmp_path / "demo" / "model.mtl").read_bytes()
    names = ["templates", "train", "evaluate", "weights", "report", "predict"]
    assert [command[0] for command in commands] == names
    for command in commands:
        assert cli.run(command[: command.index("|")] if "|" in command else command) == 0
    assert (tmp_path / "demo" / "model.mtl").read_bytes() == model


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.txt").write_text("mine")
    assert cli.run(["demo", "--out", str(tmp_path)]) == 2
    assert "expected a new folder or that of an earlier demo" in capsys.readouterr().err
    assert (tmp_path / "train.txt").read_text() == "mine"
    assert cli.run(["demo", "--out", str(tmp_path / "train.txt")]) == 2
    assert "cannot make the folder" in capsys.readouterr().err


def test_without_matplotlib_only_the_picture_is_missing(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None; from mtlstruct.cli import main; main()"
    line = [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "d")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    assert "No picture: pictures need matplotlib" in done.stdout
    assert not (tmp_path / "d" / "weights.png").exists()


def _f1(out: str) -> float:
    return float(next(line for line in out.splitlines() if line.startswith("accuracy")).rpartition(" ")[2])
