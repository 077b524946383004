"""Single sentences without a corpus: labels and scores of the path through a corpus."""

import copy
import io
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct import SequenceLabeler
from mtlstruct._numba import decorators
from mtlstruct.corpus import LazyColumns
from mtlstruct.errors import FormatError
from mtlstruct.formats.sentences import from_dicts, from_rows
from mtlstruct.model.direct import MAX_SENTENCES, DirectScorer
from mtlstruct.model.lattice import Lattice
from mtlstruct.tasks import OutputOptions, Source, task_of

WORDS = ["Ann", "runs", "to", "Oslo", ",", "Bo", "sits", "in", "the", "Park", "7", "Åse", "_B-1"]
LINES = [
    "U0:%x[0,0]",
    "U1:%x[-1,0]/%x[0,0]",
    "U2:%x[-2,1]/%x[0,1]/%x[1,1]",
    "U3:%suffix[0,0,2]/%x[@1,0]",
    "U4:%x[@-2,1]",
    "U",
    "B",
    "B1:%x[0,1]",
]


def sentences(seed, count=60):
    random = np.random.default_rng(seed)
    return [random.choice(WORDS, size=random.integers(1, 9)).tolist() for _ in range(count)]


def labels(words):
    return ["NAME" if word[0].isupper() else "NUM" if word.isdigit() else "O" for word in words]


def as_rows(words):
    return [(word, word[:1].lower()) for word in words]


def as_dicts(words):
    return [
        {
            "word": word,
            "title": word.istitle(),
            "length": len(word),
            "half": 0.5,
            "parts": [word[:1], word[:2]],
            "near": {"before": words[i - 1] if i else "", "first": i == 0},
        }
        for i, word in enumerate(words)
    ]


def fitted(form, support):
    options = {"templates": LINES[:-1] if support == "seen" else LINES} if form is as_rows else {}
    data = sentences(0)
    labeler = SequenceLabeler(max_iter=5, label_support=support, **options)
    return labeler.fit([form(words) for words in data], [labels(words) for words in data])


@pytest.mark.parametrize("support", ["all", "seen"])
@pytest.mark.parametrize("form", [as_rows, as_dicts])
def test_labels_and_scores_equal_those_of_a_corpus(form, support):
    labeler = fitted(form, support)
    model = labeler.model_
    for words in [*sentences(1, 40), ["Unseen", "cells"], ["Oslo"]]:
        x = form(words)
        corpus = from_rows([x]).corpus if form is as_rows else from_dicts([x], names=model.names).corpus
        parts, rows = model.index.score(corpus, model.structure.sites(corpus.ptr), model.weights)
        direct = model._directly([x], DirectScorer.lattice)[0]
        np.testing.assert_allclose(direct.parts[0], parts[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(direct.parts[1][direct.rows[1]], parts[1][rows[1]], rtol=1e-5, atol=1e-6)
        batch = model.predict([x] * (MAX_SENTENCES + 1))[0]
        assert labeler.predict([x])[0] == model.predict([x])[0] == batch
        found, expected = (model.predict_marginals([x] * n)[0] for n in (1, MAX_SENTENCES + 1))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("form", [as_rows, as_dicts])
def test_a_label_scheme_gives_the_labels_of_a_corpus(form):
    data = sentences(0)
    templates = {"templates": LINES} if form is as_rows else {}
    tags = [["O" if word.islower() else "B-X" for word in words] for words in data]
    labeler = SequenceLabeler(max_iter=5, scheme="bioes", **templates)
    model = labeler.fit([form(words) for words in data], tags).model_
    assert "S-X" in model.learned_labels
    for words in [*sentences(1, 20), ["Unseen", "cells"], []]:
        x = form(words)
        batch = [x] * (MAX_SENTENCES + 1)
        assert model.predict([x])[0] == model.predict(batch)[0]
        if words:
            assert [model.labels[y] for y in model.lattice([x]).best()] == model.predict([x])[0]
            assert [model.labels[y] for y in model.predict(model._data([x]).corpus)] == model.predict([x])[0]
        found, expected = (model.predict_marginals(many)[0] for many in ([x], batch))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.skipif(not decorators.COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize(("form", "support"), [(as_rows, "all"), (as_rows, "seen"), (as_dicts, "all")])
def test_small_work_gives_the_labels_and_scores_of_compiled_kernels(form, support, monkeypatch):
    model = fitted(form, support).model_
    texts = [form(words) for words in sentences(3, 20)]
    corpus = model._data(texts).corpus

    def results():
        fresh = copy.copy(model)
        lattice = fresh.lattice(corpus)
        labels = [fresh.predict([text])[0] for text in texts]
        return lattice.best().tolist(), labels, [part.copy() for part in lattice.parts]

    monkeypatch.setattr(decorators.Deferred, "interpreted", np.inf)
    compiled = results()
    monkeypatch.setattr(decorators.Deferred, "interpreted", -np.inf)
    plain = results()
    assert plain[:2] == compiled[:2]
    for ours, theirs in zip(plain[2], compiled[2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@given(st.data())
def test_weights_by_value_give_the_bits_of_a_design_matrix(data):
    model = simple_model()
    text = data.draw(
        st.lists(st.lists(st.sampled_from([*WORDS, "new"]), min_size=1, max_size=12), min_size=2)
    )
    corpus = from_rows([as_rows(words) for words in text]).corpus
    parts, rows = model.index.score(corpus, model.structure.sites(corpus.ptr), model.weights)
    scorer = model._direct
    scorer._tokens = 10**9  # many enough for rows
    found = scorer.corpus_lattice(corpus)
    assert np.array_equal(found.parts[0], parts[0])
    assert np.array_equal(found.parts[1][found.rows[1]], parts[1][rows[1]])
    assert np.array_equal(model.predict(corpus), Lattice(model.structure, parts, rows, corpus.ptr).best())


@cache
def simple_model():
    data = sentences(0)
    templates = [*LINES[:-1], "U6:%x[0,0]/%x[1,0]", "U7:%x[1,0]", "U8:%x[-1,0]/%x[0,0]/%x[1,0]"]
    fit = SequenceLabeler(max_iter=5, templates=templates).fit
    return fit([as_rows(words) for words in data], [labels(words) for words in data]).model_


@pytest.mark.parametrize("form", [as_rows, as_dicts])
def test_few_lines_of_a_stream_are_read_and_labelled_as_many(form, monkeypatch):
    model, texts = fitted(form, "all").model_, sentences(4, 5)
    lines = [json.dumps(form(words)) + "\n" for words in texts]
    if form is as_rows:
        lines = ["".join(f"{' '.join(row)}\n" for row in form(words)) + "\n" for words in texts]
    task, outputs = task_of("sequence"), [OutputOptions(json=True), OutputOptions(), OutputOptions("best", 2)]

    def read():
        source = Source(io.BytesIO("".join(["\n", *lines]).encode()), "x")
        (batch,) = task.stream(model, source)
        return batch, [task.format(model, batch, None, output) for output in outputs]

    few, texts_of_few = read()
    assert isinstance(few.columns, LazyColumns)
    monkeypatch.setattr("mtlstruct.formats.text.MAX_DIRECT_LINES", 0)
    many, texts_of_many = read()
    assert not isinstance(many.columns, LazyColumns)
    assert [column.cells() for column in few.columns] == [column.cells() for column in many.columns]
    assert (few.lines.tolist(), few.ptr.tolist()) == (many.lines.tolist(), many.ptr.tolist())
    assert (few.names, str(few.extra).strip()) == (many.names, str(many.extra).strip())
    assert texts_of_few == texts_of_many


def test_unusual_input_takes_the_path_through_a_corpus():
    model = fitted(as_dicts, "all").model_
    assert model.predict([[]]) == [[]]
    assert model.predict([iter(as_dicts(["Ann"]))]) == model.predict([as_dicts(["Ann"])])
    assert model._directly([[{"length": np.float64(3)}]], DirectScorer.best) is None
    with pytest.raises(FormatError, match="sentence 1, token 1"):
        model.predict([[{"word": object()}]])


def test_a_copied_model_has_a_scorer_of_its_own():
    model = fitted(as_rows, "all").model_
    x = as_rows(["Ann", "runs"])
    expected = model.predict([x])
    other = copy.deepcopy(model)
    assert "_direct" not in vars(other)
    assert other.predict([x]) == expected
