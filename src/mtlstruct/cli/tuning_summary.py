"""What came of a grid of trainings, for people and for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.cli.training_summary import Result
from mtlstruct.errors import MtlError

if TYPE_CHECKING:
    from mtlstruct.training.options import Options
    from mtlstruct.tuning.result_store import Store
    from mtlstruct.tuning.study import Finding, Study, Trial

FIGURES = ("objective", "dual", "gap", "epsilon", "passes", "converged", "active_templates")
TIMES = ("seconds", "cpu_seconds")


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
        from mtlstruct.tuning.study import findings

        return findings(self.study, self.store)

    @cached_property
    def score(self) -> str:
        """By which they are compared."""
        from mtlstruct.tasks import task_of

        results = [result for finding in self.found for result in finding.results]
        return task_of(self.study.task).chosen_score(results)

    @cached_property
    def best(self) -> Finding:
        """The best of them."""
        from mtlstruct.tuning.study import best

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
                {**varied(trial.options), "split": trial.split.name, "reason": reason}
                for trial, reason in self.failed
            ],
            "trials": [self._trial(*pair) for pair in self._kept()],
            "encode_seconds": self.encode_seconds,
            "seconds": self.seconds,
            **({} if self.refitted is None else {"model": self.refitted.numbers}),
        }

    def print_table(self) -> None:
        """The settings, and the choice."""
        from mtlstruct.report.tables import print_settings

        print_settings(self.found, self.best, self.score)
        figure = f"{self.score} {self.best.mean(self.score):.2f}"
        print(
            f"best: {describe(self.best.options)} ({figure} on {where(self.study)}); cells in {self.store.folder}"
        )
        if self.refitted is not None:
            self.refitted.warn()
            print(self.refitted.summary())

    def draw(self, path: Path, *, quiet: bool) -> None:
        """Draw the scores, where there are two settings or more and matplotlib is installed."""
        from mtlstruct.report.tuning_plot import plot_settings

        complete = [finding for finding in self.found if finding.complete]
        if len(complete) < 2:
            return
        with suppress(MtlError):
            plot_settings(complete, self.score, path)
            if not quiet:
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

    def _kept(self) -> Iterator[tuple[Trial, dict[str, Any]]]:
        for trial in self.study.trials:
            result = self.store.load(trial.cell)
            if result is not None:
                yield trial, result

    def _trial(self, trial: Trial, result: dict[str, Any]) -> dict[str, Any]:
        return {
            **varied(trial.options),
            "split": trial.split.name,
            "scores": result["scores"],
            **{name: result[name] for name in (*FIGURES, *TIMES)},
            "file": self.store.path(trial.cell).name,
        }


def varied(options: Options) -> dict[str, Any]:
    """The options that a grid is about."""
    return {name: getattr(options, name) for name in ("method", "p", "c")}


def describe(options: Options) -> str:
    """The same in words."""
    given = {name: value for name, value in varied(options).items() if value is not None}
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in given.items()
    )


def where(study: Study) -> str:
    """What settings are scored on."""
    if len(study.splits) > 1:
        return f"{len(study.splits)} folds"
    split = study.splits[0]
    return "the validation data" if split.test is None else f"{len(split.test):,} sentences held out"
