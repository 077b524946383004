"""Training in two passes: columns of first-pass labels."""

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


def labelling(labels):
    """Return the result of a first pass that is certain of these labels."""
    names = tuple(sorted({*labels, *LABELS}))
    outputs = np.array([names.index(label) for label in labels], np.int32)
    return context.Labelling(names, outputs, np.eye(len(names))[outputs])


def cells(sentences, labels):
    """Return the cells of each column of the context."""
    found = context.with_context(corpus_of(sentences), labelling(labels))
    return dict(zip(context.COLUMNS, (column.cells() for column in found.columns[1:]), strict=True))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=20),
    st.integers(0, 12),
)
def test_the_mean_elsewhere_is_over_other_items_of_the_key_in_the_window(items, window):
    items = sorted(items)
    sentence, key, value = np.array(items, np.int64).T
    mean, count = context._elsewhere(key, sentence, value[:, None].astype(float), window)
    for i in range(len(items)):
        near = (key == key[i]) & (abs(sentence - sentence[i]) <= window)
        near[i] = False
        assert count[i] == near.sum()
        assert mean[i, 0] == pytest.approx(value[near].mean() if near.any() else 0)


def naive_entities(labels, ptr):
    """Return (start, stop, type) of each entity, token by token: the obvious twin."""
    found = []
    for first, last in pairwise(ptr):
        before = ""
        for t in range(first, last):
            place, _, type_ = labels[t].partition("-")
            if type_ and type_ == before and place not in "BS":
                found[-1] = (found[-1][0], t + 1, type_)
            elif type_:
                found.append((t, t + 1, type_))
            before = type_
    return found


@given(st.lists(st.lists(st.sampled_from(LABELS), min_size=1, max_size=6), min_size=1, max_size=5))
def test_columns_show_the_entities_beside_a_token(sentences):
    labels = [label for sentence in sentences for label in sentence]
    ptr = np.cumsum([0, *map(len, sentences)]).tolist()
    expected, entities = [], naive_entities(labels, ptr)
    for first, last in pairwise(ptr):
        for t in range(first, last):
            left = [kind for a, b, kind in entities if first <= a and b <= t]
            right = [kind for a, b, kind in entities if t < a < last]
            expected.append((left[-1] if left else "_", right[0] if right else "_"))
    found = cells(sentences, labels)
    assert found["label"] == labels
    assert list(zip(found["previous"], found["next"], strict=True)) == expected


def test_columns_tell_the_types_of_other_mentions():
    sentences = [["New", "York", "x"], ["New", "York"], ["York"], ["a"], ["York"]]
    found = cells(sentences, ["B-LOC", "I-LOC", "O", "B-ORG", "I-ORG", "B-PER", "O", "B-PER"])
    top = len(context.GRADES)
    assert found["entity"] == [*[f"ORG {top}"] * 2, "_", *[f"LOC {top}"] * 2, f"PER {top}", "_", f"PER {top}"]
    assert (found["word"][0], found["word"][3], found["word"][6]) == (f"ORG {top}", f"LOC {top}", "_")
    assert found["word"][1] == "PER 3"  # two of three
    assert found["longer"][1] == f"ORG {top}"
    assert (found["certainty"][2], found["second"][2]) == (f"O {top}", "O")
    assert found["sentence"] == ["_", "_", f"LOC {top}", *["_"] * 5]
    assert found["topic"][6] == "PER 2"


def test_the_window_is_counted_in_sentences():
    found = cells([["York"], *[["a"]] * context.WINDOW, ["York"]], ["B-LOC", *"O" * context.WINDOW, "B-LOC"])
    assert found["word"][0] == f"LOC {len(context.GRADES)}"
    assert found["near"][0] == "_"


def test_plain_labels_are_types_of_single_tokens():
    found = cells([["the", "old", "town"], ["old"]], ["DET", "ADJ", "NOUN", "ADJ"])
    assert found["previous"] == ["_", "DET", "ADJ", "_"]
    assert found["word"] == ["_", f"ADJ {len(context.GRADES)}", "_", f"ADJ {len(context.GRADES)}"]


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


def test_the_estimator_trains_in_two_passes(names, model):
    words = names.columns[0].cells()
    X = [[(word,) for word in words[a:b]] for a, b in pairwise(names.ptr.tolist())]
    y = [named(names.outputs[a:b], names.labels) for a, b in pairwise(names.ptr.tolist())]
    labeler = SequenceLabeler(TEMPLATES, context=True).fit(X, y)
    found = [label for sentence in labeler.predict(X) for label in sentence]
    assert found == named(model.predict(names), model.labels)


def test_context_needs_words_and_enough_sentences(names):
    with pytest.raises(IncompatibleError, match="feature dicts"):
        SequenceLabeler(context=True).fit([[{"a": 1}]] * 9, [["x"]] * 9)
    with pytest.raises(IncompatibleError, match="at least 5 sentences"):
        train(names.take(np.arange(3)), TEMPLATES, Options(context=True))
    with pytest.raises(IncompatibleError, match="--task sequence"):
        Options(task="segmentation", context=True).checked()
