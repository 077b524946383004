"""What each mechanism of the coordinate solver buys: learning with it switched off, in turns with the full program.

`--off NAME` and `--case NAME` choose mechanisms and cases by a part of their names. `--against FOLDER` compares with
the checkout of another commit instead: its program, from its own folder, in turns with this one. The figures of such
a comparison are kept until the next run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import DANISH, ESP, NED, PKU, ROOT, corpus, head, work
from benchmarks.tasks import preset

FIGURES = ("clock", "cpu", "passes", "gap", "memory")
"""Seconds of learning by the clock and of CPU, passes, certified gap, peak memory in MB."""

MECHANISMS = (
    "gap-sampled passes",
    "working-set passes",
    "shared rows of singletons",
)
"""What `benchmarks.programs.ablation` can switch off."""


@dataclass(frozen=True)
class Case:
    """A corpus, its templates, the options of its task, and the loss with the values of c."""

    folder: str
    suffix: str
    preset: str
    options: tuple[str, ...] = ()
    loss: str = "hinge"
    slacks: tuple[str, ...] = ("0.1", "1", "10")

    def arguments(self, c: str, threads: str, sentences: int | None) -> list[str]:
        """The arguments of `mtlstruct train`."""
        train = corpus(self.folder, f"train.{self.suffix}")
        templates = preset(self.preset, train if self.preset == "dependency" else None)
        data = train if sentences is None else head(train, sentences)
        files = [str(templates), str(data), str(work() / "ablation.mtl")]
        return [*files, *self.options, "--loss", self.loss, "-c", c, "--threads", threads]


CASES = {
    "Spanish ner-134": Case(ESP, "conll", "ner-134"),
    "Dutch ner-134": Case(NED, "conll", "ner-134"),
    "Spanish ner": Case(ESP, "conll", "ner"),
    "PKU cws-tp2": Case(PKU, "txt", "cws-tp2", ("--task", "segmentation")),
    "Danish trees": Case(DANISH, "conll", "dependency", ("--task", "dependency")),
    "Spanish ner-134, log loss": Case(ESP, "conll", "ner-134", (), "log", ("1", "20")),
    "Dutch ner-134, log loss": Case(NED, "conll", "ner-134", (), "log", ("1", "20")),
}
THREADS = ("1", "2")


def measure_all(book: Book) -> None:
    """A row for each case, c, number of threads and mechanism, or checkout, that is asked for."""
    against = book.ask.against
    commits = () if against is None else (_commit(against),)
    if commits:
        book.ask = replace(book.ask, off=commits)
    for name, case in CASES.items():
        for c, threads, off in product(case.slacks, THREADS, (*MECHANISMS, *commits)):
            key = {"case": name, "c": f"c = {c}", "threads": f"threads = {threads}", "off": off}
            book.row(key, machine.source(), partial(_row, book, case, c, threads, off))


def _commit(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return "commit " + subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _row(book: Book, case: Case, c: str, threads: str, other: str) -> Row:
    """The best of as many runs of either side, which take turns: other work on the machine changes by the minute."""
    ask = book.ask
    switch = "" if ask.against is not None else other
    sides = {"full": (ROOT, ""), "without": (ask.against or ROOT, switch)}
    for folder, off in sides.values():
        _learned(folder, off, case.arguments("1", threads, 50))  # compiles
    arguments = case.arguments(c, threads, ask.sentences)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(ask.repeat):
        for side, (folder, off) in sides.items():
            runs[side].append(_learned(folder, off, arguments))
    return {side: {name: min(run[name] for run in found) for name in FIGURES} for side, found in runs.items()}


def _learned(folder: Path, off: str, arguments: list[str]) -> dict[str, float]:
    """One training by the program of a checkout, with a mechanism switched off."""
    program = ["ablation", off] if off else ["train"]  # older checkouts have the latter only
    run = measure.run(
        [sys.executable, "-m", f"benchmarks.programs.{program[0]}", *program[1:], *arguments],
        one_thread=False,
        environment={"PYTHONPATH": os.pathsep.join((str(folder / "src"), str(folder)))},
        folder=folder,
    )
    found = run.json
    return {
        "clock": found["seconds"] - found["encode_seconds"],
        "cpu": found["cpu"]["learning"],
        "passes": found["passes"],
        "gap": found["gap"],
        "memory": run.peak_mb,
    }
