"""Models from feature dicts on the command line: JSON lines in, the same commands as for any other model."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from mtlstruct import SequenceLabeler, StructuredClassifier, cli
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
    return [
        {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in token.items()} for token in sentence
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dicts")
    tagger = SequenceLabeler(c=0.5, group_by=lambda key: key[0]).fit(X, Y)
    tagger.save(folder / "m.mtl")
    pairs = [{"tokens": as_json(x), "labels": y} for x, y in zip(X, Y, strict=True)]
    (folder / "gold.jsonl").write_text(
        "\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs) + "\n"
    )
    (folder / "plain.jsonl").write_text("\n\n".join(json.dumps(as_json(x)) for x in X) + "\n")
    return folder, tagger


@pytest.fixture
def run(capsys, monkeypatch):
    def call(*arguments, stdin=b""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("name", ["plain.jsonl", "gold.jsonl"])
def test_predict_reads_json_lines(place, run, name):
    folder, tagger = place
    code, out, err = run("predict", folder / "m.mtl", folder / name)
    assert code == 0, err
    blocks = [block.split("\n") for block in out.strip().split("\n\n")]
    assert [[line.rpartition("\t")[2] for line in block] for block in blocks] == tagger.predict(X)
    assert json.loads(blocks[0][0].rpartition("\t")[0]) == as_json(X[0])[0]


def test_scores_and_n_best(place, run):
    folder, _ = place
    code, out, _ = run("predict", folder / "m.mtl", folder / "plain.jsonl", "--nbest", 2)
    assert code == 0
    assert out.startswith("# 0 ")


def test_evaluate_weights_explain(place, run):
    folder, tagger = place
    code, out, err = run("evaluate", folder / "m.mtl", folder / "gold.jsonl", "--json")
    assert code == 0, err
    assert json.loads(out)["f1"] == pytest.approx(100 * tagger.score(X, Y))
    code, out, err = run("weights", folder / "m.mtl", "--json")
    assert {row["text"] for row in json.loads(out)} == {
        *(f'U{n:03}:%x[0,"{name}"]' for n, name in enumerate(tagger.model_.names)),
        "B",
    }
    code, out, err = run("weights", folder / "m.mtl", "--data", folder / "plain.jsonl", "--json")
    assert code == 0, err
    code, out, err = run("explain", folder / "m.mtl", folder / "plain.jsonl", "--sentence", 2)
    assert code == 0, err
    assert out.startswith("sentence 2\n")
    code, out, err = run("calibrate", folder / "m.mtl", folder / "gold.jsonl", "-o", folder / "c.mtl")
    assert code == 0, err


@pytest.mark.parametrize("form", ["crfpp-text", "wapiti-text"])
def test_others_have_no_feature_dicts(place, run, form):
    folder, _ = place
    code, _, err = run("export", folder / "m.mtl", folder / "out", "--format", form)
    assert code == 2
    assert "the model was trained on feature dicts" in err


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
    folder, _ = place
    code, _, err = run("predict", folder / "m.mtl", "-", stdin=line)
    assert code == 2
    assert problem in err


def test_a_page_cannot_make_dicts_but_a_report_needs_none(place, run, tmp_path):
    folder, _ = place
    code, _, err = run("serve", folder / "m.mtl")
    assert code == 2
    assert "learned from feature dicts" in err
    code, _, err = run("report", folder / "m.mtl", tmp_path / "r.html", "--data", folder / "gold.jsonl")
    assert code == 0, err
    assert "w" in (tmp_path / "r.html").read_text()


def test_gold_must_have_labels(place, run, tmp_path):
    folder, _ = place
    code, _, err = run("evaluate", folder / "m.mtl", folder / "plain.jsonl")
    assert code == 2
    assert 'line 1: expected {"tokens": [...], "labels": [...]}' in err
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(FormatError, match="no sentences"):
        dicts.read(tmp_path / "empty.jsonl")
    (tmp_path / "odd.jsonl").write_text('{"tokens": [{}], "labels": [3]}')
    with pytest.raises(FormatError, match="expected labels that are strings"):
        dicts.read(tmp_path / "odd.jsonl")
    code, _, err = run("predict", folder / "m.mtl", folder / "plain.jsonl", "--partial")
    assert code == 2
    assert "--partial is for columns and text" in err


def test_items_are_one_a_line(run, tmp_path: Path):
    items = [{"w": w.lower(), "x": 1.5} for line in LINES for w in line.tokens]
    classes = ["number" if w[0].isdigit() else "word" for line in LINES for w in line.tokens]
    model = StructuredClassifier(c=0.1).fit(items, classes)
    model.save(tmp_path / "c.mtl")
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    code, out, err = run("predict", tmp_path / "c.mtl", tmp_path / "items.jsonl")
    assert code == 0, err
    assert [line.rpartition("\t")[2] for line in out.strip().split("\n")] == model.predict(items).tolist()


def test_a_file_of_other_groups_is_refused(place, tmp_path):
    from zipfile import ZipFile

    from mtlstruct import load
    from mtlstruct.errors import ModelFileError

    folder, tagger = place
    assert load(folder / "m.mtl").groups == {"w": "w", "len": "l", "v": "v", "is": "i", "prev:w": "p"}
    with ZipFile(folder / "m.mtl") as old:
        header = json.loads(old.read("model.json"))
    assert header["facts"]["dicts"] is True
    from dataclasses import replace

    model = replace(tagger.model_, facts=tagger.model_.facts | {"groups": {"w": 3}})
    model.save(tmp_path / "odd.mtl")
    with pytest.raises(ModelFileError, match="groups of keys must be strings"):
        load(tmp_path / "odd.mtl")
