"""A search over settings: encode once, train with each setting, choose one, train with it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mtlstruct._system.folder_lock import locked
from mtlstruct._system.memory import gigabytes
from mtlstruct.cli.engine import Engine
from mtlstruct.cli.outputs import check_picture_output
from mtlstruct.cli.progress import GridProgress, clock, percentage
from mtlstruct.cli.training_run import TrainingResult, TrainingRun, print_data_summary
from mtlstruct.distributed.ray_pool import RayPool
from mtlstruct.errors import MtlError
from mtlstruct.report.plots import plot_settings
from mtlstruct.report.tables import print_settings
from mtlstruct.tasks import task_of
from mtlstruct.training.options import Options
from mtlstruct.training.train import with_learned_labels
from mtlstruct.tuning.runner import Runner
from mtlstruct.tuning.search import Round, Search, study_of
from mtlstruct.tuning.study import Finding, Store, Trial, varied

PICTURE = "tune.png"


@dataclass
class TuningRun:
    """A search; `base` is the training of the chosen setting, with the shared options.

    rounds    of `--method auto`; none for a grid
    minutes   time limit of the search, without the last training
    engine    where the trainings of the search run
    refit     whether to train with the chosen setting on all data
    search    settings and results, after `run`
    """

    base: TrainingRun
    settings: Sequence[Options]
    out: Path
    rounds: Sequence[Round] = ()
    folds: int | None = None
    score: str | None = None
    jobs: int | None = None
    minutes: float | None = None
    engine: Engine = field(default_factory=Engine)
    refit: bool = True
    search: Search = field(init=False)
    failed: list[tuple[Trial, str]] = field(init=False)
    refitted: TrainingResult | None = None

    def check(self) -> None:
        """Raise an error, before any work, for what could only fail after it."""
        self.engine.check()
        for options in self.settings:
            options.checked()
        if self.refit:
            replace(self.base, options=self.settings[0]).check()
        if self.out.exists() and not self.out.is_dir():
            raise MtlError(f"{self.out}: cannot write there: expected a folder, got a file")
        others = [self.base.templates, self.base.data, self.base.valid]
        others += [self.base.model, self.base.log] if self.refit else []
        if (picture := self.out / PICTURE).exists():
            check_picture_output(picture, inputs=others, force=self.base.force)

    def run(self) -> None:
        """Run the trials without a result, then train with the chosen setting if `refit`.

        Raise an error if no setting is complete.
        """
        began = time.perf_counter()
        base, data = self.base, self.base.read()
        task = task_of(base.options.task)
        study = study_of(
            data.corpus, data.templates, self.settings, task, data.valid, parts=self.folds, score=self.score
        )
        self.search = search = Search(study, Store(self.out), task, self.rounds)
        progress = GridProgress(_name, partial(headline, task.name), quiet=base.quiet)
        progress.total, self.failed = search.total, progress.failed
        if self.minutes is not None:
            progress.ends = began + 60 * self.minutes
        with locked(self.out), progress.screen:
            print_data_summary(progress.screen.say, task.name, data.corpus, data.templates)
            progress.screen.say(f"{len(study.settings)} settings, scored on {study.scored_on}")
            runner = self._train(progress)
        if not any(finding.complete for finding in search.findings):
            reason = "no training of the search ended within --minutes"
            raise MtlError(self.failures() if self.failed else reason)
        if self.refit:
            dataset = runner.material if runner is not None and study.corpus is data.corpus else None
            options = replace(search.chosen.options, context=base.options.context)
            chosen = replace(base, options=options, search=search.facts())
            data = data._replace(dataset=dataset)
            if options.segments:
                corpus, valid = (c and with_learned_labels(c, options) for c in (data.corpus, data.valid))
                data = data._replace(corpus=corpus or data.corpus, valid=valid)
            self.refitted = chosen.run(data)
        complete = [finding for finding in search.findings if finding.complete]
        with suppress(MtlError):  # without matplotlib
            if len(complete) > 1:
                plot_settings(complete, search.score, self.out / PICTURE)
                if not base.quiet:
                    print(f"drew {self.out / PICTURE}", file=sys.stderr)

    def _train(self, progress: GridProgress) -> Runner | None:
        """Run the rounds; return the encoded data, unless every result was stored already."""
        with ExitStack() as stack:
            return self._run_rounds(progress, stack)

    def _run_rounds(self, progress: GridProgress, stack: ExitStack) -> Runner | None:
        runner, search, say = None, self.search, progress.screen.say
        work: Callable[[Trial], dict[str, Any]] | None = None
        for trials in search:
            missing = [trial for trial in trials if search.store.load(trial.key) is None]
            if stored := len(trials) - len(missing):
                progress.done += stored
                say(f"{stored} of {len(trials)} trainings are in {search.store.path} already")
            if not missing:
                continue
            if runner is None:
                runner = Runner.encode(search.study, search.task)
                features, needed = runner.oracle(missing[0].options).features, runner.memory(missing)
                taken = f"{clock(runner.material.seconds)}; a training takes {gigabytes(needed)}"
                say(f"encoded {features:,} features in {taken}")
                if self.engine.name == "ray":
                    make = partial(Runner, runner.study, runner.material, runner.task)
                    pool = self.engine.pool(make, time_limit=None)
                    stack.callback(pool.close)
                    work = partial(_sent, pool, progress)
            jobs = min(self.jobs or self.engine.size, len(missing))
            progress.jobs = jobs = jobs if work else runner.fitting(jobs, missing)
            in_time = partial(_before, progress.ends)
            try:
                how: dict[str, Any] = {"jobs": jobs, "go_on": in_time, "work": work}
                with closing(runner.run(missing, search.store, **how)) as outcomes:
                    for outcome in outcomes:
                        progress.see(outcome)
            except KeyboardInterrupt:
                say(f"finished trainings are in {search.store.path}: the same command continues from there")
                raise
        return runner

    def failures(self) -> str:
        """Return one sentence on the trainings that failed."""
        (trial, reason), count = self.failed[0], len(self.failed)
        which = f"{'it' if count == 1 else 'the first of them'}, with {describe(trial.options)}"
        return f"{count} of {self.search.total} trainings failed; {which}: {reason}"

    @property
    def numbers(self) -> dict[str, Any]:
        """The object that `tune --json` prints."""
        return {
            "score": self.search.score,
            "reason": self.search.reason,
            "best": _setting(self.search.chosen),
            "settings": [_setting(finding) for finding in self.search.findings],
            "failed": [
                {**varied(trial.options), "split": trial.split.name, "reason": reason}
                for trial, reason in self.failed
            ],
            **({} if self.refitted is None else {"model": self.refitted.numbers}),
        }

    def print_table(self) -> None:
        """Print the settings, the chosen one and why, and where the results are."""
        search = self.search
        print_settings(search)
        print(f"chosen: {describe(search.chosen.options)}: {search.reason}; results in {search.store.path}")
        passes, gap = (search.chosen.mean(name) for name in ("passes", "gap"))
        last = self.rounds[-1:] if self.minutes is not None else ()  # `tune` has no rounds
        if any(passes < one.passes and gap > one.gap for one in last):
            print(
                f"note: --minutes ended the search early: settings were compared at a gap of {percentage(gap)}"
            )
        if self.refitted is not None:
            self.refitted.warn()
            print(self.refitted.summary())


def _sent(pool: RayPool, progress: GridProgress, trial: Trial) -> dict[str, Any]:
    """Return the result of a trial that a Ray worker runs."""
    found: dict[str, Any] = pool.work("run_within", (trial, progress.ends - time.perf_counter()))
    return found


def _before(end: float) -> bool:
    return time.perf_counter() < end


def _setting(finding: Finding) -> dict[str, Any]:
    names = [name for name, value in finding.results[0]["scores"].items() if isinstance(value, float)]
    figures = ("objective", "gap", "passes", "active_templates", "seconds", "cpu_seconds")
    return {
        **varied(finding.options),
        "scores": {name: finding.mean(name) for name in names},
        "deviation": {name: finding.deviation(name) for name in names},
        **{name: finding.mean(name) for name in figures},
        "trials": len(finding.results),
        "complete": finding.complete,
    }


def describe(options: Options) -> str:
    """Return the options that a search varies, in words."""
    given = {name: value for name, value in varied(options).items() if value is not None}
    return ", ".join(f"{k} {f'{v:.4g}' if isinstance(v, float) else v}" for k, v in given.items())


def headline(task: str, result: dict[str, Any]) -> str:
    """Return the result of a training in one line."""
    name = task_of(task).chosen_score([result])
    state = "" if result["converged"] else ", not converged"
    return (
        f"{name} {result['scores'][name]:.2f}, gap {percentage(result['gap'])}{state}, "
        f"{result['active_templates']} templates, {clock(result['seconds'])}"
    )


def _name(trial: Trial) -> str:
    """Return what sets a trial apart from the others of its study."""
    fold = f", {trial.split.name}" if "fold" in trial.split.facts else ""
    return f"{describe(trial.options)}{fold}"
