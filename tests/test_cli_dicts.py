"""Models from feature dicts on the command line: JSON lines in, the same commands as for any other model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlstruct import SequenceLabeler, StructuredClassifier, load
from mtlstruct.errors import FormatError, ModelFileError
from mtlstruct.formats import jsonl as dicts
from mtlstruct.samples import recipes as demo

LINES = demo.bundled()[:60]
Y = [list(line.labels) for line in LINES]


def features(words, t):
    found = {"w": words[t].lower(), "len": len(words[t]), "v": np.array([float(t), 1.0])}
    return found | ({"prev": {"w": words[t - 1].lower()}} if t else {"is": ["first", "edge"]})


X = [[features(line.tokens, t) for t in range(len(line.tokens))] for line in LINES]


def as_json(sentence):
    return json.loads(json.dumps(sentence, default=np.ndarray.tolist))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dicts")
    tagger = SequenceLabeler(c=0.5, group_by=lambda key: key[0]).fit(X, Y)
    tagger.save(folder / "m.mtl")
    pairs = [{"tokens": as_json(x), "labels": y} for x, y in zip(X, Y, strict=True)]
    lines = [json.dumps(pair, ensure_ascii=False) for pair in pairs]
    (folder / "gold.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "plain.jsonl").write_text("\n\n".join(json.dumps(as_json(x)) for x in X) + "\n")
    return folder, tagger


def succeeds(got):
    assert got.code == 0, got.err
    return got


def fails(got, problem):
    assert got.code == 2
    assert problem in got.err


@pytest.mark.parametrize("name", ["plain.jsonl", "gold.jsonl"])
def test_predict_reads_json_lines(place, run, name):
    folder, tagger = place
    out = succeeds(run("predict", folder / "m.mtl", folder / name)).out
    blocks = [block.split("\n") for block in out.strip().split("\n\n")]
    assert [[line.rpartition("\t")[2] for line in block] for block in blocks] == tagger.predict(X)
    assert json.loads(blocks[0][0].rpartition("\t")[0]) == as_json(X[0])[0]


def test_n_best_evaluate_weights_explain_and_calibrate(place, run):
    folder, tagger = place
    model, gold, plain = (folder / name for name in ("m.mtl", "gold.jsonl", "plain.jsonl"))
    assert succeeds(run("predict", model, plain, "--nbest", 2)).out.startswith("# 0 ")
    found = succeeds(run("evaluate", model, gold, "--json")).json
    assert found["f1"] == pytest.approx(100 * tagger.score(X, Y))
    lines = {f'U{n:03}:%x[0,"{name}"]' for n, name in enumerate(tagger.model_.names)}
    assert {row["text"] for row in succeeds(run("weights", model, "--json")).json} == lines | {"B"}
    succeeds(run("weights", model, "--data", plain, "--json"))
    assert succeeds(run("explain", model, plain, "--sentence", 2)).out.startswith("sentence 2\n")
    succeeds(run("calibrate", model, gold, "-o", folder / "c.mtl"))


@pytest.mark.parametrize("form", ["crfpp-text", "wapiti-text"])
def test_others_have_no_feature_dicts(place, run, form):
    folder, _ = place
    got = run("export", folder / "m.mtl", folder / "out", "--format", form)
    fails(got, "the model was trained on feature dicts")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"the cat\n", "line 1: expected JSON, a list of tokens a line"),
        (b"3\n", 'line 1: expected a list of tokens, or {"tokens": [...]}, got int'),
        (b'\n[{"w": null}]\n', "line 2: expected a string, a number, a bool"),
        (b'[{"v": [1, 2, 3]}, {"v": [1]}]\n', "expected 3 numbers in 'v' as before, got 1"),
    ],
)
def test_bad_lines_are_told(place, run, line, problem):
    fails(run("predict", place[0] / "m.mtl", "-", stdin=line), problem)


def test_a_page_cannot_make_dicts_but_a_report_needs_none(place, run, tmp_path):
    folder, _ = place
    fails(run("serve", folder / "m.mtl"), "learned from feature dicts")
    succeeds(run("report", folder / "m.mtl", tmp_path / "r.html", "--data", folder / "gold.jsonl"))
    assert "w" in (tmp_path / "r.html").read_text()


def test_gold_must_have_labels(place, run, tmp_path):
    model, plain = place[0] / "m.mtl", place[0] / "plain.jsonl"
    fails(run("evaluate", model, plain), 'line 1: expected {"tokens": [...], "labels": [...]}')
    fails(run("predict", model, plain, "--partial"), "--partial is for columns and text")
    for text, problem in (
        ("\n\n", "no sentences"),
        ('{"tokens": [{}], "labels": [3]}', "expected labels that are strings"),
    ):
        (tmp_path / "odd.jsonl").write_text(text)
        with pytest.raises(FormatError, match=problem):
            dicts.read(tmp_path / "odd.jsonl")


def test_items_are_one_a_line(run, tmp_path: Path):
    items = [{"w": w.lower(), "x": 1.5} for line in LINES for w in line.tokens]
    classes = ["number" if w[0].isdigit() else "word" for line in LINES for w in line.tokens]
    model = StructuredClassifier(c=0.1).fit(items, classes)
    model.save(tmp_path / "c.mtl")
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    out = succeeds(run("predict", tmp_path / "c.mtl", tmp_path / "items.jsonl")).out
    assert [line.rpartition("\t")[2] for line in out.strip().split("\n")] == model.predict(items).tolist()


def test_a_file_of_other_groups_is_rejected(place, tmp_path):
    folder, tagger = place
    loaded = load(folder / "m.mtl")
    assert loaded.groups == {"w": "w", "len": "l", "v": "v", "is": "i", "prev:w": "p"}
    assert loaded.facts["dicts"] is True
    model = replace(tagger.model_, facts=tagger.model_.facts | {"groups": {"w": 3}})
    model.save(tmp_path / "odd.mtl")
    with pytest.raises(ModelFileError, match="groups of keys must be strings"):
        load(tmp_path / "odd.mtl")
