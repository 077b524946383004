"""Ours, by its commands, as the others are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, measure
from benchmarks.measure import Run
from benchmarks.peers.base import Job, Trained
from benchmarks.places import head


@dataclass(frozen=True)
class Mtlstruct:
    """A method; what the table says it was told, and the options that say so."""

    method: str
    settings: str
    options: tuple[str, ...]
    title: str = ""

    @property
    def name(self) -> str:
        """The title, by default with the method."""
        return self.title or f"mtlstruct {self.method}"

    def identity(self) -> str:
        """The code of the package."""
        return machine.source()

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """`mtlstruct train`."""
        options = [*self.options, "--method", self.method, "--threads", "1", "--quiet", "--json"]
        some = [] if iterations is None else ["--max-iter", str(iterations)]
        self._warm(job, model, options)
        files = [job.templates, job.train, model]
        run = measure.python("mtlstruct", "train", *files, *options, *some, limit=limit)
        return Trained(run, None if run.stopped else run.json["passes"])

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """`mtlstruct predict`."""
        return measure.python("mtlstruct", "predict", model, data, "-o", out, "--threads", 1)

    def _warm(self, job: Job, model: Path, options: list[str]) -> None:
        """Compiles what a training and its model need into the kernels' cache."""
        few = head(job.train, 20)
        measure.python("mtlstruct", "train", job.templates, few, model, *options)
        measure.python("mtlstruct", "predict", model, few)
        model.unlink()
