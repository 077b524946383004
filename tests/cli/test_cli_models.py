"""Commands about finished models: explain, weights, templates select, export and import."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from support.commands import TEMPLATES, TRAIN, Ran


def test_explain_sums_to_the_margin(run):
    out = run("explain m.mtl train.txt --json --top 2").ok().out
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["sentence"] for record in records] == [1, 2, 3, 4]
    labels = [token["label"] for record in records for token in record["tokens"]]
    assert labels == [line.split()[-1] for line in TRAIN.splitlines() if line]
    for record in records:
        for token in record["tokens"]:
            voices = [voice["value"] for voice in token["templates"]]
            assert len(voices) <= 2
            total = sum(voices) + token["others"] + token["elsewhere"]
            assert total == pytest.approx(token["margin"], abs=1e-9)
            assert token["runner_up"] != token["label"]


pytestmark = pytest.mark.usefixtures("place")


def ranked(run, model="m.mtl"):
    return [w["text"] for w in run("weights", model, "--json").json if w["features"]]


def test_select_writes_the_heaviest_lines_in_their_order(run):
    heavy = ranked(run)[:2]
    got = run("templates select m.mtl --top 2")
    assert got.out.splitlines() == [line for line in TEMPLATES.splitlines() if line in heavy]
    assert re.fullmatch(r"mtlstruct: kept 2 of 6 templates, \d+ of \d+ features\n", got.err)


def test_select_writes_other_languages(run):
    ours = run("templates select m.mtl --top 3").out
    assert run("templates select m.mtl --top 3 --format crfpp").out == ours
    got = run("templates select m.mtl --top 3 --format wapiti")
    assert got.out.splitlines() == [line[0].lower() + line[1:] for line in ours.splitlines()]


def test_export_and_import_predict_the_same(run):
    got = run("export m.mtl m.txt --format crfpp-text")
    assert (got.code, got.out) == (0, "")
    assert got.err.startswith("wrote m.txt: 4 labels")
    run("import m.txt back.mtl").ok()
    assert run("predict back.mtl train.txt").out == run("predict m.mtl train.txt").out
    assert len(run("weights back.mtl --json").json) == len(ranked(run))
    run("explain back.mtl train.txt").ok()


def test_import_for_segmentation(run):
    run("export s.mtl s.txt").ok()
    run("import s.txt back.mtl --task segmentation").ok()
    assert run("predict back.mtl words.txt").out == run("predict s.mtl words.txt").out
    run("export m.mtl m.txt")
    run("import m.txt b.mtl --task segmentation").rejected("--scheme bie", "'B-LOC'")


def test_wapiti_formats_warn_of_lower_case_functions(run):
    Path("l.tpl").write_text("U0:%lower[0,0]\nB\n")
    run("train l.tpl train.txt l.mtl").ok()
    got = run("export l.mtl l.txt --format wapiti-text").ok()
    assert "warning: the model's templates, line 1: Wapiti's %X sees bytes" in got.err
    got = run("import l.txt b.mtl")
    assert "warning: l.txt, line 1: Wapiti's %X sees bytes" in got.err


def test_lines_that_expand_alike_share_parameters(run):
    Path("bag.tpl").write_text("# a bag\nU:%x[-1,0]\nU0:%x[0,0]\n\nU:%x[1,0]\nB\n")
    got = run("train bag.tpl train.txt bag.mtl --loss hinge --share-identical --json")
    assert json.loads(got.out)["templates"] == 3
    texts = [row["text"] for row in run("weights bag.mtl --json").json]
    assert "U:%x[-1,0] + U:%x[1,0]" in texts
    run("explain bag.mtl train.txt").ok()
    kept = run("templates select bag.mtl --top 2").out
    assert sorted(kept.split()) == ["U0:%x[0,0]", "U:%x[-1,0]", "U:%x[1,0]"]  # B has no weight here
    run("export bag.mtl bag.txt").ok()
    run("import bag.txt back.mtl").ok()
    assert run("predict back.mtl train.txt").out == run("predict bag.mtl train.txt").out


KEYS = ["rank", "index", "name", "text", "mu", "relative", "norm", "features", "dropped"]


def test_weights_as_table_json_and_csv(run):
    listed = run("weights m.mtl --json").json
    assert [list(weight) for weight in listed] == [KEYS] * 6
    assert [weight["rank"] for weight in listed] == list(range(1, 7))
    assert all(weight["relative"] == pytest.approx(6 * weight["mu"], rel=1e-3) for weight in listed)
    assert sum(weight["mu"] for weight in listed) == pytest.approx(1, abs=1e-4)
    rows = list(csv.DictReader(io.StringIO(run("weights m.mtl --csv").out)))
    assert [(row["text"], float(row["mu"])) for row in rows] == [(w["text"], w["mu"]) for w in listed]
    lines = run("weights m.mtl").out.splitlines()
    assert lines[0].split() == ["rank", "name", "text", "mu", "relative", "norm", "features", "dropped"]
    assert [line.split()[0] for line in lines[1:-1]] == [str(rank) for rank in range(1, 7)]
    assert len(run("weights m.mtl --json --top 2").json) == 2
    assert run("weights m.mtl --top 2").out.splitlines()[-1].startswith("4 more not shown; ")


@pytest.mark.parametrize("name", ["w.png", "w.svg", "w.pdf"])
def test_weights_plot(run, name):
    assert run("weights m.mtl --plot", name) == Ran(0, run("weights m.mtl").out, f"drew {name}\n")
    assert Path(name).stat().st_size > 1000


def test_user_text_is_no_markup(run):
    Path("b.tpl").write_text("U[red]:%x[0,0]\nU[/bold]:smile:%x[1,0]\nB\n")
    run("train b.tpl train.txt b.mtl -q").ok()
    out = run("weights b.mtl").out
    assert "U[red]:%x[0,0]" in out
    assert "U[/bold]:smile:%x[1,0]" in out


def test_weights_count_features_without_weight(run):
    run("train a.tpl train.txt svm.mtl --method svm -q").ok()
    rows = run("weights svm.mtl --json").json
    seen = {row["text"]: row["features"] + row["dropped"] for row in rows}
    assert seen["B"] == 4 * 4
    assert seen["U3:%x[0,1]"] == 3 * 4
    run("export svm.mtl m.txt")
    run("import m.txt back.mtl")
    assert all(row["dropped"] is None for row in run("weights back.mtl --json").json)
    assert "dropped" not in run("weights back.mtl").out.splitlines()[0]


def test_weights_on_data_give_shares(run):
    rows = run("weights m.mtl --json --data train.txt").json
    assert [list(row) for row in rows] == [[*KEYS, "share", "cost", "loss"]] * 6
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(row["loss"] == row["cost"] == 0 for row in rows if not row["features"])
    Path("words.txt").write_text("the D\n")
    assert list(run("weights m.mtl --json --data words.txt").json[0]) == [*KEYS, "share"]
    assert "share" in run("weights m.mtl --data train.txt").out.splitlines()[0]
