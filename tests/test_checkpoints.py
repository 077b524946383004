"""A run that is ended at any safe place and taken up again from its file comes to the same bits."""

from __future__ import annotations

import os

import numpy as np
import pytest
from naive import random_corpus, random_items, tree_oracle
from oracles import TEMPLATES
from test_cached_dual import PlainSequence

from mtlstruct._system import archive
from mtlstruct._system.stateful import Kept
from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError
from mtlstruct.features.index import encode_training
from mtlstruct.objective.losses import Free, Hamming
from mtlstruct.objective.oracle import Oracle
from mtlstruct.objective.regularizers import L1, L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import (
    LBFGS,
    LEARNERS,
    OWLQN,
    Coordinate,
    CuttingPlane,
    Mira,
    Proximal,
    Reweighted,
    Start,
    Stop,
)
from mtlstruct.structures import MulticlassStructure, SequenceStructure, TreeStructure
from mtlstruct.templates import TemplateSet
from mtlstruct.training import checkpoints
from mtlstruct.training.checkpoints import Checkpoint

FACTS = {"mtlstruct": "1", "data": "d", "options": {"c": 1.0}}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def sequences(structure=SequenceStructure, loss=Hamming):
    def make():
        data = random_corpus(np.random.default_rng(3), 30, 7, 8)
        made = structure(len(data.labels))
        encoded, _ = encode_training(data, TemplateSet.parse(TEMPLATES), made.sites(data.ptr))
        return Oracle(made, encoded, data.outputs, loss().table(data.labels))

    return make


def items():
    data = random_items(np.random.default_rng(3), 60)
    made = MulticlassStructure(len(data.labels))
    lines = TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,1]")
    encoded, _ = encode_training(data, lines, made.sites(data.ptr))
    return Oracle(made, encoded, data.outputs, Hamming().table(data.labels))


def trees():
    return tree_oracle(np.random.default_rng(3), TreeStructure(), sentences=20)


TIGHT = Stop(gap=1e-4, max_passes=12)
RUNS = {
    "sequences": (Coordinate(TIGHT, seed=3), BlockL1Squared(), 2.0, sequences()),
    "large c": (Coordinate(Stop(gap=1e-4, max_passes=3)), BlockL1Squared(), 50.0, sequences()),
    "svm": (Coordinate(TIGHT), L2(), 1.0, sequences()),
    "group lasso": (Coordinate(TIGHT), GroupLasso(), 1.0, sequences()),
    "items": (Coordinate(TIGHT), BlockL1Squared(), 1.0, items),
    "trees": (Coordinate(TIGHT), BlockL1Squared(), 1.0, trees),
    "cached": (Coordinate(TIGHT), BlockL1Squared(), 1.0, sequences(PlainSequence)),
    "cutting planes": (CuttingPlane(Stop(gap=1e-9, max_passes=30), patience=5), BlockL1Squared(), 1.0, sequences()),
    "line search": (CuttingPlane(TIGHT, line_search=True), PBlock(1.5), 1.0, sequences()),
    "mixed": (CuttingPlane(TIGHT), Mixed(2.0), 1.0, trees),
    "crf-l2": (LBFGS(Stop(gap=1e-7, max_passes=20)), L2(), 1.0, sequences(loss=Free)),
    "crf-l1": (OWLQN(Stop(eta=1e-7, max_passes=20)), L1(), 1.0, sequences(loss=Free)),
    "irw-crf": (Reweighted(Stop(eta=1e-3, max_passes=60), rounds=3), L2(), 1.0, sequences(loss=Free)),
    "mira": (Mira(5, seed=2), L2(), 0.1, sequences()),
    "online-mkl": (Proximal(Stop(max_passes=6), seed=1), BlockL1Squared(), 1.0, sequences()),
    "online-mkl, dense": (Proximal(Stop(max_passes=3), dense=True), BlockL1Squared(), 0.05, items),
}  # fmt: skip


class Enough(Exception):
    """Raised where a run is to end."""


class Ending(Checkpoint):
    """Ends the run at a safe place, with a checkpoint; -1: never."""

    def __init__(self, path, at, every=np.inf):
        super().__init__(path, every)
        self.at, self.places = at, 0
        self.open(FACTS)

    def leaving(self):
        self.places += 1
        return Enough() if self.places == self.at else None


def fit(name, keep=None, passes=None):
    learner, regularizer, c, make = RUNS[name]

    def watch(record):
        if passes is not None:
            passes.append(record.passes)
        return False

    return learner.fit(make(), regularizer, c, watch, checkpointer=keep)


def bits(fitted):
    numbers = [fitted.objective, fitted.dual, fitted.gap, fitted.passes, fitted.converged]
    return numbers, [array.tobytes() for array in (*fitted.weights, fitted.scale, fitted.mu)]


@pytest.mark.parametrize("name", RUNS)
def test_every_learner_goes_on_to_the_same_bits(name, tmp_path):
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


@pytest.mark.parametrize("name", ["sequences", "crf-l1"])
def test_a_run_may_be_ended_at_every_place(name, tmp_path):
    passes, ends = [], 0
    while True:
        try:
            fitted = fit(name, Ending(tmp_path / "run", 1), passes)
            break
        except Enough:
            ends += 1
    assert ends >= 10
    assert bits(fitted) == bits(fit(name))
    assert passes == list(range(1, fitted.passes + 1))


def test_every_learner_is_tried():
    assert {type(run[0]) for run in RUNS.values()} == set(LEARNERS.values())


def test_a_start_is_behind_it(tmp_path):
    oracle = sequences()()
    first = Coordinate(Stop(max_passes=2)).fit(oracle, L2(), 1.0)
    path = tmp_path / "run"
    learner = Mira(4)

    def run(keep):
        start = Start([np.ascontiguousarray(w * -1.0, w.dtype) for w in first.weights], first.mu)
        return learner.fit(oracle, L2(), 0.1, init=start, checkpointer=keep)

    whole = run(Ending(tmp_path / "whole", -1))
    with pytest.raises(Enough):
        run(Ending(path, 2))
    assert bits(run(Ending(path, -1))) == bits(whole)


def test_a_checkpoint_is_written_when_it_is_time(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])
    written = []
    monkeypatch.setattr(checkpoints, "write", lambda *_: written.append(clock[0]))
    keep = Checkpoint(tmp_path / "run", 60.0)
    keep.begin(Kept())
    for clock[0] in (1.0, 59.0, 61.0, 100.0, 120.0, 121.0, 300.0):
        keep.safe(Kept())
    assert written == [61.0, 121.0, 300.0]


def test_a_failure_to_write_leaves_the_last_one_and_the_run(tmp_path, monkeypatch):
    failures = []

    class Noting(Checkpoint):
        def failed(self, error):
            failures.append(str(error))

    path = tmp_path / "run"
    whole = archive.write
    turns = iter([True, False, False, True] + [False] * 1000)

    def sometimes(path_, header, arrays):
        if not next(turns):
            raise MtlError(
                f"{path_}: cannot write: No space left on device; what was there before is unchanged"
            )
        whole(path_, header, arrays)

    monkeypatch.setattr(archive, "write", sometimes)
    keep = Noting(path, 0.0)
    keep.open(FACTS)
    fitted = fit("items", keep)
    assert bits(fitted) == bits(fit("items"))
    assert len(failures) > 2
    assert "No space left" in failures[0]
    monkeypatch.undo()
    assert bits(fit("items", Ending(path, -1))) == bits(fitted)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({**FACTS, "options": {"c": 2.0}}, "c was 1.0, is 2.0"),
        ({**FACTS, "mtlstruct": "2"}, "mtlstruct was 1, is 2"),
        ({**FACTS, "data": "f" * 64}, "other data"),
        ({**FACTS, "options": {"c": 1.0, "p": 2.0}}, "p was None, is 2.0"),
    ],
)
def test_another_run_is_refused(facts, said, tmp_path):
    path = tmp_path / "run"
    checkpoints.write(path, FACTS, None, {})
    with pytest.raises(
        IncompatibleError, match=f"run: this is the checkpoint of another training: {said}; go on"
    ):
        Checkpoint(path, 60.0).open(facts)


def test_what_is_damaged_is_refused(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(Enough):
        fit("items", Ending(path, 2))
    whole = path.read_bytes()
    for damaged in (whole[:-40], whole.replace(b"<f4", b"<f9"), b"", b"PK\x03\x04 and no more"):
        path.write_bytes(damaged)
        with pytest.raises(
            ModelFileError, match="run: this checkpoint cannot be read, remove it to start anew: "
        ):
            Ending(path, -1)


def test_a_state_that_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(Enough):
        fit("items", Ending(path, 2))
    header, state = checkpoints.read(path)
    del state["N"]
    checkpoints.write(path, header["facts"], None, state)
    with pytest.raises(
        ModelFileError, match="does not hold what it should, remove it to start anew: KeyError"
    ):
        fit("items", Ending(path, -1))


def test_what_cannot_be_kept_says_so_before_the_first_pass(tmp_path):
    class Strange(Kept):
        kept = ("thing",)
        thing = object()

    with pytest.raises(IncompatibleError, match="object cannot be kept in a checkpoint"):
        Checkpoint(tmp_path / "run", 60.0).begin(Strange())


def test_values_come_back_bit_by_bit(tmp_path):
    state = {
        "floats": [np.inf, -0.0, 0.1, float("nan"), 5e-324],
        "mixed": {"none": None, "text": "ä/x", "yes": True, "large": 1 << 100, "empty": [], "nothing": {}},
        "sparse": np.where(np.arange(6000).reshape(20, 300) % 97 == 0, -0.0, 0.0),
        "dense": np.random.default_rng(0).normal(size=(3, 4, 2, 5)).astype(np.float32),
        "short": np.arange(7, dtype=np.uint16),
        "flags": np.arange(5) > 2,
        "none": np.zeros((0, 3)),
        "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    path = tmp_path / "state"
    checkpoints.write(path, FACTS, {"lines": [1, 2.5]}, state)
    header, found = checkpoints.read(path)
    assert header["notes"] == {"lines": [1, 2.5]}
    assert found["mixed"] == state["mixed"]
    assert [x.hex() for x in found["floats"]] == [x.hex() for x in state["floats"]]
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert found[name].tobytes() == value.tobytes(), name
    assert path.stat().st_size < 48_000 / 4 + 6000
