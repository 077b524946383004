"""The dual state of sequences: a flow stays a flow, the dual never falls, V and N are what the flow says."""

import itertools

import numpy as np
import pytest
from support.duals import close_the_gap, from_python, keep_books, make_oracle, update, with_ragged_rows
from support.naive import random_corpus

from mtlstruct.solvers.coordinate_ascent.duals import dual_state
from mtlstruct.solvers.coordinate_ascent.sequence import features as sequence_features
from mtlstruct.solvers.coordinate_ascent.sequence import hinge
from mtlstruct.templates import TemplateSet

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB"
BAGS = "U0:%x[0,0]\nU1:%x[-1,0]\nU1:%x[0,0]\nU1:%x[1,0]\nB\nB1:%x[0,0]\nB1:%x[-1,0]\nB2:%x[0,1]"
BARE = TemplateSet.parse(LINES)
OBSERVED = TemplateSet.parse(LINES + "\nB1:%x[0,1]\nB2:%x[-1,0]/%x[0,0]")
SHARED = TemplateSet.parse(BAGS).shared()


def setting(seed, templates=BARE, min_count=1, **sizes):
    oracle = make_oracle(random_corpus(np.random.default_rng(seed), **sizes), templates, min_count=min_count)
    N = np.zeros(oracle.templates)
    return oracle, N, dual_state(oracle, oracle.zeros(), N)


def dense(state):
    """Return the edge marginals as float32[T, L, L]."""
    size, tail, head, mass = state.marginals
    whole = np.zeros((len(size), state.labels, state.labels), np.float32)
    t, k = np.nonzero(np.arange(mass.shape[1]) < size[:, None])
    np.add.at(whole, (t, tail[t, k], head[t, k]), mass[t, k])
    return whole


def check_flow(state, ptr):
    flow = dense(state)
    assert flow.min() >= 0
    for a, b in itertools.pairwise(ptr):
        np.testing.assert_allclose(flow[a:b].sum(axis=(1, 2)), 1, atol=1e-4)
        assert np.all(flow[a, 1:] == 0)
        for t in range(a + 1, b):
            np.testing.assert_allclose(flow[t].sum(axis=1), flow[t - 1].sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("templates", [BARE, OBSERVED, SHARED], ids=["bare", "observed", "shared"])
@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_visits_raise_the_dual_and_keep_the_books(templates, c):
    oracle = setting(1, templates)[0]
    keep_books(oracle, c, check=lambda state: check_flow(state, oracle.encoded.ptr))


@pytest.mark.parametrize("templates", [OBSERVED, SHARED], ids=["observed", "shared"])
def test_many_visits_close_the_gap_for_fixed_weights(templates):
    """With mu fixed the problem is a plain structural SVM: gaps of all sentences go to zero."""
    assert close_the_gap(setting(3, templates)[0], 200) < 1e-3


@pytest.mark.parametrize("min_count", [1, 3])
def test_kernels_of_rows_in_which_a_template_speaks_twice(min_count):
    """Entries of one template are sorted, and null attributes stand anywhere between them."""
    oracle, *_ = setting(3, SHARED, min_count, words=12)
    design = oracle.encoded.designs[0]
    rows = design.ids[: design.ptr[-1]].reshape(design.rows, -1)
    assert (design.layout.attributes in rows) == (min_count > 1)
    mu = np.random.default_rng(4).dirichlet(np.ones(oracle.templates))
    dense = np.zeros((design.rows, design.layout.attributes + 1))
    np.add.at(dense, (np.arange(design.rows)[:, None], rows), np.sqrt(mu)[design.blocks])
    naive = dense[:, :-1] @ dense[:, :-1].T
    mark, found = np.zeros(design.layout.attributes + 1, np.float32), np.zeros(design.rows, np.float32)
    node = sequence_features.node_features(design, oracle.zeros()[0], mu)
    row = from_python(sequence_features.kernel_row)
    for r in range(0, design.rows, 3):
        row(0, design.rows, r, 0, node, None, None, mark, found, found)
        np.testing.assert_allclose(found, naive[r], rtol=1e-5)
        assert not mark.any()


def test_active_spans_cover_what_has_left_gold():
    oracle, _, state = setting(4)
    assert len(state.active()) == 0
    mu = np.full(oracle.templates, 1 / oracle.templates)
    update(state, state.spans(0), mu, 1.0, 5, 1e-4)
    loose = np.flatnonzero(np.abs(state.counts()[0]).max(axis=1) > 1e-5)
    covered = np.concatenate([np.arange(a, b) for a, b, _ in state.active()])
    assert set(loose) <= set(covered)
    for a, b, i in state.active():
        assert oracle.encoded.ptr[i] <= a < b <= oracle.encoded.ptr[i + 1]


def test_long_sentences_are_visited_in_pieces(monkeypatch):
    monkeypatch.setattr(hinge, "MAX_SPAN", 7)
    oracle, N, state = setting(6, OBSERVED, sentences=3, longest=60, words=9)
    spans = state.spans(5)
    assert (spans[:, 1] - spans[:, 0]).max() <= 7
    assert sorted(t for a, b, _ in spans for t in range(a, b)) == list(range(oracle.encoded.ptr[-1]))
    mu = np.full(oracle.templates, 1 / oracle.templates)
    loss, values = 0.0, [0.0]
    for shift in range(12):
        loss += update(state, state.spans(3 * shift), mu, 1.0, 5, 1e-6)[1]
        values.append(loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(values) >= -1e-4 * max(values))
    check_flow(state, oracle.encoded.ptr)
    V = oracle.zeros()
    oracle.count(state.counts(), V)
    np.testing.assert_allclose(oracle.squared_norms(V), N, rtol=1e-3, atol=1e-4)


def test_repair_makes_an_exact_flow_again():
    oracle, _, state = setting(7)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    update(state, state.spans(0), mu, 1.0, 5, 1e-5)
    before = dense(state)
    mass = state.marginals.mass
    mass *= 1 + 1e-3 * np.random.default_rng(0).random(mass.shape).astype(np.float32)
    state.repair()
    check_flow(state, oracle.encoded.ptr)
    np.testing.assert_allclose(dense(state), before, atol=5e-3)


def test_hundreds_of_labels_take_no_more_room():
    """Sentences with 200 labels: the flow grows by what moves, not by pairs of labels."""
    oracle, _, state = setting(10, sentences=30, longest=12, words=40, labels=200)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    gaps = [update(state, state.spans(0), mu, 1.0, 10, 1e-6)[0].sum() for _ in range(20)]
    assert gaps[-1] < 0.2 * gaps[0]
    state.repair()
    check_flow(state, oracle.encoded.ptr)
    assert state.marginals.mass.shape[1] < 100


@pytest.mark.parametrize("real", [False, True])
def test_ragged_and_real_valued_rows(real):
    """The general form of A: rows of any length, several features of one template, real values."""
    keep_books(with_ragged_rows(setting(8)[0], real), 1.0)
