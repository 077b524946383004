"""Programs that learn dependency trees: MSTParser, TurboParser; and ours."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Run
from benchmarks.peers.base import Job, Trained, digest
from benchmarks.peers.ours import Mtlstruct
from benchmarks.places import program


@dataclass(frozen=True)
class Mst:
    """MSTParser 0.4 or 0.5, by a command `mstparser` that runs its class DependencyParser."""

    name: str = "MSTParser"
    settings: str = "first order, any tree, MIRA with k = 1, 10 iterations (its default)"
    iterations: int = 10

    def identity(self) -> str:
        """Its command."""
        return digest(program("mstparser", self.name))

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`mstparser train`."""
        some = iterations or self.iterations
        arguments = [
            "train",
            f"train-file:{job.train}",
            f"model-name:{model}",
            f"iters:{some}",
            *self._kind(),
        ]
        command = [program("mstparser", self.name), *arguments]
        # asked to end, not killed: it clears away its large temporary file
        run = measure.run(command, limit=limit, stop=signal.SIGTERM, together=True)
        return Trained(run, None if run.stopped else some)

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`mstparser test`."""
        files = [f"model-name:{model}", f"test-file:{data}", f"output-file:{out}"]
        run = measure.run([program("mstparser", self.name), "test", *files, *self._kind()], together=True)
        out.write_text(with_heads(data.read_text("utf-8"), out.read_text("utf-8")), "utf-8")
        return run

    def _kind(self) -> list[str]:
        return ["decode-type:non-proj", "format:CONLL", "order:1"]


def with_heads(text: str, parsed: str) -> str:
    """The text with the heads and relations that were found. (MSTParser writes <num> for numbers.)"""
    rows = ([line.split("\t") for line in some.split("\n") if line.strip()] for some in (text, parsed))
    found = iter([[*row[:6], *other[6:8], *row[8:]] for row, other in zip(*rows, strict=True)])
    return "\n".join("\t".join(next(found)) if line.strip() else "" for line in text.split("\n"))


@dataclass(frozen=True)
class Turbo:
    """TurboParser, its first-order model or its standard one."""

    kind: str
    settings: str
    epochs: int = 10

    @property
    def name(self) -> str:
        """With the model."""
        return f"TurboParser {self.kind}"

    def identity(self) -> str:
        """Its program."""
        return digest(program("TurboParser", self.name))

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`TurboParser --train`."""
        some = iterations or self.epochs
        options = [f"--model_type={self.kind}", f"--train_epochs={some}", f"--pruner_train_epochs={some}"]
        files = [f"--file_train={job.train}", f"--file_model={model}"]
        command = [program("TurboParser", self.name), "--train", *files, *options, "--logtostderr"]
        run = measure.run(command, limit=limit, together=True)
        return Trained(run, None if run.stopped else some)

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`TurboParser --test`."""
        files = [f"--file_model={model}", f"--file_test={data}", f"--file_prediction={out}"]
        command = [program("TurboParser", self.name), "--test", *files, "--logtostderr"]
        return measure.run(command, together=True)


TREES = ("--task", "dependency", "--labels")
PARSERS = (
    Mtlstruct("mtl", "c = 1, gap 1 %, first order", TREES),
    Mtlstruct("mira", "10 epochs, first order", TREES),
    Mst(),
    Turbo("af", "first order, 10 epochs, arcs pruned (its defaults otherwise)"),
    Turbo("standard", "siblings and grandparents, 10 epochs, arcs pruned (its defaults)"),
)
