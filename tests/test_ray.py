"""Ray: the bits of threads, also where workers are killed, hang or run full, or where the driver is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import TRAIN
from naive import corpus, random_corpus

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="the package ray is not installed: pip install 'mtlstruct[ray]'")

from mtlstruct.distributed.ray_team import RayTeam  # noqa: E402
from mtlstruct.distributed.sharded_index import Piece, pieces_of  # noqa: E402
from mtlstruct.distributed.team import Each, LocalTeam  # noqa: E402
from mtlstruct.distributed.train import train_local_shards, train_shards  # noqa: E402
from mtlstruct.errors import ResourceError  # noqa: E402
from mtlstruct.formats import partition as pieces  # noqa: E402
from mtlstruct.templates import TemplateSet  # noqa: E402
from mtlstruct.training.train import Options  # noqa: E402

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB\n"
TEMPLATES = TemplateSet.parse(LINES)
STORE = 80_000_000
QUIET = lambda record: False  # noqa: E731


@pytest.fixture(scope="module")
def data():
    return random_corpus(np.random.default_rng(5), sentences=60)


@pytest.fixture
def team_of(data):
    """Teams of workers that have a piece each."""
    teams = []

    def start(count, **settings):
        team = RayTeam(count, store=STORE, **settings)
        teams.append(team)
        team.make("piece", Piece, Each(pieces_of(data, count)))
        return team

    yield start
    for team in teams:
        team.close()


def bits(training):
    """Of the model: a fit on one machine has weights that attributes share."""
    fit, model = training.fit, training.model
    numbers = [fit.objective, fit.dual, fit.gap, fit.passes, fit.converged]
    return numbers, [array.tobytes() for array in (*model.weights, fit.mu)]


class Mishap:
    """Sends a signal to a worker that is at work: to the first call after pass 1."""

    def __init__(self, team, number, kind):
        self.team, self.number, self.kind = team, number, kind
        self.settle = team._settle

    def __call__(self, record):
        if record.passes == 1:
            self.team._settle = self._strike
        return False

    def _strike(self, waiting, *stateful):
        self.team._settle = self.settle
        os.kill(self.team.places[self.number][1], self.kind)
        return self.settle(waiting, *stateful)


def seconds_of(said):
    """How long it took to replace workers, as the log says."""
    return [float(line.split(" after ")[1].split()[0]) for line in said if "was replaced" in line]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_that_die_or_hang_cost_time_and_nothing_else(data, team_of, count):
    said = []
    team = team_of(count, listeners=[said.append])
    options = Options(shards=count, c=0.5, gap=0.003)
    alone = bits(train_local_shards(data, TEMPLATES, options, QUIET))
    last = count - 1
    for kind, limit, event in (
        (signal.SIGKILL, 600.0, f"worker {last} was lost: "),
        (signal.SIGSTOP, 10.0, f"worker {last} has not answered for 10 s and was ended"),
    ):
        said.clear()
        team.time_limit = limit
        team.make("piece", Piece, Each(pieces_of(data, count)))
        training = train_shards(team, TEMPLATES, options, Mishap(team, last, kind))
        assert training.fit.gap <= 0.003
        assert bits(training) == alone
        assert said[0].startswith(event)
        assert said[1].startswith(f"worker {last} was replaced and has its sentences again after ")
        assert len(said) == 2
        assert sum(len(outline.lengths) for outline in team.ask("piece", "outline")) == len(data)
        print(f"{count} workers, {kind.name}: replaced in {seconds_of(said)} s")


@pytest.mark.parametrize(("method", "solver"), [("mtl", "cutting-plane"), ("crf-l2", None)])
def test_all_learners_go_on_after_a_worker_was_lost(data, team_of, method, solver):
    said = []
    team = team_of(2, listeners=[said.append])
    options = Options(method=method, solver=solver, shards=2, c=0.3)
    training = train_shards(team, TEMPLATES, options, Mishap(team, 0, signal.SIGKILL))
    assert bits(training) == bits(train_local_shards(data, TEMPLATES, options, QUIET))
    assert len(said) == 2


def test_a_store_that_is_too_small_is_a_sentence(team_of):
    team = team_of(1)
    words = [[(f"w{k}", f"p{k}")] * 2 for k in range(20_000)]
    large = corpus(words, [[f"L{k % 64}"] * 2 for k in range(len(words))])
    team.make("piece", Piece, Each([large]))
    with pytest.raises(
        ResourceError, match=r"training needs about 0\.\d+ GB of Ray's object store, which has 0\.08"
    ):
        train_shards(team, TEMPLATES, Options(), QUIET)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def files(tmp_path):
    """Templates, and data of some hundred sentences in two files of a folder."""
    (tmp_path / "ner.tpl").write_text(LINES)
    (tmp_path / "data").mkdir()
    sentences = TRAIN.strip().split("\n\n") * 40
    for name, some in (("a", sentences[:90]), ("b", sentences[90:])):
        (tmp_path / "data" / name).write_text("\n\n".join(some) + "\n")
    return tmp_path


def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(files):
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
    assert "going on from state/training.checkpoint" in done.stderr
    assert '"event": "resumed"' in (files / "there.mtl.log.jsonl").read_text()
    parts = pieces.cut(pieces.files_of(files / "data"), 2, "sequence")
    team = LocalTeam(2)
    team.make("piece", Piece, Each([pieces.read(part, "sequence") for part in parts]))
    options = Options(shards=2, c=3.0, gap=1e-4)
    train_shards(team, TEMPLATES, options, QUIET).model.save(files / "here.mtl")
    assert (files / "there.mtl").read_bytes() == (files / "here.mtl").read_bytes()


def test_one_ray_worker_saves_the_model_of_none_and_predicts_its_text(files, run, monkeypatch):
    monkeypatch.chdir(files)
    call = ["--solver", "cutting-plane", "--line-search", "-q"]
    assert run("train", "ner.tpl", "data", "here.mtl", *call).code == 0
    assert run("train", "ner.tpl", "data", "there.mtl", *call, "--engine", "ray").code == 0
    assert Path("here.mtl").read_bytes() == Path("there.mtl").read_bytes()
    text = "\n\n\n".join(path.read_text() for path in sorted(Path("data").iterdir())) + "\n\n"
    Path("text").write_text(text.replace("Quito", "Kyjiw").replace("canta V O\n\n", "canta V O\n \n\n"))
    monkeypatch.setattr("mtlstruct.cli.spreading.PIECE", 700)
    arguments = ["predict", "here.mtl", "text", "--scores", "--nbest", "2"]
    here, there = run(*arguments), run(*arguments, "--engine", "ray", "--shards", "2")
    assert (here.code, there.code) == (0, 0), there.err
    assert here.out == there.out
    assert here.out.count("Kyjiw") >= 20
    Path("text").write_text(TRAIN * 20 + "\nnow three cells more\n")
    here, there = run("predict", "here.mtl", "text"), run("predict", "here.mtl", "text", "--engine", "ray")
    assert (here.code, there.code) == (2, 2)
    assert there.err == here.err.replace(" text,", f" {Path('text').absolute()},")
