"""`train --checkpoint DIR --resume`: interrupts, kills and full disks cost no more than the time since the last."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.commands import OLDER_MODEL, TEMPLATES, TRAIN, sigint_ignored

from mtlstruct.model.model import Model
from mtlstruct.training.run_log import LABEL_PASS, PASS, RunLog

CALL = ("train", "a.tpl", "train.txt", "n.mtl", "--gap", "1e-9", "--max-iter", 9)
KEPT = (*CALL, "--checkpoint", "state", "--checkpoint-every", 0)


@pytest.fixture
def place(place, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # nobody waits for the disk
    return place


@pytest.fixture
def at_pass(monkeypatch):
    """Has something done in the course of a pass of the next training."""

    def later(number, act):
        add = RunLog.add

        def patched(self, event, values):
            add(self, event, values)
            if event == PASS and values["passes"] == number:
                act()

        monkeypatch.setattr(RunLog, "add", patched)

    return later


def passes(log):
    """The records of passes, without what time they were."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [line for line in lines if line["event"] in ("pass", "label-pass")]
    return [{k: v for k, v in line.items() if "seconds" not in k and k != "peak_rss_mb"} for line in kept]


@pytest.mark.parametrize(("number", "code", "word"), [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"),
])  # fmt: skip
def test_a_signal_ends_a_run_with_a_checkpoint(run, place, at_pass, monkeypatch, number, code, word):
    run(*CALL, "-q").ok()
    whole, log = Path("n.mtl").read_bytes(), passes(Path("n.mtl.log.jsonl"))
    Path("n.mtl").write_bytes(OLDER_MODEL)
    with monkeypatch.context():
        at_pass(4, lambda: signal.raise_signal(number))
        got = run(*CALL, "--checkpoint", "state")
    last = got.err.splitlines()[-1]
    assert (got.code, got.out) == (code, "")
    assert last == f"mtlstruct: {word}; existing files are unchanged, --resume continues from state"
    assert Path("n.mtl").read_bytes() == OLDER_MODEL
    monkeypatch.undo()
    os.chdir(place)
    got = run(*CALL, "--checkpoint", "state", "--resume").ok()
    assert "resuming from state/training.checkpoint, after pass 4\n" in got.err
    assert "pass 5  " in got.err
    assert "pass 4  " not in got.err
    assert Path("n.mtl").read_bytes() == whole
    assert passes(Path("n.mtl.log.jsonl")) == log
    assert not list(Path("state").glob("*.checkpoint"))
    events = [json.loads(line) for line in Path("n.mtl.log.jsonl").read_text().splitlines()]
    (resumed,) = [event for event in events if event["event"] == "resumed"]
    assert resumed["passes"] == 4
    assert [event["seconds"] for event in events if "seconds" in event] == sorted(
        event["seconds"] for event in events if "seconds" in event
    )


def test_a_second_signal_ends_it_at_once(run, place, at_pass):
    def twice():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    at_pass(2, twice)
    got = run(*CALL, "--checkpoint", "state")
    assert got.code == 130
    assert got.err.splitlines()[-1] == "mtlstruct: interrupted; existing files are unchanged"
    assert not list(Path("state").glob("*.checkpoint"))
    assert not Path("n.mtl").exists()


@pytest.mark.parametrize("where", ["encode", "build_model"])
def test_a_signal_outside_learning_does_not_wait(run, place, monkeypatch, where):
    from mtlstruct.training import train

    usual = getattr(train, where)

    def noisy(*arguments):
        signal.raise_signal(signal.SIGINT)
        return usual(*arguments)

    monkeypatch.setattr(train, where, noisy)
    before = signal.getsignal(signal.SIGINT)
    got = run(*KEPT, "-q")
    assert got.code == 130
    assert not Path("n.mtl").exists()
    assert bool(list(Path("state").glob("*.checkpoint"))) == (where == "build_model")
    assert signal.getsignal(signal.SIGINT) is before


def interrupt():
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def test_a_run_that_was_started_with_sigint_ignored_goes_on(run, place, at_pass):
    at_pass(2, interrupt)
    with sigint_ignored():
        got = run(*KEPT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert got.code == 0, got.err
    assert "stopping after" not in got.err
    assert Path("n.mtl").exists()


def test_resume_rejects_other_data_templates_and_options(run, place, at_pass):
    at_pass(2, interrupt)
    assert run(*KEPT, "-q").code == 130
    kept = Path("state/training.checkpoint").read_bytes()
    where = "mtlstruct: state/training.checkpoint: this is the checkpoint of another training: "
    for change, said in ((("-c", 2), "c was 20.0, is 2.0"), (("--seed", 1), "seed was 0, is 1")):
        got = run(*KEPT, "-q", "--resume", *change)
        assert (got.code, got.err.startswith(f"{where}{said}; go on")) == (2, True)
    (place / "train.txt").write_text(TRAIN.replace("Quito", "Cali"))
    assert run(*KEPT, "-q", "--resume").err.startswith(f"{where}other data; go on")
    (place / "train.txt").write_text(TRAIN)
    (place / "a.tpl").write_text("U9:%x[2,0]\n" + TEMPLATES)
    assert run(*KEPT, "-q", "--resume").err.startswith(f"{where}other templates; go on")
    (place / "a.tpl").write_text(TEMPLATES)
    got = run(*KEPT, "-q")
    assert got.code == 2
    assert got.err == (
        "mtlstruct: state: has the checkpoint of a training that has not ended: continue it with --resume, "
        "or remove it to start over\n"
    )
    assert Path("state/training.checkpoint").read_bytes() == kept


def test_trees_and_their_labels_are_kept(run, place, monkeypatch):
    call = ("train arcs.tpl trees.conll", *KEPT[3:], "--task", "dependency", "--labels")
    run(*call, "-q").ok()
    whole, log = Path("n.mtl").read_bytes(), passes(Path("n.mtl.log.jsonl"))
    add = RunLog.add

    def noisy(self, event, values):
        add(self, event, values)
        if event == LABEL_PASS:
            interrupt()

    monkeypatch.setattr(RunLog, "add", noisy)
    assert run(*call, "-q").code == 130
    monkeypatch.undo()
    os.chdir(place)
    got = run(*call, "--resume")
    assert "resuming from state/labels.checkpoint, after pass 1\n" in got.err
    assert Path("n.mtl").read_bytes() == whole
    assert passes(Path("n.mtl.log.jsonl")) == log


def test_a_full_disk_does_not_end_the_training(run, place, monkeypatch):
    run(*CALL, "-q").ok()
    whole = Path("n.mtl").read_bytes()
    sync, count = os.fsync, iter(range(1000))

    def full(handle):
        if "checkpoint" in os.readlink(f"/proc/self/fd/{handle}") and next(count) not in (2, 3):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with monkeypatch.context() as stopped:
        stopped.setattr(Model, "save", lambda *_: interrupt())
        got = run(*KEPT, "-q")
    assert got.code == 130
    assert got.err.splitlines()[0] == (
        "mtlstruct: state/training.checkpoint: cannot write: No space left on device; what was there before is "
        "unchanged; training continues and will try again"
    )
    assert [path.name for path in sorted(Path("state").iterdir())] == [".lock", "training.checkpoint"]
    got = run(*KEPT, "-q", "--resume").ok()
    assert Path("n.mtl").read_bytes() == whole


KILLS = """
import os, random, signal, sys, time
from pathlib import Path
from mtlstruct import cli

os.fsync = lambda handle: time.sleep(0.003)  # so that many kills come while a checkpoint is written
call = ["train", "a.tpl", "big.txt", "n.mtl", "--gap", "1e-12", "--max-iter", "20", "--threads", "1", "--no-log"]
kept = [*call, "--checkpoint", "state", "--checkpoint-every", "0", "--resume"]
began = time.perf_counter()
assert cli.run([*call, "-q"]) == 0  # now all kernels are there
whole = Path("n.mtl").read_bytes()
older = whole[:100]
began = time.perf_counter()
assert cli.run([*kept, "-q"]) == 0
long = time.perf_counter() - began

def child():
    handle = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 2)
    os._exit(cli.run(kept))

def number(line):
    return int(line.split("pass ")[1].split()[0])

random.seed(int(sys.argv[1]))
kills, at, lost = 0, 0, []
while True:
    Path("n.mtl").write_bytes(older) if at == 0 else None
    pid = os.fork()
    if pid == 0:
        child()
    if kills < 20:
        time.sleep(random.uniform(0, long))
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    lines = Path("said").read_text().splitlines()
    after = [number(line) for line in lines if line.startswith("resuming")]
    if after:
        lost.append(at - after[0])
    at = max([at, *(number(line) for line in lines if line.startswith("pass "))])
    if os.WIFSIGNALED(status):
        kills += 1
        assert Path("n.mtl").read_bytes() in (older, whole)  # whole if all was done but to end
        at *= Path("n.mtl").read_bytes() == older  # the next one starts anew after a whole one
        continue
    assert os.WEXITSTATUS(status) == 0, lines
    assert Path("n.mtl").read_bytes() == whole, "other bits"
    at = 0
    if kills >= 20:
        break
assert not list(Path("state").glob("*.checkpoint")) and not list(Path("state").glob(".*.part"))
print(kills, len(lost), max(lost))
"""


@pytest.mark.process
def test_twenty_kills_lose_no_more_than_a_pass(place):
    """A program that has all kernels loaded forks the trainings, so that a kill costs no start."""
    random = np.random.default_rng(0)
    words = random.integers(0, 30, 1500)
    labels = (words + (random.random(1500) < 0.2)) % 3
    lines = [
        f"w{w} p{w % 5} L{y}\n" + "\n" * (w % 6 == 0)
        for w, y in zip(words.tolist(), labels.tolist(), strict=True)
    ]
    Path("big.txt").write_text("".join(lines))
    line = [sys.executable, "-c", KILLS, "7"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, timeout=300, check=False, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    kills, resumed, lost = map(int, done.stdout.split()[-3:])
    assert kills == 20
    assert resumed >= 3
    assert lost <= 1
