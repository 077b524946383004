"""Hinge-loss solvers: limits, bounds of passes, and data on which they once failed."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import corpus
from support.oracles import make_oracle, random_oracle

from mtlstruct.formats import columns
from mtlstruct.objective.regularizers import L2, BlockL1Squared, PBlock
from mtlstruct.samples import recipes as demo
from mtlstruct.solvers import Coordinate, CuttingPlane, Stop
from mtlstruct.solvers.coordinate_ascent import solver as ascent
from mtlstruct.templates import generate

NORMS = [BlockL1Squared(), L2()]


def demo_data(tmp_path):
    """The bundled corpus with the demo's pile of templates: small, but like real data."""
    path = tmp_path / "train.txt"
    path.write_text(demo.column_file(demo.split(demo.bundled())[0], seed=0))
    return columns.read(path), generate((-2, 2), range(8), orders=(1, 2), trigrams=(1, 3, 4))


SOLVERS = {
    "coordinate": Coordinate(Stop(gap=2e-3, max_passes=300)),
    "cutting-plane": CuttingPlane(Stop(gap=2e-3, max_passes=600)),
    "line-search": CuttingPlane(Stop(gap=2e-3, max_passes=300), line_search=True),
}


def test_limits_of_p_are_mtl_svm_and_the_maximum_norm():
    oracle = random_oracle(6, 15, 6, 8)

    def optimum(regularizer):
        return SOLVERS["coordinate"].fit(oracle, regularizer, 0.3).objective

    assert optimum(PBlock(1.01)) == pytest.approx(optimum(BlockL1Squared()), rel=0.03)
    assert optimum(PBlock(2.0)) == pytest.approx(optimum(L2()), rel=5e-3)
    loose = Coordinate(Stop(gap=1e-2, max_passes=300))
    infinite = loose.fit(oracle, PBlock(100.0), 0.3)
    own = abs(infinite.scale) * np.sqrt(oracle.squared_norms(infinite.weights))
    assert PBlock(100.0).value(own) == pytest.approx(0.5 * own.max() ** 2, rel=0.05)
    assert loose.fit(oracle, PBlock(1e4), 0.3).objective == pytest.approx(infinite.objective, rel=0.05)


@pytest.mark.parametrize("name", SOLVERS)
def test_records_have_sound_bounds_and_the_callback_may_stop_the_run(name):
    oracle, regularizer = random_oracle(2, 30, 6, 8), BlockL1Squared()
    records = []
    fit = SOLVERS[name].fit(oracle, regularizer, 1.0, lambda r: records.append(r) or False)
    assert [r.passes for r in records] == list(range(1, len(records) + 1))
    assert all(r.dual <= fit.objective * (1 + 1e-6) for r in records)
    assert records[-1].certified
    if name != "coordinate":
        assert all(b.dual >= a.dual - 1e-5 * abs(a.dual) for a, b in itertools.pairwise(records))
    early = SOLVERS[name].fit(oracle, regularizer, 1.0, lambda record: record.passes >= 2)
    assert early.passes == 2
    assert early.dual <= early.objective


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


@pytest.mark.parametrize("name", SOLVERS)
def test_one_true_template_among_noise_is_kept(name):
    lines = [f"U{5 * c + r + 2}:%x[{r},{c}]" for c in (0, 1) for r in (-2, -1, 0, 1, 2)]
    oracle = make_oracle(planted(4), "\n".join([*lines, "Utrue:%x[0,2]", "B"]))
    fit = SOLVERS[name].fit(oracle, BlockL1Squared(), 1.0)
    assert int(np.argmax(fit.mu)) == len(lines)
    assert fit.mu[len(lines)] > 0.95
    assert np.count_nonzero(fit.mu[: len(lines)] > 1e-3) == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_a_sentence_with_two_labelings_and_a_single_sentence_converge(name):
    twice = corpus([[("a", "x"), ("b", "y")]] * 2, [["A", "B"], ["B", "A"]])
    once = corpus([[("a", "x"), ("b", "y"), ("a", "y")]], [["A", "B", "A"]])
    for data in (twice, once):
        for regularizer in NORMS:
            assert SOLVERS[name].fit(make_oracle(data), regularizer, 1.0).converged


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_many_redundant_templates_converge_in_few_passes(c, tmp_path):
    """Updates of mu and of the dual must not oscillate: on this data they once did."""
    data, templates = demo_data(tmp_path)
    oracle = make_oracle(data, templates.text())
    fits = {}
    for name, regularizer in (("mtl", BlockL1Squared()), ("svm", L2())):
        fits[name] = Coordinate(Stop(gap=0.01, max_passes=30)).fit(oracle, regularizer, c)
        assert fits[name].converged, (name, c, fits[name].gap)
    assert np.count_nonzero(fits["mtl"].mu) < 0.6 * oracle.templates


def test_epsilon_stops_by_the_rule_of_the_paper():
    oracle = random_oracle(6, 30, 6, 8)
    for solver in (Coordinate(Stop(epsilon=0.05)), CuttingPlane(Stop(epsilon=0.05))):
        fit = solver.fit(oracle, BlockL1Squared(), 1.0)
        assert fit.converged
        assert fit.epsilon <= 0.05 * (1 + 1e-6)


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
    least = min(primal(x)[0] for x in np.linspace(ascent.MIN_SCALE_OF_W, ascent.MAX_SCALE_OF_W, 4001))
    assert value <= least + enough + 1e-6
