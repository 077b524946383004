"""Joint steps: a box QP by its conditions, the dual along segments by a dense twin, and twins that quarrel."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_dual import BARE, OBSERVED, SHARED, check_flow, rebuilt, setting

from mtlstruct.corpus import Corpus
from mtlstruct.formats import columns
from mtlstruct.learners import Stop
from mtlstruct.learners.ascent import ACTIVE, FULL, Bounds
from mtlstruct.learners.coordinate import Coordinate
from mtlstruct.learners.own_ascent import OwnAscent
from mtlstruct.options import Options
from mtlstruct.recipes import regularizer
from mtlstruct.structures import sequence_segments
from mtlstruct.structures.sequence_segments import Segments, best_in_box
from mtlstruct.templates import TemplateSet
from mtlstruct.train import encode, oracle_of


def noted_visit(state, *arguments):
    state.noting = True
    return state.visit(*arguments)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
def test_best_in_box_is_optimal(seed, size, rank):
    """By the conditions of the optimum: nothing that is free has a slope, nothing at a bound wants back."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, min(size, rank)))
    gram = factor @ factor.T  # often singular, as with segments that quarrel
    slope = factor @ rng.normal(size=factor.shape[1]) + 0.1 * rng.random(size)
    low, high = -rng.random(size) * rng.integers(0, 2, size), rng.random(size) * rng.integers(0, 2, size)
    theta = best_in_box(gram, slope, low, high)
    assert np.all(theta >= low)
    assert np.all(theta <= high)
    rest = (slope - gram @ theta) / np.sqrt(np.maximum(np.diag(gram), 1e-12))
    assert np.all(rest[theta < high] < 1e-4)
    assert np.all(rest[theta > low] > -1e-4)


@pytest.mark.parametrize("templates", [BARE, OBSERVED], ids=["bare", "observed"])
@pytest.mark.parametrize("c", [0.1, 10.0])
def test_a_joint_step_raises_the_dual_and_keeps_the_books(templates, c):
    oracle, V, N, state = setting(1, templates)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    loss = noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, c, 5, 1e-6).loss
    assert state.segments.gains[0] > 10
    for _ in range(4):
        before = c * loss - 0.5 * float(mu @ N)
        loss += state.joint(mu, c)
        after = c * loss - 0.5 * float(mu @ N)
        assert after >= before - 1e-5 * abs(before)
        assert state.segments.gains[0] == 0
        loss += noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, c, 1, 1e-6).loss
    loss += state.joint(mu, c)
    check_flow(state, oracle.encoded.ptr)
    fresh, squares, fresh_loss = rebuilt(oracle, state, c)
    for a, b in zip(fresh, V, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * c)
    np.testing.assert_allclose(squares, N, rtol=1e-3, atol=1e-4 * c)
    assert fresh_loss == pytest.approx(loss, rel=1e-4, abs=1e-4)


def test_slopes_and_products_are_those_of_the_features():
    """What a joint step believes of small moves is what they do to the dual, one segment and two at a time."""
    c = 2.0
    oracle, V, N, state = setting(4, OBSERVED)
    mu = np.random.default_rng(3).dirichlet(np.ones(oracle.templates))
    noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, c, 2, 1e-6)
    rows = state.segments.chosen()[:12]
    node, edge = oracle.encoded.designs
    x = (node.ids, None, len(node.blocks), node.null)
    edges = (state.edge_row, edge.ids, edge.ptr, edge.blocks, edge.null)
    low, high, slope, loss = np.zeros((4, len(rows)))
    gram = np.zeros((len(rows), len(rows)))
    costs, weighed = (oracle.gold, state.problem.cost), (low, high, slope, loss, gram)
    sequence_segments._weigh(
        rows, *state.flow.arrays, *x, *edges, *V, *costs, node.scales(mu), mu, c, *weighed
    )

    def dual(steps):
        """The dual after moves, computed from all features."""
        mine, squares = [table.copy() for table in V], N.copy()
        moved = np.array(steps)
        sequence_segments._commit(rows, moved, *x, node.own, node.blocks, *edges, *mine, squares, c)
        np.testing.assert_allclose(oracle.squared_norms(mine), squares, rtol=1e-4, atol=1e-4)
        return c * float(moved @ loss) - 0.5 * float(mu @ oracle.squared_norms(mine))

    unit = np.eye(len(rows))
    still = dual(0 * unit[0])
    for s in range(len(rows)):
        for r in range(s + 1):
            steps = unit[s] + (unit[r] if r != s else 0)
            believed = float(slope @ steps - 0.5 * steps @ gram @ steps)
            assert dual(steps) - still == pytest.approx(believed, rel=1e-3, abs=1e-3)


def test_chosen_segments_share_no_edge():
    _, _, _, state = setting(1, BARE)
    mu = np.ones(len(state.problem.N))
    noted_visit(state, state.spans(np.arange(len(state.problem.encoded.ptr) - 1), 0), mu, 1.0, 5, 1e-6)
    gains = state.segments.gains[1 : 1 + int(state.segments.gains[0])].copy()
    rows = state.segments.chosen()
    ends = sorted((int(row[0]), int(row[0] + row[1])) for row in rows)
    assert all(last < first for (_, last), (first, _) in pairwise(ends))
    assert 1 < len(rows) <= len(gains)
    assert np.all(gains >= 0)


def test_nothing_is_written_down_where_rows_cannot_be_compared():
    oracle, _, _, state = setting(1, SHARED)
    mu = np.full(oracle.templates, 0.25)
    noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 5, 1e-6)
    assert not state.joins
    assert state.joint(mu, 1.0) == 0.0


def test_a_full_notebook_takes_no_more():
    oracle, _, _, state = setting(1, BARE)
    state.segments = Segments(3)
    noted_visit(state, state.spans(np.arange(oracle.sentences), 0), np.ones(oracle.templates), 1.0, 5, 1e-6)
    assert state.segments.gains[0] == 3
    assert len(state.segments.chosen()) <= 3


def test_cycles_end_with_an_active_pass_and_are_short_when_near():
    oracle, _, _, _ = setting(1, BARE)
    ascent = OwnAscent(oracle, regularizer("mtl", None), 10.0, Stop(gap=0.01), 0)
    long = ascent._schedule()
    ascent.certified, ascent.bounds = True, Bounds(objective=1.013, dual=1.0, risk=0.0)
    near = ascent._schedule()
    ascent.bounds = Bounds(objective=1.1, dual=1.0, risk=0.0)
    assert long[0] == near[0] == FULL
    assert long[-1] == near[-1] == ACTIVE
    assert long.count(ACTIVE) > near.count(ACTIVE) == 1
    assert ascent._schedule() == long


def quarrel(tmp_path) -> Corpus:
    """Sentences in pairs that differ in one label and one word of many: no weights can please both of a pair."""
    rng = np.random.default_rng(0)
    lines = []
    for k in range(40):
        words = [f"w{rng.integers(60)}" for _ in range(6)]
        for twin in range(2):
            labels = ["AB"[int(word[1:]) % 2] for word in words]
            if twin and k < 8:
                labels[3] = "BA"["AB".index(labels[3])]
            lines += [f"{word} {label}" for word, label in zip(words, labels, strict=True)] + [""]
    path = tmp_path / "quarrel.txt"
    path.write_text("\n".join(lines) + "\n")
    return columns.read(path)


@pytest.mark.parametrize("method", ["mtl", "svm"])
def test_twins_with_other_labels_do_not_hold_up_a_large_c(tmp_path, method):
    """Visits alone climb by 1/‖x‖² at a time; joint steps go all the way: cycles hardly grow with c."""
    corpus = quarrel(tmp_path)
    window = [f"U{r}{s}:%x[{r},0]/%x[{s},0]" for r in range(-3, 4) for s in range(r, 4)]
    templates = TemplateSet.parse("\n".join(window) + "\nB\n")
    cycles = {}
    for c in (1.0, 1000.0):
        options = Options(method=method, c=c)
        material = encode(corpus, templates, options)
        oracle = oracle_of(corpus, material.structure, material.encoded, options)
        learner = Coordinate(Stop(gap=0.01, max_passes=100))
        fit = learner.fit(oracle, regularizer(method, None), c, lambda record: False)
        assert fit.converged, (c, fit.gap)
        cycles[c] = fit.passes
    assert cycles[1000.0] <= 3 * cycles[1.0] + 10
