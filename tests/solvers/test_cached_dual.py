"""The dual state that serves every structure: the same optimum as a structure's own, and its books in order."""

import numpy as np
import pytest
from support.duals import (
    check_certificate,
    check_same_optimum,
    keep_books,
    make_oracle,
    on_threads,
    silent,
    with_ragged_rows,
)  # fmt: skip
from support.naive import random_corpus, random_items

from mtlstruct.objective.losses import WeightedHamming
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import Coordinate, Stop
from mtlstruct.solvers.coordinate_ascent.cached_dual import CachedDual
from mtlstruct.solvers.coordinate_ascent.duals import DUAL_STATES, dual_state
from mtlstruct.structures import MulticlassStructure, SequenceStructure

TEMPLATES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB\nB1:%x[0,1]"
ITEMS = "U0:%x[0,0]\nU1:%x[0,1]"
NORMS = [BlockL1Squared(), L2(), PBlock(1.5), Mixed(2.0), GroupLasso()]


class PlainSequence(SequenceStructure):
    """Sequences without a dual state of their own."""


class PlainItems(MulticlassStructure):
    """Items without one."""


DUAL_STATES[PlainSequence] = DUAL_STATES[PlainItems] = CachedDual


def plain_oracle(data):
    return make_oracle(data, TEMPLATES, PlainSequence)


def test_it_is_taken_where_a_structure_has_none():
    oracle = plain_oracle(random_corpus(np.random.default_rng(0)))
    assert isinstance(dual_state(oracle, oracle.zeros(), np.zeros(oracle.templates)), CachedDual)


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_visits_raise_the_dual_and_keep_the_books(c):
    keep_books(plain_oracle(random_corpus(np.random.default_rng(1), 40)), c, passes=9)


@pytest.mark.jitless
@pytest.mark.parametrize("real", [False, True])
def test_ragged_and_real_valued_rows(real):
    keep_books(with_ragged_rows(plain_oracle(random_corpus(np.random.default_rng(2), 20)), real), 1.0)


@pytest.mark.parametrize("regularizer", NORMS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("c", [0.05, 1.0])
def test_the_certified_objective_is_the_true_one(regularizer, c):
    oracle = plain_oracle(random_corpus(np.random.default_rng(3), 10, 4, 5))
    fit = Coordinate(Stop(gap=2e-3)).fit(oracle, regularizer, c, silent)
    check_certificate(fit, oracle, regularizer, c)


@pytest.mark.parametrize("regularizer", NORMS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize(
    ("own", "plain", "data", "templates"),
    [
        (SequenceStructure, PlainSequence, random_corpus(np.random.default_rng(4), 30, 7, 9), TEMPLATES),
        (MulticlassStructure, PlainItems, random_items(np.random.default_rng(5), 50), ITEMS),
    ],
    ids=["sequence", "multiclass"],
)
def test_it_meets_the_structures_own_dual(own, plain, data, templates, regularizer):
    loss = WeightedHamming((("L0", 3.0), ("L1", 0.25)))
    fits = [
        Coordinate(Stop(gap=2e-3)).fit(make_oracle(data, templates, s, loss), regularizer, 1.0, silent)
        for s in (own, plain)
    ]
    assert all(fit.converged for fit in fits)
    check_same_optimum(fits)


def test_outputs_that_lost_their_mass_are_forgotten():
    oracle = plain_oracle(random_corpus(np.random.default_rng(6), 30, 8, 6))
    state = dual_state(oracle, oracle.zeros(), np.zeros(oracle.templates))
    rng = np.random.default_rng(7)
    for _ in range(20):
        mu = rng.dirichlet(np.ones(oracle.templates))
        state.update(state.spans(rng.permutation(oracle.sentences), 0), mu, 1.0, 5, 1e-6)
    for outputs, mass in zip(state.outputs, state.mass, strict=True):
        assert mass.sum() == pytest.approx(1)
        assert len(outputs) == len(mass)
        assert np.all(mass[1:] > 0)
    assert not any(table.any() for table in state.room)


def test_the_same_bits_on_any_number_of_threads():
    data = random_corpus(np.random.default_rng(8), 60, 8, 9)
    solver = Coordinate(Stop(gap=0.01))
    one, three = on_threads((1, 3), lambda: solver.fit(plain_oracle(data), BlockL1Squared(), 1.0, silent))
    assert one.objective == three.objective
    assert np.array_equal(one.mu, three.mu)
    assert all(np.array_equal(a, b) for a, b in zip(one.weights, three.weights, strict=True))
