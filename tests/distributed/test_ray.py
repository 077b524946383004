"""Ray: the bits of threads, also where workers are killed, hang or run full, or where the driver is killed."""

import itertools
import json
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
from mtlstruct.errors import MtlError, ResourceError  # noqa: E402
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
        pieces = enumerate(pieces_of(data, count))
        makers = [lambda k=k, piece=piece: Shard(k, lambda: piece) for k, piece in pieces]
        pools[:] = [RayPool(makers, store=STORE, **settings)]
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
    """Sends a signal to a worker that is at work on the first call after pass 1, from which on the limit holds."""

    def __init__(self, pool, number, kind, limit=600.0):
        self.pool, self.number, self.kind, self.limit = pool, number, kind, limit
        self.wait = pool._wait_for

    def __call__(self, record):
        if record.passes == 1:
            self.pool._wait_for = self._strike
        return False

    def _strike(self, calls):
        self.pool._wait_for, self.pool.time_limit = self.wait, self.limit
        os.kill(self.pool.places[self.number][1], self.kind)
        return self.wait(calls)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_that_die_or_hang_do_not_change_the_bits(data, pool_of, count):
    options = Options(shards=count, c=0.5, gap=0.003)
    alone = bits(train_local_shards(data, TEMPLATES, options))
    last = count - 1
    back = f"worker {last} was lost; it was restarted and repeats its work"
    hung = f"worker {last} has not answered for 30 s and was ended"
    for kind, limit, events in (
        (signal.SIGKILL, 600.0, [back]),
        (signal.SIGSTOP, 30.0, [hung, back]),
    ):
        said = []
        pool = pool_of(data, count, listeners=[said.append])
        pool.listeners.append(lambda _, pool=pool: setattr(pool, "time_limit", 600.0))  # to restart it
        training = train_shards(pool, TEMPLATES, options, Mishap(pool, last, kind, limit))
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
    with pytest.raises(ResourceError, match=r"worker \d has not answered 1 times in a row"):
        train_shards(pool, TEMPLATES, Options(shards=2), Mishap(pool, 1, signal.SIGSTOP, 15.0))


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


@pytest.mark.parametrize("count", [1, 2, 4])
def test_items_are_answered_in_order_after_a_worker_was_lost(tmp_path, count):
    folder, said, drawn = str(tmp_path), [], itertools.count()

    def make():
        def square(n):
            flag = Path(folder, str(n))
            if n in (0, 7) and not flag.exists():  # the first time only
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return n * n

        return type("Worker", (), {"square": staticmethod(square)})()

    with RayPool([make] * count, store=STORE, listeners=[said.append]) as pool:
        found = pool.map("square", itertools.islice(drawn, 20))
        first = [next(found), next(found)]
        assert next(drawn) <= 2 * count + 1  # no more are drawn ahead
        assert [*first, *found] == [n * n for n in range(21) if n != 2 * count + 1]
    assert {sentence.partition("was lost; ")[2] for sentence in said} <= {
        "it was restarted and repeats its work"
    }


def test_errors_of_workers_end_the_answers(tmp_path):
    def make():
        def fail(n):
            raise MtlError(f"expected less than 3, got {n}") if n == 3 else ValueError(n)

        return type("Worker", (), {"one": staticmethod(lambda n: n if n < 3 else fail(n))})()

    with RayPool([make] * 2, store=STORE) as pool:
        found = pool.map("one", range(9))
        assert [next(found) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(MtlError, match="expected less than 3, got 3"):
            next(found)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_predictions_and_scores_are_those_of_this_process(files, run, monkeypatch, count):
    monkeypatch.chdir(files)
    monkeypatch.setattr("mtlstruct.cli.commands.predict.BATCH_TOKENS", 200)
    there, text = ["--engine", "ray", "--shards", str(count)], Path("data/a").read_bytes()
    run("train", "ner.tpl", "data", "m.mtl", "-q", "-c", "0.1").ok()
    for some in (["--scores"], ["--partial", "--format", "json"]):
        here = run("predict", "m.mtl", *some, stdin=text).ok()
        assert run("predict", "m.mtl", *some, *there, stdin=text).ok() == here
        assert len(here.out) > len(text)
    here, ray_too = (run("evaluate", "m.mtl", "data/a", *some).ok() for some in ([], there))
    assert ray_too.err == here.err
    assert ray_too.out.splitlines()[:-1] == here.out.splitlines()[:-1]  # the last has the speed
    wrong = ["predict", "m.mtl", "data/a", "--forbid", "*>*", "--partial"]
    ran = run(*wrong, *there)
    assert ran.code == 2
    assert ran == run(*wrong)


def scores_in(path):
    """Return the scores of each training in a file of results."""
    lines = map(json.loads, path.read_text().splitlines())
    return {line["key"]: (line["result"]["scores"], line["result"]["mu"]) for line in lines}


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_search_gives_the_results_of_this_process(files, run, monkeypatch, count):
    monkeypatch.chdir(files)
    call = ["tune", "ner.tpl", "data", "-c", "0.1,1", "--method", "mtl,mira", "-q", "--folds", "2"]
    for name, some in (("here", ["--jobs", "1"]), ("there", ["--engine", "ray", "--shards", str(count)])):
        run(*call, *some, "--out", name, "-o", f"{name}.mtl").ok()
    assert scores_in(Path("there/results.jsonl")) == scores_in(Path("here/results.jsonl"))
    assert Path("here.mtl").read_bytes() == Path("there.mtl").read_bytes()


def test_auto_on_ray_chooses_as_in_this_process(files, run, monkeypatch):
    monkeypatch.chdir(files)
    call = ["--method", "auto", "--loss", "log", "-p", "1", "-q", "--folds", "2"]
    run("train", "ner.tpl", "data", "here.mtl", *call).ok()
    run("train", "ner.tpl", "data", "there.mtl", *call, "--engine", "ray", "--shards", "2").ok()
    assert Path("here.mtl").read_bytes() == Path("there.mtl").read_bytes()


def test_trainings_of_a_search_that_fail_on_a_worker_are_named(files, run, monkeypatch):
    monkeypatch.chdir(files)
    call = ["tune", "ner.tpl", "data", "-c", "1", "--method", "mtl", "--loss", "log", "--minutes", "0", "-q"]
    ran = run(*call, "--engine", "ray", "--shards", "2")
    assert ran.code == 2
    assert "no training of the search ended within --minutes" in ran.err
