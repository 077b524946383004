"""Labels of arcs on the command line: a second stage in the same model, in every command that shows a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Output, write_files
from support.trees import ARC_TEMPLATES, LABELLED_TREES, SENTENCES, conll

from mtlstruct import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        "train.conll": LABELLED_TREES,
        "blind.conll": conll(SENTENCES, heads=False),
        "arcs.tpl": ARC_TEMPLATES,
    }
    path = write_files(tmp_path_factory.mktemp("labels"), files)
    names = [str(path / name) for name in ("arcs.tpl", "train.conll", "model.mtl")]
    assert cli.run(["train", *names, "--task", "dependency", "--labels", "-c", "10", "-q"]) == 0
    return path


def test_prediction_fills_heads_and_relations(folder: Path, output: Output) -> None:
    assert output("predict", folder / "model.mtl", folder / "blind.conll") == LABELLED_TREES


def test_input_without_sentences_comes_back(folder: Path, output: Output) -> None:
    empty = folder / "empty.conll"
    empty.write_text("# nothing but this\n\n")
    assert output("predict", folder / "model.mtl", empty) == empty.read_text()


def test_evaluate_prints_label_accuracy(folder: Path, output: Output) -> None:
    both = folder / "model.mtl", folder / "train.conll"
    found = json.loads(output("evaluate", *both, "--json"))
    assert (found["las"], found["label_accuracy"], found["uas"]) == (100, 100, 100)
    out = output("evaluate", *both)
    assert "Labeled   attachment score: 25 / 25" in out
    assert "Label accuracy score:       25 / 25" in out


def test_weights_shows_both_stages(folder: Path, output: Output) -> None:
    model = folder / "model.mtl"
    assert len(json.loads(output("weights", model, "--json"))) == 5
    assert "--labels shows the templates of the arc labels" in output("weights", model)
    rows = json.loads(output("weights", model, "--labels", "--json", "--data", folder / "blind.conll"))
    assert len(rows) > 50
    assert rows[0]["mu"] > 0
    assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-3)
    assert sum(row["mu"] for row in rows) == pytest.approx(1, rel=1e-3)


def test_explain_sums_to_the_margin_of_an_arc_label(folder: Path, output: Output) -> None:
    model, text = folder / "model.mtl", folder / "blind.conll"
    sentence = json.loads(output("explain", model, text, "--json", "--sentence", 2, "--top", 200))
    second = sentence["tokens"][1]["relation"]
    assert second["label"] == "subj"
    total = sum(voice["value"] for voice in second["templates"]) + second["others"]
    assert total == pytest.approx(second["margin"], abs=1e-5)
    out = output("explain", model, text, "--sentence", 2)
    assert "as subj, not " in out
    assert "as det, not " in out


def sentences_of(page: Path) -> list[dict[str, Any]]:
    text = page.read_text().partition('type="application/json">')[2].partition("</script>")[0]
    return list(json.loads(text)["sentences"])


def test_a_page_with_drawings(folder: Path, output: Output) -> None:
    wrong = folder / "wrong.conll"
    wrong.write_text(LABELLED_TREES.replace("\t3\tsubj\t", "\t0\tsubj\t").replace("\tobj\t", "\t<obj>\t"))
    page = folder / "page.html"
    assert output("explain", folder / "model.mtl", wrong, "--html", page) == ""
    drawings = "".join(sentence["tree"]["drawing"] for sentence in sentences_of(page))
    assert drawings.count("<svg") == len(SENTENCES)
    assert drawings.count('<g class="missed">') == 3
    assert "(&lt;obj&gt;)" in drawings
    output("explain", folder / "model.mtl", folder / "blind.conll", "--html", page, "--sentence", 2)
    (sentence,) = sentences_of(page)
    assert sentence["sentence"] == 2
    assert 'class="missed"' not in sentence["tree"]["drawing"]
    both = output("explain", folder / "model.mtl", wrong, "--html", page, "--json", code=2)
    assert "--json and --html" in both
    output("explain", folder / "model.mtl", wrong, "--html", wrong, code=2)
    assert wrong.read_text().startswith("# sentence")


def test_own_templates_and_validation(folder: Path, output: Output) -> None:
    own = folder / "labels.tpl"
    own.write_text("A0:%x[m,pos]/%direction[h,m]\nA1:%x[m,form]\n")
    files = folder / "arcs.tpl", folder / "train.conll", folder / "own.mtl"
    labels = "--task", "dependency", "--labels", "--label-templates", own, "--valid", folder / "train.conll"
    found = json.loads(output("train", *files, *labels, "-c", 10, "--json"))
    assert found["valid"]["las"] == 100
    assert found["labels"]["templates"] == 2
    assert found["labels"]["gap"] <= 0.01
    events = [json.loads(line)["event"] for line in (folder / "own.mtl.log.jsonl").read_text().splitlines()]
    assert "label-pass" in events
    assert "labels: " in output("train", *files, *labels, "-c", 10)


def test_bad_options_and_files_are_rejected(folder: Path, output: Output) -> None:
    arcs, data, model = folder / "arcs.tpl", folder / "train.conll", folder / "no.mtl"
    trees = "--task", "dependency"
    assert "--labels is for --task dependency" in output("train", arcs, data, model, "--labels", code=2)
    out = output("train", arcs, data, model, *trees, "--label-templates", arcs, code=2)
    assert "--label-templates is for --labels" in out
    out = output("train", arcs, data, model, *trees, "--labels", "--label-templates", arcs, code=2)
    assert "line 5: templates for labels of arcs see h, m, l and r" in out
    (folder / "plain.conll").write_text(conll(SENTENCES))
    out = output("train", arcs, folder / "plain.conll", model, *trees, "--labels", code=2)
    assert "one relation only ('rel')" in out
    assert not model.exists()
    files = arcs, data, folder / "bare.mtl"
    output("train", *files, *trees, "-q")
    assert "has no arc labels" in output("weights", folder / "bare.mtl", "--labels", code=2)
