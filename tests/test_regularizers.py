"""Regularizers: Fenchel-Young in both directions, and the steps of mu."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mtlstruct.regularizers import FLOOR, L2, REGULARIZERS, BlockL1Squared, Norms, Regularizer

EVERY = [make() for make in REGULARIZERS.values()]

calm = settings(deadline=None)  # a busy machine is no failure
sizes = st.shared(st.integers(1, 8), key="m")
norms = sizes.flatmap(lambda m: arrays(np.float64, m, elements=st.floats(0.0, 1e3)))
simplex = norms.map(lambda x: (x + 1e-3) / (x + 1e-3).sum())


def maximiser(regularizer: Regularizer, v: Norms) -> Norms:
    """The ‖w_j‖ at which w·v − Ω(w) is largest."""
    if not regularizer.sparse:
        return v
    best = np.zeros_like(v)
    best[v.argmax()] = v.max()
    return best


@pytest.mark.parametrize("regularizer", EVERY)
@calm
@given(w=norms, v=norms)
def test_value_and_conjugate_bound_the_product(regularizer: Regularizer, w: Norms, v: Norms) -> None:
    assert regularizer.value(w) + regularizer.conjugate(v) >= w @ v * (1 - 1e-12)


@pytest.mark.parametrize("regularizer", EVERY)
@calm
@given(v=norms)
def test_the_bound_is_met(regularizer: Regularizer, v: Norms) -> None:
    w = maximiser(regularizer, v)
    assert regularizer.value(w) + regularizer.conjugate(v) == pytest.approx(w @ v, rel=1e-12)


@pytest.mark.parametrize("regularizer", EVERY)
@calm
@given(w=norms, factor=st.floats(0.0, 100.0))
def test_both_are_homogeneous_of_degree_two(regularizer: Regularizer, w: Norms, factor: float) -> None:
    for function in (regularizer.value, regularizer.conjugate):
        assert function(factor * w) == pytest.approx(factor**2 * function(w), rel=1e-9, abs=1e-300)


@calm
@given(w=norms)
def test_one_block_is_l2(w: Norms) -> None:
    for one in w[:, None]:
        assert BlockL1Squared().value(one) == pytest.approx(L2().value(one))
        assert BlockL1Squared().conjugate(one) == pytest.approx(L2().conjugate(one))


def test_where_mu_begins() -> None:
    assert L2().start(4).tolist() == [1.0] * 4
    assert BlockL1Squared().start(4).tolist() == [0.25] * 4
    assert BlockL1Squared().sparse
    assert not L2().sparse


@calm
@given(mu=simplex, v=norms)
def test_weights_of_l2_are_ones(mu: Norms, v: Norms) -> None:
    assert L2().weights(mu, v).tolist() == [1.0] * len(v)


@calm
@given(mu=simplex, v=norms)
def test_a_step_of_mu_stays_in_the_simplex(mu: Norms, v: Norms) -> None:
    after = BlockL1Squared().weights(mu, v)
    assert after.sum() == pytest.approx(1.0)
    assert after.min() >= 0.5 * FLOOR or not v.any()


@calm
@given(mu=simplex, v=norms)
def test_a_step_of_mu_gains_on_the_bound(mu: Norms, v: Norms) -> None:
    """Σ mu_j ‖v_j‖² rises towards max ‖v_j‖², the conjugate: that is what the step is for."""
    after = BlockL1Squared().weights(mu, v)
    assert after @ v**2 >= mu @ v**2 * (1 - 1e-9)


@calm
@given(mu=simplex)
def test_mu_rests_where_norms_are_equal_or_zero(mu: Norms) -> None:
    assert BlockL1Squared().weights(mu, np.zeros_like(mu)) is mu
    np.testing.assert_allclose(BlockL1Squared().weights(mu, np.full_like(mu, 3.0)), mu, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e8, 1e200])
def test_a_step_of_mu_survives_any_scale(scale: float) -> None:
    after = BlockL1Squared().weights(np.array([0.5, 0.5, 0.0]), scale * np.array([1.0, 2.0, 0.0]))
    np.testing.assert_allclose(after, [0.2, 0.8, FLOOR], rtol=1e-6)


def test_a_template_at_zero_can_come_back() -> None:
    mu = np.array([1.0, 0.0])
    for _ in range(60):
        mu = BlockL1Squared().weights(mu, np.array([1.0, 2.0]))
    assert mu[1] > 0.99


def test_regularizers_are_values() -> None:
    assert L2() == L2()
    assert len({L2(), BlockL1Squared(), BlockL1Squared()}) == 2
    with pytest.raises(FrozenInstanceError):
        L2().sparse = True  # type: ignore[misc]
