"""A model on labelled data: counts by hand, and the same figures as the scores elsewhere."""

import json
from collections import Counter

import numpy as np
import pytest
from support.arcs import NAMES, corpus_of
from support.naive import random_corpus
from support.trees import ARC_TEMPLATES, LABELLED_TREES

from mtlstruct import cli, load
from mtlstruct.corpus import Corpus
from mtlstruct.formats import conll, segmented
from mtlstruct.tasks import task_of
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB")


def assessed(model, corpus):
    return task_of(model.task).assess(model, corpus, "test")


def trained(corpus, templates, **options):
    return train(corpus, templates, Options(**options)).model


@pytest.fixture(scope="module")
def sequences():
    data = random_corpus(np.random.default_rng(3), 40, 6, 9)
    return trained(data, TEMPLATES), random_corpus(np.random.default_rng(4), 30, 6, 9)


def table(found):
    names = found["names"]
    return Counter({(names[r], names[c]): n for r, c, n in found["cells"]})


def test_confusions_are_pairs_of_labels_counted(sequences):
    model, test = sequences
    found = assessed(model, test)
    right = [test.labels[y] for y in test.outputs.tolist()]
    chosen = [model.labels[y] for y in model.predict(test).tolist()]
    assert table(found["confusions"][0]) == Counter(zip(right, chosen, strict=True))
    hits = sum(a == b for a, b in zip(right, chosen, strict=True))
    assert found["scores"]["accuracy"] == pytest.approx(100 * hits / len(right))
    (by_label,) = (group for group in found["groups"] if group["title"] == "by label")
    for row in by_label["rows"]:
        assert row["gold"] == right.count(row["name"])
        assert row["predicted"] == chosen.count(row["name"])
    assert sum(count for count, _, _ in found["calibration"]["bins"]) == len(right)
    assert json.loads(json.dumps(found)) == found


def test_a_label_that_the_model_does_not_know_is_an_error_of_its_own(sequences):
    model, test = sequences
    outputs = test.outputs.copy()
    outputs[0] = len(test.labels)
    strange = Corpus(test.columns, test.ptr, outputs, (*test.labels, "NEW"))
    found = assessed(model, strange)
    assert sum(n for (right, _), n in table(found["confusions"][0]).items() if right == "NEW") == 1


def test_words_are_sorted_by_length(tmp_path):
    (tmp_path / "train.txt").write_text("ab c def\nab c\nc c ab\nabcdefg c\n")
    corpus = segmented.read(tmp_path / "train.txt")
    model = trained(corpus, TEMPLATES, task="segmentation", c=10.0)
    groups = assessed(model, corpus)["groups"]
    counts = {row["name"]: row["gold"] for row in groups[0]["rows"] if row["gold"]}
    assert groups[0]["title"] == "by length of the word"
    assert counts == {"1": 5, "2": 3, "3": 1, "5+": 1}


def test_trees_are_sorted_by_tag_and_by_distance():
    sentences = [
        [("a", "N1", "_", 2), ("B", "V", "_", 0), ("7", "N2", "_", 2)],
        [("B", "V", "_", 0), ("a", "N1", "_", 1), ("a", "N1", "_", 1), ("a", "N1", "_", 1)],
    ]
    corpus = corpus_of(sentences)
    templates = TemplateSet.parse("A:%x[h,pos]/%x[m,pos]\nA1:%x[h,form]/%x[m,form]/%direction[h,m]")
    model = trained(corpus, templates.resolved(NAMES), task="dependency", c=10.0)
    found = assessed(model, corpus)
    tags, arcs = found["groups"]
    assert {row["name"]: row["gold"] for row in tags["rows"]} == {"N": 5, "V": 2}
    distances = {"← 1": 2, "← 2": 1, "← 3–4": 1, "root": 2, "→ 1": 1}
    assert {row["name"]: row["gold"] for row in arcs["rows"]} == distances
    assert sum(count for count, _, _ in found["calibration"]["bins"]) == 7
    assert [confusion["axis"] for confusion in found["confusions"]] == ["head, as seen from the word"]
    hits = sum(row["correct"] for row in arcs["rows"])
    assert found["scores"]["uasp"] == pytest.approx(100 * hits / 7)
    assert hits == sum(row["correct"] for row in tags["rows"])


def test_relations_are_counted_where_there_are_any(tmp_path):
    (tmp_path / "train.conll").write_text(LABELLED_TREES)
    (tmp_path / "a.tpl").write_text(ARC_TEMPLATES)
    files = [str(tmp_path / name) for name in ("a.tpl", "train.conll", "m.mtl")]
    assert cli.run(["train", *files, "--task", "dependency", "--labels", "-c", "10", "-q", "--no-log"]) == 0
    model, gold = load(files[2]), conll.read(files[1])
    found = assessed(model, gold)
    assert found["scores"]["las"] == 100
    relations = Counter(conll.relations(gold).cells())
    assert {row["name"]: row["correct"] for row in found["groups"][-1]["rows"]} == relations
    assert table(found["confusions"][1]) == Counter({(name, name): n for name, n in relations.items()})
