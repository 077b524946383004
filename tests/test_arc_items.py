"""Known arcs as items: every term sees what the slow definition sees; labels are learned, kept and refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from naive import Arc, expand_arc
from test_arcs import SITE, corpora, corpus_of

from mtlstruct.corpus import Column
from mtlstruct.errors import IncompatibleError, ModelFileError, TemplateError
from mtlstruct.features.arcs.as_items import ArcItems
from mtlstruct.model.model import Model
from mtlstruct.model.serialization import _header
from mtlstruct.templates import TemplateSet, preset
from mtlstruct.training.arc_labels import train_labels
from mtlstruct.training.train import Options, train

LINES = (
    "A:%x[h,pos]/%x[m,pos]",
    "A:%x[h-2,form]<%x[h+1,pos]" + SITE,
    "A:%x[l+1,pos]/%x[r-1,pos]/%x[l-1,form]/%x[r+2,form]",
    "A:%prefix[h,form,1]/%lower[m+1,form]/%first[m,feats]",
    "A" + SITE,
    "A",
)


def expanded(templates, items, t):
    """The strings of all templates at one item, put together from its columns."""
    cells = [column.strings[column.ids[t]] for column in items.columns]
    for template in templates:
        values = (
            cells[term.column] + piece
            for term, piece in zip(template.terms, template.pieces[1:], strict=True)
        )
        yield template.pieces[0] + "".join(values)


@given(corpora())
@settings(max_examples=60)
def test_terms_see_what_the_slow_definition_sees(corpus):
    arcs = TemplateSet.parse("\n".join(LINES)).resolved(corpus.names)
    items = ArcItems(arcs)
    seen = items.corpus(corpus, corpus.outputs)
    for span in corpus.sentences():
        n = span.stop - span.start

        def cells(place, column, first=span.start):
            found = corpus.columns[column]
            return found.strings[found.ids[first + place - 1]]

        for m in range(1, n + 1):
            t = span.start + m - 1
            arc = Arc(int(corpus.outputs[t]), m, n)
            slow = [expand_arc(template, arc, cells)[0] for template in arcs]
            assert list(expanded(items.templates, seen, t)) == slow


def test_columns_that_nobody_asks_for_stay_empty():
    corpus = corpus_of([[("a", "N1", "_", 0), ("b", "V", "_", 1)]])
    items = ArcItems(TemplateSet.parse("A:%x[h,form]/%x[m,pos]").resolved(corpus.names))
    seen = items.corpus(corpus, corpus.outputs, {1})
    assert [column.cells() for column in seen.columns] == [["", ""], ["N1", "V"]]


@pytest.mark.parametrize("line", ["A:%x[b,pos]", "A:%x[b@1,pos]", "A:%position[b]", "U:%x[0,0]"])
def test_templates_that_an_arc_cannot_answer_are_refused(line):
    with pytest.raises(TemplateError, match="labels of arcs"):
        ArcItems(TemplateSet.parse(line))


# ---------------------------------------------------------------- learning

WORDS = [
    [("a", "N1", "_", 2), ("B", "V", "_", 0), ("abc", "N2", "_", 2)],
    [("B", "V", "_", 0), ("a", "N1", "_", 1)],
]
RELATIONS = ["subject", "root", "object", "root", "object"]


def column(cells):
    strings = list(dict.fromkeys(cells))
    return Column(np.array([strings.index(cell) for cell in cells], np.int32), strings)


@pytest.fixture(scope="module")
def parser():
    corpus = corpus_of(WORDS)
    options = Options(task="dependency", c=10.0)
    heads = TemplateSet.parse("A:%x[h,pos]/%x[m,pos]\nA:%x[h,form]/%x[m,form]/%direction[h,m]")
    trees = train(corpus, heads, options, lambda record: False)
    labels = train_labels(
        corpus, column(RELATIONS), preset("dependency-labels"), options, lambda record: False
    )
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


def test_labels_depend_on_the_head(parser):
    corpus, model = parser
    heads = np.array([0, 1, 1, 2, 0], np.int32)
    assert [model.relations.labels[k] for k in model.relate(corpus, heads)] != RELATIONS


def test_one_relation_is_nothing_to_learn(parser):
    corpus, model = parser
    with pytest.raises(IncompatibleError, match="one relation only"):
        train_labels(
            corpus,
            column(["_"] * 5),
            preset("dependency-labels"),
            Options(task="dependency"),
            lambda r: False,
        )
    with pytest.raises(IncompatibleError, match="trained without them"):
        replace(model, relations=None).relate(corpus, corpus.outputs)


@pytest.mark.parametrize(
    "spoiled", ["a stage of a stage", "a stage of labels", "other columns", "another task"]
)
def test_a_second_stage_that_does_not_fit_is_refused(parser, tmp_path, monkeypatch, spoiled):
    _, model = parser
    second = model.relations
    broken = {
        "a stage of a stage": lambda: replace(model, relations=replace(second, relations=second)),
        "a stage of labels": lambda: replace(second, relations=second),
        "other columns": lambda: replace(
            model, relations=replace(second, facts=second.facts | {"columns": 999})
        ),
        "another task": lambda: replace(model, relations=model),
    }[spoiled]()
    assert "relations" in _header(broken)
    broken.save(tmp_path / "broken.mtl")
    with pytest.raises(ModelFileError, match="damaged"):
        Model.load(tmp_path / "broken.mtl")
