"""Experiments as data: library/*.toml -> grids of rows, and what the paper printed for them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import Any

from mtlstruct.errors import MtlError
from mtlstruct.training.options import Options
from reproduction.datasets import dataset

ALL = (
    *("cws", "cws-splits", "ner", "ner-selected", "parsing", "p-norm", "time", "sensitivity", "weights"),
    "richer",
)
"""The experiments, in the order of a page: the paper's, then one beyond it."""

TOP = "top-"
"""`top-20 of ner-134`: the heaviest templates of a set, by the MTL row that was trained on all of it."""

MTL = "MTL"
"""The label of the row by whose weights templates are selected."""

_SETTABLE = {field.name for field in fields(Options)} - {"task", "method", "c", "p", "tags"}


@dataclass(frozen=True)
class Row:
    """A line of a table, a curve of a figure: a method and its options.

    c       instead of the grid's, if not empty
    left_out  whether it is not run for its cost: the paper's numbers stand alone
    times   by how much its CPU time is to be counted: an online method may be timed on one of its epochs
    paper   by corpus and template set, the numbers in the order of the columns
    """

    label: str
    method: str
    p: float | None
    options: Mapping[str, Any]
    c: Sequence[float]
    left_out: bool
    times: int
    paper: Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Grid:
    """Rows on corpora with template sets over values of c.

    parts, scores   the columns: each score of each part
    splits          0 for the official split, else how many random ones
    scaled          whether c is to mean the same for every p, see scale()
    converging      whether it is there for its course rather than its end
    """

    data: Sequence[str]
    templates: Sequence[str]
    parts: Sequence[str]
    scores: Sequence[str]
    c: Sequence[float]
    rows: Sequence[Row]
    splits: int = 0
    scaled: bool = False
    converging: bool = False

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Part and score of each column."""
        return [(part, score) for part in self.parts for score in self.scores]

    def settings(self, row: Row, task: str, templates: int) -> list[Options]:
        """The trainings of a row, by c."""
        if row.left_out:
            return []
        values = row.c or self.c
        factor = scale(row.p or 1.0, templates) if self.scaled else 1.0
        base = Options(task=task, method=row.method, p=row.p, **row.options)
        return [replace(base, c=c * factor).checked() for c in values]


@dataclass(frozen=True)
class Experiment:
    """A table or figure, or both. `only`: the rows that the figures show, all if empty."""

    name: str
    title: str
    paper: str
    views: Sequence[str]
    grids: Sequence[Grid]
    only: Sequence[str] = ()


def scale(p: float, templates: int) -> float:
    """By what c is multiplied for p: the squared p-norm of m equal blocks is m^(2/p) times that of one block."""
    return float(templates ** (2 / p - 2))


def experiment(name: str) -> Experiment:
    """One of ALL."""
    if name not in ALL:
        raise MtlError(f"unknown experiment {name!r}: expected one of {', '.join(ALL)} or all")
    entry = _load(name)
    grids = [_grid(grid, entry.get("rows", [])) for grid in entry["grids"]]
    only = entry.get("only", [])
    if only:
        grids = [replace(grid, rows=[row for row in grid.rows if row.label in only]) for grid in grids]
    return Experiment(name, entry["title"], entry["paper"], entry["views"], grids, only)


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((files("reproduction") / "library" / f"{name}.toml").read_text("utf-8"))


def _grid(entry: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Grid:
    """A grid; one that is `like` that of another experiment says only what differs."""
    if "like" in entry:
        other = _load(entry["like"])
        entry, rows = {**other["grids"][0], **entry}, entry.get("rows", other["rows"])
    else:
        rows = entry.get("rows", rows)
    for name in entry["data"]:
        dataset(name)
    return Grid(
        data=entry["data"],
        templates=entry["templates"],
        parts=entry["parts"],
        scores=entry["scores"],
        c=entry["c"],
        rows=[_row(row) for row in rows],
        splits=entry.get("splits", 0),
        scaled=entry.get("scaled", False),
        converging=entry.get("converging", False),
    )


def _row(entry: Mapping[str, Any]) -> Row:
    own = {name: value for name, value in entry.items() if name in _SETTABLE}
    unknown = set(entry) - set(own) - {"label", "method", "p", "c", "left_out", "times", "paper"}
    if unknown:
        raise MtlError(f"row {entry['label']!r}: unknown entry {', '.join(sorted(unknown))}")
    return Row(
        label=entry["label"],
        method=entry["method"],
        p=entry.get("p"),
        options=own,
        c=entry.get("c", ()),
        left_out=entry.get("left_out", False),
        times=entry.get("times", 1),
        paper=entry.get("paper", {}),
    )
