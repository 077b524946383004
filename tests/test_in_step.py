"""Two threads that share a pass, gathering for the next span beside the steps of this one: the bits of one thread."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import numpy as np
import pytest
from duals import from_python, keep_books
from naive import random_corpus

from mtlstruct._numba.decorators import COMPILED
from mtlstruct._system import threads
from mtlstruct.features.index import encode_training
from mtlstruct.objective.losses import Hamming, tabulate
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers.coordinate_ascent.sequence import block_update as sequence_visit
from mtlstruct.solvers.coordinate_ascent.sequence import gather as sequence_gather
from mtlstruct.solvers.coordinate_ascent.sequence import scatter as sequence_adding
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

LINES = [f"U{k}{j}:%x[{j},{k}]" for k in (0, 1) for j in range(-3, 4)]
PAIRS = [f"P{j}{k}:%x[{j},0]/%x[{k},0]" for j in range(-3, 4) for k in range(j + 1, 4)]
TEMPLATES = TemplateSet.parse("\n".join([*LINES, *[f"U{line}" for line in PAIRS], "UX:%x[0,0]/%x[0,1]", "B"]))


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(threads, "OWN", 0.0)  # a pair, however many tests run beside this one
    monkeypatch.setattr(threads, "_alone", 0)
    before = threads.get_threads()
    yield threads.set_threads(2)
    threads.set_threads(before)


def setting(seed, sentences=60):
    data = random_corpus(np.random.default_rng(seed), sentences=sentences, longest=9, words=12)
    structure = SequenceStructure(len(data.labels))
    encoded, _ = encode_training(data, TEMPLATES, structure.sites(data.ptr))
    cost = tabulate(Hamming(), data.labels)
    return data, Oracle(structure, encoded, data.outputs, cost).folded(spare=True)


def visited(oracle, c=1.0, passes=4):
    """Everything that some passes leave behind."""
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    state = oracle.dual(V, N)
    mu = np.full(oracle.templates, 1 / oracle.templates)
    gaps = []
    for k in range(passes):
        spans = state.active() if k % 2 else state.spans(np.arange(oracle.sentences), k)
        gaps.append(state.visit(spans, mu, c, 5, 1e-5).gaps)
    return [*V, N, state.flow.dense(oracle.structure.labels), *gaps]


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(sequence_visit, "MANY", 1)


def test_two_threads_leave_the_bits_of_one(always, two, monkeypatch):
    _, oracle = setting(1)
    together = visited(oracle)
    roles = []
    in_step = threads.in_step
    monkeypatch.setattr(threads, "_threads", 1)
    monkeypatch.setattr(threads, "in_step", lambda work: roles.append(work) or in_step(work))
    alone = visited(oracle)
    assert roles
    for a, b in zip(together, alone, strict=True):
        assert np.array_equal(a, b)


def test_what_was_gathered_too_early_is_made_up_for():
    """The scores of one span, before and after another has changed V."""
    _, oracle = setting(2)
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    state = oracle.dual(V, N)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    spans = state.spans(np.arange(oracle.sentences), 0)
    state.visit(spans, mu, 1.0, 5, 1e-5)
    node, labels = oracle.encoded.designs[0], oracle.structure.labels
    rows = (node.ids, node.ptr, node.ragged)
    scales = node.scales(mu)
    slots = len(scales)
    kernels = sequence_gather.gather, sequence_adding.commit, sequence_gather.catch_up
    gather, commit, catch_up = map(from_python, kernels)

    def gathered(start, n):
        em = np.zeros((n, V[0].shape[1]), np.float32)
        far = np.ones(slots, bool)
        gather(start, n, *rows, None, scales, far, V[0], None, None, oracle.gold, oracle.cost, em)
        return em

    (before, end, _), (start, stop, _) = spans[:2].tolist()
    early = gathered(start, stop - start)
    delta = np.zeros((end - before, V[0].shape[1]), np.float32)
    delta[:, :labels] = np.random.default_rng(3).normal(size=(end - before, labels))
    delta[0] = 0
    commit(before, end - before, delta, *rows, node.blocks, None, V[0], node.null, node.own, None, None, N)
    late = gathered(start, stop - start)
    assert np.abs(late - early).max() > 0.01
    room = np.zeros(slots, np.float32)
    catch_up(start, stop - start, before, delta, node.ids, slots, scales, node.null, room, early)
    np.testing.assert_allclose(early, late, atol=1e-5)
    np.testing.assert_allclose(N[:-1], oracle.squared_norms(V)[:-1], rtol=1e-4)


@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_books_are_kept(always, two, c):
    _, oracle = setting(3)
    keep_books(oracle, c)


def test_a_training_is_the_same_to_the_bit(always, two):
    data, _ = setting(4)
    models = []
    for count in (2, 1):
        threads.set_threads(count)
        models.append(train(data, TEMPLATES, Options(c=1.0), lambda _: False))
    assert models[0].fit.gap <= 0.01
    assert models[0].fit.objective == models[1].fit.objective
    for a, b in zip(models[0].model.weights, models[1].model.weights, strict=True):
        assert np.array_equal(a, b)


def test_who_is_not_the_main_thread_works_alone(two):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(threads.in_step, lambda role, meeting: role).result() == threads.BOTH


def test_nobody_waits_for_a_thread_that_has_failed(two):
    met = threading.Event()

    def work(role, meeting):
        if role == threads.FIRST:
            raise ValueError("no memory")
        while meeting[8] < 1:
            pass
        met.set()

    with pytest.raises(ValueError, match="no memory"):
        threads.in_step(work)
    assert met.is_set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_copy_has_threads_of_its_own(two):
    def work(role, meeting):
        return role

    assert threads.in_step(work) == threads.FIRST
    child = os.fork()
    if child == 0:
        os._exit(
            0 if threads.in_step(work) == threads.FIRST and sum(threads.in_order(abs, [-1, 2])) == 3 else 1
        )
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_items_are_done_once_each_and_a_fault_ends_the_rest(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 3)
    monkeypatch.setattr(threads, "_pool", None)
    done = []
    assert threads.in_order(lambda k: done.append(k) or 2 * k, range(100)) == list(range(0, 200, 2))
    assert sorted(done) == list(range(100))

    def faulty(k):
        if k == 5:
            raise ValueError("five")
        done.append(k)

    done.clear()
    with pytest.raises(ValueError, match="five"):
        threads.in_order(faulty, range(100_000))
    assert len(done) < 100_000


def test_work_within_work_does_not_lock_up(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(threads, "_pool", None)
    found = threads.in_order(lambda k: sum(threads.in_order(lambda j: j * k, range(10))), range(20))
    assert found == [45 * k for k in range(20)]


@pytest.mark.skipif(not COMPILED, reason="plain Python is never in step")
def test_a_crowd_is_left_alone_for_longer_and_longer(monkeypatch):
    """Where the cores are not ours one thread does the work, and a pair is tried again now and then."""
    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(threads, "_alone", 0)
    monkeypatch.setattr(threads, "_while", 1)
    roles = []

    def work(role, meeting):
        if role != threads.SECOND:
            roles.append(role)
            sleep(0.01)  # a thread that sleeps does not have its core

    for _ in range(16):
        threads.in_step(work)
    pairs = [k for k, role in enumerate(roles) if role == threads.FIRST]
    assert pairs == [0, 3, 8]
