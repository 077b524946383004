"""Warm start: weights of a model are found in other data by template line and feature value."""

import itertools

import numpy as np
import pytest
from support.naive import random_corpus
from support.oracles import blocks_of

from mtlstruct.features.index import encode_training
from mtlstruct.interop.feature_text import cells_of
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train
from mtlstruct.training.warm_start import start_from

OLD = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]\nU2:%x[0,1]/%x[2,1]\nU9:%x[-2,0]\nB\nB1:%x[0,1]"
NEW = "B1:%x[0,1]\nU2:%x[0,1]/%x[2,1]\nUnew:%x[1,0]\nU0:%x[0,0]\nU0:%x[0,0]\nB\nU1:%x[-1,0]/%x[0,1]"


def data(seed, **sizes):
    return random_corpus(np.random.default_rng(seed), **({"sentences": 30, "words": 8} | sizes))


def prepared(corpus_, templates):
    structure = SequenceStructure(len(corpus_.labels))
    encoded, index = encode_training(corpus_, TemplateSet.parse(templates), structure.sites(corpus_.ptr))
    cost = Hamming().table(corpus_.labels)
    return Oracle(structure, encoded, corpus_.outputs, cost), index


def named(index, tables, labels):
    """{(line, which of equal lines, cells): {labels: weight}} of all attributes."""
    out, seen = {}, {}
    for j, template in enumerate(index.templates):
        which = seen[template.text] = seen.get(template.text, -1) + 1
        parts = list(itertools.product(labels, repeat=1 if index.kinds[j] == "node" else 2))
        for cells, row in zip(cells_of(index, j), tables[j], strict=True):
            out[template.text, which, cells] = dict(zip(parts, row[: len(parts)].tolist(), strict=True))
    return out


@pytest.mark.parametrize("labels", [3, 4, 2])
def test_common_features_and_no_others_get_the_weights_of_the_model(labels):
    model = train(data(0, labels=3), TemplateSet.parse(OLD), Options(method="svm")).model
    other = data(1, words=11, labels=labels)
    oracle, index = prepared(other, NEW)
    start = start_from(model, index, oracle, other.labels)
    blocks = [model.block(n) for n in range(len(model.live))]
    old = named(model.index, blocks, model.labels)
    new = named(index, blocks_of(oracle, start.weights), other.labels)
    common = 0
    for key, weights in new.items():
        for pair, weight in weights.items():
            expected = old.get(key, {}).get(pair, 0.0)
            assert weight == pytest.approx(expected, abs=1e-7)
            common += expected != 0
    assert common > 50
    assert start.mu[2] == 0  # a new template
    assert start.mu[4] == 0  # the second of two equal lines, of which the model has one
    assert np.all(start.mu[[0, 1, 3, 5, 6]] == 1)


def test_on_the_same_data_all_weights_are_those_of_the_model():
    same = data(2)
    training = train(same, TemplateSet.parse(OLD), Options(solver="cutting-plane"))
    oracle, index = prepared(same, OLD)
    start = start_from(training.model, index, oracle, same.labels)
    found, own = (blocks_of(oracle, some.weights) for some in (start, training.fit))
    for u, scale, v in zip(found, training.fit.scale, own, strict=True):
        assert u.shape == v.shape
        np.testing.assert_allclose(u, scale * v, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(start.mu, training.fit.mu)


@pytest.mark.parametrize("method", ["mtl", "svm", "crf-l2", "crf-l1", "irw-crf", "online-mkl", "pmtl"])
def test_every_method_has_a_warm_start(method):
    """The optimum is the same; a CRF that starts there stops sooner."""
    same, options, templates = data(3), Options(method=method), TemplateSet.parse(OLD)
    first = train(same, templates, options)
    again = train(same, templates, options, init=first.model)
    if method not in ("online-mkl", "irw-crf", "crf-l1"):
        assert again.fit.objective == pytest.approx(first.fit.objective, rel=0.02)
    if method.startswith("crf"):
        assert again.fit.passes <= 0.5 * first.fit.passes
    assert np.isfinite(train(data(4), templates, options, init=first.model).fit.objective)
    if method == "mtl":
        assert train(same, templates, Options(solver="cutting-plane"), init=first.model).fit.converged
