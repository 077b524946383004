"""A grid of trainings as a command runs it: reads, encodes once, tries with the progress in sight, picks, trains."""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.cli.common import refuse_overwriting
from mtlstruct.cli.job import Data, Job, Result, say_what_was_read
from mtlstruct.cli.progress import clock, screen
from mtlstruct.errors import MtlError

if TYPE_CHECKING:
    from mtlstruct.grid import Store
    from mtlstruct.processes import Outcome
    from mtlstruct.train import Options
    from mtlstruct.tuning import Bench, Finding, Part, Study, Trial

FIGURES = ("objective", "dual", "gap", "epsilon", "passes", "converged", "active_templates")
TIMES = ("seconds", "cpu_seconds")


@dataclass(frozen=True)
class Trials:
    """What goes in, and how. `job` is the training of the best setting; its options are those that all share."""

    job: Job
    settings: Sequence[Options]
    folds: int | None
    hold_out: float | None
    out: Path
    plot: Path | None
    jobs: int | None
    threads: int | None
    refit: bool

    def check(self) -> None:
        """Refuses, before any work, what could only fail after it."""
        from mtlstruct.report.plots import check_picture

        for options in self.settings:
            options.checked()
        if self.refit:
            self.job.check()
        if self.plot is not None:
            check_picture(self.plot)
            refuse_overwriting(
                [self.job.templates, self.job.data, self.job.valid, self.job.model], [self.plot]
            )

    def run(self, *, quiet: bool) -> Summary:
        """Runs what has not been run, then trains with the best, if that is wanted."""
        from mtlstruct.grid import Store

        store = Store(self.out)
        with store.locked():
            return self._run(store, quiet=quiet)

    def _run(self, store: Store, *, quiet: bool) -> Summary:
        from mtlstruct.tuning import Study, bench, settled

        began = time.perf_counter()
        data = self.job.read()
        parts = self._parts(len(data.corpus))
        study = Study(data.corpus, data.templates, tuple(settled(self.settings)), parts, data.valid)
        missing = [trial for trial in study.trials if store.load(trial.cell) is None]
        board = Board(study, len(missing), quiet=quiet)
        refitted, encoding = None, 0.0
        with ExitStack() as stack:
            with board.screen:
                say_what_was_read(board.screen.say, data.corpus, data.templates)
                board.screen.say(_plan(study, len(missing), self.out))
                if missing or self.refit:
                    ready = stack.enter_context(bench(study, self.out))
                    encoding = ready.material.seconds
                    self._try(ready, missing, store, board)
            if self.refit:
                chosen = replace(self.job, options=Summary(study, store, board.failed).best.options)
                refitted = chosen.run(quiet=quiet, data=Data(*data[:3], ready.material))
        summary = Summary(study, store, board.failed, refitted, encoding, time.perf_counter() - began)
        summary.draw(self.plot or self.out / "tune.png", asked=self.plot is not None)
        return summary

    def _parts(self, sentences: int) -> tuple[Part, ...]:
        from mtlstruct.tuning import VALID, folds, held_out

        seed = self.job.options.seed
        if self.folds is not None:
            return tuple(folds(sentences, self.folds, seed))
        return (VALID,) if self.hold_out is None else (held_out(sentences, self.hold_out, seed),)

    def _try(self, ready: Bench, trials: Sequence[Trial], store: Store, board: Board) -> None:
        from mtlstruct.cli import scoring
        from mtlstruct.threads import set_threads

        if not trials:
            return
        cores = set_threads(None)
        jobs = ready.fitting(min(self.jobs or cores, len(trials)))
        threads = self.threads or max(1, cores // jobs)
        board.begin(ready, jobs, threads)
        outcomes = ready.run(trials, store, scoring.scores, jobs=jobs, threads=threads, started=board.started)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    board.see(outcome)
        except KeyboardInterrupt:
            board.screen.say(f"what is done is kept in {self.out}: the same command goes on from there")
            raise


class Board:
    """How far the trials are."""

    def __init__(self, study: Study, missing: int, *, quiet: bool) -> None:
        self.study, self.total = study, len(study.trials)
        self.waiting, self.done = missing, self.total - missing
        self.running: dict[str, float] = {}
        self.took: list[float] = []
        self.failed: list[tuple[Trial, str]] = []
        self.jobs = 1
        self.began = time.perf_counter()
        self.screen = screen(self.line, quiet=quiet)

    def begin(self, ready: Bench, jobs: int, threads: int) -> None:
        """The data are encoded."""
        from mtlstruct.memory import gigabytes

        self.jobs = jobs
        self.screen.say(
            f"encoded {ready.material.weights:,} features in {clock(ready.material.seconds)}; {jobs} at a time, "
            f"{threads} {'thread' if threads == 1 else 'threads'} each; each takes {gigabytes(ready.memory)}"
        )

    def started(self, trial: Trial) -> None:
        """A trial begins."""
        self.waiting -= 1
        self.running[trial.cell.key] = time.perf_counter()

    def see(self, outcome: Outcome[Trial]) -> None:
        """A trial has ended."""
        trial = outcome.item
        self.took.append(time.perf_counter() - self.running.pop(trial.cell.key))
        self.done += 1
        if outcome.failure is not None:
            self.failed.append((trial, outcome.failure))
            self.screen.say(f"{self.name(trial)}: failed: {outcome.failure}")
            if outcome.trace:
                self.screen.say(outcome.trace.rstrip())
        else:
            self.screen.say(f"{self.name(trial)}: {_headline(outcome.result)}")
        self.screen.tick()

    def name(self, trial: Trial) -> str:
        """The trial, by what it has of its own."""
        part = f", {trial.part.name}" if len(self.study.parts) > 1 else ""
        return describe(trial.options) + part

    def line(self) -> str:
        """The state."""
        seconds = time.perf_counter() - self.began
        left = self._left()
        coming = "" if left is None else f", {clock(left)} left"
        failed = f", {len(self.failed)} of them failed" if self.failed else ""
        return (
            f"{self.done} of {self.total} done{failed}, {len(self.running)} running  {clock(seconds)}{coming}"
        )

    def _left(self) -> float | None:
        """What is left will take as long as the others did; those that take long come first, so it will be less."""
        if not self.took:
            return None
        one, now = statistics.fmean(self.took), time.perf_counter()
        running = sum(max(0.0, one - (now - since)) for since in self.running.values())
        return (one * self.waiting + running) / self.jobs


@dataclass(frozen=True)
class Summary:
    """What came of it, for people and for programs."""

    study: Study
    store: Store
    failed: Sequence[tuple[Trial, str]]
    refitted: Result | None = None
    encode_seconds: float = 0.0
    seconds: float = 0.0

    @cached_property
    def found(self) -> list[Finding]:
        """The settings that have results."""
        from mtlstruct.tuning import findings

        return findings(self.study, self.store)

    @cached_property
    def score(self) -> str:
        """By which they are compared."""
        from mtlstruct.tuning import score_name

        return score_name(self.found)

    @cached_property
    def best(self) -> Finding:
        """The best of them."""
        from mtlstruct.tuning import best

        if self.failed and not any(finding.complete for finding in self.found):
            raise MtlError(self.failures())
        return best(self.found, self.score)

    def failures(self) -> str:
        """One sentence on the trainings that failed."""
        (trial, reason), count = self.failed[0], len(self.failed)
        first = "it" if count == 1 else "the first of them"
        which = f"{first}, with {describe(trial.options)}"
        return f"{count} of {len(self.study.trials)} trainings failed; {which}: {reason}"

    @property
    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {
            "score": self.score,
            "best": self._setting(self.best),
            "settings": [self._setting(finding) for finding in self.found],
            "failed": [
                {**varied(trial.options), "part": trial.part.name, "reason": reason}
                for trial, reason in self.failed
            ],
            "trials": [self._trial(*pair) for pair in self._kept()],
            "encode_seconds": self.encode_seconds,
            "seconds": self.seconds,
            **({} if self.refitted is None else {"model": self.refitted.numbers}),
        }

    def print_table(self) -> None:
        """The settings, and the choice."""
        from mtlstruct.report.grids import print_settings

        print_settings(self.found, self.best, self.score)
        figure = f"{self.score} {self.best.mean(self.score):.2f}"
        print(
            f"best: {describe(self.best.options)} ({figure} on {_where(self.study)}); cells in {self.store.folder}"
        )
        if self.refitted is not None:
            self.refitted.warn()
            print(self.refitted.summary())

    def print_csv(self) -> None:
        """A row for each trial."""
        rows = [self._trial(*pair) for pair in self._kept()]
        flat = [{**row, **row.pop("scores")} for row in rows]
        for row in flat:
            row.pop("per_type", None)
        writer = csv.DictWriter(sys.stdout, list(flat[0]), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(flat)

    def draw(self, path: Path, *, asked: bool) -> None:
        """The picture. One that nobody asked for is left out where there is nothing to draw it with."""
        from mtlstruct.report.gridplots import plot_settings

        if len(self.found) < 2 and not asked:
            return
        try:
            plot_settings(self.found, self.score, path)
        except MtlError:
            if asked:
                raise
            return
        print(f"drew {path}", file=sys.stderr)

    def _setting(self, finding: Finding) -> dict[str, Any]:
        names = [name for name, value in finding.results[0]["scores"].items() if isinstance(value, float)]
        return {
            **varied(finding.options),
            "scores": {name: finding.mean(name) for name in names},
            "deviation": {name: finding.deviation(name) for name in names},
            **{
                name: finding.mean(name)
                for name in ("objective", "gap", "passes", "active_templates", *TIMES)
            },
            "trials": len(finding.results),
            "complete": finding.complete,
        }

    def _kept(self) -> Iterable[tuple[Trial, dict[str, Any]]]:
        for trial in self.study.trials:
            result = self.store.load(trial.cell)
            if result is not None:
                yield trial, result

    def _trial(self, trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
        return {
            **varied(trial.options),
            "part": trial.part.name,
            "scores": result["scores"],
            **{name: result[name] for name in (*FIGURES, *TIMES)},
            "file": self.store.path(trial.cell).name,
        }


def varied(options: Options) -> dict[str, Any]:
    """The options that a grid is about."""
    return {name: getattr(options, name, None) for name in ("method", "p", "c")}


def describe(options: Options) -> str:
    """The same in words."""
    given = {name: value for name, value in varied(options).items() if value is not None}
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in given.items()
    )


def _plan(study: Study, missing: int, folder: Path) -> str:
    settings = f"{len(study.settings)} settings" if len(study.settings) > 1 else "1 setting"
    kept = len(study.trials) - missing
    known = f"; {kept} of {len(study.trials)} trainings are in {folder} already" if kept else ""
    return f"{settings}, scored on {_where(study)}{known}"


def _where(study: Study) -> str:
    if len(study.parts) > 1:
        return f"{len(study.parts)} folds"
    part = study.parts[0]
    return "the validation data" if part.test is None else f"{len(part.test):,} sentences held out"


def _headline(result: dict[str, Any]) -> str:
    scores = result["scores"]
    shown = [name for name in ("f1", "uas", "accuracy") if scores.get(name)][:1] or ["f1"]
    state = "" if result["converged"] else ", not converged"
    return (
        f"{shown[0]} {scores.get(shown[0], 0.0):.2f}, gap {result['gap']:.2%}{state}, "
        f"{result['active_templates']} templates, {clock(result['seconds'])}"
    )
