"""Online methods: steps are the algorithms by loops; OnlineMKL is certified, MIRA puts gold ahead and averages."""

import numpy as np
import pytest
from support.naive import corpus, objective, score, tree_oracle
from support.oracles import blocks_of, features, make_oracle, random_oracle

from mtlstruct.objective.regularizers import L2, BlockL1Squared
from mtlstruct.solvers import Coordinate, Mira, Proximal, Start, Stop, online
from mtlstruct.structures import TreeStructure
from mtlstruct.structures.base import Batch


def weights_of(oracle, fit):
    """w with its scale multiplied in."""
    out = [u.astype(np.float64) for u in fit.weights]
    for block, scale in zip(blocks_of(oracle, out), fit.scale, strict=True):
        block *= scale
    return out


def by_hand(oracle, regularizer, c, order, rate, epochs):
    """Run the algorithm on dense vectors, by loops."""
    w = [u.astype(np.float64) for u in oracle.zeros()]
    ones = np.ones(oracle.templates)
    for epoch in range(1, epochs + 1):
        eta = rate / epoch**0.5
        for i in order[epoch - 1]:
            hinge = oracle.hinge(oracle.score(w, ones))
            outputs = oracle.gold.copy()
            tokens = slice(oracle.encoded.ptr[i], oracle.encoded.ptr[i + 1])
            outputs[tokens] = hinge.outputs[tokens]
            for u, v in zip(w, features(oracle, outputs), strict=True):
                u -= eta * v
            norms = np.sqrt(oracle.squared_norms(w))
            short = regularizer.prox(norms, eta / (c * oracle.sentences))
            for block, before, after in zip(blocks_of(oracle, w), norms, short, strict=True):
                block *= after / before if before > 0 else 1.0
    return w


@pytest.mark.parametrize("c", [0.02, 1.0])
def test_fast_and_dense_steps_are_the_algorithm_by_hand(c, monkeypatch):
    """With c = 0.02 templates fall to zero and come back; with a large MIN_SCALE scales are always multiplied in."""
    oracle, regularizer = random_oracle(0, 8, 5, 5), BlockL1Squared()
    random = np.random.Generator(np.random.PCG64(3))
    random.permutation(oracle.sentences)  # the solver draws the sample for η₀ first
    order = [random.permutation(oracle.sentences) for _ in range(3)]
    expected = by_hand(oracle, regularizer, c, order, 0.3, 3)
    stop = Stop(max_passes=3)
    for small, dense in ((1e-12, False), (0.9, False), (1e-12, True)):
        monkeypatch.setattr(online, "MIN_SCALE", small)
        fit = Proximal(stop, 3, dense, rate=0.3).fit(oracle, regularizer, c)
        for a, b in zip(weights_of(oracle, fit), expected, strict=True):
            np.testing.assert_allclose(a[:, : b.shape[1]], b, rtol=1e-3, atol=1e-4)


def test_a_block_that_falls_to_zero_is_zero_everywhere():
    oracle = random_oracle(1, 30, 6, 8)
    fit = Proximal(Stop(max_passes=4), rate=1.0).fit(oracle, BlockL1Squared(), 0.003)
    norms = np.abs(fit.scale) * np.sqrt(oracle.squared_norms(fit.weights))
    assert np.any(norms == 0)
    np.testing.assert_allclose(fit.mu, norms / norms.sum(), atol=1e-5)


@pytest.mark.parametrize("c", [0.1, 1.0])
def test_the_certificate_holds_and_more_epochs_come_nearer(c):
    oracle = random_oracle(2, 12, 4, 6)
    best = Coordinate(Stop(gap=1e-3)).fit(oracle, BlockL1Squared(), c)
    gaps = []
    for epochs in (2, 40):
        fit = Proximal(Stop(max_passes=epochs)).fit(oracle, BlockL1Squared(), c)
        assert fit.passes == epochs
        assert fit.dual <= best.objective * (1 + 1e-6)
        assert fit.objective >= best.dual * (1 - 1e-6)
        true = objective(oracle, fit.weights, fit.scale, BlockL1Squared(), c)
        assert fit.objective == pytest.approx(true, rel=1e-4)
        gaps.append(fit.gap)
    assert gaps[1] < gaps[0]
    assert gaps[1] < 0.5


def test_a_start_is_where_it_begins():
    oracle = random_oracle(5, 40, 6, 8)
    first = Proximal(Stop(max_passes=15), rate=0.1).fit(oracle, BlockL1Squared(), 1.0)
    weights = [u.astype(o.dtype) for u, o in zip(weights_of(oracle, first), oracle.zeros(), strict=True)]
    cold, warm = [], []
    for records, init in ((cold, None), (warm, Start(weights, first.mu))):
        Proximal(Stop(max_passes=1), rate=0.1).fit(oracle, BlockL1Squared(), 1.0, records.append, init=init)
    assert warm[0].risk < cold[0].risk


def test_a_sentence_of_one_token_has_no_edges():
    data = corpus([[("a", "x")], [("b", "y")], [("a", "y"), ("b", "x")]], [["A"], ["B"], ["A", "B"]])
    fit = Proximal(Stop(max_passes=30)).fit(make_oracle(data), BlockL1Squared(), 10.0)
    assert fit.gap < 0.7


@pytest.fixture(params=["sequences", "trees"])
def oracle(request):
    if request.param == "trees":
        return tree_oracle(np.random.default_rng(1), TreeStructure(), sentences=15, longest=6)
    return random_oracle(0, 15, 5, 6, templates="U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\nB1:%x[0,1]")


def test_the_violated_output_of_one_sentence_is_that_of_the_corpus(oracle):
    run = Mira().start(oracle, L2(), 1.0, None)
    for u, width in zip(run.u, oracle.structure.widths(), strict=True):
        u[:-1, :width] = np.random.default_rng(2).normal(size=(len(u) - 1, width))
    ptr, ones = oracle.encoded.ptr, np.ones(oracle.templates)
    parts = oracle.score(run.u, ones)
    outputs, batch = oracle.hinge(parts).outputs, Batch(parts, oracle.encoded.rows, ptr)
    losses = oracle.structure.losses(outputs, oracle.gold, oracle.cost, ptr)
    scores = [oracle.structure.evaluate(batch, y) for y in (oracle.gold, outputs)]
    for i in range(oracle.sentences):
        found = oracle.violated(i, run.u)
        assert found.loss == losses[i]
        assert found.margin == pytest.approx(scores[0][i] - scores[1][i], abs=1e-4)
        alone = oracle.gold.copy()
        alone[ptr[i] : ptr[i + 1]] = outputs[ptr[i] : ptr[i + 1]]
        expected, moved = features(oracle, alone), oracle.zeros()
        assert run.squared_distance(found) == pytest.approx(sum(float((f**2).sum()) for f in expected))
        assert not any(u.any() for u in run.workspace)
        oracle.step(found, -ones, moved, ones.copy())
        for u, f in zip(moved, expected, strict=True):
            np.testing.assert_allclose(u, f, atol=1e-6)


def test_a_step_puts_gold_ahead_by_the_loss(oracle):
    run = Mira().start(oracle, L2(), np.inf, None)
    for i in range(oracle.sentences):
        before = oracle.violated(i, run.u)
        run.update(i)
        if before.loss - before.margin > 0 and run.squared_distance(before) > 0:
            along = sum(
                float((score(d, u.astype(float), np.ones(oracle.templates))[t.row, t.part] * t.count).sum())
                for d, u, t in zip(oracle.encoded.designs, run.u, before.difference, strict=True)
            )
            assert -along == pytest.approx(before.loss, abs=1e-3)


def test_the_result_is_the_mean_over_all_updates(oracle):
    run = Mira().start(oracle, L2(), 1.0, None)
    total = [np.zeros(u.shape) for u in run.u]
    for _ in range(3):
        for i in range(oracle.sentences):
            run.update(i)
            for mean, u in zip(total, run.u, strict=True):
                mean += u
    updates = run.updates
    for mean, u in zip(total, run.average(), strict=True):
        np.testing.assert_allclose(u, mean / updates, atol=1e-5)


def test_the_hinge_falls_and_the_result_has_no_certificate(oracle):
    records = []
    fit = Mira(epochs=8).fit(oracle, L2(), 1.0, lambda r: records.append(r) or False)
    assert not fit.converged
    assert (fit.dual, fit.gap, fit.passes) == (0.0, 1.0, 8)
    assert records[-1].risk < 0.5 * records[0].risk
    hinge = oracle.hinge(oracle.score(fit.weights, fit.scale)).total
    norms = np.sqrt(oracle.squared_norms(fit.weights))
    assert fit.objective == pytest.approx(L2().value(norms) + hinge, rel=1e-6)
    again = Mira(epochs=8).fit(oracle, L2(), 1.0)
    assert all(np.array_equal(a, b) for a, b in zip(fit.weights, again.weights, strict=True))


@pytest.mark.parametrize(("solver", "norm"), [(Proximal(), BlockL1Squared()), (Mira(), L2())])
def test_records_are_estimates_and_the_callback_may_stop(solver, norm):
    records = []
    oracle = random_oracle(3, 20, 5, 6)
    fit = solver.fit(oracle, norm, 1.0, lambda r: records.append(r) or r.passes >= 5)
    assert [r.passes for r in records] == [1, 2, 3, 4, 5]
    assert fit.passes == 5
    assert not any(r.certified for r in records)
