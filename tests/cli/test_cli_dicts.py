"""Models from feature dicts on the command line: JSON lines in, the same commands as for any other model."""

import json

import numpy as np
import pytest

from mtlstruct import SequenceLabeler, StructuredClassifier, load
from mtlstruct.errors import FormatError
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


@pytest.mark.parametrize("name", ["plain.jsonl", "gold.jsonl"])
def test_predict_reads_json_lines(place, run, name):
    folder, tagger = place
    out = run("predict", folder / "m.mtl", folder / name).ok().out
    blocks = [block.split("\n") for block in out.strip().split("\n\n")]
    assert [[line.rpartition("\t")[2] for line in block] for block in blocks] == tagger.predict(X)
    assert json.loads(blocks[0][0].rpartition("\t")[0]) == as_json(X[0])[0]


def test_n_best_evaluate_weights_explain_and_calibrate(place, run):
    folder, tagger = place
    model, gold, plain = (folder / name for name in ("m.mtl", "gold.jsonl", "plain.jsonl"))
    assert run("predict", model, plain, "--nbest", 2).ok().out.startswith("# 0 ")
    found = run("evaluate", model, gold, "--json").ok().json
    assert found["f1"] == pytest.approx(100 * tagger.score(X, Y))
    lines = {f'U{n:03}:%x[0,"{name}"]' for n, name in enumerate(tagger.model_.names)}
    assert {row["text"] for row in run("weights", model, "--json").ok().json} == lines | {"B"}
    run("weights", model, "--data", plain, "--json").ok()
    assert run("explain", model, plain, "--sentence", 2).ok().out.startswith("sentence 2\n")
    run("calibrate", model, gold, "-o", folder / "c.mtl").ok()


def test_train_and_tune_read_json_lines(place, run, tmp_path):
    """One template per key gives the estimator's model; the search and --valid take the same files."""
    folder, _ = place
    gold, small = folder / "gold.jsonl", tmp_path / "small.jsonl"
    small.write_text("".join(line + "\n" for line in gold.read_text().split("\n")[:9]))
    run("train", gold, tmp_path / "m.mtl", "-c", 0.5, "--valid", small).ok()
    tagger = SequenceLabeler(c=0.5).fit(X, Y)
    assert SequenceLabeler.load(tmp_path / "m.mtl").predict(X) == tagger.predict(X)
    (tmp_path / "w.tpl").write_text("U0:%x[0,w]\nB\n")
    run("train", tmp_path / "w.tpl", gold, tmp_path / "w.mtl", "--method", "auto", "-q").ok()
    assert [t.text for t in load(tmp_path / "w.mtl").templates] == ["U0:%x[0,w]", "B"]
    run("tune", gold, "-c", "0.5,1", "--valid", small, "--out", tmp_path / "t", "-q").ok()


@pytest.mark.parametrize("form", ["crfpp-text", "wapiti-text"])
def test_export_rejects_models_of_feature_dicts(place, run, form):
    folder, _ = place
    run("export", folder / "m.mtl", folder / "out", "--format", form).rejected("trained on feature dicts")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"the cat\n", "line 1: expected one JSON list of feature dicts per line"),
        (b"3\n", 'line 1: expected a list of tokens, or {"tokens": [...]}, got int'),
        (b'\n[{"w": null}]\n', "line 2: expected a string, a number, a bool"),
        (b'[{"v": [1, 2, 3]}, {"v": [1]}]\n', "expected 3 numbers in 'v', got 1"),
    ],
)
def test_bad_lines_are_rejected(place, run, line, problem):
    run("predict", place[0] / "m.mtl", "-", stdin=line).rejected(problem)


def test_gold_must_have_labels(place, run, tmp_path):
    model, plain = place[0] / "m.mtl", place[0] / "plain.jsonl"
    run("evaluate", model, plain).rejected('line 1: expected {"tokens": [...], "labels": [...]}')
    run("predict", model, plain, "--partial").rejected("--partial is for columns and text")
    for text, problem in (
        ("\n\n", "no sentences"),
        ('{"tokens": [{}], "labels": [3]}', "expected labels that are strings"),
    ):
        (tmp_path / "odd.jsonl").write_text(text)
        with pytest.raises(FormatError, match=problem):
            dicts.read(tmp_path / "odd.jsonl")


def test_items_are_one_per_line(run, tmp_path):
    items = [{"w": w.lower(), "x": 1.5} for line in LINES for w in line.tokens]
    classes = ["number" if w[0].isdigit() else "word" for line in LINES for w in line.tokens]
    model = StructuredClassifier(c=0.1).fit(items, classes)
    model.save(tmp_path / "c.mtl")
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    out = run("predict", tmp_path / "c.mtl", tmp_path / "items.jsonl").ok().out
    assert [line.rpartition("\t")[2] for line in out.strip().split("\n")] == model.predict(items).tolist()
