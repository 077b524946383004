"""Models that learn another label scheme than that of the data."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct import SequenceLabeler
from mtlstruct.errors import IncompatibleError, ModelFileError
from mtlstruct.explain.decomposition import explain
from mtlstruct.explain.selection import removal_costs
from mtlstruct.model.lattice import Lattice
from mtlstruct.model.model import Model
from mtlstruct.structures import SequenceStructure
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.schemes import Conversion, numbered, recognised
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[1,1]\nB")
CASES = [
    tuple(case.split())
    for case in ("bio bioes", "bioes io", "iob1 bioes", "grobid bio", "ioe2 io", "bio bio")
]


def random_lattice(given, learned, tokens=4):
    """Return random scores of one sentence, whose labels are of one type."""
    start = {"grobid": ["I-<a>", "<a>", "<other>"], "ioe2": ["I-a", "E-a", "O"]}.get(
        given, ["B-a", "I-a", "O"]
    )
    conversion = Conversion(given, learned, start)
    rng, L = np.random.default_rng(1), len(conversion.learned_labels)
    parts = (rng.normal(size=(tokens, L)).astype(np.float32), rng.normal(size=(1, L * L)).astype(np.float32))
    rows = (None, np.zeros(tokens - 1, np.int32))
    lattice = Lattice(SequenceStructure(L), parts, rows, np.array([0, tokens], np.int64), conversion)
    return lattice.restricted(None)


@pytest.mark.parametrize(("given", "learned"), CASES)
def test_inference_equals_enumeration(given, learned):
    lattice = random_lattice(given, learned)
    conversion, T = lattice.conversion, 4
    valid, L = conversion.valid, len(conversion.learned_labels)
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(L), repeat=T):
        if all(valid[a, b] for a, b in itertools.pairwise([L, *path, L])):
            outputs = np.array(path, np.int32)
            shown = conversion.decode(outputs, lattice.ptr)
            score = float(lattice.structure.evaluate(lattice.batch, outputs)[0])
            assert tuple(shown.tolist()) not in found  # the conversion is one to one
            found[tuple(shown.tolist())] = score
            assert lattice.evaluate(shown)[0] == pytest.approx(score)
    ranked = sorted(found, key=lambda path: -found[path])
    assert lattice.best().tolist() == list(ranked[0])
    nbest = lattice.nbest(5)
    assert [tuple(row) for row in nbest.outputs.tolist()] == ranked[:5]
    temperature, node = 1.7, np.zeros((T, len(conversion.labels)))
    weights = np.exp(np.array([found[path] for path in ranked]) / temperature)
    for path, p in zip(ranked, weights / weights.sum(), strict=True):
        node[np.arange(T), path] += p
    marginals = lattice.marginals(temperature)
    assert marginals.node == pytest.approx(node, abs=1e-5)
    assert marginals.log_partition[0] == pytest.approx(np.log(weights.sum()), abs=1e-5)


def data(given="bio", seed=0, sentences=40):
    corpus = random_corpus(np.random.default_rng(seed), sentences=sentences)
    names = ["B-X", "I-X", "O"]
    found = [[names[y % 3] for y in corpus.outputs[span].tolist()] for span in corpus.sentences()]
    labels, outputs, _ = numbered(found, names)
    bio = replace(corpus, outputs=outputs, labels=tuple(labels))
    conversion = Conversion("bio", given, labels)
    outputs = conversion.encode(bio.relabelled(conversion.labels).outputs, bio.ptr)
    return replace(bio, outputs=outputs, labels=conversion.learned_labels)


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize(
    ("given", "learned"), [("bio", "bioes"), ("bio", "bio"), ("bilou", "io"), ("iob1", "bioes")]
)
def test_a_model_predicts_valid_labels_of_the_data(given, learned, context, tmp_path):
    corpus, held_out = data(given), data(given, 1)
    options = Options(scheme=learned, context=context)
    model = train(corpus, TEMPLATES, options).model
    assert model.labels == corpus.labels
    model.save(tmp_path / "m.mtl")
    model = Model.load(tmp_path / "m.mtl")
    outputs = model.predict(held_out)
    conversion = Conversion(given, given, model.labels)
    assert np.array_equal(conversion.decode(outputs, held_out.ptr), outputs)  # valid: nothing to repair
    assert recognised(model.labels, outputs, held_out.ptr) in (given, "bio", "io")
    assert model.marginals(held_out).node.sum(axis=1) == pytest.approx(1)
    for found in explain(model, held_out):
        names = [model.learned_labels[y] for y in found.chosen]
        assert np.all(found.margin > -1e-6)
        assert all(label in model.learned_labels for label in names)
        if learned != "io":
            right = np.array_equal(outputs[found.span], held_out.outputs[found.span])
            assert np.array_equal(found.chosen, found.gold) == right
    whole = removal_costs(model, held_out, lambda corpus, found: float((found == corpus.outputs).mean()))
    assert whole.score == pytest.approx(float((outputs == held_out.outputs).mean()))


def test_constraints_are_on_labels_of_the_data():
    corpus = data()
    model = train(corpus, TEMPLATES, Options(scheme="bioes")).model
    given = np.where(np.arange(corpus.tokens) % 2, corpus.outputs, -1).astype(np.int32)
    wanted = Constraints.from_labels(given, 3)
    known = corpus.relabelled(model.labels)
    assert np.array_equal(model.predict(known, wanted)[given >= 0], given[given >= 0])
    none = Constraints.from_rules(["*>I-X"], model.labels)
    assert "I-X" not in {model.labels[y] for y in model.predict(corpus, none)}
    with pytest.raises(IncompatibleError, match="do not support a model that learns IO"):
        train(corpus, TEMPLATES, Options(scheme="io")).model.predict(corpus, none)


def test_classes_have_no_scheme_and_a_damaged_file_is_rejected(tmp_path):
    corpus = data()
    with pytest.raises(IncompatibleError, match="scheme bioes is for labels of chunks, got X, Y, Z"):
        train(replace(corpus, labels=("X", "Y", "Z")), TEMPLATES, Options(scheme="bioes"))
    with pytest.raises(IncompatibleError, match="--scheme bmes is for label sequences"):
        Options(scheme="bmes").checked()
    model = train(corpus, TEMPLATES, Options(scheme="bioes")).model
    replace(model, facts=model.facts | {"scheme": {"given": "bio", "learned": "x"}}).save(tmp_path / "m.mtl")
    with pytest.raises(ModelFileError, match="unknown label scheme"):
        Model.load(tmp_path / "m.mtl")


def test_the_estimator_has_the_labels_of_the_data():
    X = [[{"word": w} for w in text.split()] for text in ("Ann Lee saw Bo", "Bo saw Ann Lee", "we saw Bo")]
    y = [["I-P", "I-P", "O", "I-P"], ["I-P", "O", "I-P", "I-P"], ["O", "O", "I-P"]]
    model = SequenceLabeler(scheme="bioes").fit(X, y)
    assert (model.predict(X), list(model.classes_)) == (y, ["I-P", "O"])
    assert model.predict_marginals(X)[0][0]["I-P"] > 0.5
