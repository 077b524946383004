"""Merged attributes: what scores and counts alike before and after, and which attributes are one."""

import numpy as np
import pytest
from support.duals import on_threads
from support.naive import entries, random_corpus

from mtlstruct.features.duplicate_columns import merge
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import encode_training
from mtlstruct.linear.design import Design, padded_ids
from mtlstruct.linear.products import count as fast_count
from mtlstruct.linear.products import score as fast_score
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet

pytestmark = pytest.mark.jitless

TEMPLATES = "U0:%x[0,0]\nU1:%x[0,0]/%x[1,0]\nU2:%x[-1,0]/%x[0,0]/%x[1,0]\nU3:%x[0,0]\nB\nB1:%x[0,1]"


def encoded(seed=0, **sizes):
    data = random_corpus(np.random.default_rng(seed), **sizes)
    structure = SequenceStructure(len(data.labels))
    return encode_training(data, TemplateSet.parse(TEMPLATES), structure.sites(data.ptr), min_count=1)[0]


def dense(design):
    """A as a matrix, by loops."""
    out = np.zeros((design.rows, design.layout.attributes))
    for row, _, a, x in entries(design):
        out[row, a] += x
    return out


def ragged(rng, real):
    """Rows of any length; attributes 0 and 1 fire alike, 2 fires twice where it fires; the null attribute, too."""
    ids, lengths, attributes = [], [], 9
    for _ in range(12):
        some = [k for k in range(3, attributes) if rng.random() < 0.4]
        some += [0, 1] if rng.random() < 0.5 else []
        some += [2, 2] if rng.random() < 0.5 else []
        some += [attributes]
        ids += rng.permutation(some).tolist()
        lengths.append(len(some))
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.zeros(0, np.float32)
    if real:
        worth = rng.normal(size=attributes + 1).astype(np.float32)
        worth[1] = worth[0]
        values = worth[ids]
    blocks = np.minimum(np.array(ids) // 5, 1).astype(np.int32)
    layout = WeightLayout(np.array([0, 5, 9]), np.arange(2, dtype=np.int32))
    return Design(padded_ids(np.array(ids, np.int32), attributes), ptr, blocks, values, layout)


def one_kind(design):
    return Encoded(("node",), (design,), (None,), np.array([0, design.rows]), 2)


@pytest.mark.parametrize("seed", range(3))
def test_equal_columns_become_one_and_different_ones_do_not(seed):
    large = encoded(seed)
    merged = merge(large)
    for design, small, number, fired, rows in zip(
        large.designs, merged.encoded.designs, merged.number, merged.fired, large.rows, strict=True
    ):
        columns = [tuple(column) for column in dense(design).T]
        assert len(set(columns)) == small.layout.attributes == len(fired)
        assert [tuple(dense(small)[:, f]) for f in number] == columns
        sites = np.ones(design.rows) if rows is None else np.bincount(rows, minlength=design.rows)
        np.testing.assert_array_equal(fired, sites @ dense(small))
        assert np.all(np.diff(fired) <= 0)
    assert merged.encoded.designs[0].layout.attributes < large.designs[0].layout.attributes


@pytest.mark.parametrize("real", [False, True])
def test_ragged_real_valued_and_repeated_features(real):
    design = ragged(np.random.default_rng(5), real)
    merged = merge(one_kind(design))
    (small,), (number,) = merged.encoded.designs, merged.number
    assert number[0] == number[1]
    np.testing.assert_allclose(dense(small)[:, number], dense(design), rtol=1e-6)
    for row in range(small.rows):
        assert np.all(np.diff(small.ids[small.ptr[row] : small.ptr[row + 1]]) > 0)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_scores_and_counts_of_the_small_problem_equal_their_loops(real, workers):
    rng = np.random.default_rng(1)
    (small,) = merge(one_kind(ragged(rng, real))).encoded.designs
    weights = rng.normal(size=(small.layout.attributes + 1, 4)).astype(np.float32)
    z = rng.normal(size=(small.rows, 3)).astype(np.float32)
    z[::3] = 0
    out, counted = np.zeros((small.rows, 4), np.float32), np.zeros_like(weights)
    on_threads(
        [workers], lambda: (fast_score(small, weights, np.zeros(0), out), fast_count(small, z, counted))
    )
    np.testing.assert_allclose(out, dense(small) @ weights[:-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(counted[:-1, :3], dense(small).T @ z, rtol=1e-4, atol=1e-5)


def test_block_weights_add_up_over_the_members():
    large = encoded(2)
    merged = merge(large)
    mu = np.random.default_rng(0).random(large.templates)
    for design, number, sums in zip(large.designs, merged.number, merged.sums(mu), strict=True):
        owner = np.repeat(design.layout.templates, np.diff(design.layout.block_ptr))
        for f in range(len(sums)):
            assert sums[f] == pytest.approx(mu[owner[number == f]].sum())
