"""`python -m reproduction`: runs once, goes on after an interruption, says what is not there."""

import json
import sys

import pytest
from support.trees import SENTENCES, conll

import reproduction.__main__ as reproduction

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The command that makes the table of parsing, and its folder, after a run of no time at all."""
    root = tmp_path_factory.mktemp("reproduce")
    (root / "data").mkdir()
    for part in ("train", "test"):
        (root / "data" / f"danish_ddt_{part}.conll").write_text(conll(SENTENCES))
    out = root / "out"
    arguments = ["parsing", "--data", str(root / "data"), "--out", str(out), "--jobs", "1", "-q"]
    assert reproduction.run([*arguments, "--minutes", "0"]) == 0
    return arguments, out


@pytest.mark.slow
def test_without_time_there_is_a_page_without_numbers_and_the_same_command_fills_it(run):
    arguments, out = run
    before = (out / "reproduction.md").read_text()
    assert "| MTL | – (32.61) | – (87.08) | – (88.80) | – |" in before
    assert "0 trainings" in before
    assert reproduction.run(arguments) == 0
    after = (out / "reproduction.md").read_text()
    assert "2 trainings" in after
    assert "| MTL | **100.00** (32.61, +67.39)" in after
    assert "not run: file swedish_talbanken05_train.conll not found" in after
    assert (out / "parsing-weights.svg").exists()
    results = (out / "results.jsonl").read_text()
    assert reproduction.run(arguments) == 0
    assert (out / "results.jsonl").read_text() == results, "a training is run once"
    assert [bool(json.loads(line)["result"]["trace"]) for line in results.splitlines()] == [True, True]


@pytest.mark.parametrize(
    ("names", "said"),
    [(["tables"], "unknown experiment 'tables'"), (["ner", "nre"], "unknown experiment 'nre'")],
)
def test_unknown_names_are_refused(names, said, tmp_path, capsys):
    assert reproduction.run([*names, "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert reproduction.run(["parsing", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "pictures need matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_official_files_of_2002_are_latin_1(tmp_path):
    (tmp_path / "esp.train").write_bytes("España NC B-LOC\nvive VMI O\n".encode("latin-1"))
    assert reproduction._read(tmp_path / "esp.train", "sequence").columns[0].cells() == ["España", "vive"]
