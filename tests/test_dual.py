"""The dual state of sequences: a flow stays a flow, the dual never falls, V and N are what the flow says."""

import itertools

import numpy as np
import pytest
from duals import from_python
from naive import random_corpus

from mtlstruct.features.index import encode_training
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.duals import dual_state
from mtlstruct.solvers.coordinate_ascent.sequence import block_update as sequence_visit
from mtlstruct.solvers.coordinate_ascent.sequence import dual as sequence_dual
from mtlstruct.solvers.coordinate_ascent.sequence import pairwise_step as sequence_steps
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB"
BAGS = "U0:%x[0,0]\nU1:%x[-1,0]\nU1:%x[0,0]\nU1:%x[1,0]\nB\nB1:%x[0,0]\nB1:%x[-1,0]\nB2:%x[0,1]"
BARE = TemplateSet.parse(LINES)
OBSERVED = TemplateSet.parse(LINES + "\nB1:%x[0,1]\nB2:%x[-1,0]/%x[0,0]")
SHARED = TemplateSet.parse(BAGS).shared()


def setting(seed, templates=BARE, min_count=1, **sizes):
    data = random_corpus(np.random.default_rng(seed), **sizes)
    structure = SequenceStructure(len(data.labels))
    encoded, _ = encode_training(data, templates, structure.sites(data.ptr), min_count=min_count)
    oracle = Oracle(structure, encoded, data.outputs, Hamming().table(data.labels))
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    return oracle, V, N, dual_state(oracle, V, N)


def dense(state):
    return state.flow.dense(state.problem.structure.labels)


def check_flow(state, ptr):
    flow = dense(state)
    assert flow.min() >= 0
    for a, b in itertools.pairwise(ptr):
        np.testing.assert_allclose(flow[a:b].sum(axis=(1, 2)), 1, atol=1e-4)
        assert np.all(flow[a, 1:] == 0)
        for t in range(a + 1, b):
            np.testing.assert_allclose(flow[t].sum(axis=1), flow[t - 1].sum(axis=0), atol=1e-4)


def rebuilt(oracle, state, c):
    V = oracle.zeros()
    node, edge = state.counts()
    oracle.count([c * node, c * edge], V)
    return V, oracle.squared_norms(V), state.loss(node)


@pytest.mark.parametrize("templates", [BARE, OBSERVED, SHARED], ids=["bare", "observed", "shared"])
@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_visits_raise_the_dual_and_keep_the_books(templates, c):
    oracle, V, N, state = setting(1, templates)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    loss, values = 0.0, [0.0]
    for _ in range(6):
        visits = state.update(state.spans(np.arange(oracle.sentences), 0), mu, c, 5, 1e-6)
        loss += visits.loss
        values.append(c * loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(values) >= -1e-4 * max(values))
    assert values[-1] > 0
    check_flow(state, oracle.encoded.ptr)
    fresh, squares, fresh_loss = rebuilt(oracle, state, c)
    for a, b in zip(fresh, V, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * c)
    np.testing.assert_allclose(squares, N, rtol=1e-3, atol=1e-4 * c)
    assert fresh_loss == pytest.approx(loss, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("templates", [OBSERVED, SHARED], ids=["observed", "shared"])
def test_many_visits_close_the_gap_for_fixed_weights(templates):
    """With mu fixed the problem is a plain structural SVM: gaps of all sentences go to zero."""
    oracle, _, _, state = setting(3, templates)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    for _ in range(200):
        visits = state.update(state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 10, 1e-7)
    assert visits.gaps.sum() < 1e-3


@pytest.mark.parametrize("min_count", [1, 3])
def test_kernels_of_rows_in_which_a_template_speaks_twice(min_count):
    """Entries of one template are sorted, and null attributes stand anywhere between them."""
    oracle, *_ = setting(3, SHARED, min_count, words=12)
    design = oracle.encoded.designs[0]
    rows = design.ids[: design.ptr[-1]].reshape(design.rows, -1)
    assert (design.attributes in rows) == (min_count > 1)
    mu = np.random.default_rng(4).dirichlet(np.ones(oracle.templates))
    dense = np.zeros((design.rows, design.attributes + 1))
    np.add.at(dense, (np.arange(design.rows)[:, None], rows), np.sqrt(mu)[design.blocks])
    naive = dense[:, :-1] @ dense[:, :-1].T
    mark, found = np.zeros(design.attributes + 1, np.float32), np.zeros(design.rows, np.float32)
    node = sequence_visit._node(design, oracle.zeros()[0], mu)
    row = from_python(sequence_steps.ragged_row)
    for r in range(0, design.rows, 3):
        row(0, design.rows, r, 0, node, None, None, mark, found)
        np.testing.assert_allclose(found, naive[r], rtol=1e-5)
        assert not mark.any()


def test_active_spans_cover_what_has_left_gold():
    oracle, _, _, state = setting(4)
    assert len(state.active()) == 0
    mu = np.full(oracle.templates, 1 / oracle.templates)
    state.update(state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 5, 1e-4)
    loose = np.flatnonzero(np.abs(state.counts()[0]).max(axis=1) > 1e-5)
    covered = np.concatenate([np.arange(a, b) for a, b, _ in state.active()])
    assert set(loose) <= set(covered)
    for a, b, i in state.active():
        assert oracle.encoded.ptr[i] <= a < b <= oracle.encoded.ptr[i + 1]


def test_visiting_active_spans_raises_the_dual_too():
    oracle, _, N, state = setting(5, OBSERVED)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    loss = state.update(state.spans(np.arange(oracle.sentences), 0), mu, 2.0, 2, 1e-4).loss
    before = 2.0 * loss - 0.5 * float(mu @ N)
    loss += state.update(state.active(), mu, 2.0, 5, 1e-6).loss
    assert 2.0 * loss - 0.5 * float(mu @ N) >= before - 1e-4
    check_flow(state, oracle.encoded.ptr)


def test_long_sentences_are_visited_in_pieces(monkeypatch):
    monkeypatch.setattr(sequence_dual, "LONGEST", 7)
    oracle, _, N, state = setting(6, OBSERVED, sentences=3, longest=60, words=9)
    spans = state.spans(np.arange(3), 5)
    assert (spans[:, 1] - spans[:, 0]).max() <= 7
    assert sorted(t for a, b, _ in spans for t in range(a, b)) == list(range(oracle.encoded.ptr[-1]))
    mu = np.full(oracle.templates, 1 / oracle.templates)
    loss, values = 0.0, [0.0]
    for shift in range(12):
        loss += state.update(state.spans(np.arange(3), 3 * shift), mu, 1.0, 5, 1e-6).loss
        values.append(loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(values) >= -1e-4 * max(values))
    check_flow(state, oracle.encoded.ptr)
    assert np.allclose(rebuilt(oracle, state, 1.0)[1], N, rtol=1e-3, atol=1e-4)


def test_repair_makes_an_exact_flow_again():
    oracle, _, _, state = setting(7)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    state.update(state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 5, 1e-5)
    before = dense(state)
    mass = state.flow.mass
    mass *= 1 + 1e-3 * np.random.default_rng(0).random(mass.shape).astype(np.float32)
    state.repair()
    check_flow(state, oracle.encoded.ptr)
    np.testing.assert_allclose(dense(state), before, atol=5e-3)


def test_hundreds_of_labels_take_no_more_room():
    """Sentences with 200 labels: the flow grows by what moves, not by pairs of labels."""
    rng = np.random.default_rng(10)
    data = random_corpus(rng, sentences=30, longest=12, words=40, labels=200)
    structure = SequenceStructure(len(data.labels))
    encoded, _ = encode_training(data, BARE, structure.sites(data.ptr))
    oracle = Oracle(structure, encoded, data.outputs, Hamming().table(data.labels))
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    state = dual_state(oracle, V, N)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    gaps = [
        state.update(state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 10, 1e-6).gaps.sum()
        for _ in range(20)
    ]
    assert gaps[-1] < 0.2 * gaps[0]
    state.repair()
    check_flow(state, encoded.ptr)
    assert state.flow.mass.shape[1] < 100


@pytest.mark.parametrize("real", [False, True])
def test_ragged_and_real_valued_rows(real):
    """The general form of A: rows of any length, several features of one template, real values."""
    oracle, _V, N, state = setting(8)
    rng = np.random.default_rng(9)
    node = oracle.encoded.designs[0]
    ids, blocks, lengths = [], [], []
    for _ in range(node.rows):
        some = np.sort(rng.choice(node.attributes, size=int(rng.integers(1, 6))))
        ids += some.tolist()
        blocks += (np.searchsorted(node.block_ptr, some, side="right") - 1).tolist()
        lengths.append(len(some))
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = rng.normal(size=len(ids)).astype(np.float32) if real else np.zeros(0, np.float32)
    ragged = Design(
        np.array(ids + [node.attributes] * LOOKAHEAD, np.int32), ptr, node.templates[blocks].astype(np.int32),
        values, node.block_ptr, node.templates,
    )  # fmt: skip
    assert ragged.ragged
    object.__setattr__(oracle.encoded, "designs", (ragged, oracle.encoded.designs[1]))
    mu = rng.dirichlet(np.ones(oracle.templates))
    loss, dual_values = 0.0, [0.0]
    for _ in range(5):
        loss += state.update(state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 5, 1e-6).loss
        dual_values.append(loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(dual_values) >= -1e-4 * max(dual_values))
    np.testing.assert_allclose(rebuilt(oracle, state, 1.0)[1], N, rtol=1e-3, atol=1e-4)
