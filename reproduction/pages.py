"""Tables, figures, claims and the story of a run, written as one Markdown page with its CSV and LaTeX beside it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from mtlstruct import __version__
from mtlstruct._system.atomic_write import replacing
from reproduction.claims import verdicts
from reproduction.figures import draw
from reproduction.results import Results
from reproduction.specs import Experiment
from reproduction.tables import tables, to_csv

PAGE = "reproduction.md"
LEGEND = (
    "Each number is ours, then in brackets the paper's and the difference. Bold is the best of ours in a column. "
    "† is another text in place of the paper's, ≈ the same text but for details; c is the one shown, "
    "chosen on the development text, or on the test text where there is none (as in the paper)."
)


def write(experiments: Sequence[Experiment], results: Results, out: Path, command: str) -> Path:
    """All files of a run; returns the page."""
    sections = [_section(one, results, out) for one in experiments]
    page = out / PAGE
    _save(page, "\n".join([_head(results, command), _claims(results), *sections]))
    return page


def _section(experiment: Experiment, results: Results, out: Path) -> str:
    text = [f"## {experiment.title}\n", f"Beside {experiment.paper}.\n"]
    if "table" in experiment.views:
        found = tables(experiment, results)
        text += [table.markdown() for table in found]
        _save(out / f"{experiment.name}.csv", to_csv(experiment, results))
        _save(out / f"{experiment.name}.tex", "\n".join(table.latex() for table in found))
    for picture in draw(experiment, results, out):
        text.append(f"![{experiment.title}]({picture.name})\n")
    absent = _absent(experiment, results) if "table" not in experiment.views else []
    return "\n".join([*text, *absent])


def _absent(experiment: Experiment, results: Results) -> list[str]:
    """Corpora that a figure should have had."""
    wanted = dict.fromkeys(data for grid in experiment.grids for data in grid.data)
    return [
        f"{results.missing[data].title}: {results.missing[data].describe()}\n"
        for data in wanted
        if data in results.missing
    ]


def _head(results: Results, command: str) -> str:
    corpora = [f"- {found.describe()}" for found in results.corpora.values()]
    gone = [f"- {missing.dataset.title}: {missing.describe()}" for missing in results.missing.values()]
    hours = results.cpu_seconds() / 3600
    return "\n".join(
        [
            "# The paper's tables and figures, made again\n",
            f"`{command}` · mtlstruct {__version__} · {_machine()}\n",
            f"{results.trainings()} trainings, {hours:.2f} CPU hours. {LEGEND}\n",
            *corpora,
            *gone,
            "",
        ]
    )


def _machine() -> str:
    parts = [f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba")]
    return ", ".join([*parts, f"{os.cpu_count()} cores, {platform.machine()}"])


def _claims(results: Results) -> str:
    rows = [f"| {v.claim} | {v.answer} | {v.figures} |" for v in verdicts(results)]
    return "\n".join(["## What the paper claims\n", "| claim | here | figures |", "|---|---|---|", *rows, ""])


def _save(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
