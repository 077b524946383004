"""Attributes that fire once share the weights of their row: the same bits, from fewer weights."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import random_corpus

from mtlstruct.linear import products as linear
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.linear.singletons import fold, squares
from mtlstruct.objective.regularizers import BlockL1Squared
from mtlstruct.solvers import Stop
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
from mtlstruct.solvers.coordinate_ascent.solver import Coordinate
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of, train

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[-1,0]/%x[0,0]/%x[1,0]\nB\n")


CORPUS = random_corpus(np.random.default_rng(3), sentences=30, longest=9, words=25, labels=3)
"""Sentences in which most triples, many pairs and some words are seen once."""


@st.composite
def designs(draw):
    """Rows of a few templates with one slot each; some entries are null."""
    rows, slots, values = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 8))
    attributes = slots * values
    table = np.array(
        [
            [draw(st.sampled_from([attributes, *range(k * values, (k + 1) * values)])) for k in range(slots)]
            for _ in range(rows)
        ],
        np.int32,
    )
    ids = np.append(table.ravel(), np.full(LOOKAHEAD, attributes, np.int32))
    ptr = np.arange(rows + 1, dtype=np.int64) * slots
    number = np.arange(slots, dtype=np.int32)
    blocks = np.arange(slots + 1, dtype=np.int64) * values
    return Design(ids, ptr, number, np.zeros(0, np.float32), blocks, number)


@settings(max_examples=50)
@given(designs(), st.integers(1, 3))
def test_folded_weights_are_those_of_all_attributes(design, width):
    small = design.folded(spare=False)
    random = np.random.default_rng(0)
    z = random.normal(size=(design.rows, width)).astype(np.float32)
    tables = [np.zeros(some.weight_shape(width), np.float32) for some in (design, small)]
    for some, table in zip((design, small), tables, strict=True):
        linear.count(some, z, table)
    whole, folded = tables
    fires = np.isin(np.arange(design.attributes), design.ids)
    assert np.array_equal(whole[:-1][fires], folded[small.fold.number[:-1][fires]])
    assert np.array_equal(whole[:-1][fires], small.rows_of(folded, np.flatnonzero(fires)))
    m = len(design.templates)
    scale = random.normal(size=m)
    norms, scores = [], [np.zeros((design.rows, width), np.float32) for _ in tables]
    for some, table, out in zip((design, small), tables, scores, strict=True):
        norms.append(linear.squared_norms([some], [table], m))
        linear.score(some, table, scale, out)
    assert np.array_equal(*norms)
    assert np.array_equal(*scores)
    assert small.features(width) == design.features(width)


def test_numbers():
    #     0 twice, 1 once in row 1, 2 never, 3 once in row 0, 4 is the null attribute
    ids = np.array([0, 3, 0, 4, 1, 4], np.int32)
    found = fold(ids, 3, 2, 4)
    assert found.own == 1
    assert found.number.tolist() == [0, 1 + 2, 4, 1 + 0, 4]
    assert found.null == 4


def test_training_gives_the_same_bits(monkeypatch):
    options = Options(c=1.0, max_iter=3)
    folded = train(CORPUS, TEMPLATES, options)
    calls = []
    monkeypatch.setattr(
        "mtlstruct.training.train.with_shared_singletons",
        lambda oracle, overwrite: calls.append(overwrite) or oracle,
    )
    whole = train(CORPUS, TEMPLATES, options)
    assert calls == [True]
    assert folded.fit.objective == whole.fit.objective
    assert folded.weights == whole.weights
    assert sum(u.size for u in folded.fit.weights) < 0.7 * sum(u.size for u in whole.fit.weights)
    for ours, theirs in zip(folded.model.weights, whole.model.weights, strict=True):
        assert np.array_equal(ours, theirs)


def test_what_is_not_spared_is_left_as_it_was():
    material = encode(CORPUS, TEMPLATES, Options(c=1.0))
    before = material.encoded.designs[0].ids.copy()
    train(CORPUS, TEMPLATES, Options(c=1.0, max_iter=1), dataset=material)
    assert np.array_equal(before, material.encoded.designs[0].ids)


@pytest.mark.parametrize("seen", ["seen", "all"])
def test_lists_of_labels_are_not_folded(seen):
    options = Options(c=1.0, label_support=seen)
    material = encode(CORPUS, TEMPLATES, options)
    oracle = oracle_of(CORPUS, material.structure, material.encoded, options)
    assert (with_shared_singletons(oracle, overwrite=False) is oracle) == (seen == "seen")


def test_the_learner_certifies_on_folded_weights():
    options = Options(c=1.0)
    material = encode(CORPUS, TEMPLATES, options)
    oracle = with_shared_singletons(
        oracle_of(CORPUS, material.structure, material.encoded, options), overwrite=False
    )
    fit = Coordinate(Stop(gap=0.01)).fit(oracle, BlockL1Squared(), 1.0, lambda _: False)
    assert fit.converged
    assert fit.gap <= 0.01


def test_squares_do_not_depend_on_the_order_of_rows_or_on_empty_ones():
    """A fold has attributes in another order, and some that never fire, yet the bits of its own training."""
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.integers(-4, 5, size=(5000, 1))
    weights = (random.normal(size=(5000, 16)) * sizes).astype(np.float32)
    more = np.concatenate([weights, np.zeros((700, 16), np.float32)])[random.permutation(5700)]
    assert squares(weights) == squares(more) == squares(weights, random.permutation(5000).astype(np.int32))
    exact = math.fsum(np.square(weights, dtype=np.float64).ravel())
    assert squares(weights) == pytest.approx(exact, rel=1e-14)
