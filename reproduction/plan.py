"""What has to be run for some experiments: the cases, each encoded once, and the settings of each.

A case is a corpus with a template set, on its official or on random splits. Two tables that want the same setting
of a case share the cell. A case whose templates are the heaviest of another one comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtlstruct.corpus import Corpus, joined
from mtlstruct.errors import MtlError
from mtlstruct.formats import segmented
from mtlstruct.templates import TemplateSet
from mtlstruct.templates.arc_terms import reach_of
from mtlstruct.templates.generate import STRETCHED, preset
from mtlstruct.training.options import Options
from mtlstruct.tuning.study import VALID, Finding, Split, Study, best, held_out
from reproduction.datasets import Found, dataset
from reproduction.specs import ALL, MTL, TOP, Experiment, Grid, Row, experiment

SHARE = 0.2
"""Of the sentences, those that a random split scores."""

Read = Callable[[Path, str], Corpus]
"""read(path, task)"""


@dataclass(frozen=True)
class Case:
    """A corpus and a template set by name; splits is 0 for the official split."""

    data: str
    templates: str
    splits: int = 0

    @property
    def task(self) -> str:
        """The task of the corpus."""
        return dataset(self.data).task

    @property
    def chosen_on(self) -> str:
        """The part that c is chosen on: the development text, or the test text where there is none."""
        return "dev" if "dev" in dataset(self.data).sentences else "test"

    @property
    def base(self) -> Case | None:
        """The case whose weights select the templates of this one."""
        if not self.templates.startswith(TOP):
            return None
        return Case(self.data, self.templates.partition(" of ")[2], self.splits)

    @property
    def count(self) -> int:
        """How many templates are selected, or are in the set."""
        if self.base is not None:
            return int(self.templates.removeprefix(TOP).partition(" ")[0])
        return len(preset(self.templates))


def cases_of(grid: Grid) -> list[Case]:
    """The cases of a grid, by corpus."""
    return [Case(data, templates, grid.splits) for data in grid.data for templates in grid.templates]


def settings_of(grid: Grid, row: Row, case: Case) -> list[Options]:
    """The trainings of a row of a grid in one case, by c."""
    return grid.settings(row, case.task, case.count if grid.scaled else 0)


def plan(experiments: Iterable[Experiment]) -> dict[Case, list[Options]]:
    """All that has to be run; what selects templates before what is selected."""
    found: dict[Case, dict[Options, None]] = {}
    for one in experiments:
        for grid in one.grids:
            for case in cases_of(grid):
                wanted = [options for row in grid.rows for options in settings_of(grid, row, case)]
                found.setdefault(case, {}).update(dict.fromkeys(wanted))
                if case.base is not None:
                    found.setdefault(case.base, {}).update(dict.fromkeys(selecting(case.base)))
    ordered = sorted(found, key=lambda case: case.base is not None)
    return {case: list(found[case]) for case in ordered}


def selecting(base: Case) -> list[Options]:
    """The trainings of the MTL row, the best of which selects templates: those of the table that has the case."""
    grid = experiment("ner").grids[0]
    row = next(row for row in grid.rows if row.label == MTL)
    return settings_of(grid, row, base)


def heaviest(found: Mapping[Options, Finding], base: Case, templates: TemplateSet, count: int) -> TemplateSet:
    """The `count` templates that weigh most in the best training of the MTL row."""
    chosen = best([found[options] for options in selecting(base) if options in found], "f1")
    mu = np.asarray(chosen.results[0]["mu"])
    ranked = np.argsort(-mu, kind="stable")[:count]
    return templates.select(sorted(int(j) for j in ranked if mu[j] > 0))


@dataclass(frozen=True)
class Texts:
    """The parts of a corpus, read."""

    parts: Mapping[str, Corpus]
    words: frozenset[str] | None

    @classmethod
    def of(cls, found: Found, read: Read) -> Texts:
        """Reads all parts."""
        paths = dict(found.paths)
        words = paths.pop("words", None)
        known = None if words is None else frozenset(segmented.vocabulary(words))
        return cls({part: read(path, found.dataset.task) for part, path in paths.items()}, known)


def templates_of(case: Case, texts: Texts) -> TemplateSet:
    """The set of a case that is not selected by another."""
    if case.templates in STRETCHED:
        train = texts.parts["train"]
        return preset(case.templates, reach_of(train))
    return preset(case.templates)


def study_of(case: Case, texts: Texts, templates: TemplateSet, settings: Sequence[Options]) -> Study:
    """What `tuning` runs for a case."""
    if case.splits:
        whole = joined([texts.parts["train"], texts.parts["test"]])
        return Study(whole, templates, tuple(settings), _random(len(whole), case.splits))
    valid = texts.parts[case.chosen_on]
    also = {part: text for part, text in texts.parts.items() if part not in ("train", case.chosen_on)}
    words = texts.words if case.task == "segmentation" else None
    return Study(texts.parts["train"], templates, tuple(settings), (VALID,), valid, also, words)


def _random(sentences: int, count: int) -> tuple[Split, ...]:
    return tuple(held_out(sentences, SHARE, seed) for seed in range(1, count + 1))


def only(experiments: Sequence[str]) -> list[Experiment]:
    """Experiments by name, `all` for all of them."""
    names = ALL if "all" in experiments else experiments
    if not names:
        raise MtlError("expected the name of an experiment")
    return [experiment(name) for name in names]
