"""Experiments as data: corpora are recognised, every file makes sense, tables and claims say what the cells say."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from support.trees import SENTENCES, conll

import reproduction.__main__ as reproduction
from mtlstruct.errors import MtlError
from mtlstruct.templates.generate import PRESETS, preset
from mtlstruct.tuning.study import Finding
from reproduction.claims import verdicts
from reproduction.datasets import Folder, Found, Missing, dataset
from reproduction.pages import write
from reproduction.plan import Case, cases_of, heaviest, only, plan, selecting, settings_of
from reproduction.results import Outcome, Results
from reproduction.specs import ALL, MTL, experiment, scale
from reproduction.tables import Entry, signed, tables, to_csv


def lay(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    return Folder(root)


def test_official_layouts_are_recognised_wherever_they_lie_in_the_folder(tmp_path):
    folder = lay(
        tmp_path,
        *("deep/conll2002/esp.train", "deep/conll2002/esp.testa", "deep/conll2002/esp.testb"),
        *("icwb2-data/training/msr_training.utf8", "icwb2-data/gold/msr_test_gold.utf8"),
        *("icwb2-data/gold/msr_training_words.utf8", "danish_ddt_train.conll", "danish_ddt_test.conll"),
    )
    for name in ("esp", "msr", "danish"):
        found = folder.find(dataset(name))
        assert isinstance(found, Found)
        assert found.source.standing == "official"
        assert found.title == dataset(name).short
        assert "not known" in found.describe()


def test_a_stand_in_is_used_where_the_official_files_are_not_there_and_is_marked(tmp_path):
    names = ("cws/msr10_normalised/train.txt", "cws/msr10_normalised/test.txt")
    found = lay(tmp_path, *names).find(dataset("msr"))
    assert isinstance(found, Found)
    assert found.title == "MSR†"
    assert "stand-in" in found.describe()
    official = ("training/msr_training.utf8", "gold/msr_test_gold.utf8", "gold/msr_training_words.utf8")
    assert lay(tmp_path, *official).find(dataset("msr")).title == "MSR"


def test_missing_files_are_named(tmp_path):
    found = lay(tmp_path, "gold/cityu_test_gold.utf8").find(dataset("cityu"))
    assert isinstance(found, Missing)
    assert found.describe() == "not run: file training/cityu_training.utf8 not found"
    with pytest.raises(MtlError, match="expected a folder"):
        Folder(tmp_path / "nowhere")


def test_every_experiment_is_whole():
    for name in ALL:
        one = experiment(name)
        assert one.title
        assert one.paper
        assert one.views
        for grid in one.grids:
            for case in cases_of(grid):
                base = case.base or case
                assert base.templates in PRESETS
                for row in grid.rows:
                    assert bool(settings_of(grid, row, case)) != row.left_out
                    printed = row.paper.get(case.data, {}).get(case.templates)
                    assert "table" not in one.views or printed is None or len(printed) == len(grid.columns)


def test_the_papers_numbers_are_percents_and_f1_is_the_mean_of_its_parts_but_for_misprints():
    """A slip of the hand in the library would show here; the paper itself has some that do not add up."""
    off = []
    for name in ("ner", "ner-selected", "cws"):
        for grid in experiment(name).grids:
            for row in grid.rows:
                for data, sets in row.paper.items():
                    for templates, printed in sets.items():
                        assert all(35 < value < 100 for value in printed)
                        for part in range(len(grid.parts)):
                            figures = dict(zip(grid.scores, printed[part * len(grid.scores) :], strict=False))
                            p, r, f1 = figures["precision"], figures["recall"], figures["f1"]
                            if abs(2 * p * r / (p + r) - f1) > 0.11:
                                off.append((name, row.label, data, templates, part))
    assert off == [("ner", "IRW-CRF", "esp", "ner-134", 1), ("cws", "CRF (l1)", "pku", "cws-tp2", 0)]


def test_a_grid_that_is_like_another_shares_its_cells():
    planned = plan(only(["ner", "sensitivity", "weights"]))
    case = Case("esp", "ner-134")
    assert len(planned[case]) == len(plan(only(["ner"]))[case])


def test_what_selects_templates_is_run_first_even_if_nobody_asked_for_it():
    planned = list(plan(only(["ner-selected"])).items())
    cases = [case for case, _ in planned]
    assert cases.index(Case("esp", "ner-134")) < cases.index(Case("esp", "top-20 of ner-134"))
    assert dict(planned)[Case("esp", "ner-134")] == selecting(Case("esp", "ner-134"))


def test_c_means_the_same_for_every_p():
    assert scale(1, 134) == 1
    assert scale(2, 134) == pytest.approx(1 / 134)
    blocks = np.ones(134)
    ratio = [(blocks**p).sum() ** (2 / p) / 134**2 for p in (1, 4 / 3, 2, 4)]
    assert [scale(p, 134) for p in (1, 4 / 3, 2, 4)] == pytest.approx(ratio)


def training(options, score, *, mu=(1.0,), cpu=1.0, also=None):
    result = {
        "scores": score,
        "also": also or {},
        "gap": 0.01,
        "passes": 3,
        "active_templates": sum(value > 0 for value in mu),
        "mu": list(mu),
        "seconds": cpu,
        "cpu_seconds": cpu,
        "learn_cpu_seconds": cpu,
        "trace": [[0.1, 2.0, 1.0, 0.5, 1], [0.2, 2.0, 1.9, 0.05, 1]],
    }
    return Finding(options, (result,), True)


def prf(f1):
    return {"precision": f1, "recall": f1, "f1": f1}


def made_up(tmp_path, best="MTL"):
    """Results of the table of named entities on Spanish: every row best at its first c, MTL ahead or not."""
    folder = lay(tmp_path, "esp.train", "esp.testa", "esp.testb")
    results = Results(corpora={"esp": folder.find(dataset("esp"))})
    results.missing["ned"] = folder.find(dataset("ned"))
    grid, case = experiment("ner").grids[0], Case("esp", "ner-134")
    found = {}
    for row in grid.rows:
        for number, options in enumerate(settings_of(grid, row, case)):
            f1 = 60.0 + 5 * (row.label == best) - number
            mu = np.zeros(134)
            mu[[3, 5, 4]] = 0.5, 0.3, 0.2
            found[options] = training(options, prf(f1), mu=mu, also={"test": prf(f1 + 1)})
    results.outcomes[case] = Outcome(case, results.corpora["esp"], preset("ner-134"), found)
    return results


def test_a_table_shows_the_best_c_beside_the_paper_and_says_what_was_not_run(tmp_path):
    esp, ned = tables(experiment("ner"), made_up(tmp_path))
    text = esp.markdown()
    mtl = next(line for line in text.splitlines() if line.startswith("| MTL"))
    assert "**65.00** (69.62, −4.62)" in mtl
    assert "**66.00** (73.42, −7.42)" in mtl
    assert mtl.endswith("| 0.01 |")
    assert "60.00 (63.88, −3.88)" in text
    assert "not run: file conll2002_ned/train.conll not found" in ned.markdown()
    assert r"\textbf{65.00}" in esp.latex()
    assert esp.latex().count(r"\\") == len(esp.lines) + 1


def test_csv_has_a_line_a_number(tmp_path):
    rows = list(csv.DictReader(io.StringIO(to_csv(experiment("ner"), made_up(tmp_path)))))
    grid = experiment("ner").grids[0]
    assert len(rows) == 2 * len(grid.rows) * len(grid.columns)
    one = next(r for r in rows if (r["data"], r["row"], r["part"], r["score"]) == ("esp", MTL, "test", "f1"))
    assert (one["ours"], one["paper"], one["c"]) == ("66.0", "73.42", "0.01")
    assert next(r for r in rows if r["data"] == "ned")["ours"] == ""


def test_entries():
    assert Entry(93.312, None, 93.8, 1).text("**{}**") == "93.31 (93.8, −0.5)"
    assert Entry(93.312, 0.1, None, 1, True).text("**{}**") == "**93.31 ± 0.10**"
    assert Entry(None, None, 93.8, 1).text("{}") == "– (93.8)"
    assert Entry(None, None, None).text("{}") == "–"
    assert (signed(-0.001), signed(0.5, 1), signed(-0.5, 1)) == ("0.00", "+0.5", "−0.5")


def test_claims_follow_the_cells(tmp_path):
    claim = "MTL beats CRF (l1), IRW-CRF and OnlineMKL on ESP and NED"
    assert {v.claim: v.answer for v in verdicts(made_up(tmp_path))}[claim] == "yes"
    assert {v.claim: v.answer for v in verdicts(made_up(tmp_path, best="CRF (l1)"))}[claim] == "no"
    assert {v.answer for v in verdicts(Results())} == {"not run"}


def test_the_heaviest_templates_are_taken_in_file_order(tmp_path):
    outcome = made_up(tmp_path).outcomes[Case("esp", "ner-134")]
    chosen = heaviest(outcome.findings, outcome.case, outcome.templates, 2)
    every = list(outcome.templates)
    assert [t.title for t in chosen] == [every[3].title, every[5].title]


def test_a_page_has_every_table_figure_and_claim(tmp_path):
    pytest.importorskip("matplotlib")
    experiments = only(["ner", "sensitivity", "weights", "time"])
    (tmp_path / "out").mkdir()
    page = write(experiments, made_up(tmp_path), tmp_path / "out", "the command")
    text = page.read_text()
    for needle in ("the command", "| MTL |", "(sensitivity.svg)", "(weights.svg)", "(time.svg)", "not run"):
        assert needle in text
    for name in ("ner.csv", "ner.tex", "sensitivity.png", "weights.svg", "time.png"):
        assert (tmp_path / "out" / name).stat().st_size > 100


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The command that makes the table of parsing, and its folder, after a run of no time at all."""
    pytest.importorskip("matplotlib")
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
