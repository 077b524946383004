"""Shared weight rows of singletons: the same bits from fewer weights."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import random_corpus

from mtlstruct.linear import products as linear
from mtlstruct.linear.design import Design, padded_ids, share_singletons
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.solvers.coordinate_ascent.duals import with_shared_singletons
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
    ids = padded_ids(table.ravel(), attributes)
    ptr = np.arange(rows + 1, dtype=np.int64) * slots
    number = np.arange(slots, dtype=np.int32)
    blocks = np.arange(slots + 1, dtype=np.int64) * values
    return Design(ids, ptr, number, np.zeros(0, np.float32), WeightLayout(blocks, number))


@settings(max_examples=50)
@given(designs(), st.integers(1, 3))
def test_products_and_norms_are_those_of_one_row_per_attribute(design, width):
    small = share_singletons(design, overwrite=False)
    random = np.random.default_rng(0)
    z = random.normal(size=(design.rows, width)).astype(np.float32)
    tables = [np.zeros(some.layout.weight_shape(width), np.float32) for some in (design, small)]
    for some, table in zip((design, small), tables, strict=True):
        linear.count(some, z, table)
    whole, shared = tables
    fires = np.isin(np.arange(design.layout.attributes), design.ids)
    assert np.array_equal(whole[:-1][fires], shared[small.layout.singletons.row_of[:-1][fires]])
    assert np.array_equal(whole[:-1][fires], small.layout.rows_of(shared, np.flatnonzero(fires)))
    m = len(design.layout.templates)
    scale = random.normal(size=m)
    norms, scores = [], [np.zeros((design.rows, width), np.float32) for _ in tables]
    for some, table, out in zip((design, small), tables, scores, strict=True):
        norms.append(linear.squared_norms([some], [table], m))
        linear.score(some, table, scale, out)
    assert np.array_equal(*norms)
    assert np.array_equal(*scores)
    assert small.layout.features(width) == design.layout.features(width)


def test_training_gives_the_same_bits(monkeypatch):
    options = Options(c=1.0, max_iter=3)
    shared = train(CORPUS, TEMPLATES, options)
    calls = []
    monkeypatch.setattr(
        "mtlstruct.training.train.with_shared_singletons",
        lambda oracle, overwrite: calls.append(overwrite) or oracle,
    )
    whole = train(CORPUS, TEMPLATES, options)
    assert calls == [True]
    assert shared.fit.objective == whole.fit.objective
    assert shared.weights == whole.weights
    assert sum(u.size for u in shared.fit.weights) < 0.7 * sum(u.size for u in whole.fit.weights)
    for ours, theirs in zip(shared.model.weights, whole.model.weights, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_given_dataset_is_not_overwritten():
    material = encode(CORPUS, TEMPLATES, Options(c=1.0))
    before = material.encoded.designs[0].ids.copy()
    train(CORPUS, TEMPLATES, Options(c=1.0, max_iter=1), dataset=material)
    assert np.array_equal(before, material.encoded.designs[0].ids)


@pytest.mark.parametrize("seen", ["seen", "all"])
def test_singletons_are_not_shared_with_label_support(seen):
    options = Options(c=1.0, label_support=seen)
    material = encode(CORPUS, TEMPLATES, options)
    oracle = oracle_of(CORPUS, material.structure, material.encoded, options)
    assert (with_shared_singletons(oracle, overwrite=False) is oracle) == (seen == "seen")


def test_squared_norm_does_not_depend_on_order_or_empty_rows():
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.integers(-4, 5, size=(5000, 1))
    weights = (random.normal(size=(5000, 16)) * sizes).astype(np.float32)
    more = np.concatenate([weights, np.zeros((700, 16), np.float32)])[random.permutation(5700)]
    assert (
        linear._squared_norm(weights, None)
        == linear._squared_norm(more, None)
        == linear._squared_norm(weights, random.permutation(5000).astype(np.int32))
    )
    exact = math.fsum(np.square(weights, dtype=np.float64).ravel())
    assert linear._squared_norm(weights, None) == pytest.approx(exact, rel=1e-14)
