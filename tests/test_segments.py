"""Joint steps: a box QP by its conditions, the dual along segments by a dense twin, and twins that quarrel."""

from itertools import pairwise

import numpy as np
import pytest
from duals import from_python
from hypothesis import given
from hypothesis import strategies as st
from test_dual import BARE, OBSERVED, SHARED, check_flow, rebuilt, setting

from mtlstruct.corpus import Corpus
from mtlstruct.formats import columns
from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.solvers import Stop
from mtlstruct.solvers.coordinate_ascent.local_run import OwnAscent
from mtlstruct.solvers.coordinate_ascent.run import ACTIVE, FULL, Bounds
from mtlstruct.solvers.coordinate_ascent.sequence import joint_step as sequence_segments
from mtlstruct.solvers.coordinate_ascent.sequence.box_qp import best_in_box
from mtlstruct.solvers.coordinate_ascent.sequence.conflicts import LOTS, opposed
from mtlstruct.solvers.coordinate_ascent.sequence.joint_step import Segments
from mtlstruct.solvers.coordinate_ascent.solver import Coordinate
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import regularizer
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, oracle_of


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
        loss += state.joint(mu, c, 1)
        after = c * loss - 0.5 * float(mu @ N)
        assert after >= before - 1e-5 * abs(before)
        assert state.segments.gains[0] == 0
        loss += noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, c, 1, 1e-6).loss
    loss += state.joint(mu, c, 1)
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
    rows = chosen(state)[:12]
    low, high, slope, loss = np.zeros((4, len(rows)))
    gram = np.zeros((len(rows), len(rows)))
    seen = sequence_segments.seen(state.problem, state.edge_row, mu)
    sequence_segments._weigh(rows, state.flow.arrays, *seen, mu, c, low, high, slope, loss, gram)

    def dual(steps):
        """The dual after moves, computed from all features."""
        before, kept, squares = state.flow.copied(), [table.copy() for table in V], N.copy()
        state.flow.make_room(2)
        change = sequence_segments._move(rows, np.array(steps), loss, state.flow.arrays, *seen, N, c)
        np.testing.assert_allclose(oracle.squared_norms(V), N, rtol=1e-4, atol=1e-4)
        value = c * change - 0.5 * float(mu @ oracle.squared_norms(V))
        state.flow, N[:] = before, squares
        for table, old in zip(V, kept, strict=True):
            table[:] = old
        return value

    unit = np.diag(high)
    assert np.count_nonzero(high) > 5
    still = dual(0 * unit[0])
    for s in range(len(rows)):
        for r in range(s + 1):
            steps = unit[s] + (unit[r] if r != s else 0)
            believed = float(slope @ steps - 0.5 * steps @ gram @ steps)
            assert dual(steps) - still == pytest.approx(believed, rel=1e-3, abs=1e-3)


def chosen(state):
    rows = state.segments.taken()
    found = np.zeros(sequence_segments.MOST, np.int64)
    return rows[found[: sequence_segments._choose(rows, found)]]


def test_chosen_segments_share_no_edge_and_the_best_come_first():
    _, _, _, state = setting(1, BARE)
    mu = np.ones(len(state.problem.N))
    noted_visit(state, state.spans(np.arange(len(state.problem.encoded.ptr) - 1), 0), mu, 1.0, 5, 1e-6)
    gains = state.segments.gains[1 : 1 + int(state.segments.gains[0])].copy()
    best = state.segments.rows[np.argmax(gains)].copy()
    rows = chosen(state)
    ends = sorted((int(row[0]), int(row[0] + row[1])) for row in rows)
    assert all(last < first for (_, last), (first, _) in pairwise(ends))
    assert 1 < len(rows) <= len(gains)
    assert np.all(gains >= 0)
    np.testing.assert_array_equal(rows[0], best)


def test_visits_say_what_they_gained():
    """The sum of the gains is the rise of the dual under mu, over c."""
    c = 3.0
    oracle, _, N, state = setting(1, OBSERVED)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    loss, value = 0.0, 0.0
    for _ in range(3):
        visits = state.visit(state.spans(np.arange(oracle.sentences), 0), mu, c, 5, 1e-6)
        loss += visits.loss
        now = c * loss - 0.5 * float(mu @ N)
        assert np.all(visits.gains >= 0)
        assert c * visits.gains.sum() == pytest.approx(now - value, rel=1e-3, abs=1e-3)
        value = now


best_two = from_python(sequence_segments._best_two)


@given(st.integers(0, 10_000))
def test_the_best_of_two_is_the_best_in_the_box(seed):
    """Pairs that quarrel have a gram that is nearly singular."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(2, int(rng.integers(1, 3))))
    gram = factor @ factor.T
    slope = rng.normal(size=2)
    low, high = -rng.random(2) * rng.integers(0, 2, 2), rng.random(2) * rng.integers(0, 2, 2)
    sides = (low[0], high[0], low[1], high[1])
    found = np.array(best_two(*slope, gram[0, 0], gram[0, 1], gram[1, 1], *sides))
    assert np.all((found >= low) & (found <= high))
    grid = np.stack(np.meshgrid(*np.linspace(low, high, 41).T), axis=-1).reshape(-1, 2)
    values = [slope @ x - 0.5 * x @ gram @ x for x in (found, *grid)]
    assert values[0] >= max(values) - 1e-9


def test_nothing_is_written_down_where_rows_cannot_be_compared():
    oracle, _, _, state = setting(1, SHARED)
    mu = np.full(oracle.templates, 0.25)
    noted_visit(state, state.spans(np.arange(oracle.sentences), 0), mu, 1.0, 5, 1e-6)
    assert not state.joins
    assert state.joint(mu, 1.0, 1) == 0.0


def test_a_full_notebook_takes_no_more():
    oracle, _, _, state = setting(1, BARE)
    state.segments = Segments(3)
    noted_visit(state, state.spans(np.arange(oracle.sentences), 0), np.ones(oracle.templates), 1.0, 5, 1e-6)
    assert state.segments.gains[0] == 3
    assert len(chosen(state)) <= 3


def test_cycles_end_with_an_active_pass_and_are_short_when_near():
    oracle, _, _, _ = setting(1, BARE)
    ascent = OwnAscent(oracle, regularizer("mtl", None), 10.0, Stop(gap=0.01), 0)
    long = ascent._schedule()
    ascent.certified, ascent.bounds = True, Bounds(objective=1.013, dual=1.0, risk=0.0)
    near = ascent._schedule()
    ascent.bounds = Bounds(objective=1.1, dual=1.0, risk=0.0)
    assert long[0] == near[0] == FULL
    assert long[-1] == near[-1] == ACTIVE
    assert long.count(ACTIVE) > near.count(ACTIVE)
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


def rows_of(segments):
    """Segments [(first token, high path, low path)] as visits write them down, inside their sentences."""
    rows = np.zeros((len(segments), 4 + 2 * sequence_segments.LONG), np.int32)
    for row, (first, high, low) in zip(rows, segments, strict=True):
        row[:4] = first, len(high), 0, 0
        row[4 : 4 + 2 * len(high)] = np.stack([high, low], axis=1).ravel()
    return rows


def design(ids):
    """Rows of attributes compared slot by slot; each slot is a template."""
    tokens, slots = ids.shape
    padding = np.full(LOOKAHEAD, ids.max() + 1)
    blocks = np.arange(slots, dtype=np.int32)
    ptr = np.arange(tokens + 1, dtype=np.int64) * slots
    last = np.array([*range(slots), ids.max() + 1], np.int64)  # what belongs to which template is not asked
    return Design(
        np.append(ids, padding).astype(np.int32), ptr, blocks, np.zeros(0, np.float32), last, blocks
    )


def test_only_like_tokens_that_move_in_opposite_ways_quarrel():
    ids = np.array(
        [[0, 10, 20], [5, 15, 25], [0, 10, 20], [6, 16, 26], [0, 10, 20], [7, 17, 27], [0, 10, 27]]
    )
    one, back, other = ([1], [0]), ([0], [1]), ([2], [0])
    rows = rows_of([(0, *one), (2, *one), (4, *back), (6, *other)])
    scales = np.ones(3, np.float32)
    for salt in (1, 1 << 40, 12345678901234567):
        pairs = opposed(rows, design(ids), scales, salt)
        assert pairs.tolist() == [[0, 2]] or pairs.tolist() == [[2, 0]]
    assert len(opposed(rows[:2], design(ids), scales, 1)) == 0
    near = rows_of([(0, *one), (1, *back)])  # like tokens with an edge in common
    assert len(opposed(near, design(ids[[0, 2, 4]]), scales, 1)) == 0


def test_tokens_are_found_as_often_as_they_are_alike():
    """The chance is a power of the mu they share over all of mu."""
    ids = np.array([[0, 10, 20, 30], [1, 11, 21, 31], [0, 10, 20, 39]])
    rows = rows_of([(0, [1], [0]), (2, [0], [1])])
    scales = np.array([0.5, 0.2, 0.2, 0.1], np.float32)
    salts = np.random.default_rng(0).integers(1 << 62, size=2000).tolist()
    found = np.mean([len(opposed(rows, design(ids), scales, salt)) for salt in salts])
    assert found == pytest.approx(0.9**LOTS, abs=0.04)
    unlike = np.array([0.1, 0.2, 0.1, 0.6], np.float32)  # what they share is less than half
    assert not any(len(opposed(rows, design(ids), unlike, salt)) for salt in salts[:100])
