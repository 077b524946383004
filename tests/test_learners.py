"""Learners end with a certificate that enumeration confirms, and different solvers meet at one optimum."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import corpus, objective, random_corpus
from oracles import make_oracle, random_oracle

from mtlstruct.errors import SolverError
from mtlstruct.formats import columns
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.samples import recipes as demo
from mtlstruct.solvers import Coordinate, CuttingPlane, Stop
from mtlstruct.solvers.coordinate_ascent import run as ascent
from mtlstruct.solvers.coordinate_ascent.run import FASTEST, TemplateWeights
from mtlstruct.templates import generate

NORMS = [BlockL1Squared(), L2()]
OTHERS = [PBlock(4 / 3), PBlock(4.0), Mixed(1.5), GroupLasso()]


def demo_data(tmp_path):
    """The bundled corpus with the demo's pile of templates: small, but like real data."""
    path = tmp_path / "train.txt"
    path.write_text(demo.column_file(demo.split(demo.bundled())[0], seed=0))
    return columns.read(path), generate((-2, 2), range(8), bigrams=True, trigrams=(1, 3, 4))


LEARNERS = {
    "coordinate": Coordinate(Stop(gap=2e-3, max_passes=300)),
    "cutting-plane": CuttingPlane(Stop(gap=2e-3, max_passes=600)),
    "line-search": CuttingPlane(Stop(gap=2e-3, max_passes=300), line_search=True),
}


@pytest.mark.parametrize("regularizer", NORMS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("c", [0.05, 1.0])
def test_the_certified_objective_is_the_true_one(name, regularizer, c):
    oracle = random_oracle(0, 10, 4, 5)
    fit = LEARNERS[name].fit(oracle, regularizer, c)
    assert fit.converged
    assert fit.dual <= fit.objective * (1 + 1e-6)
    assert fit.gap <= 2e-3
    true = objective(oracle, fit.weights, fit.scale, regularizer, c)
    assert fit.objective == pytest.approx(true, rel=1e-4)
    assert fit.epsilon == pytest.approx((fit.objective - fit.dual) / (c * oracle.sentences))


def meet(oracle, regularizer, c):
    """Run all solvers, check that they reach the same optimum, and return their fits."""
    fits = [learner.fit(oracle, regularizer, c) for learner in LEARNERS.values()]
    lowest = max(fit.dual for fit in fits)
    for fit in fits:
        assert fit.converged
        assert fit.gap <= 2e-3
        assert lowest <= fit.objective * (1 + 1e-6)
        assert fit.objective <= lowest * (1 + 5e-3)
    return fits


@pytest.mark.parametrize("regularizer", NORMS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("c", [0.05, 1.0, 5.0])
def test_all_solvers_reach_the_same_optimum(regularizer, c):
    meet(random_oracle(1, 40, 8, 12), regularizer, c)


@pytest.mark.parametrize("regularizer", OTHERS, ids=str)
def test_the_other_norms_have_one_optimum_and_true_certificates(regularizer):
    oracle = random_oracle(5, 10, 5, 6)
    for fit in meet(oracle, regularizer, 0.3):
        true = objective(oracle, fit.weights, fit.scale, regularizer, 0.3)
        assert fit.objective == pytest.approx(true, rel=1e-4)


def test_p_near_one_comes_to_mtl_and_p_two_to_svm_and_large_p_to_the_maximum():
    oracle = random_oracle(6, 15, 6, 8)

    def optimum(regularizer):
        return LEARNERS["coordinate"].fit(oracle, regularizer, 0.3).objective

    assert optimum(PBlock(1.01)) == pytest.approx(optimum(BlockL1Squared()), rel=0.03)
    assert optimum(PBlock(2.0)) == pytest.approx(optimum(L2()), rel=5e-3)
    loose = Coordinate(Stop(gap=1e-2, max_passes=300))
    infinite = loose.fit(oracle, PBlock(100.0), 0.3)
    own = abs(infinite.scale) * np.sqrt(oracle.squared_norms(infinite.weights))
    assert PBlock(100.0).value(own) == pytest.approx(0.5 * own.max() ** 2, rel=0.05)
    assert loose.fit(oracle, PBlock(1e4), 0.3).objective == pytest.approx(infinite.objective, rel=0.05)


@pytest.mark.parametrize("name", LEARNERS)
def test_lower_bounds_never_pass_the_optimum_and_records_are_sound(name):
    oracle = random_oracle(2, 30, 6, 8)
    records = []
    fit = LEARNERS[name].fit(oracle, BlockL1Squared(), 1.0, lambda r: records.append(r) or False)
    assert [r.passes for r in records] == list(range(1, len(records) + 1))
    assert all(r.dual <= fit.objective * (1 + 1e-6) for r in records)
    assert records[-1].certified
    if name != "coordinate":
        duals = [r.dual for r in records]
        assert all(b >= a - 1e-5 * abs(a) for a, b in itertools.pairwise(duals))


@pytest.mark.parametrize("name", LEARNERS)
def test_one_template_makes_mtl_an_svm(name):
    oracle = random_oracle(3, 20, 5, 6, templates="U0:%x[0,0]")
    mtl = LEARNERS[name].fit(oracle, BlockL1Squared(), 1.0)
    svm = LEARNERS[name].fit(oracle, L2(), 1.0)
    assert mtl.objective == pytest.approx(svm.objective, rel=5e-3)


def planted(seed, n=60):
    """Labels are a function of column 2; columns 0 and 1 are noise."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for _ in range(n):
        length = int(rng.integers(2, 9))
        truth = rng.integers(0, 6, length)
        noise = rng.integers(0, 9, (length, 2))
        xs.append([(f"a{p}", f"b{q}", f"t{k}") for (p, q), k in zip(noise, truth, strict=True)])
        ys.append([f"L{k % 3}" for k in truth])
    return corpus(xs, ys)


@pytest.mark.parametrize("name", LEARNERS)
def test_one_true_template_among_noise_is_kept(name):
    lines = [f"U{5 * c + r + 2}:%x[{r},{c}]" for c in (0, 1) for r in (-2, -1, 0, 1, 2)]
    oracle = make_oracle(planted(4), "\n".join([*lines, "Utrue:%x[0,2]", "B"]))
    fit = LEARNERS[name].fit(oracle, BlockL1Squared(), 1.0)
    assert int(np.argmax(fit.mu)) == len(lines)
    assert fit.mu[len(lines)] > 0.95
    assert np.count_nonzero(fit.mu[: len(lines)] > 1e-3) == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_a_sentence_with_two_labelings_and_a_single_sentence_converge(name):
    twice = corpus([[("a", "x"), ("b", "y")]] * 2, [["A", "B"], ["B", "A"]])
    once = corpus([[("a", "x"), ("b", "y"), ("a", "y")]], [["A", "B", "A"]])
    for data in (twice, once):
        for regularizer in NORMS:
            assert LEARNERS[name].fit(make_oracle(data), regularizer, 1.0).converged


def test_duplicate_templates_share_the_weight_of_one():
    data = random_corpus(np.random.default_rng(5), 30, 6, 8)
    once = LEARNERS["coordinate"].fit(make_oracle(data, "U0:%x[0,0]\nB"), BlockL1Squared(), 1.0)
    doubled = make_oracle(data, "U0:%x[0,0]\nU1:%x[0,0]\nB")
    for learner in LEARNERS.values():
        assert learner.fit(doubled, BlockL1Squared(), 1.0).objective == pytest.approx(
            once.objective, rel=5e-3
        )


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_a_real_looking_pile_of_templates_converges_in_few_passes(c, tmp_path):
    """mu and the dual must not chase each other: on this data they once did, for a thousand passes."""
    data, templates = demo_data(tmp_path)
    oracle = make_oracle(data, templates.text())
    fits = {}
    for name, regularizer in (("mtl", BlockL1Squared()), ("svm", L2())):
        fits[name] = Coordinate(Stop(gap=0.01, max_passes=30)).fit(oracle, regularizer, c)
        assert fits[name].converged, (name, c, fits[name].gap)
    assert np.count_nonzero(fits["mtl"].mu) < 0.6 * oracle.templates


def test_an_overflow_stops_the_run_with_a_sentence():
    oracle = random_oracle(6, 20, 5, 6)
    with pytest.raises(SolverError, match="no longer a number"), np.errstate(all="ignore"):
        LEARNERS["coordinate"].fit(oracle, L2(), 1e300)


def test_epsilon_is_the_papers_rule():
    oracle = random_oracle(6, 30, 6, 8)
    for learner in (Coordinate(Stop(epsilon=0.05)), CuttingPlane(Stop(epsilon=0.05))):
        fit = learner.fit(oracle, BlockL1Squared(), 1.0)
        assert fit.converged
        assert fit.epsilon <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_callback_may_stop_the_run_and_the_result_is_still_certified(name):
    oracle = random_oracle(7, 30, 6, 8)
    fit = LEARNERS[name].fit(oracle, BlockL1Squared(), 1.0, lambda record: record.passes >= 2)
    assert fit.passes == 2
    assert fit.dual <= fit.objective
    assert fit.objective == pytest.approx(
        objective(oracle, fit.weights, fit.scale, BlockL1Squared(), 1.0), rel=1e-4
    )


def test_templates_that_fall_to_zero_are_left_out_of_the_certified_weights():
    lines = [f"U{i}:%x[{i - 3},0]" for i in range(7)]
    oracle = make_oracle(planted(8), "\n".join([*lines, "Utrue:%x[0,2]", "B"]))
    fit = Coordinate(Stop(gap=0.01)).fit(oracle, BlockL1Squared(), 1.0)
    assert np.any(fit.mu == 0)
    assert np.array_equal(fit.mu == 0, fit.scale == 0)
    norms = np.abs(fit.scale) * np.sqrt(oracle.squared_norms(fit.weights))
    hinge = oracle.hinge(oracle.score(fit.weights, fit.scale)).total
    assert fit.objective == pytest.approx(BlockL1Squared().value(norms) + hinge, rel=1e-3)


def test_mu_moves_by_a_power_of_the_ratio_and_keeps_its_total():
    weights = TemplateWeights(BlockL1Squared(), 3)
    weights.follow(np.array([4.0, 1.0, 0.0]))
    np.testing.assert_allclose(weights.mu, [0.8, 0.2, 0.0], atol=1e-6)  # ∝ mu·N
    assert weights.mu.min() > 0
    weights.follow(np.array([1.0, 1.0, 1.0]))
    assert weights.mu.sum() == pytest.approx(1)


def test_the_rate_of_mu_falls_while_the_gap_grows_and_rises_again():
    weights = TemplateWeights(BlockL1Squared(), 3)
    for gap in (0.3, 0.1, 0.12, 0.12, 0.12):
        weights.adapt(gap)
    assert weights.rate == FASTEST  # 0.12 is still near the least
    for gap in (0.2, 0.4):
        weights.adapt(gap)
    assert weights.rate == FASTEST / 4
    weights.adapt(0.4)  # four times the least that ever was, but it grows no more
    assert weights.rate > FASTEST / 4
    for turn in range(1, 20):
        weights.adapt(0.4 * 2.0**turn)
    assert weights.rate == ascent.SLOWEST


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-3]))
def test_the_best_scale_is_found_to_within_what_is_asked(seed, enough):
    """Kinks, as separable data have them, and a bowl; the best may lie at either end or between."""
    rng = np.random.default_rng(seed)
    kinks, weights, bowl = rng.uniform(0.6, 1.6, 5), rng.uniform(0, 50, 5), rng.uniform(0.1, 2)

    def primal(scale):
        violated = scale < kinks
        value = 0.5 * bowl * scale**2 + float(weights @ np.maximum(0, kinks - scale))
        return value, bowl * scale - float(weights @ violated)

    value, scale = ascent.minimise_over_scale(primal, enough, steps=60)
    assert primal(scale)[0] == value
    least = min(primal(x)[0] for x in np.linspace(ascent.NEAREST, ascent.FARTHEST, 4001))
    assert value <= least + enough + 1e-6
