"""Ray: the bits of threads, also where workers are killed, hang or run full, or where the driver is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from commands import TRAIN
from naive import corpus, random_corpus
from test_checkpoints import bits

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray", reason="the package ray is not installed: pip install 'mtlstruct[ray]'")

from mtlstruct.distributed import RayTeam  # noqa: E402
from mtlstruct.errors import ResourceError  # noqa: E402
from mtlstruct.formats import pieces  # noqa: E402
from mtlstruct.indexing import Piece, pieces_of  # noqa: E402
from mtlstruct.teams import Each, LocalTeam  # noqa: E402
from mtlstruct.templates import TemplateSet  # noqa: E402
from mtlstruct.train import Options, train, train_shards  # noqa: E402

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


class Mishap:
    """Sends a signal to a worker soon after the first pass, in the middle of what follows."""

    def __init__(self, team, number, kind):
        self.team, self.number, self.kind = team, number, kind

    def __call__(self, record):
        if record.passes == 1:
            process = self.team.places[self.number][1]
            threading.Timer(0.05, os.kill, (process, self.kind)).start()
        return False


def seconds_of(said):
    """How long it took to replace workers, as the log says."""
    return [float(line.split(" after ")[1].split()[0]) for line in said if "was replaced" in line]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_that_die_or_hang_cost_time_and_nothing_else(data, team_of, count):
    said = []
    team = team_of(count, listeners=[said.append])
    options = Options(shards=count, c=0.5, gap=0.003)
    alone = bits(train(data, TEMPLATES, options, QUIET).fit)
    last = count - 1
    for kind, limit, event in (
        (signal.SIGKILL, 600.0, f"worker {last} was lost: "),
        (signal.SIGSTOP, 10.0, f"worker {last} has not answered for 10 s and was ended"),
    ):
        said.clear()
        team.time_limit = limit
        team.make("piece", Piece, Each(pieces_of(data, count)))
        fit = train_shards(team, TEMPLATES, options, Mishap(team, last, kind)).fit
        assert fit.gap <= 0.003
        assert bits(fit) == alone
        assert said[0].startswith(event)
        assert said[1].startswith(f"worker {last} was replaced and has its sentences again after ")
        assert len(said) == 2
        assert sum(len(outline.lengths) for outline in team.ask("piece", "outline")) == len(data)
        print(f"{count} workers, {kind.name}: replaced in {seconds_of(said)} s")
