"""Checkpoints: a run that is stopped at any safe point and resumed gives the same bits."""

import os
from collections import deque
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from support.naive import random_corpus, random_items, tree_oracle
from support.oracles import make_oracle

from mtlstruct._system.stateful import Stateful
from mtlstruct.errors import IncompatibleError, ModelFileError
from mtlstruct.objective.regularizers import L2, BlockL1Squared, ElasticNet, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import (
    LBFGS,
    OWLQN,
    SOLVERS,
    Coordinate,
    CuttingPlane,
    Mira,
    Proximal,
    Reweighted,
    Stop,
)
from mtlstruct.structures import MulticlassStructure, SequenceStructure, TreeStructure
from mtlstruct.training import checkpoints
from mtlstruct.training.checkpoints import Checkpoint

FACTS = {"mtlstruct": "1", "data": "d", "options": {"c": 1.0}}


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def sequences(structure=SequenceStructure, temperature=0.0):
    def make():
        data = random_corpus(np.random.default_rng(3), 30, 7, 8)
        return replace(make_oracle(data, structure=structure), temperature=temperature)

    return make


def items():
    data = random_items(np.random.default_rng(3), 60)
    return make_oracle(data, "U0:%x[0,0]\nU1:%x[0,1]", MulticlassStructure)


def trees():
    return tree_oracle(np.random.default_rng(3), TreeStructure(), sentences=20)


TIGHT = Stop(gap=1e-4, max_passes=12)
RUNS = {
    "sequences": (Coordinate(TIGHT, seed=3), BlockL1Squared(), 2.0, sequences()),
    "large c": (Coordinate(Stop(gap=1e-4, max_passes=3)), BlockL1Squared(), 50.0, sequences()),
    "svm": (Coordinate(TIGHT), L2(), 1.0, sequences()),
    "group lasso": (Coordinate(TIGHT), GroupLasso(), 1.0, sequences()),
    "softmax-margin": (Coordinate(TIGHT), BlockL1Squared(), 5.0, sequences(temperature=1.0)),
    "items": (Coordinate(TIGHT), BlockL1Squared(), 1.0, items),
    "trees": (Coordinate(TIGHT), BlockL1Squared(), 1.0, trees),
    "cutting planes": (CuttingPlane(Stop(gap=1e-9, max_passes=30), patience=5), BlockL1Squared(), 1.0, sequences()),
    "line search": (CuttingPlane(TIGHT, line_search=True), PBlock(1.5), 1.0, sequences()),
    "mixed": (CuttingPlane(TIGHT), Mixed(2.0), 1.0, trees),
    "crf-l2": (LBFGS(Stop(gap=1e-7, max_passes=20)), L2(), 1.0, sequences()),
    "mtl, log loss": (LBFGS(Stop(gap=1e-7, max_passes=20)), BlockL1Squared(), 1.0, sequences()),
    "crf-l1": (OWLQN(Stop(eta=1e-7, max_passes=20)), ElasticNet(), 1.0, sequences()),
    "irw-crf": (Reweighted(Stop(eta=1e-3, max_passes=60), rounds=3), L2(), 1.0, sequences()),
    "mira": (Mira(5, seed=2), L2(), 0.1, sequences()),
    "online-mkl": (Proximal(Stop(max_passes=6), seed=1), BlockL1Squared(), 1.0, sequences()),
    "online-mkl, dense": (Proximal(Stop(max_passes=3), dense=True), BlockL1Squared(), 0.05, items),
}  # fmt: skip


class Enough(Exception):
    """Raised where a run must end."""


class Ending(Checkpoint):
    """Checkpoint that ends the run at safe point number `at`; -1: never."""

    def __init__(self, path, at, every=np.inf, facts=FACTS):
        super().__init__(path, every)
        self.at, self.places = at, 0
        if facts is not None:
            self.open(facts)

    def leaving(self):
        self.places += 1
        return Enough() if self.places == self.at else None


def fit(name, checkpointer=None, callback=None):
    solver, regularizer, c, make = RUNS[name]
    return solver.fit(make(), regularizer, c, callback, checkpointer=checkpointer)


def bits(fitted):
    numbers = [fitted.objective, fitted.dual, fitted.gap, fitted.passes, fitted.converged]
    return numbers, [array.tobytes() for array in (*fitted.weights, fitted.scale, fitted.mu)]


@pytest.mark.parametrize("name", RUNS)
def test_every_solver_is_resumed_to_the_same_bits(name, tmp_path):
    alone = fit(name)
    whole = Ending(tmp_path / "whole", -1, every=0.05)
    assert bits(fit(name, whole)) == bits(alone)
    last = whole.places
    assert last >= 3
    for at in {1, last // 2, last}:
        path = tmp_path / f"{at}"
        with pytest.raises(Enough):
            fit(name, Ending(path, at))
        rest = Ending(path, -1)
        assert bits(fit(name, rest)) == bits(alone)
        assert rest.places == last - at


def test_every_solver_is_tested():
    assert {type(run[0]) for run in RUNS.values()} == set(SOLVERS.values())


def test_a_checkpoint_is_written_after_each_interval(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])
    written = []
    monkeypatch.setattr(checkpoints, "write", lambda *_: written.append(clock[0]))
    checkpointer = Checkpoint(tmp_path / "run", 60.0)
    checkpointer.restore(Stateful())
    for clock[0] in (1.0, 59.0, 61.0, 100.0, 120.0, 121.0, 300.0):
        checkpointer.at_safe_point(Stateful())
    assert written == [61.0, 121.0, 300.0]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({**FACTS, "options": {"c": 2.0}}, "c was 1.0, is 2.0"),
        ({**FACTS, "mtlstruct": "2"}, "mtlstruct was 1, is 2"),
        ({**FACTS, "data": "f" * 64}, "other data"),
        ({**FACTS, "options": {"c": 1.0, "p": 2.0}}, "p was None, is 2.0"),
    ],
)
def test_the_checkpoint_of_another_run_is_rejected(facts, said, tmp_path):
    path = tmp_path / "run"
    checkpoints.write(path, FACTS, None, {})
    with pytest.raises(IncompatibleError, match=f"run: this is the checkpoint of another training: {said};"):
        Checkpoint(path, 60.0).open(facts)


def test_damaged_and_incomplete_checkpoints_are_rejected(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(Enough):
        fit("items", Ending(path, 2))
    facts, _, state = checkpoints.read(path)
    whole = path.read_bytes()
    for damaged in (whole[:-40], whole.replace(b"<f4", b"<f9"), b"", b"PK\x03\x04 and no more"):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="run: this checkpoint cannot be read, remove it to start"):
            Ending(path, -1)
    path.write_bytes(whole)
    checkpoints.write(tmp_path / "other", facts, None, {k: v for k, v in state.items() if k != "N"})
    with pytest.raises(ModelFileError, match="does not hold what it should, remove it to start anew: KeyErr"):
        fit("items", Ending(tmp_path / "other", -1))


def test_a_value_that_cannot_be_stored_is_rejected_before_the_first_pass(tmp_path):
    class Strange(Stateful):
        state_fields = ("thing",)
        thing = object()

    with pytest.raises(IncompatibleError, match="object cannot be stored in a checkpoint"):
        Checkpoint(tmp_path / "run", 60.0).restore(Strange())


class Pair(NamedTuple):
    left: np.ndarray
    right: float


class Run(Stateful):
    """A value of each kind that a state may hold."""

    state_fields = ("floats", "scalars", "nested", "pair", "arrays", "random", "inner")

    def __init__(self, seed, full):
        rng = np.random.default_rng(seed)
        self.floats = [np.inf, -0.0, 0.1, float("nan"), 5e-324] if full else []
        self.scalars = [None, "ä/x", True, 1 << 100] if full else []
        self.nested = deque([[np.arange(3, dtype=np.uint16)], []] if full else [], maxlen=4)
        self.pair = Pair(rng.normal(size=(2, 3)), float(seed))
        self.arrays = [np.arange(5) > seed, np.asfortranarray(rng.normal(size=(2, 3))), np.zeros((0, 3))]
        self.random = rng
        self.inner = Run(seed + 1, False) if full else Stateful()


def test_values_of_all_kinds_come_back_bit_by_bit(tmp_path):
    stored, found = Run(1, True), Run(2, True)
    held = found.arrays[1]
    path = tmp_path / "state"
    checkpoints.write(path, FACTS, {"lines": [1, 2.5]}, stored.state_dict())
    _, notes, state = checkpoints.read(path)
    assert notes == {"lines": [1, 2.5]}
    found.load_state_dict(state)
    assert held is found.arrays[1]
    before, after = stored.state_dict(), found.state_dict()
    assert before.keys() == after.keys() == state.keys()
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            assert (after[name].dtype, after[name].shape) == (value.dtype, value.shape)
            assert after[name].tobytes() == value.tobytes(), name
        else:
            assert repr(after[name]) == repr(value), name
    assert found.random.random() == stored.random.random()
