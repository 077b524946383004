"""The bundled corpus, and the demo on it."""

import subprocess
import sys
from collections import Counter

import pytest

from mtlstruct.formats import columns
from mtlstruct.samples import recipes as demo


def test_brackets_are_spans():
    line = demo.parse("[QTY 1 1/2] [UNIT cups] of [NAME flour] , [PREP sifted]")
    assert line.tokens == ("1", "1/2", "cups", "of", "flour", ",", "sifted")
    assert line.labels == ("B-QTY", "I-QTY", "B-UNIT", "O", "B-NAME", "O", "B-PREP")


def test_the_corpus_has_all_labels_and_no_brackets_outside_spans():
    labels = Counter(label for line in demo.bundled() for label in line.labels)
    assert len(demo.bundled()) > 500
    assert not {"[", "]"} & {sign for line in demo.bundled() for token in line.tokens for sign in token}
    assert {label[2:] for label in labels if label != "O"} == {"QTY", "UNIT", "NAME", "PREP", "COMMENT"}
    assert min(labels.values()) > 20
    train, test = demo.split(demo.bundled())
    assert len(train) + len(test) == len(demo.bundled())
    assert 2.9 < len(train) / len(test) < 3.1


def test_columns_of_a_line(tmp_path):
    lines = [demo.parse("[QTY 14-ounce] [NAME McCoy Sauce] ( [COMMENT the best] )")]
    path = tmp_path / "line.txt"
    path.write_text(demo.column_file(lines, seed=1))
    corpus = columns.read(path)
    word, lower, suffix, shape, position, inside, noise, line_noise = (c.cells() for c in corpus.columns)
    assert word == list(lines[0].tokens)
    assert lower[1] == "mccoy"
    assert suffix[0] == "nce"
    assert shape == ["9-x", "XxXx", "Xx", "(", "x", "x", ")"]
    assert position == ["0", "1", "2", "3-4", "3-4", "5-8", "5-8"]
    assert inside == ["out", "out", "out", "out", "in", "in", "out"]
    assert set(noise + line_noise) <= set(demo.NOISE_VALUES)
    assert len(set(line_noise)) == 1
    assert demo.column_file(lines, seed=1) == path.read_text() != demo.column_file(lines, seed=2)


def test_the_demo_writes_its_files_and_drops_templates_of_noise(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got = run("demo")
    assert got.code == 0
    files = "ingredients.tpl train.txt test.txt model.mtl model.mtl.log.jsonl weights.png report.html"
    assert {path.name for path in (tmp_path / "demo").iterdir()} == set(files.split())
    assert "pass 1 " in got.err
    assert [f"\n{step}. " in got.out for step in range(1, 7)] == [True] * 6
    lines = got.out.splitlines()
    commands = [line.split()[2] for line in lines if line.startswith("$ mtlstruct ")]
    assert commands == ["templates", "train", "evaluate", "weights", "report"]
    assert float(next(line for line in lines if line.startswith("accuracy")).rpartition(" ")[2]) > 80
    weights = run("weights", "demo/model.mtl", "--json").json
    noise = [w for w in weights if any(f",{column}]" in w["text"] for column in demo.NOISE_COLUMNS)]
    assert sum(w["features"] == 0 for w in noise) > 0.8 * len(noise)
    assert sum(w["mu"] for w in noise) < 0.02
    assert run("demo").code == 0, "a second time, in the same place"


@pytest.mark.process
def test_without_matplotlib_only_the_picture_is_missing(tmp_path):
    code = "import sys; sys.modules['matplotlib'] = None; from mtlstruct.cli import main; main()"
    line = [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "d")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    assert "No picture: pictures need matplotlib" in done.stdout
    assert not (tmp_path / "d" / "weights.png").exists()
