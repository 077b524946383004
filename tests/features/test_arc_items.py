"""Arcs of known trees as items: cells are those of the naive definition; labels are learned and saved."""

from dataclasses import replace

import numpy as np
import pytest
from support.arcs import corpus_of
from support.naive import column

from mtlstruct.errors import IncompatibleError, ModelFileError, TemplateError
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.model.model import Model
from mtlstruct.model.serialization import _header
from mtlstruct.templates import TemplateSet, preset
from mtlstruct.training.arc_labels import train_labels
from mtlstruct.training.train import Options, train


def test_unused_columns_stay_empty():
    corpus = corpus_of([[("a", "N1", "_", 0), ("b", "V", "_", 1)]])
    items = ArcItems(TemplateSet.parse("A:%x[h,form]/%x[m,pos]").resolved(corpus.names))
    seen = items.corpus(corpus, corpus.outputs, {1})
    assert [column.cells() for column in seen.columns] == [["", ""], ["N1", "V"]]


@pytest.mark.parametrize("line", ["A:%x[b,pos]", "A:%x[b@1,pos]", "A:%position[b]", "U:%x[0,0]"])
def test_templates_of_words_between_are_rejected(line):
    with pytest.raises(TemplateError, match="labels of arcs"):
        ArcItems(TemplateSet.parse(line))


WORDS = [
    [("a", "N1", "_", 2), ("B", "V", "_", 0), ("abc", "N2", "_", 2)],
    [("B", "V", "_", 0), ("a", "N1", "_", 1)],
]
WIDE = {"columns": 999}
RELATIONS = ["subject", "root", "object", "root", "object"]


@pytest.fixture(scope="module")
def parser():
    corpus = corpus_of(WORDS)
    options = Options(task="dependency", c=10.0)
    heads = TemplateSet.parse("A:%x[h,pos]/%x[m,pos]\nA:%x[h,form]/%x[m,form]/%direction[h,m]")
    trees = train(corpus, heads, options)
    labels = train_labels(corpus, column(RELATIONS), preset("dependency-labels"), options)
    assert labels.fit.converged
    return corpus, replace(trees.model, relations=labels.model)


def test_labels_are_learned_saved_and_loaded(parser, tmp_path):
    corpus, model = parser
    model.save(tmp_path / "parser.mtl")
    loaded = Model.load(tmp_path / "parser.mtl")
    for one in (model, loaded):
        heads = one.predict(corpus)
        assert heads.tolist() == corpus.outputs.tolist()
        assert [one.relations.labels[k] for k in one.relate(corpus, heads)] == RELATIONS
    loaded.save(tmp_path / "again.mtl")
    assert (tmp_path / "again.mtl").read_bytes() == (tmp_path / "parser.mtl").read_bytes()
    weights = loaded.relations.template_weights()
    assert weights[0].text.startswith("A")
    assert 0 < weights[0].mu <= 1
    assert any(weight.features == 0 for weight in weights)
    assert loaded.relations.templates.text() == preset("dependency-labels").text()


def test_labels_depend_on_the_head_and_need_a_second_stage(parser):
    corpus, model = parser
    heads = np.array([0, 1, 1, 2, 0], np.int32)
    assert [model.relations.labels[k] for k in model.relate(corpus, heads)] != RELATIONS
    with pytest.raises(IncompatibleError, match="trained without them"):
        replace(model, relations=None).relate(corpus, heads)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda model, second: replace(model, relations=replace(second, relations=second)),
        lambda model, second: replace(second, relations=second),
        lambda model, second: replace(model, relations=replace(second, facts=second.facts | WIDE)),
        lambda model, second: replace(model, relations=model),
    ],
    ids=["stage of a stage", "stage of labels", "other columns", "another task"],
)
def test_an_inconsistent_second_stage_is_rejected(parser, tmp_path, spoil):
    broken = spoil(parser[1], parser[1].relations)
    assert "relations" in _header(broken)
    broken.save(tmp_path / "broken.mtl")
    with pytest.raises(ModelFileError, match="damaged"):
        Model.load(tmp_path / "broken.mtl")
