"""The adjoint pair and the norms, against loops; uniform, ragged and real-valued rows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from support.duals import on_threads
from support.naive import count, score

from mtlstruct.linear import products
from mtlstruct.linear import products as linear
from mtlstruct.linear.design import Design, padded_ids
from mtlstruct.linear.weight_layout import WeightLayout, aligned_zeros, padded

pytestmark = pytest.mark.jitless


def make_design(rng, rows=30, m=5, ragged=False, real=False):
    sizes = rng.integers(1, 9, m)
    block_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    null = int(block_ptr[-1])
    entries, blocks, lengths = [], [], []
    for _ in range(rows):
        chosen = [j for j in range(m) if not ragged or rng.random() < 0.6]
        ids = [int(rng.integers(block_ptr[j], block_ptr[j + 1])) for j in chosen]
        if not ragged and rng.random() < 0.3:
            ids[int(rng.integers(m))] = null
        entries += ids
        blocks += chosen
        lengths.append(len(ids))
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = padded_ids(np.array(entries, np.int32), null)
    values = rng.normal(size=len(entries)).astype(np.float32) if real else np.zeros(0, np.float32)
    listed = np.array(blocks if ragged else range(m), np.int32)
    return Design(ids, ptr, listed, values, WeightLayout(block_ptr, np.arange(m, dtype=np.int32)))


CASES = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize(("ragged", "real"), CASES)
@pytest.mark.parametrize("width", [1, 3, 9, 17])
def test_score_and_count_equal_their_loops_and_are_adjoint(ragged, real, width):
    rng = np.random.default_rng(width + 10 * ragged + real)
    design = make_design(rng, ragged=ragged, real=real)
    scale = rng.normal(size=5)
    weights = rng.normal(size=(design.layout.attributes + 1, width)).astype(np.float32)
    weights[-1] = 0
    out = np.zeros((design.rows, width), np.float32)
    linear.score(design, weights, scale, out)
    np.testing.assert_allclose(out, score(design, weights, scale), rtol=1e-4, atol=1e-4)

    z = rng.normal(size=(design.rows, width)).astype(np.float32)
    z[::3] = 0
    counted = np.zeros_like(weights)
    linear.count(design, z, counted)
    np.testing.assert_allclose(counted, count(design, z, weights.shape), rtol=1e-4, atol=1e-4)
    assert not counted[-1].any()  # the null attribute
    linear.score(design, weights, np.ones(5), out)
    assert np.vdot(out, z) == pytest.approx(np.vdot(weights, counted), rel=1e-3)


@pytest.mark.parametrize(("norm", "of"), [(linear.squared_norms, np.square), (linear.absolute_sums, np.abs)])
def test_norms_are_those_of_the_blocks(norm, of):
    rng = np.random.default_rng(8)
    design = make_design(rng)
    weights = rng.normal(size=(design.layout.attributes + 1, 6)).astype(np.float32)
    expected = [of(weights[a:b].astype(float)).sum() for a, b in pairwise(design.layout.block_ptr)]
    np.testing.assert_allclose(norm([design], [weights], 5), expected)


def test_count_has_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(9)
    design = make_design(rng, rows=500)
    z = rng.normal(size=(500, 8)).astype(np.float32)

    def counted():
        out = np.zeros((design.layout.attributes + 1, 8), np.float32)
        linear.count(design, z, out)
        return out.tobytes()

    assert len(set(on_threads((1, 2, 4), counted))) == 1


@pytest.mark.parametrize(
    ("labels", "width"), [(1, 1), (2, 4), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (17, 32)]
)
def test_padding_keeps_rows_on_few_cache_lines(labels, width):
    assert padded(labels) == width
    array = aligned_zeros(10, width)
    assert array.ctypes.data % 64 == 0
    assert array.shape == (10, width)


SOME = np.array([7, 3, 20])


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("ragged", "real"), CASES)
def test_some_rows_are_scored_and_changed_as_all_are(ragged, real, listed):
    rng = np.random.default_rng(20 + 2 * ragged + real)
    full = make_design(rng, ragged=ragged, real=real)
    design = full if listed else replace(full, blocks=np.zeros(0, np.int32))
    scale, amount = rng.normal(size=(2, 5))
    weights = rng.normal(size=(design.layout.attributes + 1, 16)).astype(np.float32)
    weights[-1] = 0
    for factor in (scale, None):
        found = products.score_some_rows(design, weights, SOME, 9, factor)
        expected = score(full, weights, np.ones(5) if factor is None else factor)[SOME, :9]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    parts, counts = np.array([2, 8, 2], np.int32), rng.normal(size=3).astype(np.float32)
    spread = np.zeros((design.rows, 9), np.float32)
    spread[SOME, parts] = counts
    change = count(full, spread, weights.shape)
    squares = linear.squared_norms([design], [weights], 5)
    expected = weights.astype(float)
    for j in range(5):  # each block has its own amount
        a, b = design.layout.block_ptr[j : j + 2]
        expected[a:b] += amount[j] * change[a:b]
    products.add_scaled_rows(design, SOME, parts, counts, amount, weights, squares)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(squares, linear.squared_norms([design], [weights], 5), rtol=1e-6)
