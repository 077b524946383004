"""The log loss and the softmax-margin in the coordinate solver: marginals, certificates and optima by enumeration."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.duals import (
    check_same_optimum,
    close_the_gap,
    from_python,
    keep_books,
    make_oracle,
    on_threads,
    ragged,
    update,
    with_ragged_rows,
)
from support.naive import block_squares, random_corpus, random_items, smooth_loss

from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import LBFGS, Coordinate, Stop
from mtlstruct.solvers.coordinate_ascent.duals import dual_state, with_shared_singletons
from mtlstruct.solvers.coordinate_ascent.sequence import dual as sequence_dual
from mtlstruct.solvers.coordinate_ascent.sequence import smooth_step
from mtlstruct.solvers.coordinate_ascent.sequence.smooth_step import CURVATURE_TOKENS
from mtlstruct.structures import MulticlassStructure
from mtlstruct.templates import TemplateSet

PLAIN = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB"
OBSERVED = PLAIN + "\nB1:%x[0,1]\nB2:%x[-1,0]/%x[0,0]"
SHARED = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]\nU1:%x[0,0]\nU1:%x[1,0]\nB\nB1:%x[0,0]\nB1:%x[-1,0]\nB2:%x[0,1]"
).shared()
ITEMS = "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[0,0]/%x[0,1]"
NORMS = {"l2": L2(), "mtl": BlockL1Squared(), "pmtl": PBlock(1.5), "mixed": Mixed(2.0), "group": GroupLasso()}
LOSSES = {"log": (1.0, 0.0), "softmax-margin": (0.5, 2.0)}


def smooth(oracle, temperature=1.0, cost_weight=0.0):
    return replace(oracle, cost=np.float32(cost_weight) * oracle.cost, temperature=temperature)


def sequences(seed, templates=OBSERVED, **sizes):
    return make_oracle(random_corpus(np.random.default_rng(seed), **sizes), templates)


def items(seed):
    return make_oracle(random_items(np.random.default_rng(seed)), ITEMS, MulticlassStructure)


def with_label_support(oracle):
    encoded = oracle.encoded.supported(oracle.gold, oracle.structure.labels)
    return replace(oracle, encoded=encoded)


CASES = {
    "plain": lambda: sequences(1, PLAIN),
    "observed": lambda: sequences(1),
    "transitions": lambda: sequences(1, "B"),
    "shared lines": lambda: sequences(1, SHARED),
    "ragged": lambda: with_ragged_rows(sequences(2), real=False),
    "real values": lambda: with_ragged_rows(sequences(2), real=True),
    "labels seen": lambda: with_label_support(sequences(3)),
    "singletons": lambda: with_shared_singletons(sequences(4, words=40), overwrite=False),
    "items": lambda: items(5),
}
every_case = pytest.mark.parametrize("case", CASES)
every_loss = pytest.mark.parametrize("loss", LOSSES)


@every_case
@every_loss
@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_block_updates_raise_the_dual_and_keep_v_consistent(case, loss, c):
    keep_books(smooth(CASES[case](), *LOSSES[loss]), c)


def test_marginals_stay_distributions():
    oracle = smooth(sequences(6))
    state = keep_books(oracle, 2.0)
    mass, ptr = state.marginals.mass, oracle.encoded.ptr
    assert mass.min() >= 0
    np.testing.assert_allclose(mass.sum(axis=1), 1, atol=1e-5)
    inner, mass = np.setdiff1d(np.arange(ptr[-1]), ptr[:-1]), mass.reshape(ptr[-1], state.labels, -1)
    np.testing.assert_allclose(mass[inner].sum(axis=2), mass[inner - 1].sum(axis=1), atol=1e-5)


@every_case
def test_block_updates_close_the_gap_for_fixed_template_weights(case):
    assert close_the_gap(smooth(CASES[case]()), 60) < 1e-3


def test_long_sentences_have_a_bounded_curvature():
    oracle = smooth(sequences(7, sentences=2, longest=3 * CURVATURE_TOKENS, words=60))
    assert np.diff(oracle.encoded.ptr).max() > 2 * CURVATURE_TOKENS
    check_same_optimum([solver(Stop(gap=1e-3)).fit(oracle, L2(), 1.0) for solver in (Coordinate, LBFGS)])


@every_loss
@pytest.mark.parametrize("norm", NORMS)
def test_the_certificate_is_confirmed_by_enumeration(norm, loss):
    oracle = smooth(sequences(8, sentences=10, longest=4, words=5), *LOSSES[loss])
    fit = Coordinate(Stop(gap=1e-3)).fit(oracle, NORMS[norm], 2.0)
    assert fit.converged
    assert fit.dual <= fit.objective
    norms = np.sqrt(block_squares(oracle, fit.weights, fit.scale))
    true = NORMS[norm].value(norms) + 2.0 * smooth_loss(oracle, fit.weights, fit.scale)
    assert fit.objective == pytest.approx(true, rel=1e-4)


@pytest.mark.parametrize("case", ["plain", "observed", "real values", "labels seen", "items"])
@pytest.mark.parametrize("norm", NORMS)
def test_coordinate_ascent_and_lbfgs_reach_the_same_objective(case, norm):
    oracle = smooth(CASES[case]())
    fits = [solver(Stop(gap=1e-3)).fit(oracle, NORMS[norm], 1.0) for solver in (Coordinate, LBFGS)]
    assert all(fit.converged for fit in fits)
    check_same_optimum(fits)


def test_softmax_margin_of_small_temperature_is_the_hinge():
    oracle = sequences(9)
    hinge = Coordinate(Stop(gap=1e-3)).fit(oracle, L2(), 1.0)
    soft = Coordinate(Stop(gap=1e-3)).fit(smooth(oracle, 0.01, 1.0), L2(), 1.0)
    assert soft.converged
    assert soft.objective == pytest.approx(hinge.objective, rel=0.02)


@pytest.mark.parametrize(
    ("templates", "norm"), [("U0:%x[0,0]", BlockL1Squared()), (OBSERVED, PBlock(2.0))], ids=["mtl", "p = 2"]
)
def test_mtl_with_one_template_and_pmtl_with_p_2_are_crf_l2(templates, norm):
    oracle = smooth(sequences(10, templates))
    check_same_optimum([Coordinate(Stop(gap=1e-3)).fit(oracle, some, 1.0) for some in (L2(), norm)])


def test_costs_of_labels_enter_the_softmax_margin():
    data = random_corpus(np.random.default_rng(12), sentences=10, longest=4, words=5)
    oracle = make_oracle(data, PLAIN, loss=Hamming((("L0", 4.0), ("L1", 0.5))))
    oracle = smooth(oracle, 1.0, 1.0)
    fit = Coordinate(Stop(gap=1e-3)).fit(oracle, L2(), 1.0)
    norms = np.sqrt(block_squares(oracle, fit.weights, fit.scale))
    true = L2().value(norms) + smooth_loss(oracle, fit.weights, fit.scale)
    assert fit.objective == pytest.approx(true, rel=1e-4)


def same_weights(fits):
    return all(
        np.array_equal(a, b) for fit in fits[1:] for a, b in zip(fit.weights, fits[0].weights, strict=True)
    )


@every_case
def test_the_number_of_threads_does_not_change_the_weights(case):
    oracle = smooth(CASES[case]())
    assert same_weights(
        on_threads([1, 2, 3], lambda: Coordinate(Stop(gap=1e-3)).fit(oracle, BlockL1Squared(), 1.0))
    )


@pytest.mark.parametrize("late", ["never comes", "comes late", "is told to leave"])
def test_threads_that_are_slow_do_not_change_the_weights(late, monkeypatch):
    oracle, run, delay = smooth(sequences(13, sentences=60)), sequence_dual.ascend_spans, threading.local()

    def ascend(rank, *arguments):
        if rank > 0 and late == "never comes":
            return 0.0
        if rank > 0:
            delay.value = (getattr(delay, "value", 0.0) + 0.0007) % 0.003
            time.sleep(delay.value)
        elif late == "is told to leave":
            arguments[9].team.closed[0] = 1
        return run(rank, *arguments)

    def fit():
        return Coordinate(Stop(gap=1e-3, max_passes=3)).fit(oracle, BlockL1Squared(), 1.0)

    (alone,) = on_threads([1], fit)
    monkeypatch.setattr(sequence_dual, "ascend_spans", ascend)
    assert same_weights([alone, *on_threads([2, 3], fit)])


def test_threads_add_to_different_templates():
    oracle = sequences(1, PLAIN)
    design = oracle.encoded.designs[0]
    assert smooth_step._slots(design).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert len(smooth_step._slots(ragged(design, real=False))) == 0


def test_inner_logarithm_is_that_of_numpy():
    x = np.concatenate([10.0 ** np.arange(-9, 9, 0.01), 1 - 10.0 ** -np.arange(1, 7.1, 0.1), [1.0]]).astype(
        np.float32
    )
    log = from_python(smooth_step.log)
    np.testing.assert_allclose([log(value) for value in x], np.log(x.astype(float)), rtol=3e-7)


@given(
    seed=st.integers(0, 1000),
    c=st.floats(0.01, 100.0),
    temperature=st.floats(0.05, 3.0),
    cost_weight=st.floats(0.0, 3.0),
    norm=st.sampled_from(sorted(NORMS)),
)
def test_the_dual_never_exceeds_the_primal(seed, c, temperature, cost_weight, norm):
    oracle = smooth(sequences(seed, PLAIN, sentences=6, longest=4, words=5), temperature, cost_weight)
    records = []
    fit = Coordinate(Stop(gap=0.01, max_passes=5)).fit(oracle, NORMS[norm], c, records.append)
    assert fit.dual <= fit.objective * (1 + 1e-6)


def test_a_span_inside_a_sentence_moves_only_its_own_tokens():
    oracle = smooth(sequences(14, sentences=2, longest=12))
    state = dual_state(oracle, oracle.zeros(), np.zeros(oracle.templates))
    mu = np.full(oracle.templates, 1 / oracle.templates)
    update(state, state.spans(0), mu, 1.0, 1, 0.0)
    before = state.counts()[0].copy()
    ptr = oracle.encoded.ptr
    longest = int(np.argmax(np.diff(ptr)))
    start, stop = int(ptr[longest]) + 1, int(ptr[longest + 1]) - 1
    update(state, np.array([[start, stop, longest]]), mu, 1.0, 1, 0.0)
    changed = np.flatnonzero(np.abs(state.counts()[0] - before).max(axis=1) > 1e-6)
    assert len(changed)
    assert start <= changed.min() <= changed.max() < stop
