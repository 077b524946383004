"""Ours beside the paper's, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mtlstruct.tuning.study import Finding
from reproduction.datasets import MARKS
from reproduction.plan import Case
from reproduction.results import Results, deviation, mean
from reproduction.specs import Experiment, Grid, Row

NAMES = {
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "r_iv": "R_iv",
    "acc": "ACC",
    "uasp": "UASP",
    "uas": "UAS",
}
MINUS = "−"


@dataclass(frozen=True)
class Entry:
    """One number of a table: ours and the paper's, either of which may not be there; `digits` are the paper's."""

    ours: float | None
    spread: float | None
    paper: float | None
    digits: int = 2
    best: bool = False

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    def text(self, bold: str) -> str:
        """`93.31 ± 0.10 (93.8, −0.5)`; `bold` is a pattern for the best of a column."""
        if self.ours is None:
            return "–" if self.paper is None else f"– ({self.paper:.{self.digits}f})"
        ours = f"{self.ours:.2f}" + ("" if self.spread is None else f" ± {self.spread:.2f}")
        shown = bold.format(ours) if self.best else ours
        if self.difference is None:
            return shown
        return f"{shown} ({self.paper:.{self.digits}f}, {signed(self.difference, self.digits)})"


@dataclass(frozen=True)
class Line:
    """A row of a table: the entries, and the training that they are of, by template set."""

    row: Row
    entries: Sequence[Entry]
    shown: Sequence[Finding | None]


@dataclass(frozen=True)
class Table:
    """The rows of a grid on one corpus; or, in their place, why they were not run."""

    grid: Grid
    data: str
    title: str
    note: str
    columns: Sequence[str]
    lines: Sequence[Line]

    def markdown(self) -> str:
        """With the paper's number and the difference in brackets."""
        head = [
            f"| {self.title} | " + " | ".join(self.columns) + " | c |",
            "|---" * (len(self.columns) + 2) + "|",
        ]
        body = [
            f"| {line.row.label} | " + " | ".join(e.text("**{}**") for e in line.entries) + f" | {_c(line)} |"
            for line in self.lines
        ]
        note = [f"\n{self.note}"] if self.note else []
        return "\n".join([*head, *body, *note]) + "\n"

    def latex(self) -> str:
        """The same as a tabular."""
        columns = "l" + "r" * len(self.columns)
        head = " & ".join([self.title, *self.columns]).replace("_", r"\_")
        body = [
            " & ".join([line.row.label, *(e.text(r"\textbf{{{}}}") for e in line.entries)]) + r" \\"
            for line in self.lines
        ]
        rows = "\n".join(body).replace(MINUS, "$-$").replace("±", r"$\pm$").replace("–", "--")
        note = f"% {self.note}\n" if self.note else ""
        marked = head.replace("†", r"$\dagger$").replace("≈", r"$\approx$")
        top = f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{marked} \\\\\n\\hline\n"
        return f"{note}{top}{rows}\n\\hline\n\\end{{tabular}}\n"


CSV_FIELDS = (
    *("experiment", "data", "standing", "splits", "templates", "row", "part", "score", "ours", "deviation"),
    *("paper", "difference", "c", "gap", "passes", "active_templates", "learn_cpu_seconds"),
)


def tables(experiment: Experiment, results: Results) -> list[Table]:
    """A table for each corpus of each grid; a corpus that is not there has one without numbers of ours."""
    return [
        _table(grid, data, results) for grid in experiment.grids for data in grid.data if not grid.converging
    ]


def to_csv(experiment: Experiment, results: Results) -> str:
    """A line a number, for programs."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_FIELDS, lineterminator="\n")
    writer.writeheader()
    for table in tables(experiment, results):
        writer.writerows(_records(experiment, table, results))
    return out.getvalue()


def signed(value: float, digits: int = 2) -> str:
    """With its sign, and no negative zero."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (MINUS if value < 0 else "+") + text


def _table(grid: Grid, data: str, results: Results) -> Table:
    cases = [Case(data, templates, grid.splits) for templates in grid.templates]
    columns = [_column(case, part, score, grid) for case in cases for part, score in grid.columns]
    lines = [_line(grid, row, cases, results) for row in grid.rows]
    missing = results.missing.get(data)
    corpus = missing or results.corpora[data]
    note = missing.describe() if missing else _standing(corpus.title, results, data)
    return Table(grid, data, corpus.title, note, columns, _with_best(lines))


def _standing(title: str, results: Results, data: str) -> str:
    source = results.corpora[data].source
    return f"{title}: {source.standing}. {source.note}" if MARKS[source.standing] else ""


def _column(case: Case, part: str, score: str, grid: Grid) -> str:
    set_ = [case.templates] if len(grid.templates) > 1 else []
    of = [part] if len(grid.parts) > 1 else []
    return " ".join([*set_, *of, NAMES[score]])


def _line(grid: Grid, row: Row, cases: Sequence[Case], results: Results) -> Line:
    shown = [results.shown(grid, row, case) for case in cases]
    entries: list[Entry] = []
    for case, finding in zip(cases, shown, strict=True):
        printed = row.paper.get(case.data, {}).get(case.templates)
        for number, (part, score) in enumerate(grid.columns):
            paper = printed[number] if printed else None
            ours = None if finding is None else mean(finding, case, part, score)
            spread = None if finding is None else deviation(finding, case, part, score)
            entries.append(Entry(ours, spread, paper, _digits(printed)))
    return Line(row, entries, shown)


def _digits(printed: Sequence[float] | None) -> int:
    """As many as the paper prints in a row."""
    return 2 if any(round(value, 1) != value for value in printed or ()) else 1


def _with_best(lines: Sequence[Line]) -> list[Line]:
    """The best of each column is marked, by what is printed of it."""
    tops = [
        max((round(e.ours, 2) for e in column if e.ours is not None), default=None)
        for column in zip(*(line.entries for line in lines), strict=True)
    ]
    return [
        Line(
            line.row,
            [
                replace(e, best=e.ours is not None and round(e.ours, 2) == top)
                for e, top in zip(line.entries, tops, strict=True)
            ],
            line.shown,
        )
        for line in lines
    ]


def _c(line: Line) -> str:
    """The c that each template set is shown at."""
    if line.row.left_out:
        return "left out"
    return ", ".join("–" if finding is None else f"{finding.options.c_value:.3g}" for finding in line.shown)


def _records(experiment: Experiment, table: Table, results: Results) -> Iterator[dict[str, object]]:
    found = results.corpora.get(table.data)
    grid = table.grid
    for line in table.lines:
        entries = iter(line.entries)
        for templates, finding in zip(grid.templates, line.shown, strict=True):
            for part, score in grid.columns:
                entry = next(entries)
                yield {
                    "experiment": experiment.name,
                    "data": table.data,
                    "standing": found.source.standing if found else table.note,
                    "splits": grid.splits,
                    "templates": templates,
                    "row": line.row.label,
                    "part": part,
                    "score": score,
                    "ours": entry.ours,
                    "deviation": entry.spread,
                    "paper": entry.paper,
                    "difference": entry.difference,
                    **({} if finding is None else {"c": finding.options.c_value}),
                    **({} if finding is None else {name: finding.mean(name) for name in CSV_FIELDS[-4:]}),
                }
