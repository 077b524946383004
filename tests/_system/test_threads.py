"""Threads: each item is computed once, results are in order, bits do not depend on threads."""

import os

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct._system import threads
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train


def test_the_number_of_threads_does_not_change_the_bits_of_a_training():
    data = random_corpus(np.random.default_rng(4), sentences=60, longest=9, words=12)
    templates = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]\nB")
    before, fits = threads.get_threads(), []
    for count in (2, 1):
        threads.set_threads(count)
        fits.append(train(data, templates, Options(c=1.0), lambda _: False))
    threads.set_threads(before)
    assert fits[0].fit.gap <= 0.01
    assert fits[0].fit.objective == fits[1].fit.objective
    for a, b in zip(fits[0].model.weights, fits[1].model.weights, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(threads, "_pool", None)
    assert sum(threads.in_order(abs, [-1, 2])) == 3
    child = os.fork()
    if child == 0:
        os._exit(0 if sum(threads.in_order(abs, [-1, 2])) == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_each_item_is_computed_once_and_an_error_cancels_the_rest(monkeypatch):
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


def test_nested_calls_do_not_deadlock(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(threads, "_pool", None)
    found = threads.in_order(lambda k: sum(threads.in_order(lambda j: j * k, range(10))), range(20))
    assert found == [45 * k for k in range(20)]
