"""Training in two passes: columns of first-pass labels."""

from collections import Counter
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct import SequenceLabeler, load
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.explain.decomposition import explain
from mtlstruct.formats.text import column, named
from mtlstruct.model import context, serialization
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import train

TEMPLATES = TemplateSet.parse("U1:%x[0,0]\nU2:%x[-1,0]\nU3:%x[1,0]\nB")
LABELS = ["B-PER", "I-PER", "O", "S-LOC", "E-PER"]


def corpus_of(sentences, labels=None):
    """Return a corpus of one column of words."""
    cells = column([word for sentence in sentences for word in sentence])
    ptr = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    outputs = None if labels is None else np.array([y for row in labels for y in row], np.int32)
    return Corpus((cells,), ptr, outputs, ("B-PER", "O"))


@pytest.fixture(scope="module")
def names():
    """Return sentences in which a name is clear in one place and unclear in the next."""
    rng = np.random.default_rng(0)
    sentences, labels = [], []
    for i in range(120):
        name = f"n{rng.integers(40)}"
        if i % 2 == 0:
            sentences += [["Mr", name, "came"], ["then", name, "left"]]
            labels += [[1, 0, 1], [1, 0, 1]]
        else:
            sentences += [["a", name, "fell"], ["then", name, "left"]]
            labels += [[1, 1, 1], [1, 1, 1]]
    return corpus_of(sentences, labels)


@pytest.fixture(scope="module")
def model(names):
    """Return a model with context."""
    return train(names, TEMPLATES, Options(context=True)).model


def elsewhere(found, sentence, key, own):
    """Return the most frequent value of a key in the window without one occurrence: the obvious twin."""
    near = Counter(v for s, k, v in found if k == key and abs(s - sentence) <= context.WINDOW)
    near[own] -= 1
    most = max(near.values(), default=0)
    return min(v for v, n in near.items() if n == most) if most > 0 else context.NONE


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(LABELS)), min_size=1, max_size=5),
        min_size=1,
        max_size=8,
    )
)
def test_columns_count_the_labels_of_other_tokens_in_the_window(data):
    corpus = corpus_of([[word for word, _ in sentence] for sentence in data])
    labels = [label for sentence in data for _, label in sentence]
    before, context.WINDOW = context.WINDOW, 2
    try:
        found = context.with_context(corpus, labels)
        tokens = [(i, word, label) for i, sentence in enumerate(data) for word, label in sentence]
        expected = [elsewhere(tokens, *token) for token in tokens]
    finally:
        context.WINDOW = before
    assert found.columns[1].cells() == labels
    assert found.columns[2].cells() == expected


def test_an_entity_has_the_most_frequent_type_of_its_words_elsewhere():
    words = [["New", "York"], ["New", "York", "x"], ["New", "York"]]
    labels = ["B-LOC", "I-LOC", "B-ORG", "I-ORG", "O", "B-ORG", "I-ORG"]
    cells = context.with_context(corpus_of(words), labels).columns[3].cells()
    assert cells == ["ORG", "ORG", "LOC", "LOC", "_", "LOC", "LOC"]


def test_context_labels_a_name_by_its_other_mentions(names, model):
    plain = train(names, TEMPLATES, Options()).model
    new = corpus_of(
        [["Mr", "new", "came"], ["then", "new", "left"], ["a", "old", "fell"], ["then", "old", "left"]]
    )
    labels = named(model.predict(new), model.labels)
    assert labels[1] == labels[4] == "B-PER"
    assert labels[7] == labels[10] == "O"
    assert plain.predict(new)[4] == plain.predict(new)[10]


def test_a_model_file_holds_both_passes(names, model, tmp_path):
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.predict(names) == model.predict(names)).all()
    assert (again.columns, len(again.first.templates), again.first.labels) == (1, 4, model.labels)
    chosen = [explanation.chosen for explanation in explain(again, names)]
    assert (np.concatenate(chosen) == model.predict(names)).all()


@pytest.mark.parametrize(
    ("expected", "damage"),
    [
        ("column 2", lambda header: header["facts"].update(columns=2)),
        ("of other labels", lambda header: header["first"].update(labels=["B-PER", "X"])),
        ("no other stage", lambda header: header["first"].update(first=header["first"].copy())),
        ("of other labels", lambda header: header["facts"].update(task="segmentation")),
    ],
)
def test_a_damaged_first_pass_is_rejected(model, expected, damage):
    header, arrays = deepcopy(serialization._header(model)), serialization._arrays(model)
    damage(header)
    with pytest.raises(MtlError, match=expected):
        serialization._model(header, arrays)


def test_the_estimator_trains_in_two_passes(names):
    words = names.columns[0].cells()
    X = [[(word,) for word in words[a:b]] for a, b in pairwise(names.ptr.tolist())]
    y = [named(names.outputs[a:b], names.labels) for a, b in pairwise(names.ptr.tolist())]
    labeler = SequenceLabeler(TEMPLATES, context=True).fit(X, y)
    assert labeler.score(X, y) > SequenceLabeler(TEMPLATES).fit(X, y).score(X, y)


def test_context_needs_words_and_enough_sentences(names):
    with pytest.raises(IncompatibleError, match="feature dicts"):
        SequenceLabeler(context=True).fit([[{"a": 1}]] * 9, [["x"]] * 9)
    with pytest.raises(IncompatibleError, match="at least 5 sentences"):
        train(names.take(np.arange(3)), TEMPLATES, Options(context=True))
    with pytest.raises(IncompatibleError, match="--task sequence"):
        Options(task="segmentation", context=True).checked()
