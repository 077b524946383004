"""Conditional random fields: objectives by enumeration, optima by slow methods, certificates that hold."""

import itertools

import numpy as np
import pytest
from naive import all_labelings, block_squares, log_loss, path_score, sentence_scores
from oracles import blocks_of, random_oracle
from scipy.optimize import minimize

from mtlstruct._system import threads
from mtlstruct.objective.losses import Free
from mtlstruct.objective.regularizers import L1, L2, BlockL2
from mtlstruct.solvers import LBFGS, OWLQN, Reweighted, Start, Stop
from mtlstruct.solvers.likelihood.solver import best_shares

BOTH = pytest.mark.parametrize(("learner", "norm"), [(LBFGS, L2()), (OWLQN, L1())], ids=["l2", "l1"])


def crf_oracle(seed, *sizes):
    return random_oracle(seed, *(sizes or (10, 4, 5)), loss=Free())


def flat_problem(oracle):
    """Σξ_i and its gradient as a function of one flat vector, and back to tables of weights."""
    shapes = [
        (d.attributes, w) for d, w in zip(oracle.encoded.designs, oracle.structure.widths(), strict=True)
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


def ridge_optimum(loss, size, c, mu=1.0):
    """The least ½ Σ x²/mu + c·loss, by a general solver."""

    def objective(x):
        value, gradient = loss(x)
        return 0.5 * x @ (x / mu) + c * value, x / mu + c * gradient

    return minimize(objective, np.zeros(size), jac=True, method="L-BFGS-B", options={"maxiter": 900}).fun


@pytest.mark.parametrize("c", [0.05, 1.0, 20.0])
def test_lbfgs_reaches_the_optimum_of_a_general_solver(c):
    oracle = crf_oracle(2)
    _, loss, size = flat_problem(oracle)
    best = ridge_optimum(loss, size, c)
    fit = LBFGS(Stop(gap=1e-4)).fit(oracle, L2(), c)
    assert fit.converged
    assert fit.dual <= best * (1 + 1e-5)
    assert best * (1 - 1e-4) <= fit.objective <= best * (1 + 2e-4)
    norms = np.sqrt(block_squares(oracle, fit.weights, fit.scale))
    true = L2().value(norms) + c * log_loss(oracle, fit.weights, fit.scale)
    assert fit.objective == pytest.approx(true, rel=1e-5)
    assert fit.epsilon == pytest.approx((fit.objective - fit.dual) / (c * oracle.sentences))


def test_lbfgs_with_block_weights_solves_the_weighted_problem():
    oracle, c = crf_oracle(3), 2.0
    mu = np.random.default_rng(0).uniform(0.05, 3, oracle.templates)
    _, loss, size = flat_problem(oracle)
    ones = np.ones(oracle.templates)
    mark = [np.zeros(u.shape) for u in oracle.zeros()]
    for block, own in zip(blocks_of(oracle, mark), mu, strict=True):
        block[:] = own
    widths = oracle.structure.widths()
    each = np.concatenate([u[:-1, :w].ravel() for u, w in zip(mark, widths, strict=True)])
    best = ridge_optimum(loss, size, c, each)
    fit = LBFGS(Stop(gap=1e-4)).fit(oracle, BlockL2(mu), c)
    assert fit.converged
    assert fit.dual <= best * (1 + 1e-5)
    assert fit.objective == pytest.approx(best, rel=5e-4)
    value = BlockL2(mu).value(np.sqrt(block_squares(oracle, fit.weights, ones)))
    assert fit.objective == pytest.approx(value + c * log_loss(oracle, fit.weights, ones), rel=1e-5)


@pytest.mark.parametrize("c", [0.3, 1.0, 5.0])
def test_owl_qn_reaches_the_optimum_of_proximal_gradient(c):
    oracle = crf_oracle(4)
    _, loss, size = flat_problem(oracle)
    x = y = np.zeros(size)
    momentum, step = 1.0, 0.02 / c
    for _ in range(1200):
        gradient = loss(y)[1]
        moved = y - step * c * gradient
        new = np.sign(moved) * np.maximum(np.abs(moved) - step, 0)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        y = new + (momentum - 1) / after * (new - x)
        x, momentum = new, after
    best = np.abs(x).sum() + c * loss(x)[0]
    fit = OWLQN(Stop(gap=1e-3, max_passes=400)).fit(oracle, L1(), c)
    assert fit.dual <= best * (1 + 1e-5)
    assert best * (1 - 1e-4) <= fit.objective <= best * (1 + 1e-3)
    weights = np.concatenate([u.ravel() for u in fit.weights])
    true = np.abs(weights).sum(dtype=float) + c * log_loss(oracle, fit.weights, fit.scale)
    assert fit.objective == pytest.approx(true, rel=1e-5)
    assert np.count_nonzero(weights) < 0.7 * size
    assert np.all(fit.mu == 1)


@BOTH
def test_bounds_are_in_order_at_every_pass_and_the_objective_falls(learner, norm):
    oracle = crf_oracle(5, 40, 8, 12)
    records = []
    fit = learner(Stop(gap=1e-3, max_passes=60)).fit(oracle, norm, 1.0, lambda r: records.append(r) or False)
    assert [r.passes for r in records] == list(range(1, len(records) + 1))
    assert all(r.dual <= fit.objective * (1 + 1e-6) for r in records)
    assert all(b.objective <= a.objective * (1 + 1e-6) for a, b in itertools.pairwise(records))
    assert all(b.dual >= a.dual for a, b in itertools.pairwise(records))
    assert all(r.certified for r in records)
    assert fit.passes == len(records)


def test_a_start_at_the_solution_is_at_the_solution():
    """Part scores of the start are those of the weights given, merged attributes or not."""
    oracle = crf_oracle(6, 40, 8, 12)
    for learner, norm in ((LBFGS(Stop(gap=1e-4)), L2()), (OWLQN(Stop(eta=1e-6)), L1())):
        cold = learner.fit(oracle, norm, 1.0)
        warm = learner.fit(oracle, norm, 1.0, init=Start(cold.weights, cold.mu))
        assert warm.passes < 0.5 * cold.passes
        assert warm.objective == pytest.approx(cold.objective, rel=1e-4)
        elsewhere = learner.fit(oracle, norm, 1.5, init=Start(warm.weights, warm.mu))
        assert elsewhere.objective == pytest.approx(learner.fit(oracle, norm, 1.5).objective, rel=1e-3)


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
        for learner, norm in ((LBFGS(Stop(max_passes=8)), L2()), (OWLQN(Stop(max_passes=8)), L1())):
            fit = learner.fit(oracle, norm, 1.0)
            bits = b"".join(u.tobytes() for u in fit.weights), fit.objective, fit.dual
            assert found.setdefault(type(learner), bits) == bits
    threads.set_threads(None)


def test_the_best_shares_of_a_triangle():
    rng = np.random.default_rng(0)
    grid = [(a, b) for a in np.linspace(0, 1, 21) for b in np.linspace(0, 1, 21) if a + b <= 1]
    for _ in range(60):
        x, y = rng.normal(size=(2, 3)) * rng.choice([0.0, 0.1, 1.0, 10.0])
        p, q = rng.normal(size=2)

        def value(a, b, x=x, y=y, p=p, q=q):
            return a * p + b * q - 0.5 * float(np.sum((a * x + b * y) ** 2))

        a, b = best_shares(p, q, float(x @ x), float(x @ y), float(y @ y))
        assert min(a, b) >= 0
        assert a + b <= 1 + 1e-12
        assert value(a, b) >= max(value(*point) for point in grid) - 1e-9
