"""`tune` and `weights --path`: grids that go on where they were, choose, draw, and end with the best model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import TRAIN, WORDS, Ran, Run
from test_cli_trees import SENTENCES, conll
from test_cli_trees import TEMPLATES as ARCS

from mtlstruct.errors import MtlError
from mtlstruct.tuning import runner

TEMPLATES = "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nU3:%x[0,1]\nU4:%x[-1,1]/%x[0,1]\nB\n"
VALID = """\
en P O
Lima N B-LOC
vive V O
Ana N B-PER
Sol N I-PER

Rio N B-LOC
canta V O
"""
GRID = (
    "tune",
    "a.tpl",
    "train.txt",
    "--valid",
    "valid.txt",
    "--method",
    "mtl,svm",
    "-c",
    "0.1,1",
    "--out",
    "t",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small data, which is the current one."""
    contents = {
        "a.tpl": TEMPLATES,
        "train.txt": TRAIN,
        "valid.txt": VALID,
        "c.tpl": TEMPLATES[:36],
        "w.txt": WORDS,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@dataclass
class Inline:
    """Trials run in this process, one after the other; some may be made to fail."""

    ran: list[tuple[str, float, str]]
    failing: Callable[[tuple[str, float, str]], bool]


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Inline:
    found, run_trial = Inline([], lambda name: False), runner.run_trial

    def run(study: Any, material: Any, score: Any, trial: Any) -> Any:
        name = (trial.options.method, trial.options.c, trial.split.name)
        found.ran.append(name)
        if found.failing(name):
            raise MtlError("it fell over")
        return run_trial(study, material, score, trial)

    monkeypatch.setattr(runner, "run_trial", run)
    monkeypatch.setattr(runner.Runner, "fitting", lambda self, jobs: 1)
    return found


def results(folder: str = "t") -> list[dict[str, Any]]:
    """Return the lines that a run has kept."""
    return [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]


def refused(got: Ran, *words: str) -> None:
    """Code 2, nothing on stdout, one sentence that has these words."""
    assert (got.code, got.out) == (2, "")
    assert got.err.startswith("mtlstruct: ")
    assert got.err.count("\n") == 1
    for word in words:
        assert word in got.err


def test_a_grid_in_processes_and_the_model_that_train_would_have_made(run: Run, place: Path) -> None:
    got = run(*GRID, "--json", "-o", "best.mtl", "--jobs", 2)
    assert got.code == 0, got.err
    found = got.json
    assert found["score"] == "f1"
    assert [(s["method"], s["c"]) for s in found["settings"]] == [
        ("mtl", 0.1), ("mtl", 1.0), ("svm", 0.1), ("svm", 1.0),
    ]  # fmt: skip
    assert found["best"]["scores"]["f1"] == max(s["scores"]["f1"] for s in found["settings"])
    assert not found["failed"]
    assert {trial["key"] for trial in found["trials"]} == {line["key"] for line in results()}
    assert sorted(p.name for p in Path("t").iterdir()) == [".lock", "results.jsonl", "tune.png"]
    best = found["best"]
    arguments = ["--method", best["method"], "-c", best["c"], "--valid", "valid.txt", "--json"]
    alone = run("train", "a.tpl", "train.txt", "alone.mtl", *arguments).json
    assert Path("best.mtl").read_bytes() == Path("alone.mtl").read_bytes()
    assert alone["valid"] == found["model"]["valid"]
    assert alone["valid"]["f1"] == best["scores"]["f1"]
    assert json.loads(Path("best.mtl.log.jsonl").read_text().splitlines()[0])["command"][1] == "tune"
    assert "encoded" in got.err
    assert "4 of 4 done  " in got.err


def test_what_is_there_is_not_run_again(run: Run, place: Path, inline: Inline) -> None:
    run(*GRID)
    assert inline.ran == [
        ("mtl", 1.0, "valid"),
        ("svm", 1.0, "valid"),
        ("mtl", 0.1, "valid"),
        ("svm", 0.1, "valid"),
    ]
    inline.ran.clear()
    again = run(*GRID)
    assert not inline.ran
    assert "4 of 4 trainings are in t/results.jsonl already" in again.err
    assert "encoded" not in again.err
    run(*GRID[:-4], "-c", "1,5", "--out", "t")
    assert inline.ran == [("mtl", 5.0, "valid"), ("svm", 5.0, "valid")]
    inline.ran.clear()
    Path("valid.txt").write_text(VALID + "\nLima N B-LOC\n")
    run(*GRID)
    assert len(inline.ran) == 4


def test_the_table(run: Run, place: Path, inline: Inline) -> None:
    got = run(*GRID, "--quiet")
    assert got.code == 0
    header, *rows, closing = got.out.splitlines()
    titles = ["method", "c", "precision", "recall", "f1", "accuracy", "gap", "passes", "templates", "seconds"]
    assert header.split() == titles
    assert len(rows) == 4
    assert sum(row.startswith("*") for row in rows) == 1
    assert closing.startswith("best: method ")
    assert closing.endswith(" on the validation data); results in t/results.jsonl")
    assert got.err == ""
    assert Path("t/tune.png").exists()


def test_folds(run: Run, place: Path, inline: Inline) -> None:
    got = run("tune", "a.tpl", "train.txt", "--folds", 2, "-c", "1,10", "--json", "-q")
    assert got.code == 0, got.err
    rows = got.json["trials"]
    assert [(row["c"], row["split"]) for row in rows] == [
        (10.0, "fold 1 of 2"), (10.0, "fold 2 of 2"), (1.0, "fold 1 of 2"), (1.0, "fold 2 of 2"),
    ]  # fmt: skip
    assert {"method", "p", "scores", "gap", "seconds", "key"} <= set(rows[0])
    table = run("tune", "a.tpl", "train.txt", "--folds", 2, "-c", "1,10").out
    assert "±" in table.splitlines()[0]
    assert "on 2 folds" in table


def test_a_part_is_held_out_if_nothing_else_is_said(run: Run, place: Path, inline: Inline) -> None:
    got = run("tune", "a.tpl", "train.txt", "-c", "1")
    assert got.code == 0, got.err
    assert "on 1 sentences held out" in got.out
    assert inline.ran == [("mtl", 1.0, "held out")]
    assert not Path("tune/tune.png").exists()  # one point is no picture


def test_a_grid_over_p(run: Run, place: Path, inline: Inline) -> None:
    arguments = [
        "tune",
        "a.tpl",
        "train.txt",
        "--valid",
        "valid.txt",
        "-c",
        "1",
        "-p",
        "1,4/3,4",
        "--out",
        "t",
    ]
    got = run(*arguments, "--method", "svm,pmtl", "--json", "-q")
    assert got.code == 0, got.err
    found = [(s["method"], s["p"]) for s in got.json["settings"]]
    assert found == [("svm", None), ("mtl", None), ("pmtl", 4 / 3), ("pmtl", 4.0)]
    table = run(*arguments, "--method", "svm,pmtl", "-q").out.splitlines()
    assert table[0].split()[:3] == ["method", "p", "c"]
    rows = run("weights", "--path", "t", "--json", "--plot", "p.svg").json
    assert {(row["method"], row["c"]) for row in rows} == {("pmtl", 1.0)}
    assert sorted({row["p"] for row in rows}) == [1.0, 4 / 3, 2.0, 4.0]
    assert all(row["relative"] == pytest.approx(1.0) for row in rows if row["p"] == 2)


def test_options_of_train_are_options_of_tune(run: Run, place: Path, inline: Inline) -> None:
    Path("s.tpl").write_text("U:%x[0,0]\nU:%x[-1,0]\nU3:%x[0,1]\nB\n")
    options = [
        "--share-identical",
        "--loss-weights",
        "B-PER=3",
        "--seed",
        5,
        "--gap",
        "0.02",
        "--solver",
        "cutting-plane",
    ]
    got = run(
        "tune",
        "s.tpl",
        "train.txt",
        "--valid",
        "valid.txt",
        "-c",
        "1,2",
        *options,
        "-o",
        "m.mtl",
        "--json",
        "-q",
    )
    assert got.code == 0, got.err
    best = got.json["best"]
    alone = ["--method", best["method"], "-c", best["c"], "--valid", "valid.txt", "-q"]
    assert run("train", "s.tpl", "train.txt", "n.mtl", *options, *alone).code == 0
    assert Path("m.mtl").read_bytes() == Path("n.mtl").read_bytes()
    rows = run("weights", "--path", "tune", "--json").json
    assert "U:%x[0,0] + U:%x[-1,0]" in [row["text"] for row in rows]


def test_items(run: Run, place: Path, inline: Inline) -> None:
    rows = [f"w{i % 5} x{i % 3} {'ABC'[i % 5 % 3]}\n" for i in range(30)]
    Path("items.txt").write_text("".join(rows))
    Path("i.tpl").write_text("U0:%x[0,0]\nU1:%x[0,1]\n")
    got = run(
        "tune", "i.tpl", "items.txt", "--task", "multiclass", "--folds", 3, "-c", "0.1,1", "--json", "-q"
    )
    assert got.code == 0, got.err
    assert got.json["score"] == "accuracy"
    assert got.json["best"]["scores"]["accuracy"] > 90


def test_segmentation(run: Run, place: Path, inline: Inline) -> None:
    Path("c.tpl").write_text("U0:%x[0,0]\nU1:%x[1,0]\nB\n")
    got = run("tune", "c.tpl", "w.txt", "--task", "segmentation", "--folds", 2, "-c", "1,2", "--json", "-q")
    assert got.code == 0, got.err
    assert got.json["score"] == "f1"
    assert got.json["best"]["scores"]["f1"] > 0


def test_a_failed_training_does_not_cost_the_others(run: Run, place: Path, inline: Inline) -> None:
    inline.failing = lambda name: name[:2] == ("svm", 1.0)
    got = run(*GRID, "-o", "best.mtl")
    assert got.code == 1
    assert len(got.out.splitlines()) > 4
    assert Path("best.mtl").exists()
    assert "method svm, c 1: failed: it fell over" in got.err
    last = "mtlstruct: 1 of 4 trainings failed; it, with method svm, c 1: it fell over"
    assert got.err.splitlines()[-1] == last
    inline.failing = lambda name: False
    inline.ran.clear()
    assert run(*GRID, "--json").json["failed"] == []
    assert inline.ran == [("svm", 1.0, "valid")]


def test_nothing_but_failures(run: Run, place: Path, inline: Inline) -> None:
    inline.failing = lambda name: True
    got = run(*GRID, "-o", "best.mtl", "-q")
    refused(got, "4 of 4 trainings failed; the first of them, with method mtl, c 1: it fell over")
    assert not Path("best.mtl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-c", "1,,2"], ["-c: expected values separated by commas, got '1,,2'"]),
        (["-c", "1,x"], ["-c: expected numbers separated by commas, got '1,x'"]),
        (["-c", "0"], ["-c must be a positive number, got 0"]),
        (["-c", "1/0"], ["-c: expected numbers"]),
        (["--method", "pmtl", "-p", "0.5"], ["p must be"]),
        (["--method", "mtl,fly"], ["unknown method 'fly': expected one of mtl, "]),
        (["--folds", "2", "--valid", "valid.txt"], ["--valid, --folds, --hold-out: expected one of them"]),
        (["--folds", "5"], ["--folds must be between 2 and the number of sentences, 4, got 5"]),
        (["--hold-out", "0.01"], ["--hold-out must leave sentences on both sides"]),
        (["--line-search"], ["--line-search is for --solver cutting-plane"]),
        (["-o", "train.txt"], ["train.txt: cannot write there"]),
        (["-o", "no/m.mtl"], ["the folder", "does not exist"]),
        (["--out", "train.txt"], ["train.txt: cannot write"]),
        (["--valid", "missing.txt"], ["missing.txt"]),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    run: Run, place: Path, inline: Inline, arguments: list[str], words: list[str]
) -> None:
    before = sorted(place.iterdir())
    refused(run("tune", "a.tpl", "train.txt", *arguments), *words)
    assert not inline.ran
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_goes_on(place: Path, how: signal.Signals) -> None:
    text = "".join(f"w{i % 97} x{i % 7} {'AB'[i * i % 7 % 2]}\n" + "\n" * (i % 9 == 0) for i in range(2000))
    Path("big.txt").write_text(text)
    line = [sys.executable, "-m", "mtlstruct", "tune", "a.tpl", "big.txt", "--out", "t", "--jobs", "2"]
    first = [*line, "-c", "1,2,3,4", "--gap", "1e-13", "--max-iter", "25"]
    with subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 120
        while not (Path("t/results.jsonl").exists() and results()):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(how)
        assert process.stderr is not None
        said = process.stderr.read().decode()  # ends with the last worker
        assert process.wait(60) == (130 if how == signal.SIGINT else -how)
    kept = Path("t/results.jsonl").read_text()
    assert 1 <= len(results()) < 4
    assert bool(list(Path("t").glob(".mtlstruct-shared-*"))) == (how == signal.SIGKILL)
    if how == signal.SIGINT:
        assert "what is done is kept in t/results.jsonl: the same command goes on from there" in said
        assert said.splitlines()[-1] == "mtlstruct: interrupted; what existed before is unchanged"
        assert "Traceback" not in said
        assert "Warning" not in said
    done = subprocess.run(first, capture_output=True, text=True, timeout=120, check=True)
    assert f"{kept.count(chr(10))} of 4 trainings are in t/results.jsonl already" in done.stderr
    assert len(results()) == 4
    assert Path("t/results.jsonl").read_text().startswith(kept)
    assert not list(Path("t").glob(".mtlstruct-shared-*"))


# weights --path ---------------------------------------------------------------------------------------------


@pytest.fixture
def tuned(run: Run, place: Path, inline: Inline) -> Path:
    """A folder of results."""
    assert run(*GRID, "-q").code == 0
    return Path("t")


def test_a_path_from_cells(run: Run, tuned: Path) -> None:
    got = run("weights", "--path", tuned, "--json", "--plot", "p.png")
    assert got.code == 0, got.err
    rows = got.json
    assert {row["method"] for row in rows} == {"mtl"}  # all templates weigh the same for svm
    assert {row["text"] for row in rows} == set(TEMPLATES.split())
    for c in (0.1, 1.0):
        assert sum(row["relative"] for row in rows if row["c"] == c) == pytest.approx(6)
    assert Path("p.png").stat().st_size > 1000


def test_a_path_from_models_is_the_same(run: Run, tuned: Path) -> None:
    for c in ("0.1", "1"):
        assert run("train", "a.tpl", "train.txt", f"{c}.mtl", "-c", c, "-q").code == 0
    rows = [run("weights", "--path", *sources, "--csv").out for sources in ([tuned], ["1.mtl", "0.1.mtl"])]
    assert rows[0] == rows[1]
    assert rows[0].splitlines()[0] == "method,c,index,text,relative"
    assert len(rows[0].splitlines()) == 1 + 2 * 6


def test_the_table_of_a_path(run: Run, tuned: Path) -> None:
    lines = run("weights", "--path", tuned, "--top", 2).out.splitlines()
    assert lines[0] == "method mtl: relative weights along c"
    assert lines[1].split() == ["text", "0.1", "1"]
    assert len(lines) == 5
    assert lines[-1] == "4 more not shown"


def test_folds_become_their_mean(run: Run, place: Path, inline: Inline) -> None:
    run("tune", "a.tpl", "train.txt", "--folds", 2, "-c", "0.1,1", "-q", "--out", "f")
    rows = run("weights", "--path", "f", "--json").json
    one = [line["result"]["mu"][0] for line in results("f") if line["facts"]["options"]["c"] == 0.1]
    (row,) = [row for row in rows if row["index"] == 0 and row["c"] == 0.1]
    assert row["relative"] == pytest.approx(6 * sum(one) / 2)


def test_paths_that_cannot_be_shown(run: Run, tuned: Path) -> None:
    Path("b.tpl").write_text(TEMPLATES[:-2])
    for name, templates, options in (
        ("m.mtl", "a.tpl", ["-c", "1"]),
        ("other.mtl", "b.tpl", ["-c", "2"]),
        ("s1.mtl", "a.tpl", ["--method", "svm"]),
        ("s2.mtl", "a.tpl", ["--method", "svm", "-c", "2"]),
    ):
        assert run("train", templates, "train.txt", name, *options, "-q").code == 0
    refused(run("weights", "m.mtl", "other.mtl"), "expected one model")
    refused(run("weights", "m.mtl", "--along", "c"), "expected one model")
    refused(run("weights", "--path", "m.mtl", "other.mtl"), "other.mtl has other templates than m.mtl")
    refused(run("weights", "--path", "m.mtl"), "differ in p alone, got none among 1")
    refused(run("weights", "--path", "s1.mtl", "s2.mtl"), "differ in c alone, got none among 2")
    refused(run("weights", "--path", "m.mtl", "--data", "train.txt"), "--path goes with neither")
    Path("empty").mkdir()
    refused(
        run("weights", "--path", "empty"), "empty: expected the results of one `mtlstruct tune`, got none"
    )
    assert run(*GRID, "--gap", "0.05", "-q").code == 0
    refused(run("weights", "--path", "t"), "t: expected the results of one `mtlstruct tune`, got 2")


def test_along_p_the_family_is_one_path(run: Run, tuned: Path) -> None:
    """mtl is p = 1 and svm is p = 2."""
    rows = run("weights", "--path", tuned, "--along", "p", "--json").json
    found = {(row["method"], row["c"], row["p"]) for row in rows}
    assert found == {("pmtl", c, p) for c in (0.1, 1.0) for p in (1.0, 2.0)}
    assert all(row["relative"] == pytest.approx(1.0) for row in rows if row["p"] == 2)


def test_help_says_where_to_go_on(run: Run) -> None:
    got = run("tune", "--help")
    assert got.code == 0
    assert "goes on where an earlier one was interrupted" in " ".join(got.out.split())


def test_trees_are_tuned_on_validation_data(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.conll").write_text(conll(SENTENCES))
    Path("arcs.tpl").write_text(ARCS)
    grid = (
        "tune",
        "arcs.tpl",
        "train.conll",
        "--task",
        "dependency",
        "-c",
        "0.001,10",
        "--out",
        "t",
        "--jobs",
        "1",
    )
    refused(run(*grid), "--task dependency: expected --valid")
    got = run(*grid, "--valid", "train.conll", "--projective", "-o", "best.mtl", "--json", "-q")
    assert got.code == 0, got.err
    assert got.json["score"] == "uas"
    assert [setting["c"] for setting in got.json["settings"]] == [0.001, 10]
    assert got.json["best"]["scores"]["uas"] == 100
    assert Path("best.mtl").exists()
