"""A grid of trainings as a command runs it: reads, encodes once, tries with the progress in sight, picks, trains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.cli.board import Board
from mtlstruct.cli.outputs import check_picture_output
from mtlstruct.cli.progress import clock
from mtlstruct.cli.training_run import Data, TrainingRun, say_what_was_read
from mtlstruct.cli.tuning_summary import Summary, describe, where

if TYPE_CHECKING:
    from mtlstruct.training.options import Options
    from mtlstruct.tuning.result_store import Store
    from mtlstruct.tuning.runner import Runner
    from mtlstruct.tuning.study import Split, Study, Trial


@dataclass(frozen=True)
class Trials:
    """What goes in, and how. `job` is the training of the best setting; its options are those that all share."""

    job: TrainingRun
    settings: Sequence[Options]
    folds: int | None
    hold_out: float | None
    out: Path
    jobs: int | None
    threads: int | None
    refit: bool

    def check(self) -> None:
        """Refuses, before any work, what could only fail after it."""
        for options in self.settings:
            options.checked()
        if self.refit:
            self.job.check()
        others = [self.job.templates, self.job.data, self.job.valid]
        others += [self.job.model, self.job.log] if self.refit else []
        if self.picture.exists():
            check_picture_output(self.picture, inputs=others, force=self.job.force)

    @property
    def picture(self) -> Path:
        """Where the picture goes."""
        return self.out / "tune.png"

    def run(self, *, quiet: bool) -> Summary:
        """Runs what has not been run, then trains with the best, if that is wanted."""
        from mtlstruct.tuning.result_store import Store
        from mtlstruct.tuning.study import Study

        data = self.job.read()
        splits = self._splits(len(data.corpus))
        study = Study(data.corpus, data.templates, tuple(self.settings), splits, data.valid)
        store = Store(self.out)
        with store.locked():
            summary = self._run(study, store, data, quiet=quiet)
            summary.draw(self.picture, quiet=quiet)
        return summary

    def _run(self, study: Study, store: Store, data: Data, *, quiet: bool) -> Summary:
        from mtlstruct.tuning.runner import runner

        began = time.perf_counter()
        missing = [trial for trial in study.trials if store.load(trial.cell) is None]
        head = partial(headline, study.task)
        board: Board[Trial] = Board(len(study.trials), len(missing), _name, head, quiet=quiet)
        refitted, encoding = None, 0.0
        with ExitStack() as stack:
            with board.screen:
                say_what_was_read(board.screen.say, self.job.options.task, data.corpus, data.templates)
                board.screen.say(_plan(study, len(missing), self.out))
                if missing or self.refit:
                    ready = stack.enter_context(runner(study, self.out))
                    encoding = ready.material.seconds
                    self._try(ready, missing, store, board)
            if self.refit:
                chosen = replace(self.job, options=Summary(study, store, board.failed).best.options)
                refitted = chosen.run(quiet=quiet, data=Data(*data[:3], ready.material))
        return Summary(study, store, board.failed, refitted, encoding, time.perf_counter() - began)

    def _splits(self, sentences: int) -> tuple[Split, ...]:
        from mtlstruct.tuning.study import VALID, folds, held_out

        seed = self.job.options.seed
        if self.folds is not None:
            return tuple(folds(sentences, self.folds, seed))
        return (VALID,) if self.hold_out is None else (held_out(sentences, self.hold_out, seed),)

    def _try(self, ready: Runner, trials: Sequence[Trial], store: Store, board: Board[Trial]) -> None:
        from mtlstruct._system.threads import set_threads
        from mtlstruct.tasks import task_of

        if not trials:
            return
        cores = set_threads(None)
        jobs = ready.fitting(min(self.jobs or cores, len(trials)))
        threads = self.threads or max(1, cores // jobs)
        board.jobs = jobs
        board.screen.say(_preparation(ready, jobs, threads))
        task = task_of(self.job.options.task)
        outcomes = ready.run(trials, store, task, jobs=jobs, threads=threads, started=board.started)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    board.see(outcome)
        except KeyboardInterrupt:
            board.screen.say(f"what is done is kept in {self.out}: the same command goes on from there")
            raise


def _plan(study: Study, missing: int, folder: Path) -> str:
    settings = f"{len(study.settings)} settings" if len(study.settings) > 1 else "1 setting"
    kept = len(study.trials) - missing
    known = f"; {kept} of {len(study.trials)} trainings are in {folder} already" if kept else ""
    return f"{settings}, scored on {where(study)}{known}"


def _preparation(ready: Runner, jobs: int, threads: int) -> str:
    from mtlstruct._system.memory import gigabytes

    return (
        f"encoded {ready.oracle.features:,} features in {clock(ready.material.seconds)}; {jobs} at a time, "
        f"{threads} {'thread' if threads == 1 else 'threads'} each; each takes {gigabytes(ready.memory)}"
    )


def _name(trial: Trial) -> str:
    """The trial, by what it has of its own."""
    return (
        f"{describe(trial.options)}, {trial.split.name}"
        if "fold" in trial.split.facts
        else describe(trial.options)
    )


def headline(task: str, result: dict[str, Any]) -> str:
    """What came of a training, in a line."""
    from mtlstruct.tasks import task_of

    name = task_of(task).chosen_score([result])
    state = "" if result["converged"] else ", not converged"
    return (
        f"{name} {result['scores'][name]:.2f}, gap {result['gap']:.2%}{state}, "
        f"{result['active_templates']} templates, {clock(result['seconds'])}"
    )
