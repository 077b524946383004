"""`tune`, and `weights` of several models: grids resume, choose, draw, and end with the best model."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.commands import TEMPLATES, WORDS, write_files

from mtlstruct.errors import MtlError
from mtlstruct.model.model import Model
from mtlstruct.tuning.runner import Runner

GRID = "tune a.tpl train.txt --valid valid.txt --method mtl,svm -c 0.1,1 --out t"


@dataclass
class Inline:
    """Trials run one after the other; some may be made to fail."""

    ran: list[tuple[str, float, str]]
    failing: Callable[[tuple[str, float, str]], bool]


@pytest.fixture
def inline(monkeypatch):
    found, run_trial = Inline([], lambda name: False), Runner.run_trial

    def run(self, trial, *more):
        name = (trial.options.method, trial.options.c, trial.split.name)
        found.ran.append(name)
        if found.failing(name):
            raise MtlError("it fell over")
        return run_trial(self, trial, *more)

    monkeypatch.setattr(Runner, "run_trial", run)
    monkeypatch.setattr(Runner, "fitting", lambda self, *_: 1)
    return found


def results(folder="t"):
    """Return the lines that a run has kept."""
    return [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]


def equal_but_for_the_search(tuned, trained):
    """Return whether a model of `tune` is that of `train`, apart from its fact `search`."""
    model = Model.load(tuned)
    facts = {name: value for name, value in model.facts.items() if name != "search"}
    assert len(facts) == len(model.facts) - 1
    replace(model, facts=facts).save("same.mtl")
    return Path("same.mtl").read_bytes() == Path(trained).read_bytes()


def test_a_grid_on_threads_and_the_model_that_train_would_have_made(run, place):
    got = run(f"{GRID} --json -o best.mtl --jobs 2").ok()
    found = got.json
    assert found["score"] == "f1"
    assert [(s["method"], s["c"]) for s in found["settings"]] == [
        ("mtl", 0.1), ("mtl", 1.0), ("svm", 0.1), ("svm", 1.0),
    ]  # fmt: skip
    assert found["best"]["scores"]["f1"] == max(s["scores"]["f1"] for s in found["settings"])
    assert not found["failed"]
    assert len(results()) == 4
    assert sorted(p.name for p in Path("t").iterdir()) == [".lock", "results.jsonl", "tune.png"]
    best = found["best"]
    options = f"--method {best['method']} -c {best['c']} --valid valid.txt --json"
    alone = run(f"train a.tpl train.txt alone.mtl {options}").json
    assert equal_but_for_the_search("best.mtl", "alone.mtl")
    assert alone["valid"] == found["model"]["valid"]
    assert alone["valid"]["f1"] == best["scores"]["f1"]
    assert json.loads(Path("best.mtl.log.jsonl").read_text().splitlines()[0])["command"][1] == "tune"
    assert "encoded" in got.err
    assert "4 of 4 done  " in got.err


def test_finished_trainings_are_not_repeated(run, place, inline):
    run(GRID)
    assert inline.ran == [
        ("mtl", 1.0, "valid"),
        ("svm", 1.0, "valid"),
        ("mtl", 0.1, "valid"),
        ("svm", 0.1, "valid"),
    ]
    inline.ran.clear()
    again = run(GRID)
    assert not inline.ran
    assert "4 of 4 trainings are in t/results.jsonl already" in again.err
    assert "encoded" not in again.err
    run(GRID.replace("0.1,1", "1,5"))
    assert inline.ran == [("mtl", 5.0, "valid"), ("svm", 5.0, "valid")]
    inline.ran.clear()
    Path("valid.txt").write_text(Path("valid.txt").read_text() + "\nLima N B-LOC\n")
    run(GRID)
    assert len(inline.ran) == 4


def test_the_table(run, place, inline):
    got = run(f"{GRID} --quiet").ok()
    header, *rows, closing = got.out.splitlines()
    titles = ["method", "loss", "c", "precision", "recall", "f1", "accuracy"]
    assert header.split() == [*titles, "±", "gap", "passes", "templates", "seconds"]
    assert len(rows) == 4
    assert sum(row.startswith("*") for row in rows) == 1
    assert closing.startswith("chosen: method ")
    assert " on the validation data" in closing
    assert closing.endswith("; results in t/results.jsonl")
    assert got.err == ""
    assert Path("t/tune.png").exists()


def test_small_data_are_divided_into_folds_if_nothing_else_is_said(run, place, inline, monkeypatch):
    Path("two.txt").write_text("\n\n".join(Path("train.txt").read_text().split("\n\n")[:2]) + "\n")
    run("tune a.tpl two.txt -c 1 -q").rejected("a held-out part must leave sentences on both sides")
    Path("five.txt").write_text(Path("train.txt").read_text() * 2)
    run("tune a.tpl five.txt -c 1 -q").ok()
    monkeypatch.setattr("mtlstruct.tuning.search.FEW_SENTENCES", 5)
    assert " sentences held out" in run("tune a.tpl five.txt -c 2").ok().out
    parts = [*(f"fold {k} of 3" for k in range(1, 4)), "held out"]
    assert [split for *_, split in inline.ran] == parts
    assert not Path("tune/tune.png").exists()  # one point is no picture


def test_options_of_train_are_options_of_tune(run, place, inline):
    Path("s.tpl").write_text("U:%x[0,0]\nU:%x[-1,0]\nU3:%x[0,1]\nB\n")
    options = "--share-identical --loss-weights B-PER=3 --seed 5 --gap 0.02 --solver cutting-plane"
    got = run(f"tune s.tpl train.txt --valid valid.txt -c 1,2 -o m.mtl --json -q {options}").ok()
    best = got.json["best"]
    alone = f"--method {best['method']} -c {best['c']} --valid valid.txt -q"
    run(f"train s.tpl train.txt n.mtl {options} {alone}").ok()
    assert equal_but_for_the_search("m.mtl", "n.mtl")


@pytest.mark.parametrize(
    ("task", "templates", "data", "score"),
    [
        ("multiclass", "U0:%x[0,0]\nU1:%x[0,1]\n", "w0 x A\nw1 x B\nw2 x C\n" * 9, "accuracy"),
        ("segmentation", "U0:%x[0,0]\nU1:%x[1,0]\nB\n", WORDS, "f1"),
    ],
)  # fmt: skip
def test_other_tasks(run, place, inline, task, templates, data, score):
    write_files(place, {"t.tpl": templates, "data.txt": data})
    found = run(f"tune t.tpl data.txt --task {task} --folds 2 -c 0.1,1 --json -q").ok().json
    assert found["score"] == score
    assert found["best"]["scores"][score] > 0


def test_a_failed_training_does_not_cost_the_others(run, place, inline):
    inline.failing = lambda name: name[:2] == ("svm", 1.0)
    got = run(f"{GRID} -o best.mtl")
    assert got.code == 1
    assert len(got.out.splitlines()) > 4
    assert Path("best.mtl").exists()
    assert "method svm, loss hinge, c 1: failed: it fell over" in got.err
    last = "mtlstruct: 1 of 4 trainings failed; it, with method svm, loss hinge, c 1: it fell over"
    assert got.err.splitlines()[-1] == last
    inline.failing = lambda name: False
    inline.ran.clear()
    assert run(f"{GRID} --json").json["failed"] == []
    assert inline.ran == [("svm", 1.0, "valid")]


def test_a_grid_of_failures_is_an_error(run, place, inline):
    inline.failing = lambda name: True
    got = run(f"{GRID} -o best.mtl -q")
    got.rejected("4 of 4 trainings failed; the first of them, with method mtl, loss log, c 1: it fell over")
    assert not Path("best.mtl").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.process
def test_a_run_that_was_stopped_goes_on(place, how):
    text = "".join(f"w{i % 97} x{i % 7} {'AB'[i * i % 7 % 2]}\n" + "\n" * (i % 9 == 0) for i in range(2000))
    Path("big.txt").write_text(text)
    line = [sys.executable, "-m", "mtlstruct", "tune", "a.tpl", "big.txt", "--out", "t", "--jobs", "2"]
    Path("valid.txt").write_text(text[: text.index("\n\n", 2000)])
    line += ["--valid", "valid.txt"]
    first = [*line, "-c", "1,2,3,4", "--gap", "1e-13", "--max-iter", "25"]
    with subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 120
        while not (Path("t/results.jsonl").exists() and results()):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(how)
        said = process.stderr.read().decode()
        assert process.wait(60) == (130 if how == signal.SIGINT else -how)
    kept = Path("t/results.jsonl").read_text()
    assert 1 <= len(results()) < 4
    if how == signal.SIGINT:
        assert "finished trainings are in t/results.jsonl: the same command continues from there" in said
        assert said.splitlines()[-1] == "mtlstruct: interrupted; existing files are unchanged"
        assert "Traceback" not in said
        assert "Warning" not in said
    done = subprocess.run(first, capture_output=True, text=True, timeout=120, check=True)
    assert f"{kept.count(chr(10))} of 4 trainings are in t/results.jsonl already" in done.stderr
    assert len(results()) == 4
    assert Path("t/results.jsonl").read_text().startswith(kept)


def test_weights_of_several_models_side_by_side(run, place):
    for c in ("0.1", "1"):
        run("train a.tpl train.txt", f"{c}.mtl", "-c", c, "-q").ok()
    rows = run("weights 0.1.mtl 1.mtl --json --plot p.svg").ok().json
    assert {row["text"] for row in rows} == {line for line in TEMPLATES.split("\n") if line[:1] in ("U", "B")}
    for name in ("0.1.mtl", "1.mtl"):
        assert sum(row[name] for row in rows) == pytest.approx(6)
        alone = {row["index"]: row["relative"] for row in run("weights", name, "--json").json}
        assert {row["index"]: row[name] for row in rows} == pytest.approx(alone)
    assert Path("p.svg").stat().st_size > 1000
    lines = run("weights 0.1.mtl 1.mtl --top 2").out.splitlines()
    assert [line.split()[0] for line in lines] == ["text", *(row["text"] for row in rows[:2])]
    assert run("weights 0.1.mtl 1.mtl --csv").out.startswith("index,text,0.1.mtl,1.mtl\n")
    Path("b.tpl").write_text(TEMPLATES[:-2])
    run("train b.tpl train.txt other.mtl -q").ok()
    run("weights 1.mtl other.mtl").rejected("other.mtl has other templates than 1.mtl")
    run("weights 1.mtl 0.1.mtl --data train.txt").rejected("expected one model, got several")


def test_trees_are_tuned_on_validation_data(run, place):
    grid = "tune arcs.tpl heads.conll --task dependency -c 0.001,10 --out t --jobs 1"
    got = run(f"{grid} --valid heads.conll --projective -o best.mtl --json -q").ok()
    assert got.json["score"] == "uas"
    assert [setting["c"] for setting in got.json["settings"]] == [0.001, 10]
    assert got.json["best"]["scores"]["uas"] == 100
    assert Path("best.mtl").exists()


def test_auto_chooses_the_same_model_on_any_number_of_threads(run, place):
    auto = "train a.tpl train.txt {} --method auto --valid valid.txt --json -q --threads {}"
    first, second = (run(auto.format(f"{n}.mtl", n)).ok().json for n in (1, 2))
    assert Path("1.mtl").read_bytes() == Path("2.mtl").read_bytes()
    assert first["search"] == second["search"] == Model.load("1.mtl").facts["search"]
    Model.load("1.mtl").report().save(place / "report.html")
    assert '"scored_on":' in (place / "report.html").read_text().replace('": ', '":')
    tried = first["search"]["tried"]
    assert len(tried) == 17 + 1
    assert tried[17]["scheme"] == "bioes"
    assert {(row["loss"], row["method"]) for row in tried} == {
        *(("log", name) for name in ("mtl", "pmtl", "crf-l2")),
        *(("hinge", name) for name in ("mtl", "pmtl", "svm")),
    }
    (chosen,) = [row for row in tried if row["chosen"]]
    assert {name: chosen[name] for name in ("method", "loss", "c")} == {
        name: Model.load("1.mtl").facts[name] for name in ("method", "loss", "c")
    }
    stored = len(results("1.mtl.auto"))
    assert stored == 17 + 6 + 3 + 1
    run(auto.format("1.mtl", 2)).ok()
    assert len(results("1.mtl.auto")) == stored
    few = run("train a.tpl train.txt f.mtl --method auto --loss hinge -p 1 --folds 2 --json -q").ok().json
    assert [row["c"] for row in few["search"]["tried"][:2]] == [1, 10]


def test_a_search_that_the_time_limit_ends_says_how_far_it_came(run, place, monkeypatch):
    left = iter(range(17))
    monkeypatch.setattr("mtlstruct.cli.tuning_run._before", lambda end: next(left, None) is not None)
    got = run("train a.tpl train.txt m.mtl --method auto --valid valid.txt --minutes 5").ok()
    assert "note: --minutes ended the search early: settings were compared at a gap of" in got.out
