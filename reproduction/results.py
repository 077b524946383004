"""What came of the cases: looked up by row, and the c that a row is shown at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options
from mtlstruct.tuning.study import Finding
from reproduction.datasets import Found, Missing
from reproduction.plan import Case, settings_of
from reproduction.specs import Grid, Row

CHOOSING = {"sequence": "f1", "segmentation": "f1", "dependency": "uas", "multiclass": "accuracy"}


@dataclass(frozen=True)
class Outcome:
    """A case that was run: its corpus, its templates and its findings by setting."""

    case: Case
    corpus: Found
    templates: TemplateSet
    findings: Mapping[Options, Finding]
    encode_seconds: float = 0.0


@dataclass
class Results:
    """Of all cases. `missing` has those whose corpus is not there."""

    outcomes: dict[Case, Outcome] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)
    corpora: dict[str, Found] = field(default_factory=dict)

    def curve(self, grid: Grid, row: Row, case: Case) -> list[Finding]:
        """What is known of a row, by rising c."""
        outcome = self.outcomes.get(case)
        if outcome is None:
            return []
        found = [outcome.findings.get(options) for options in settings_of(grid, row, case)]
        return sorted((f for f in found if f is not None and f.complete), key=lambda f: f.options.c_value)

    def shown(self, grid: Grid, row: Row, case: Case) -> Finding | None:
        """The finding at the c that is best on the part on which c is chosen."""
        name = CHOOSING[case.task]
        return max(self.curve(grid, row, case), key=lambda finding: finding.mean(name), default=None)

    def cpu_seconds(self) -> float:
        """Of all trainings together."""
        every = (f for outcome in self.outcomes.values() for f in outcome.findings.values())
        return sum(float(result["cpu_seconds"]) for finding in every for result in finding.results)

    def trainings(self) -> int:
        """How many there were."""
        return sum(len(f.results) for outcome in self.outcomes.values() for f in outcome.findings.values())


def values(finding: Finding, case: Case, part: str, score: str) -> list[float]:
    """A score of a part on each split."""
    if part == case.chosen_on:
        return [float(result["scores"][score]) for result in finding.results]
    return [float(result["also"][part][score]) for result in finding.results]


def mean(finding: Finding, case: Case, part: str, score: str) -> float:
    """Its mean over the splits."""
    return float(np.mean(values(finding, case, part, score)))


def deviation(finding: Finding, case: Case, part: str, score: str) -> float | None:
    """Its standard deviation; None for one split."""
    found = values(finding, case, part, score)
    return float(np.std(found, ddof=1)) if len(found) > 1 else None


def relative_weights(result: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """mu so scaled that 1 is the average."""
    mu = np.asarray(result["mu"], np.float64)
    total = float(mu.sum())
    return mu * len(mu) / total if total else mu
