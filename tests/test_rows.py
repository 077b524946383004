"""The adjoint pair on a few rows, against the whole one."""

from dataclasses import replace

import numpy as np
import pytest
from naive import count, score
from test_linear import CASES, make_design

from mtlstruct.linear import row_updates as rows
from mtlstruct.linear.products import squared_norms

pytestmark = pytest.mark.jitless

SOME = np.array([7, 3, 20])


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("ragged", "real"), CASES)
def test_some_rows_are_scored_and_changed_as_all_are(ragged, real, listed):
    rng = np.random.default_rng(20 + 2 * ragged + real)
    full = make_design(rng, ragged=ragged, real=real)
    design = full if listed else replace(full, blocks=np.zeros(0, np.int32))
    scale, amount = rng.normal(size=(2, 5))
    weights = rng.normal(size=(design.attributes + 1, 16)).astype(np.float32)
    weights[-1] = 0
    for factor in (scale, None):
        found = rows.score_rows(design, weights, SOME, 9, factor)
        expected = score(full, weights, np.ones(5) if factor is None else factor)[SOME, :9]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    parts, counts = np.array([2, 8, 2], np.int32), rng.normal(size=3).astype(np.float32)
    spread = np.zeros((design.rows, 9), np.float32)
    spread[SOME, parts] = counts
    change = count(full, spread, weights.shape)
    room = np.zeros_like(weights)
    square = rows.squared_norm_of_rows(design, SOME, parts, counts, room)
    assert square == pytest.approx(float((change**2).sum()), rel=1e-5)
    assert not room.any()
    squares = squared_norms([design], [weights], 5)
    expected = weights.astype(float)
    for j in range(5):  # each block has its own amount
        a, b = design.block_ptr[j : j + 2]
        expected[a:b] += amount[j] * change[a:b]
    rows.add_scaled_rows(design, SOME, parts, counts, amount, weights, squares)
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(squares, squared_norms([design], [weights], 5), rtol=1e-6)

    rows.clear_rows(design, SOME, np.arange(5) == 2, weights)
    a, b = design.block_ptr[2:4]
    hit = {int(i) for r in SOME for i in design.ids[design.ptr[r] : design.ptr[r + 1]] if a <= i < b}
    for i in range(design.attributes):
        assert np.all(weights[i] == 0) == (i in hit)
