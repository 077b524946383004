"""Labels of arcs on the command line: a second stage in the same model, in every command that shows a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli_trees import SENTENCES, TEMPLATES, Run, conll, run

from mtlstruct import cli

__all__ = ["run"]

RELATIONS = {"D": "det", "J": "mod", "A": "adv", "V": "root", ".": "punct"}


def labelled(text: str) -> str:
    """The trees with relations that follow from tag and direction: nouns before their head are subjects."""
    lines = []
    for line in text.split("\n"):
        cells = line.split("\t")
        if len(cells) == 10:
            noun = "subj" if int(cells[0]) < int(cells[6]) else "obj"
            cells[7] = RELATIONS.get(cells[4], noun)
        lines.append("\t".join(cells))
    return "\n".join(lines)


GOLD = labelled(conll(SENTENCES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels")
    (path / "train.conll").write_text(GOLD)
    (path / "blind.conll").write_text(conll(SENTENCES, heads=False))
    (path / "arcs.tpl").write_text(TEMPLATES)
    files = [str(path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    assert cli.run(["train", *files, "--task", "dependency", "--labels", "-c", "10", "-q"]) == 0
    return path


def test_prediction_fills_heads_and_relations(folder: Path, run: Run) -> None:
    assert run("predict", folder / "model.mtl", folder / "blind.conll") == GOLD


def test_input_without_sentences_comes_back(folder: Path, run: Run) -> None:
    empty = folder / "empty.conll"
    empty.write_text("# nothing but this\n\n")
    assert run("predict", folder / "model.mtl", empty) == empty.read_text()


def test_evaluate_says_how_many_labels_are_right(folder: Path, run: Run) -> None:
    both = folder / "model.mtl", folder / "train.conll"
    found = json.loads(run("evaluate", *both, "--json"))
    assert (found["las"], found["label_accuracy"], found["uas"]) == (100, 100, 100)
    out = run("evaluate", *both)
    assert "Labeled   attachment score: 25 / 25" in out
    assert "Label accuracy score:       25 / 25" in out


def test_weights_shows_both_stages(folder: Path, run: Run) -> None:
    model = folder / "model.mtl"
    assert len(json.loads(run("weights", model, "--json"))) == 5
    assert "--labels shows those templates" in run("weights", model)
    rows = json.loads(run("weights", model, "--labels", "--json", "--data", folder / "blind.conll"))
    assert len(rows) > 50
    assert rows[0]["mu"] > 0
    assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-3)
    assert sum(row["mu"] for row in rows) == pytest.approx(1, rel=1e-3)


def test_explain_tells_why_a_label(folder: Path, run: Run) -> None:
    model, text = folder / "model.mtl", folder / "blind.conll"
    sentence = json.loads(run("explain", model, text, "--json", "--sentence", 2, "--top", 200))
    second = sentence["tokens"][1]["relation"]
    assert second["label"] == "subj"
    total = sum(voice["value"] for voice in second["templates"]) + second["others"]
    assert total == pytest.approx(second["margin"], abs=1e-5)
    out = run("explain", model, text, "--sentence", 2)
    assert "as subj, not " in out
    assert "as det, not " in out


def sentences_of(page: Path) -> list[dict[str, Any]]:
    text = page.read_text().partition('type="application/json">')[2].partition("</script>")[0]
    return list(json.loads(text)["sentences"])


def test_a_page_with_drawings(folder: Path, run: Run) -> None:
    wrong = folder / "wrong.conll"
    wrong.write_text(GOLD.replace("\t3\tsubj\t", "\t0\tsubj\t").replace("\tobj\t", "\t<obj>\t"))
    page = folder / "page.html"
    assert run("explain", folder / "model.mtl", wrong, "--html", page) == ""
    drawings = "".join(sentence["tree"]["drawing"] for sentence in sentences_of(page))
    assert drawings.count("<svg") == len(SENTENCES)
    assert drawings.count('<g class="missed">') == 3
    assert "(&lt;obj&gt;)" in drawings
    run("explain", folder / "model.mtl", folder / "blind.conll", "--html", page, "--sentence", 2)
    (sentence,) = sentences_of(page)
    assert sentence["sentence"] == 2
    assert 'class="missed"' not in sentence["tree"]["drawing"]
    both = run("explain", folder / "model.mtl", wrong, "--html", page, "--json", code=2)
    assert "--json and --html" in both
    run("explain", folder / "model.mtl", wrong, "--html", wrong, code=2)
    assert wrong.read_text().startswith("# sentence")


def test_own_templates_and_validation(folder: Path, run: Run) -> None:
    own = folder / "labels.tpl"
    own.write_text("A0:%x[m,pos]/%direction[h,m]\nA1:%x[m,form]\n")
    files = folder / "arcs.tpl", folder / "train.conll", folder / "own.mtl"
    labels = "--task", "dependency", "--labels", "--label-templates", own, "--valid", folder / "train.conll"
    found = json.loads(run("train", *files, *labels, "-c", 10, "--json"))
    assert found["valid"]["las"] == 100
    assert found["labels"]["templates"] == 2
    assert found["labels"]["gap"] <= 0.01
    events = [json.loads(line)["event"] for line in (folder / "own.mtl.log.jsonl").read_text().splitlines()]
    assert "label-pass" in events
    assert "labels: " in run("train", *files, *labels, "-c", 10)


def test_refusals(folder: Path, run: Run) -> None:
    arcs, data, model = folder / "arcs.tpl", folder / "train.conll", folder / "no.mtl"
    trees = "--task", "dependency"
    assert "--labels is for --task dependency" in run("train", arcs, data, model, "--labels", code=2)
    out = run("train", arcs, data, model, *trees, "--label-templates", arcs, code=2)
    assert "--label-templates is for --labels" in out
    out = run("train", arcs, data, model, *trees, "--labels", "--label-templates", arcs, code=2)
    assert "line 5: templates for labels of arcs see h, m, l and r" in out
    (folder / "plain.conll").write_text(conll(SENTENCES))
    out = run("train", arcs, folder / "plain.conll", model, *trees, "--labels", code=2)
    assert "one relation only ('rel')" in out
    assert not model.exists()
    files = arcs, data, folder / "bare.mtl"
    run("train", *files, *trees, "-q")
    assert "has no labels of arcs" in run("weights", folder / "bare.mtl", "--labels", code=2)
