"""`python -m reproduction`: run the paper's experiments and print ours beside the paper's numbers."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.cli import common
from mtlstruct.cli.command import Command, argument, option
from mtlstruct.cli.errors import NEGATIVE, print_message
from mtlstruct.cli.progress import GridProgress
from mtlstruct.cli.tuning_run import describe, headline
from mtlstruct.errors import MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet
    from mtlstruct.training.options import Options
    from mtlstruct.tuning.study import Store, Study, Trial
    from reproduction.datasets import Folder
    from reproduction.plan import Case, Texts
    from reproduction.results import Results


def reproduce(
    names: list[str] = argument(
        ...,
        "NAME",
        "cws, cws-splits, ner, ner-selected, parsing, p-norm, time, sensitivity, weights; richer; or all.",
    ),
    data: Path = option(..., "The folder that has the corpora.", metavar="DIR"),
    out: Path = option(..., "Where results are kept and looked for.", metavar="DIR"),
    jobs: int | None = option(None, "Trainings at a time.", range=(1, 1000), shown="all cores"),
    minutes: float | None = option(
        None, "Begin no training after so long; write what is there.", metavar="M", range=(0.0, 1e6)
    ),
    force: bool = common.FORCE,
    quiet: bool = option(False, "No progress.", "-q", "--quiet"),
) -> None:
    """Make a table or figure of the paper again, ours beside the paper's.

    The result of every training is a line of DIR/results.jsonl: the same command goes on where an earlier one was
    interrupted. A corpus that is not in the folder leaves a row that says so. Exit code 1 if a
    training failed; the others are not lost.
    """
    from mtlstruct.report.plots import figure_class
    from mtlstruct.tuning.study import Store
    from reproduction.datasets import Folder
    from reproduction.pages import write
    from reproduction.plan import only, plan

    figure_class()
    experiments = only(names)
    _check_folder(out, force=force)
    out.mkdir(parents=True, exist_ok=True)
    store = Store(out)
    store.path.touch()  # marks the folder as one of this command
    run = Reproduction(Folder(data), store, plan(experiments), jobs, minutes, quiet)
    run.all()
    command = "python -m reproduction " + " ".join(shlex.quote(name) for name in names)
    page = write(experiments, run.results, out, f"{command} --data DIR --out DIR")
    print(page)
    if run.progress.failed:
        trial, reason = run.progress.failed[0]
        print_message(
            f"{len(run.progress.failed)} trainings failed, the first, {trial.options.method}: {reason}"
        )
        sys.exit(NEGATIVE)


def _check_folder(out: Path, *, force: bool) -> None:
    """Raise an error for a folder whose files this command has not written."""
    from mtlstruct.tuning.study import FILE

    shown = [path for path in out.iterdir() if path.name[0] != "."] if out.is_dir() else []
    if not force and shown and not (out / FILE).is_file():
        raise MtlError(
            f"{out}: expected a new folder or that of an earlier run, got one with other files; "
            "--force writes there"
        )


@dataclass
class Reproduction:
    """The cases of a plan, run one after the other, each on data encoded once."""

    folder: Folder
    store: Store
    plan: Mapping[Case, Sequence[Options]]
    jobs: int | None
    minutes: float | None
    quiet: bool
    results: Results = field(init=False)
    progress: GridProgress = field(init=False)

    def __post_init__(self) -> None:
        from reproduction.results import Results

        self.results = Results()
        self.progress = GridProgress(self._name, self._headline, quiet=self.quiet)
        self.now: Case | None = None
        self.began = time.perf_counter()

    def all(self) -> None:
        """Finds the corpora, then runs case after case."""
        self._find()
        cases = {case: settings for case, settings in self.plan.items() if case.data in self.results.corpora}
        self.progress.total = sum(len(settings) * max(1, case.splits) for case, settings in cases.items())
        with self.progress.screen:
            for found in self.results.corpora.values():
                self.progress.screen.say(f"{found.title}: {found.describe()}")
            for missing in self.results.missing.values():
                self.progress.screen.say(f"{missing.title}: {missing.describe()}")
            for case, settings in cases.items():
                self._run(case, settings)

    def _find(self) -> None:
        from reproduction.datasets import Found, dataset

        for data in dict.fromkeys(case.data for case in self.plan):
            found = self.folder.find(dataset(data))
            if isinstance(found, Found):
                self.results.corpora[data] = found
            else:
                self.results.missing[data] = found

    def _run(self, case: Case, settings: Sequence[Options]) -> None:
        from mtlstruct.tuning.study import findings
        from reproduction.plan import Texts, study_of
        from reproduction.results import Outcome

        self.now = case
        found = self.results.corpora[case.data]
        texts = Texts.of(found, _read)
        try:
            templates = self._templates(case, texts)
        except MtlError as error:
            self.progress.screen.say(f"{found.title}, {case.templates}: not run: {error}")
            return
        study = study_of(case, texts, templates, settings)
        missing = [trial for trial in study.trials if self.store.load(trial.key) is None]
        self.progress.done += len(study.trials) - len(missing)
        if missing and self._time_left():
            self._train(study, missing)
        known = {finding.options: finding for finding in findings(study, self.store)}
        self.results.outcomes[case] = Outcome(case, found, templates, known)

    def _templates(self, case: Case, texts: Texts) -> TemplateSet:
        from reproduction.plan import heaviest, templates_of

        if case.base is None:
            return templates_of(case, texts)
        base = self.results.outcomes[case.base]
        return heaviest(base.findings, case.base, base.templates, case.count)

    def _train(self, study: Study, trials: Sequence[Trial]) -> None:
        from mtlstruct._system.threads import set_threads
        from mtlstruct.tasks import task_of
        from mtlstruct.tuning.runner import Runner

        cores = set_threads(None)
        runner = Runner.encode(study, task_of(study.task))
        self.progress.jobs = jobs = runner.fitting(min(self.jobs or cores, len(trials)), trials)
        set_threads(max(1, cores // jobs))
        with closing(runner.run(trials, self.store, jobs=jobs, go_on=self._time_left)) as outcomes:
            for outcome in outcomes:
                self.progress.see(outcome)

    def _time_left(self) -> bool:
        return self.minutes is None or time.perf_counter() - self.began < 60 * self.minutes

    def _name(self, trial: Trial) -> str:
        assert self.now is not None
        case, split = self.now, trial.split
        which = f", split {split.facts['seed']}" if "seed" in split.facts else ""
        return f"{self.results.corpora[case.data].title}, {case.templates}: {describe(trial.options)}{which}"

    def _headline(self, result: dict[str, Any]) -> str:
        assert self.now is not None
        return headline(self.now.task, result)


def _read(path: Path, task: str) -> Corpus:
    """A part of a corpus; the official files of 2002 are Latin-1."""
    from mtlstruct.tasks import FileOptions, task_of

    try:
        path.read_text("utf-8")
    except UnicodeDecodeError:
        return task_of(task).read(path, FileOptions("latin-1"))
    return task_of(task).read(path)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    from mtlstruct import cli

    return cli.run(arguments, Command(reproduce, "python -m reproduction"))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
