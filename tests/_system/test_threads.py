"""Threads: each item is computed once, results are in order, bits do not depend on threads."""

import os
import threading

import pytest

from mtlstruct._system import threads


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


def test_helpers_are_optional_and_the_first_thread_is_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "interpreting", lambda: False)
    called = {}

    def work(rank):
        called[rank] = threading.get_ident()
        return rank

    monkeypatch.setattr(threads, "_threads", 2)
    monkeypatch.setattr(threads, "_pool", None)
    assert threads.with_helpers(work, 2) == 0
    assert called[0] == threading.get_ident()
    # on a thread of the pool there are no helpers: they would wait for one another
    assert threads.in_order(lambda _: threads.with_helpers(work, 2), [0, 1]) == [0, 0]
    with pytest.raises(ZeroDivisionError):
        threads.with_helpers(lambda rank: 1 // rank, 2)
    monkeypatch.setattr(threads, "_threads", 1)
    called.clear()
    assert threads.with_helpers(work, 4) == 0
    assert set(called) == {0}
