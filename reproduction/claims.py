"""What the paper says in words, checked against the cells: yes or no, with the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mtlstruct.tuning.study import Finding
from reproduction.plan import Case
from reproduction.results import Results, mean
from reproduction.specs import MTL, Grid, Row, experiment
from reproduction.tables import signed

LIKELIHOOD = ("CRF (l2)", "CRF (l1)")
FEW = "top-20 of ner-134"
MANY = "ner-134"


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds here (None: not run), and the figures that say so."""

    claim: str
    holds: bool | None
    figures: str

    @property
    def answer(self) -> str:
        """In a word."""
        return {True: "yes", False: "no", None: "not run"}[self.holds]


class Looked:
    """The results, by the names that the claims use."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def finding(self, name: str, label: str, data: str, templates: str) -> Finding | None:
        """The training that a table shows in a row."""
        grid, row = _row(name, label, data, templates)
        return self.results.shown(grid, row, Case(data, templates, grid.splits))

    def f1(self, name: str, label: str, data: str, templates: str) -> float | None:
        """Its F1 on the test text."""
        found = self.finding(name, label, data, templates)
        return None if found is None else mean(found, Case(data, templates), "test", "f1")

    def title(self, data: str) -> str:
        """A corpus with its mark."""
        return self.results.corpora[data].title


def verdicts(results: Results) -> list[Verdict]:
    """All claims, in the order of the paper."""
    looked = Looked(results)
    return [claim(looked) for claim in CLAIMS]


def _best_on_large_set(looked: Looked) -> Verdict:
    claim = "MTL has the best F1 of all methods on TP2"
    said, holds = [], []
    for data in experiment("cws").grids[0].data:
        scores = _scores(looked, "cws", data, "cws-tp2")
        if MTL not in scores or len(scores) < 2:
            continue
        best = max(scores, key=lambda label: scores[label])
        holds.append(best == MTL)
        said.append(f"{looked.title(data)}: MTL {scores[MTL]:.2f}, best {best} {scores[best]:.2f}")
    return _verdict(claim, holds, said)


def _hurt_by_more_templates(looked: Looked) -> Verdict:
    claim = "The templates that TP2 adds hurt the CRFs and the SVM, but not MTL"
    said, holds = [], []
    for data in experiment("cws").grids[0].data:
        small, large = (_scores(looked, "cws", data, templates) for templates in ("cws-tp1", "cws-tp2"))
        change = {
            label: large[label] - small[label]
            for label in (*LIKELIHOOD, "SVM", MTL)
            if label in small and label in large
        }
        if len(change) < 4:
            continue
        holds.append(change[MTL] >= 0 and all(change[label] < 0 for label in (*LIKELIHOOD, "SVM")))
        said.append(
            f"{looked.title(data)}: " + ", ".join(f"{label} {signed(d)}" for label, d in change.items())
        )
    return _verdict(claim, holds, said)


def _beats_selectors(looked: Looked) -> Verdict:
    claim = "MTL beats CRF (l1), IRW-CRF and OnlineMKL on ESP and NED"
    said, holds = [], []
    for data in ("esp", "ned"):
        scores = _scores(looked, "ner", data, MANY)
        others = [label for label in ("CRF (l1)", "IRW-CRF", "OnlineMKL") if label in scores]
        if MTL in scores and others:
            holds.append(len(others) == 3 and all(scores[MTL] > scores[label] for label in others))
            rest = ", ".join(f"{label} {scores[label]:.2f}" for label in others)
            said.append(f"{looked.title(data)}: MTL {scores[MTL]:.2f}, {rest}")
    return _verdict(claim, holds, said)


def _refit_lifts(looked: Looked) -> Verdict:
    claim = "Refitting the other methods on MTL's top 20 templates lifts them by 2 to 5 points"
    said, holds = [], []
    for data in ("esp", "ned"):
        before, after = _scores(looked, "ner", data, MANY), _scores(looked, "ner-selected", data, FEW)
        lift = {label: after[label] - before[label] for label in after if label in before and label != MTL}
        if lift:
            holds.append(all(value >= 2 for value in lift.values()))
            said.append(
                f"{looked.title(data)}: " + ", ".join(f"{label} {signed(d)}" for label, d in lift.items())
            )
    return _verdict(claim, holds, said)


def _drops_most(looked: Looked) -> Verdict:
    claim = "MTL removes more than half of the templates (weight below 1e-5)"
    said, holds = [], []
    for name, data, templates in (
        *(("ner", data, MANY) for data in ("esp", "ned")),
        *(("parsing", data, "dependency") for data in ("danish", "swedish")),
    ):
        found = looked.finding(name, MTL, data, templates)
        if found is not None:
            every, kept = len(found.results[0]["mu"]), found.results[0]["active_templates"]
            holds.append(2 * kept < every)
            said.append(
                f"{looked.title(data)}: {every - kept} of {every} at a gap of {found.mean('gap'):.2%}"
            )
    return _verdict(claim, holds, said)


def _faster_than_online(looked: Looked) -> Verdict:
    claim = "MTL is more than 10 times faster than OnlineMKL"
    said, holds = [], []
    for data, templates, name in (("esp", MANY, "ner"), ("pku", "cws-tp2", "cws")):
        mtl = looked.finding(name, MTL, data, templates)
        for grid, row in _timed("OnlineMKL", data, templates):
            curve = looked.results.curve(grid, row, Case(data, templates))
            if mtl is None or not curve:
                continue
            ratio = curve[0].mean("learn_cpu_seconds") * row.times / mtl.mean("learn_cpu_seconds")
            holds.append(ratio > 10)
            said.append(f"{looked.title(data)}: {row.label} takes {ratio:.1f} times as long")
    return _verdict(claim, holds, said)


def _timed(method: str, data: str, templates: str) -> list[tuple[Grid, Row]]:
    """The rows of a method whose time was taken there: a dense step, say, is a row of its own."""
    grids = [grid for grid in experiment("time").grids if data in grid.data and templates in grid.templates]
    return [(grid, row) for grid in grids for row in grid.rows if row.label.startswith(method)]


def _small_p_best(looked: Looked) -> Verdict:
    claim = "p between 1 and 4/3 is best"
    said, holds = [], []
    for grid in experiment("p-norm").grids:
        for data in grid.data:
            for templates in grid.templates:
                scores = _scores(looked, "p-norm", data, templates)
                if len(scores) == len(grid.rows):
                    best = max(scores, key=lambda label: scores[label])
                    holds.append(best in ("p = 1", "p = 4/3"))
                    said.append(f"{looked.title(data)}, {templates}: {best} with {scores[best]:.2f}")
    return _verdict(claim, holds, said)


CLAIMS: Sequence[Callable[[Looked], Verdict]] = (
    _best_on_large_set,
    _hurt_by_more_templates,
    _beats_selectors,
    _refit_lifts,
    _drops_most,
    _faster_than_online,
    _small_p_best,
)


def _verdict(claim: str, holds: Sequence[bool], said: Sequence[str]) -> Verdict:
    return Verdict(claim, all(holds) if holds else None, "; ".join(said) or "no cells")


def _scores(looked: Looked, name: str, data: str, templates: str) -> dict[str, float]:
    """F1 on the test text of every row of the paper's table that was run."""
    rows = [row for grid in experiment(name).grids if data in grid.data for row in grid.rows]
    labels = [row.label for row in rows if row.paper]
    found = {label: looked.f1(name, label, data, templates) for label in dict.fromkeys(labels)}
    return {label: score for label, score in found.items() if score is not None}


def _row(name: str, label: str, data: str, templates: str) -> tuple[Grid, Row]:
    for grid in experiment(name).grids:
        if data in grid.data and templates in grid.templates and not grid.converging:
            for row in grid.rows:
                if row.label == label:
                    return grid, row
    raise KeyError((name, label, data, templates))
