"""A grid of trainings as a command runs it: read, encode once, try with progress, choose, train, tell.

This module is imported when a grid is run, not when a command line is read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mtlstruct._system.memory import gigabytes
from mtlstruct._system.threads import set_threads
from mtlstruct.cli.outputs import check_picture_output
from mtlstruct.cli.progress import GridProgress, clock
from mtlstruct.cli.training_run import Data, TrainingRun, say_what_was_read
from mtlstruct.cli.training_summary import Result
from mtlstruct.errors import MtlError
from mtlstruct.report.tables import print_settings
from mtlstruct.report.tuning_plot import plot_settings
from mtlstruct.tasks import task_of
from mtlstruct.training.options import Options
from mtlstruct.tuning.result_store import Store
from mtlstruct.tuning.runner import Runner, runner
from mtlstruct.tuning.study import (
    VALID,
    Finding,
    Split,
    Study,
    Trial,
    best,
    findings,
    folds,
    held_out,
)  # fmt: skip

FIGURES = ("objective", "dual", "gap", "epsilon", "passes", "converged", "active_templates")
TIMES = ("seconds", "cpu_seconds")


@dataclass(frozen=True)
class Trials:
    """The input of a grid. `job` is the training of the best setting; its options are those that all share."""

    job: TrainingRun
    settings: Sequence[Options]
    folds: int | None
    hold_out: float | None
    out: Path
    jobs: int | None
    threads: int | None
    refit: bool

    def check(self) -> None:
        """Raise an error, before any work, for what could only fail after it."""
        for options in self.settings:
            options.checked()
        if self.refit:
            self.job.check()
        if self.out.exists() and not self.out.is_dir():
            raise MtlError(f"{self.out}: cannot write there: expected a folder, got a file")
        others = [self.job.templates, self.job.data, self.job.valid]
        others += [self.job.model, self.job.log] if self.refit else []
        if self.picture.exists():
            check_picture_output(self.picture, inputs=others, force=self.job.force)

    @property
    def picture(self) -> Path:
        """Where the picture goes."""
        return self.out / "tune.png"

    def run(self, *, quiet: bool) -> Summary:
        """Run the trials that have no result, then train with the best setting, if a model is asked for."""
        began = time.perf_counter()
        data = self.job.read()
        splits = self._splits(len(data.corpus))
        study = Study(data.corpus, data.templates, tuple(self.settings), splits, data.valid)
        summary = self._run(study, Store(self.out), data, quiet=quiet)
        summary.draw(self.picture, quiet=quiet)
        summary.seconds = time.perf_counter() - began
        return summary

    def _run(self, study: Study, store: Store, data: Data, *, quiet: bool) -> Summary:
        missing = [trial for trial in study.trials if store.load(trial.key) is None]
        progress = GridProgress(_name, partial(headline, study.task), quiet=quiet)
        progress.total, progress.done = len(study.trials), len(study.trials) - len(missing)
        with ExitStack() as stack:
            with progress.screen:
                say_what_was_read(progress.screen.say, study.task, data.corpus, data.templates)
                progress.screen.say(_plan(study, progress.done, store))
                if missing or self.refit:
                    ready = stack.enter_context(runner(study, self.out))
                if missing:
                    self._try(ready, missing, store, progress)
            summary = Summary(study, store, progress.failed)
            if missing or self.refit:
                summary.encode_seconds = ready.material.seconds
            if self.refit:
                chosen = replace(self.job, options=summary.best.options)
                summary.refitted = chosen.run(quiet=quiet, data=Data(*data[:3], ready.material))
        return summary

    def _splits(self, sentences: int) -> tuple[Split, ...]:
        seed = self.job.options.seed
        if self.folds is not None:
            return tuple(folds(sentences, self.folds, seed))
        return (VALID,) if self.hold_out is None else (held_out(sentences, self.hold_out, seed),)

    def _try(self, ready: Runner, trials: Sequence[Trial], store: Store, progress: GridProgress) -> None:
        cores = set_threads(None)
        progress.jobs = jobs = ready.fitting(min(self.jobs or cores, len(trials)))
        threads = self.threads or max(1, cores // jobs)
        progress.screen.say(
            f"encoded {ready.oracle.features:,} features in {clock(ready.material.seconds)}; {jobs} at a time, "
            f"{threads} {'thread' if threads == 1 else 'threads'} each; each takes {gigabytes(ready.memory)}"
        )
        outcomes = ready.run(trials, store, task_of(ready.study.task), jobs=jobs, threads=threads)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    progress.see(outcome)
        except KeyboardInterrupt:
            progress.screen.say(f"what is done is kept in {store.path}: the same command goes on from there")
            raise


class Summary:
    """The results of a grid, for people and for programs. A grid without a complete setting is an error."""

    def __init__(self, study: Study, store: Store, failed: Sequence[tuple[Trial, str]]) -> None:
        self.study, self.store, self.failed = study, store, failed
        self.found = findings(study, store)
        if failed and not any(finding.complete for finding in self.found):
            raise MtlError(self.failures())
        results = [result for finding in self.found for result in finding.results]
        self.score = task_of(study.task).chosen_score(results)
        self.best = best(self.found, self.score)
        self.refitted: Result | None = None
        self.encode_seconds = self.seconds = 0.0

    def failures(self) -> str:
        """Return one sentence on the trainings that failed."""
        (trial, reason), count = self.failed[0], len(self.failed)
        which = f"{'it' if count == 1 else 'the first of them'}, with {describe(trial.options)}"
        return f"{count} of {len(self.study.trials)} trainings failed; {which}: {reason}"

    @property
    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        trials = ((trial, self.store.load(trial.key)) for trial in self.study.trials)
        return {
            "score": self.score,
            "best": self._setting(self.best),
            "settings": [self._setting(finding) for finding in self.found],
            "failed": [{**_trial(trial), "reason": reason} for trial, reason in self.failed],
            "trials": [
                {**_trial(trial), **{name: result[name] for name in ("scores", *FIGURES, *TIMES)}}
                for trial, result in trials
                if result is not None
            ],
            "encode_seconds": self.encode_seconds,
            "seconds": self.seconds,
            **({} if self.refitted is None else {"model": self.refitted.numbers}),
        }

    def print_table(self) -> None:
        """Print the settings and the choice."""
        print_settings(self.found, self.best, self.score)
        figure = f"{self.score} {self.best.mean(self.score):.2f} on {where(self.study)}"
        print(f"best: {describe(self.best.options)} ({figure}); results in {self.store.path}")
        if self.refitted is not None:
            self.refitted.warn()
            print(self.refitted.summary())

    def draw(self, path: Path, *, quiet: bool) -> None:
        """Draw the scores, if two settings are complete and matplotlib is installed."""
        complete = [finding for finding in self.found if finding.complete]
        if len(complete) < 2:
            return
        with suppress(MtlError):
            plot_settings(complete, self.score, path)
            if not quiet:
                print(f"drew {path}", file=sys.stderr)

    def _setting(self, finding: Finding) -> dict[str, Any]:
        names = [name for name, value in finding.results[0]["scores"].items() if isinstance(value, float)]
        figures = ("objective", "gap", "passes", "active_templates", *TIMES)
        return {
            **_varied(finding.options),
            "scores": {name: finding.mean(name) for name in names},
            "deviation": {name: finding.deviation(name) for name in names},
            **{name: finding.mean(name) for name in figures},
            "trials": len(finding.results),
            "complete": finding.complete,
        }


def _plan(study: Study, done: int, store: Store) -> str:
    settings = f"{len(study.settings)} settings" if len(study.settings) > 1 else "1 setting"
    known = f"; {done} of {len(study.trials)} trainings are in {store.path} already" if done else ""
    return f"{settings}, scored on {where(study)}{known}"


def where(study: Study) -> str:
    """Return what settings are scored on, in words."""
    if len(study.splits) > 1:
        return f"{len(study.splits)} folds"
    test = study.splits[0].test
    return "the validation data" if test is None else f"{len(test):,} sentences held out"


def describe(options: Options) -> str:
    """Return the options that a grid varies, in words."""
    given = {name: value for name, value in _varied(options).items() if value is not None}
    return ", ".join(f"{k} {f'{v:.4g}' if isinstance(v, float) else v}" for k, v in given.items())


def headline(task: str, result: dict[str, Any]) -> str:
    """Return the result of a training in one line."""
    name = task_of(task).chosen_score([result])
    state = "" if result["converged"] else ", not converged"
    return (
        f"{name} {result['scores'][name]:.2f}, gap {result['gap']:.2%}{state}, "
        f"{result['active_templates']} templates, {clock(result['seconds'])}"
    )


def _name(trial: Trial) -> str:
    """Return what sets a trial apart from the others of its study."""
    fold = f", {trial.split.name}" if "fold" in trial.split.facts else ""
    return f"{describe(trial.options)}{fold}"


def _varied(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in ("method", "p", "c")}


def _trial(trial: Trial) -> dict[str, Any]:
    return {**_varied(trial.options), "split": trial.split.name, "key": trial.key}
