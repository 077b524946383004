"""Ray: the bits of threads, also where workers are killed, hang or run full, or where the driver is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.commands import TRAIN
from support.naive import corpus, pieces_of, random_corpus

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="the package ray is not installed: pip install 'mtlstruct[ray]'")

from mtlstruct.distributed.pool import Pool  # noqa: E402
from mtlstruct.distributed.ray_pool import RayPool  # noqa: E402
from mtlstruct.distributed.shard import Shard  # noqa: E402
from mtlstruct.distributed.train import train_local_shards, train_shards  # noqa: E402
from mtlstruct.errors import ResourceError  # noqa: E402
from mtlstruct.formats import columns, partition  # noqa: E402
from mtlstruct.templates import TemplateSet  # noqa: E402
from mtlstruct.training.train import Options  # noqa: E402

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB\n"
TEMPLATES = TemplateSet.parse(LINES)
STORE = 80_000_000


@pytest.fixture(scope="module")
def data():
    return random_corpus(np.random.default_rng(5), sentences=60)


@pytest.fixture
def pool_of():
    """Starts pools whose workers have a piece of the data each."""
    pools = []

    def start(data, count, **settings):
        for pool in pools:
            pool.close()
        readers = [lambda piece=piece: piece for piece in pieces_of(data, count)]
        pools[:] = [RayPool(readers, store=STORE, **settings)]
        return pools[0]

    yield start
    for pool in pools:
        pool.close()


def bits(training):
    """Of the model: a fit on one machine has weights that attributes share."""
    fit, model = training.fit, training.model
    numbers = [fit.objective, fit.dual, fit.gap, fit.passes, fit.converged]
    return numbers, [array.tobytes() for array in (*model.weights, fit.mu)]


class Mishap:
    """Sends a signal to a worker that is at work on the first call after pass 1."""

    def __init__(self, pool, number, kind):
        self.pool, self.number, self.kind = pool, number, kind
        self.wait = pool._wait_for

    def __call__(self, record):
        if record.passes == 1:
            self.pool._wait_for = self._strike
        return False

    def _strike(self, calls):
        self.pool._wait_for = self.wait
        os.kill(self.pool.places[self.number][1], self.kind)
        return self.wait(calls)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_that_die_or_hang_do_not_change_the_bits(data, pool_of, count):
    options = Options(shards=count, c=0.5, gap=0.003)
    alone = bits(train_local_shards(data, TEMPLATES, options))
    last = count - 1
    back = f"worker {last} was lost; it was restarted and has its sentences again"
    hung = f"worker {last} has not answered for 15 s and was ended"
    for kind, limit, events in (
        (signal.SIGKILL, 600.0, [back]),
        (signal.SIGSTOP, 15.0, [hung, back]),
    ):
        said = []
        pool = pool_of(data, count, listeners=[said.append])
        pool.time_limit = limit
        training = train_shards(pool, TEMPLATES, options, Mishap(pool, last, kind))
        assert training.fit.gap <= 0.003
        assert bits(training) == alone
        assert said == events


@pytest.mark.parametrize(("method", "solver"), [("mtl", "cutting-plane"), ("crf-l2", None)])
def test_all_solvers_continue_after_a_worker_was_lost(data, pool_of, method, solver):
    said = []
    pool = pool_of(data, 2, listeners=[said.append])
    options = Options(method=method, solver=solver, shards=2, c=0.3)
    training = train_shards(pool, TEMPLATES, options, Mishap(pool, 0, signal.SIGKILL))
    assert bits(training) == bits(train_local_shards(data, TEMPLATES, options))
    assert len(said) == 1


def test_too_many_restarts_end_training(data, pool_of, monkeypatch):
    monkeypatch.setattr("mtlstruct.distributed.ray_pool.MAX_RESTARTS", 0)
    pool = pool_of(data, 2)
    with pytest.raises(
        ResourceError, match=r"a worker was lost and cannot be restarted \(at most 0 times\): "
    ):
        train_shards(pool, TEMPLATES, Options(shards=2), Mishap(pool, 1, signal.SIGKILL))
    pool = pool_of(data, 2)
    pool.time_limit = 15.0
    with pytest.raises(ResourceError, match=r"worker \d has not answered 1 times in a row"):
        train_shards(pool, TEMPLATES, Options(shards=2), Mishap(pool, 1, signal.SIGSTOP))


def test_an_object_store_that_is_too_small_is_reported(pool_of):
    words = [[(f"w{k}", f"p{k}")] * 2 for k in range(20_000)]
    large = corpus(words, [[f"L{k % 64}"] * 2 for k in range(len(words))])
    with pytest.raises(
        ResourceError, match=r"training needs about 0\.\d+ GB of Ray's object store, which has 0\.08"
    ):
        train_shards(pool_of(large, 1), TEMPLATES, Options())


@pytest.fixture
def files(tmp_path):
    """Templates, and data of some hundred sentences in two files of a folder."""
    (tmp_path / "ner.tpl").write_text(LINES)
    (tmp_path / "data").mkdir()
    sentences = TRAIN.strip().split("\n\n") * 40
    for name, some in (("a", sentences[:90]), ("b", sentences[90:])):
        (tmp_path / "data" / name).write_text("\n\n".join(some) + "\n")
    return tmp_path


def test_a_killed_driver_is_resumed_from_its_checkpoint(files):
    arguments = ["train", "ner.tpl", "data", "there.mtl", "--shards", "2", "-c", "3", "--gap", "1e-4"]
    ray_too = [*arguments, "--engine", "ray", "--checkpoint", "state", "--checkpoint-every", "0"]
    command = [sys.executable, "-m", "mtlstruct", *ray_too]
    first = subprocess.Popen(command, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    state, deadline = files / "state" / "training.checkpoint", time.monotonic() + 120
    while not state.exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.kill()
    said = first.communicate()[0].decode()
    assert state.exists(), said
    assert not (files / "there.mtl").exists()
    done = subprocess.run([*command, "--resume"], cwd=files, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "resuming from state/training.checkpoint" in done.stderr
    assert '"event": "resumed"' in (files / "there.mtl.log.jsonl").read_text()
    parts = partition.split(partition.files_of(files / "data"), 2, at_blank_lines=True)
    pool = Pool([Shard(k, lambda p=part: partition.read(p, columns.read)) for k, part in enumerate(parts)])
    options = Options(shards=2, c=3.0, gap=1e-4)
    train_shards(pool, TEMPLATES, options).model.save(files / "here.mtl")
    assert (files / "there.mtl").read_bytes() == (files / "here.mtl").read_bytes()


def test_one_ray_worker_saves_the_model_of_none(files, run, monkeypatch):
    monkeypatch.chdir(files)
    call = ["--solver", "cutting-plane", "--line-search", "-q"]
    assert run("train", "ner.tpl", "data", "here.mtl", *call).code == 0
    assert run("train", "ner.tpl", "data", "there.mtl", *call, "--engine", "ray").code == 0
    assert Path("here.mtl").read_bytes() == Path("there.mtl").read_bytes()


def test_errors_in_the_data_of_a_worker_are_one_message(files, run, monkeypatch):
    monkeypatch.chdir(files)
    with Path("data/b").open("a") as file:
        file.write("\nnow four cells here\n")
    here, there = (
        run("train", "ner.tpl", "data", "m.mtl", "-q", *some) for some in ([], ["--engine", "ray"])
    )
    assert (here.code, there.code) == (2, 2)
    assert there.err == here.err.replace(" data/b", f" {files / 'data/b'}")


def test_encoded_sentences_are_sent_where_workers_do_not_read(files, run, monkeypatch):
    monkeypatch.chdir(files)
    call = ["train", "ner.tpl", "data", "here.mtl", "--label-support", "seen", "--shards", "2", "-q"]
    assert run(*call).code == 0
    call[3] = "there.mtl"
    assert run(*call, "--engine", "ray").code == 0
    assert Path("here.mtl").read_bytes() == Path("there.mtl").read_bytes()
