"""Work in processes: outcomes, faults, deaths; and values that processes share."""

import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

from mtlstruct._system import shared_arrays as mapped
from mtlstruct._system.process_pool import in_processes
from mtlstruct.errors import MtlError


def prepared(offset):
    return partial(work, offset)


def work(offset, item):
    if item == "bad":
        raise MtlError("a.txt, line 3: expected 2 columns, got 1")
    if item == "fault":
        raise KeyError("x")
    if item == "memory":
        raise MemoryError
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "exit":
        os._exit(7)
    return item + offset


def test_a_worker_that_is_interrupted_while_it_starts_does_its_work(capfd):
    def interrupt(item):
        (worker,) = mp.active_children()
        os.kill(worker.pid, signal.SIGINT)

    assert [o.result for o in in_processes(partial(prepared, 10), [1], 1, interrupt)] == [11]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_a_worker_is_started(number, monkeypatch, capfd):
    class Interrupted(Exception):
        pass

    def handle(number, frame):
        raise Interrupted

    process = mp.get_context("spawn").Process
    start = process.start
    started = []

    def interrupted(self):
        signal.raise_signal(number)
        start(self)
        started.append(self)

    monkeypatch.setattr(process, "start", interrupted)
    before = signal.signal(number, handle)
    try:
        with pytest.raises(Interrupted):
            list(in_processes(partial(prepared, 10), [1], 1))
        assert signal.getsignal(number) is handle
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(number, before)
        for worker in started:
            worker.kill()
            worker.join()
    assert len(started) == 1
    assert capfd.readouterr().err == ""


def test_outcomes_of_every_kind_and_no_item_is_lost():
    items = [1, "bad", 2, "fault", "die", 3, "memory", "exit", 4]
    begun = []
    found = {o.item: o for o in in_processes(partial(prepared, 10), items, 2, begun.append)}
    assert begun == items
    assert {item: found[item].result for item in (1, 2, 3, 4)} == {1: 11, 2: 12, 3: 13, 4: 14}
    assert all(found[item].failure is None for item in (1, 2, 3, 4))
    assert found["bad"].failure == "a.txt, line 3: expected 2 columns, got 1"
    assert found["bad"].trace == ""
    assert found["fault"].failure == "KeyError: 'x'"
    assert "in work" in found["fault"].trace
    assert found["memory"].failure == "there is not enough memory for it"
    assert found["die"].failure.startswith("its process was ended by signal 9 (Killed), perhaps for want of")
    assert found["exit"].failure == "its process ended with code 7"


def broken():
    raise MtlError("the data are gone")


def test_no_item_begins_once_told_to_stop_and_those_that_run_are_finished():
    assert list(in_processes(partial(prepared, 1), [1, 2], 2, go_on=lambda: False)) == []
    begun = []
    found = in_processes(partial(prepared, 1), [1, 2, 3], 1, begun.append, lambda: len(begun) < 2)
    assert [outcome.result for outcome in found] == [2, 3]


def test_a_worker_that_cannot_begin_says_why():
    assert [o.failure for o in in_processes(broken, [1, 2], 1)] == ["the data are gone"] * 2


def test_processes_end_when_nobody_waits_for_them():
    outcomes = in_processes(partial(prepared, 0), [1, 2, 3, 4], 2)
    next(outcomes)
    assert len(mp.active_children()) == 2
    outcomes.close()
    assert not mp.active_children()


SCRIPT = """
import sys, time
sys.path.insert(0, {folder!r})
from functools import partial
from mtlstruct._system.process_pool import in_processes
from test_processes import slow
if __name__ == "__main__":
    for outcome in in_processes(slow, [sys.argv[1]], 1):
        pass
"""


def slow():
    return write_and_wait


def write_and_wait(path):
    with open(path, "w") as out:
        out.write(str(os.getpid()))
    time.sleep(60)


def test_processes_end_with_the_one_that_started_them(tmp_path):
    (tmp_path / "s.py").write_text(SCRIPT.format(folder=os.path.dirname(__file__)))
    mark = tmp_path / "pid"
    with subprocess.Popen([sys.executable, tmp_path / "s.py", mark]) as process:
        _until(lambda: mark.exists() and mark.read_text())
        process.kill()
    worker = int(mark.read_text())
    _until(lambda: not _runs(worker))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _until(truth, seconds=60.0):
    end = time.monotonic() + seconds
    while not truth():
        assert time.monotonic() < end
        time.sleep(0.05)


# Sharing ----------------------------------------------------------------------------------------------------


def test_a_shared_value_comes_back_with_its_large_arrays_mapped(tmp_path):
    large, small = np.arange(10_000), np.arange(3)
    value = {"a": large, "again": [large, small], "text": "x", "strided": np.arange(40_000)[::2]}
    shared = mapped.share(value, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npy", "1.npy"]
    found = shared.open()
    assert found["a"] is found["again"][0]
    assert found["a"].tolist() == large.tolist()
    assert found["again"][1].tolist() == [0, 1, 2]
    assert found["strided"].tolist() == value["strided"].tolist()
    assert isinstance(found["a"].base, np.memmap)
    found["a"][0] = 99  # this process's own page
    assert shared.open()["a"][0] == 0


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    with pytest.raises(MtlError, match="cannot write: No such file or directory"):
        mapped.share(np.zeros(100_000), tmp_path / "missing")
