"""Quasi-Newton solvers: gradients and optima by slow methods, bounds at every pass, starts and rounds."""

import itertools

import numpy as np
import pytest
from support.naive import (
    all_labelings,
    block_squares,
    log_loss,
    path_score,
    sentence_scores,
)
from support.oracles import random_oracle

from mtlstruct._system import threads
from mtlstruct.errors import IncompatibleError
from mtlstruct.objective.regularizers import (
    L2,
    BlockL1Squared,
    ElasticNet,
    GroupLasso,
    Mixed,
    PBlock,
)
from mtlstruct.solvers import LBFGS, OWLQN, Reweighted, Start, Stop

SOLVED = [(LBFGS, L2()), (LBFGS, BlockL1Squared()), (OWLQN, ElasticNet()), (OWLQN, ElasticNet(0.3, 0.2))]
every_norm = pytest.mark.parametrize(("solver", "norm"), SOLVED, ids=["l2", "mtl", "l1", "elastic net"])


def crf_oracle(seed, *sizes):
    return random_oracle(seed, *(sizes or (10, 4, 5)))


def flat_problem(oracle):
    """Σξ_i and its gradient as a function of one flat vector, and back to tables of weights."""
    shapes = [
        (d.layout.attributes, w)
        for d, w in zip(oracle.encoded.designs, oracle.structure.widths(), strict=True)
    ]
    ends = np.cumsum([a * b for a, b in shapes])[:-1]
    ones = np.ones(oracle.templates)

    def tables(x):
        out = oracle.zeros()
        for u, piece, shape in zip(out, np.split(x, ends), shapes, strict=True):
            u[:-1, : shape[1]] = piece.reshape(shape)
        return out

    def loss(x):
        found = oracle.likelihood(oracle.score(tables(x), ones))
        v = oracle.zeros()
        oracle.count(found.counts, v)
        gradient = [u[:-1, : shape[1]].ravel() for u, shape in zip(v, shapes, strict=True)]
        return found.total, np.concatenate(gradient).astype(float)

    return tables, loss, sum(a * b for a, b in shapes)


def test_the_likelihood_and_its_gradient_are_those_of_all_labelings():
    oracle = crf_oracle(0)
    tables, loss, size = flat_problem(oracle)
    rng = np.random.default_rng(1)
    x, step = rng.normal(size=size), 1e-2
    value, gradient = loss(x)
    ones = np.ones(oracle.templates)
    assert value == pytest.approx(log_loss(oracle, tables(x), ones), rel=1e-5)
    for _ in range(3):
        way = rng.normal(size=size)
        rise = [log_loss(oracle, tables(x + s * way), ones) for s in (step, -step)]
        assert (rise[0] - rise[1]) / (2 * step) == pytest.approx(gradient @ way, rel=1e-3, abs=1e-2)


def test_slope_and_entropy_of_a_likelihood():
    """The slope is the derivative along the scale of w; the entropy is that of the distributions, enumerated."""
    oracle = crf_oracle(1)
    tables, _, size = flat_problem(oracle)
    weights = tables(np.random.default_rng(2).normal(size=size))
    ones = np.ones(oracle.templates)
    found = oracle.likelihood(oracle.score(weights, ones))
    more, less = (log_loss(oracle, weights, (1 + s) * ones) for s in (1e-3, -1e-3))
    assert (more - less) / 2e-3 == pytest.approx(found.slope, rel=1e-3)
    entropy = 0.0
    for nodes, edges, _ in sentence_scores(oracle, weights, ones):
        scores = np.array([path_score(nodes, edges, p) for p in all_labelings(*nodes.shape)])
        logs = scores - np.logaddexp.reduce(scores)
        entropy -= float(np.exp(logs) @ logs)
    assert found.entropy == pytest.approx(entropy, rel=1e-4)


LEARNED = [BlockL1Squared(), PBlock(1.2), PBlock(2.0), Mixed(2.0), GroupLasso()]


@pytest.mark.parametrize("regularizer", LEARNED, ids=lambda r: type(r).__name__)
def test_the_gradient_is_that_of_weights_and_template_weights(regularizer):
    run = LBFGS().start(crf_oracle(2), regularizer, 1.0, None)
    for _ in range(5):
        run.advance()
    run.rescale()
    x, gradient, rng, m = run.x.copy(), run.gradient.copy(), np.random.default_rng(0), 6

    def value(point):
        run.x[:] = point
        total = run._evaluate().total
        return run._bound() + total

    for first in (0, len(x) - m):
        way = np.where(np.arange(len(x)) >= first, rng.normal(size=len(x)), 0.0)
        rise = (value(x + 5e-3 * way) - value(x - 5e-3 * way)) / 1e-2
        assert rise == pytest.approx(gradient @ way, rel=2e-2, abs=3e-3)


def test_an_exponent_above_two_is_rejected():
    with pytest.raises(IncompatibleError, match="at most 2, got 4"):
        LBFGS().fit(crf_oracle(2), PBlock(4.0), 1.0)


@pytest.mark.parametrize("norm", [ElasticNet(), ElasticNet(0.5, 0.02), ElasticNet(0.2, 1.0)], ids=str)
@pytest.mark.parametrize("c", [0.3, 1.0, 5.0])
def test_owl_qn_reaches_the_optimum_of_proximal_gradient(norm, c):
    oracle = crf_oracle(4)
    _, loss, size = flat_problem(oracle)
    x = y = np.zeros(size)
    momentum, step = 1.0, 0.02 / c
    for _ in range(1200):
        gradient = loss(y)[1]
        moved = y - step * c * gradient
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * norm.l1, 0) / (1 + 2 * step * norm.l2)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        y = new + (momentum - 1) / after * (new - x)
        x, momentum = new, after
    best = norm.value(np.abs(x)) + c * loss(x)[0]
    fit = OWLQN(Stop(gap=1e-3, max_passes=400)).fit(oracle, norm, c)
    assert fit.converged or norm.l2 == 0
    assert fit.dual <= best * (1 + 1e-5)
    assert best * (1 - 1e-4) <= fit.objective <= best * (1 + 1e-3)
    weights = np.concatenate([u.ravel() for u in fit.weights])
    true = norm.value(np.abs(weights, dtype=float)) + c * log_loss(oracle, fit.weights, fit.scale)
    assert fit.objective == pytest.approx(true, rel=1e-5)
    assert np.count_nonzero(weights) < size * (1.0 if norm.l2 == 1 else 0.8)
    assert np.all(fit.mu == 1)


@every_norm
def test_bounds_are_in_order_at_every_pass_and_the_objective_falls(solver, norm):
    oracle = crf_oracle(5, 40, 8, 12)
    records = []
    fit = solver(Stop(gap=1e-3, max_passes=60)).fit(oracle, norm, 1.0, lambda r: records.append(r) or False)
    assert [r.passes for r in records] == list(range(1, len(records) + 1))
    assert all(r.dual <= fit.objective * (1 + 1e-6) for r in records)
    assert all(b.objective <= a.objective * (1 + 1e-6) for a, b in itertools.pairwise(records))
    assert all(b.dual >= a.dual for a, b in itertools.pairwise(records))
    assert all(r.certified for r in records)
    assert fit.passes == len(records)


def test_a_start_at_the_solution_is_at_the_solution():
    """Part scores of the start are those of the weights given, merged attributes or not."""
    oracle = crf_oracle(6, 40, 8, 12)
    lbfgs = LBFGS(Stop(gap=1e-4))
    for solver, norm in ((lbfgs, L2()), (lbfgs, BlockL1Squared()), (OWLQN(Stop(eta=1e-6)), ElasticNet())):
        cold = solver.fit(oracle, norm, 1.0)
        warm = solver.fit(oracle, norm, 1.0, init=Start(cold.weights, cold.mu))
        assert warm.passes < 0.5 * cold.passes
        assert warm.objective == pytest.approx(cold.objective, rel=1e-4)
        elsewhere = solver.fit(oracle, norm, 1.5, init=Start(warm.weights, warm.mu))
        assert elsewhere.objective == pytest.approx(solver.fit(oracle, norm, 1.5).objective, rel=1e-3)


def test_the_rule_of_crfpp_stops_after_three_small_changes():
    stop = Stop(eta=0.1)
    assert not stop.settled([100, 99, 98])
    assert stop.settled([200, 99, 98, 97, 96.5])
    assert not stop.settled([100, 99, 50, 49.9])
    assert not Stop().settled([1.0] * 9)
    oracle = crf_oracle(7, 40, 8, 12)
    trace = []
    fit = LBFGS(Stop(eta=1e-3)).fit(oracle, L2(), 1.0, lambda r: trace.append(r.objective) or False)
    changes = np.abs(np.diff(trace)) / np.array(trace[:-1])
    assert np.all(changes[-3:] < 1e-3)
    assert fit.passes == len(trace)


def test_reweighting_never_raises_the_sum_of_logarithms_and_gives_a_distribution():
    oracle, c = crf_oracle(8, 40, 8, 12), 1.0
    values = []
    for rounds in range(4):
        fit = Reweighted(Stop(gap=1e-4), rounds=rounds).fit(oracle, L2(), c)
        squares = block_squares(oracle, fit.weights, fit.scale)
        loss = oracle.likelihood(oracle.score(fit.weights, fit.scale)).total
        values.append(0.5 * float(np.log(squares + 0.001).sum()) + c * loss)
        assert fit.mu.sum() == pytest.approx(1)
        assert fit.converged
    assert values[1] < values[0]
    assert all(b <= a + 1e-3 * abs(a) for a, b in itertools.pairwise(values[1:]))


def test_reweighting_counts_passes_over_its_rounds_and_may_be_stopped():
    oracle = crf_oracle(9, 30, 6, 8)
    passes = []
    fit = Reweighted(rounds=3).fit(oracle, L2(), 1.0, lambda r: passes.append(r.passes) or False)
    assert passes == list(range(1, fit.passes + 1))
    fit = Reweighted(Stop(max_passes=7)).fit(oracle, L2(), 1.0)
    assert fit.passes == 7
    fit = Reweighted().fit(oracle, L2(), 1.0, lambda r: r.passes >= 4)
    assert fit.passes == 4


def test_the_same_bits_on_any_number_of_threads():
    oracle = crf_oracle(10, 400, 12, 30)
    found = {}
    for workers in (1, 2, 4):
        threads.set_threads(workers)
        for solver, norm in SOLVED:
            fit = solver(Stop(max_passes=8)).fit(oracle, norm, 1.0)
            bits = b"".join(u.tobytes() for u in fit.weights), fit.objective, fit.dual
            assert found.setdefault(norm, bits) == bits
    threads.set_threads(None)
