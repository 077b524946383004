"""Regularizers: Fenchel-Young in both directions, and the steps of mu."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mtlstruct.errors import MtlError
from mtlstruct.objective.regularizers import (
    L2,
    BlockL1Squared,
    ElasticNet,
    GroupLasso,
    Mixed,
    PBlock,
    Regularizer,
)

EVERY = [L2(), BlockL1Squared(), *map(PBlock, (1.1, 4 / 3, 3.0, 100.0)), Mixed(1.5), Mixed(4.0)]
"""Those that are half a squared norm."""
ALL = [*EVERY, GroupLasso(), ElasticNet(), ElasticNet(0.5, 2.0)]
squared = pytest.mark.parametrize("regularizer", EVERY)
each = pytest.mark.parametrize("regularizer", ALL)

calm = settings(max_examples=40)  # a busy machine is no failure
sizes = st.shared(st.integers(1, 8), key="m")
norms = sizes.flatmap(lambda m: arrays(np.float64, m, elements=st.floats(0.0, 1e3, allow_subnormal=False)))
simplex = norms.map(lambda x: (x + 1e-3) / (x + 1e-3).sum())


def maximiser(regularizer, v):
    """The ‖w_j‖ at which w·v − Ω(w) is largest."""
    if isinstance(regularizer, BlockL1Squared):
        best = np.zeros_like(v)
        best[v.argmax()] = v.max()
        return best
    return v * regularizer.attained(v) if v.any() else v


def test_every_regularizer_is_tested():
    assert set(Regularizer.__subclasses__()) == {type(r) for r in ALL}


@each
@calm
@given(w=norms, v=norms)
def test_value_and_conjugate_bound_the_product(regularizer, w, v):
    assert regularizer.value(w) + regularizer.conjugate(v) >= w @ v * (1 - 1e-9)


@squared
@calm
@given(v=norms)
def test_the_bound_is_met(regularizer, v):
    w = maximiser(regularizer, v)
    assert regularizer.value(w) + regularizer.conjugate(v) == pytest.approx(w @ v, rel=1e-6, abs=1e-200)


@squared
@calm
@given(w=norms, factor=st.floats(0.0, 100.0))
def test_both_are_homogeneous_of_degree_two(regularizer, w, factor):
    for function in (regularizer.value, regularizer.conjugate):
        assert function(factor * w) == pytest.approx(factor**2 * function(w), rel=1e-9, abs=1e-300)


@each
@calm
@given(own=norms)
def test_weights_are_the_norm_over_the_slope(regularizer, own):
    """mu_j = ‖w_j‖ / ∂Ω/∂‖w_j‖, the slope by differences."""
    own = own / 1e3 + 0.1
    mu, step = regularizer.weights(own), 1e-6
    for j in range(len(own)):
        up, down = own.copy(), own.copy()
        up[j] += step
        down[j] -= step
        slope = (regularizer.value(up) - regularizer.value(down)) / (2 * step)
        if slope > 1e-4:  # for p = 100 most slopes vanish
            assert mu[j] == pytest.approx(own[j] / slope, rel=1e-3)


@pytest.mark.parametrize("regularizer", [BlockL1Squared(), PBlock(1.2), Mixed(2.0), GroupLasso()], ids=str)
def test_the_hessian_is_the_change_of_the_slope(regularizer: Regularizer) -> None:
    own, way = np.random.default_rng(0).uniform(0.1, 1.0, (2, 5))
    more, less = own + 1e-6 * way, own - 1e-6 * way
    change = (more / regularizer.weights(more) - less / regularizer.weights(less)) / 2e-6
    np.testing.assert_allclose(regularizer.hessian_product(own, way), change, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("regularizer", [PBlock(4 / 3), PBlock(3.0), Mixed(1.5)], ids=str)
@calm
@given(v=norms)
def test_the_two_ways_to_mu_agree(regularizer, v):
    v = v / 1e3 + 0.1  # far enough from zero for learning's own bound on mu
    mu = regularizer.attained(v)
    alive = mu * v > 1e-6
    np.testing.assert_allclose(regularizer.weights(mu * v)[alive], mu[alive], rtol=1e-5)
    np.testing.assert_allclose(regularizer.next_mu(mu, v)[alive], mu[alive], rtol=1e-5)


@squared
@calm
@given(v=norms, gain=st.floats(0.0, 1e3))
def test_the_lower_bound_is_the_best_on_the_way_to_gold(regularizer, v, gain):
    best = max(s * gain - regularizer.conjugate(s * v) for s in np.linspace(0, 1, 51))
    assert regularizer.lower_bound(gain, v) >= best * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize(("regularizer", "wall"), [(GroupLasso(), 0.5), (ElasticNet(), 1.0)])
def test_the_lower_bound_stops_where_the_conjugate_is_infinite(regularizer, wall):
    assert regularizer.lower_bound(10.0, np.array([0.2, 2 * wall])) == pytest.approx(5.0)
    assert regularizer.lower_bound(10.0, np.array([0.2, 0.8 * wall])) == 10.0
    assert regularizer.conjugate(np.array([0.2, 1.1 * wall])) == np.inf


@calm
@given(v=norms, mu=simplex)
def test_given_block_weights_are_l2_of_scaled_norms(v, mu):
    weighted = L2(mu)
    assert weighted.value(v) == pytest.approx(L2().value(v / np.sqrt(mu)))
    assert weighted.conjugate(v) == pytest.approx(L2().conjugate(v * np.sqrt(mu)))
    assert weighted.value(mu * v) + weighted.conjugate(v) == pytest.approx(mu * v @ v)
    assert weighted.start(len(mu)).tolist() == weighted.weights(v).tolist() == mu.tolist()


@calm
@given(own=norms, step=st.floats(1e-3, 10.0))
def test_the_proximal_step_is_the_best_of_all_near_ones(own, step):
    own, regularizer = own / 100, BlockL1Squared()

    def value(n):
        return 0.5 * float((n - own) @ (n - own)) + step * regularizer.value(n)

    found = regularizer.prox(own, step)
    assert np.all(found >= 0)
    assert np.all(found <= own)
    for change in np.random.default_rng(0).normal(size=(20, len(own))):
        for size in (1e-4, 1e-2, 1.0):
            assert value(found) <= value(np.maximum(found + size * change, 0.0)) + 1e-9


@calm
@given(w=norms)
def test_limits(w):
    """p near one is mtl, p = 2 is svm, large p is the maximum, and one block is svm."""
    for one in w[:, None]:
        assert BlockL1Squared().value(one) == pytest.approx(L2().value(one))
        assert BlockL1Squared().conjugate(one) == pytest.approx(L2().conjugate(one))
    assert PBlock(1 + 1e-9).value(w) == pytest.approx(BlockL1Squared().value(w), rel=1e-6)
    assert PBlock(1 + 1e-3).conjugate(w) == pytest.approx(BlockL1Squared().conjugate(w), rel=1e-2)
    assert PBlock(2.0).value(w) == pytest.approx(L2().value(w))
    assert PBlock(2.0).conjugate(w) == pytest.approx(L2().conjugate(w))
    assert PBlock(1e6).value(w) == pytest.approx(0.5 * w.max() ** 2, rel=1e-4)


@pytest.mark.parametrize("p", [1.0, 0.5, -2.0, float("inf"), float("nan")])
def test_p_must_be_above_one(p):
    for kind in (PBlock, Mixed):
        with pytest.raises(MtlError, match="p must be greater than 1"):
            kind(p)


@each
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8, 1e150])
def test_any_scale_is_survived(regularizer, scale):
    v = scale * np.array([1.0, 2.0, 0.0])
    mu = regularizer.next_mu(regularizer.start(3), v)
    assert np.isfinite(mu).all()
    assert (mu >= 0).all()
    if regularizer in EVERY:
        np.testing.assert_allclose(mu, regularizer.next_mu(regularizer.start(3), v / scale), rtol=1e-6)
