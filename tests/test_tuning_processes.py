"""Trials in worker processes: results, errors, killed workers, interrupts, and the end of the parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import joblib
import pytest
from test_tuning import study, trial_result

from mtlstruct._system.worker_processes import _loky_race_hidden
from mtlstruct.errors import MtlError, ResourceError
from mtlstruct.tasks import TASKS
from mtlstruct.training.train import Options
from mtlstruct.tuning import runner as tuning
from mtlstruct.tuning.result_store import Store

GRID = study([Options(c=c) for c in (0.1, 1.0, 10.0)])


SEQUENCE = TASKS["sequence"]


class Scorer:
    """Scores sequences after a call of a function, in the process that trains."""

    def __init__(self, first):
        self.first = first

    def score(self, *arguments):
        self.first()
        return SEQUENCE.score(*arguments)

    def known_words(self, *arguments):
        return SEQUENCE.known_words(*arguments)


def run(folder, scorer=SEQUENCE, jobs=2):
    with tuning.runner(GRID, folder) as ready:
        return list(ready.run(GRID.trials, Store(folder), scorer, jobs=jobs, threads=1))


def send(number):
    os.kill(os.getpid(), number)


def fail(error):
    raise error


def wait(path):
    path.write_text(str(os.getpid()))
    time.sleep(60)


def without_times(result):
    return {name: value for name, value in result.items() if "seconds" not in name and name != "trace"}


def test_results_are_those_of_one_process_and_ctrl_c_does_not_reach_workers(tmp_path, capfd):
    found = run(tmp_path, Scorer(partial(send, signal.SIGINT)))
    assert {outcome.failure for outcome in found} == {None}
    store = Store(tmp_path)
    for trial in GRID.trials:
        assert without_times(store.load(trial.key)) == without_times(trial_result(GRID, trial))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "reason", "trace"),
    [
        (
            MtlError("a.txt, line 3: expected 2 columns, got 1"),
            "a.txt, line 3: expected 2 columns, got 1",
            "",
        ),
        (MemoryError(), "there is not enough memory for it", ""),
        (KeyError("x"), "KeyError: 'x'", "in fail"),
    ],
)
def test_a_trial_that_fails_is_an_outcome_with_its_reason(tmp_path, error, reason, trace):
    found = run(tmp_path, Scorer(partial(fail, error)), jobs=1)
    assert [outcome.failure for outcome in found] == [reason] * 3
    assert all(trace in outcome.trace and bool(outcome.trace) == bool(trace) for outcome in found)
    assert list(Store(tmp_path)) == []


def test_a_killed_worker_ends_the_run_with_a_sentence(tmp_path, capfd):
    with pytest.raises(ResourceError, match="a training process was killed, perhaps for want of memory"):
        run(tmp_path, Scorer(partial(send, signal.SIGKILL)))
    assert "Traceback" not in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_the_error_of_a_stopped_manager_thread_is_hidden_and_no_other(monkeypatch):
    seen = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: seen.append(arguments.thread.name))

    def fail():
        raise KeyError(1)

    with _loky_race_hidden():
        for name in ("ExecutorManagerThread", "another"):
            thread = threading.Thread(target=fail, name=name)
            thread.start()
            thread.join()
    assert seen == ["another"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_workers_are_started(tmp_path, number, monkeypatch, capfd):
    class Interrupted(Exception):
        pass

    def handle(number, frame):
        raise Interrupted

    call, started = joblib.Parallel.__call__, []

    def interrupted_call(self, tasks):
        signal.raise_signal(number)
        started.append(call(self, tasks))
        return started[0]

    monkeypatch.setattr(joblib.Parallel, "__call__", interrupted_call)
    before = signal.signal(number, handle)
    try:
        with pytest.raises(Interrupted):
            run(tmp_path)
        assert signal.getsignal(number) is handle
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(number, before)
    assert len(started) == 1
    assert capfd.readouterr().err == ""


def test_no_trial_begins_once_told_to_stop(tmp_path):
    answers = iter([True, True, False])
    with tuning.runner(GRID, tmp_path) as ready:
        found = ready.run(
            GRID.trials, Store(tmp_path), SEQUENCE, jobs=1, threads=1, go_on=lambda: next(answers)
        )
        assert [outcome.trial.options.c for outcome in found] == [10.0, 1.0]


SCRIPT = """
import sys
from functools import partial
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_tuning_processes import Scorer, run, wait
run(Path(sys.argv[1]), Scorer(partial(wait, Path(sys.argv[1]) / "pid")))
"""


def test_workers_end_with_the_process_that_started_them(tmp_path):
    script = SCRIPT.format(tests=os.path.dirname(__file__))
    mark = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stderr=subprocess.PIPE) as process:
        _until(lambda: mark.exists() and mark.read_text())
        process.kill()
        process.stderr.read()  # ends with the last worker


def _until(truth, seconds=60.0):
    end = time.monotonic() + seconds
    while not truth():
        assert time.monotonic() < end
        time.sleep(0.05)
