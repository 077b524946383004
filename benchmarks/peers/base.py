"""What a study asks of a program, ours included: train in so many seconds, tag a file, say what it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.measure import Run


@dataclass(frozen=True)
class Job:
    """One training: a case's files. The last column of text is the label; trees are in CoNLL-X.

    few     a few sentences of the test text: what tagging them takes is start-up
    long    the test text laid end to end some times, so that start-up does not drown what is measured
    """

    name: str
    templates: Path
    train: Path
    test: Path
    few: Path
    long: Path
    segmented: bool = False


@dataclass(frozen=True)
class Trained:
    """A training that ended, or was stopped: then there may be no model."""

    run: Run
    iterations: int | None
    making: float = 0.0
    """CPU seconds of making attribute strings for a program that has no templates: no part of its own figure."""


class Program(Protocol):
    """A program that learns from a file and tags another."""

    @property
    def name(self) -> str:
        """As in the table."""
        ...

    @property
    def settings(self) -> str:
        """What it was told, for the table."""
        ...

    def identity(self) -> str:
        """What its figures depend on; raises Missing if it is not there."""
        ...

    def train(self, job: Job, model: Path, limit: float, iterations: int | None = None) -> Trained:
        """Learns on one core, until it is done, or for so many iterations; is stopped after `limit` seconds."""
        ...

    def tag(self, job: Job, model: Path, data: Path, out: Path) -> Run:
        """Tags a file on one core; the label is the last column of `out`."""
        ...


def digest(*paths: str | Path) -> str:
    """A short digest of files, read piece by piece: what measures stays small."""
    found = hashlib.sha256()
    for path in paths:
        with Path(path).open("rb") as file:
            while piece := file.read(1 << 16):
                found.update(piece)
    return found.hexdigest()[:12]
