"""MIRA: each update puts gold ahead by the loss, and the result is the average."""

import numpy as np
import pytest
from support.naive import score, tree_oracle
from support.oracles import features, random_oracle

from mtlstruct.objective.regularizers import L2
from mtlstruct.solvers import Mira
from mtlstruct.structures import TreeStructure
from mtlstruct.structures.base import Batch


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


def test_the_hinge_falls_and_nothing_is_certified(oracle):
    records = []
    fit = Mira(epochs=8).fit(oracle, L2(), 1.0, lambda r: records.append(r) or False)
    assert [r.passes for r in records] == list(range(1, 9))
    assert not any(r.certified for r in records)
    assert not fit.converged
    assert (fit.dual, fit.gap, fit.passes) == (0.0, 1.0, 8)
    assert records[-1].risk < 0.5 * records[0].risk
    hinge = oracle.hinge(oracle.score(fit.weights, fit.scale)).total
    norms = np.sqrt(oracle.squared_norms(fit.weights))
    assert fit.objective == pytest.approx(L2().value(norms) + hinge, rel=1e-6)
    again = Mira(epochs=8).fit(oracle, L2(), 1.0)
    assert all(np.array_equal(a, b) for a, b in zip(fit.weights, again.weights, strict=True))
    early = Mira(epochs=8).fit(oracle, L2(), 1.0, lambda r: r.passes == 2)
    assert early.passes == 2
