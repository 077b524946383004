"""`weights --path`: how the weights of several trainings move along c or p."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mtlstruct.cli.common import print_json

if TYPE_CHECKING:
    from mtlstruct.report.weight_path import WeightPath

SHOWN = 20
"""How many templates the table has if nothing else is said."""


Along = Literal["c", "p"]


def show_paths(
    sources: Sequence[Path],
    along: Along | None,
    plot: Path | None,
    top: int | None,
    *,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Reads models and folders of `tune`, then draws and prints."""
    from mtlstruct.report.weight_path import read_points, weight_paths

    paths = weight_paths(read_points(sources), along)
    if plot is not None:
        from mtlstruct.report.weight_path_plot import plot_paths

        plot_paths(paths, plot)
        print(f"drew {plot}", file=sys.stderr)
    if as_json:
        print_json([_object(path, top) for path in paths])
    elif as_csv:
        _print_csv(paths, top)
    else:
        _print_tables(paths, top or SHOWN)


def _object(path: WeightPath, top: int | None) -> dict[str, Any]:
    relative = path.relative
    return {
        **path.held,
        "along": path.along,
        "values": list(path.values),
        "templates": [
            {
                "index": j,
                "text": path.texts[j],
                "mu": path.mu[:, j].tolist(),
                "relative": relative[:, j].tolist(),
            }
            for j in path.heaviest()[:top]
        ],
    }


def _print_csv(paths: Sequence[WeightPath], top: int | None) -> None:
    """A row for each training and template."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*paths[0].held, paths[0].along, "index", "text", "mu", "relative"])
    for path in paths:
        relative = path.relative
        for k, value in enumerate(path.values):
            for j in path.heaviest()[:top]:
                held = ["" if item is None else item for item in path.held.values()]
                writer.writerow([*held, value, j, path.texts[j], path.mu[k, j], relative[k, j]])


def _print_tables(paths: Sequence[WeightPath], top: int) -> None:
    from rich.text import Text

    from mtlstruct.report.tables import plain_table, show

    for path in paths:
        print(f"{path.title}: relative weights along {path.along}")
        table = plain_table(["text"], [f"{value:.4g}" for value in path.values])
        for j in path.heaviest()[:top]:
            table.add_row(
                Text(path.texts[j]), *(f"{value:.4g}" if value else "0" for value in path.relative[:, j])
            )
        show(table)
        rest = len(path.texts) - top
        if rest > 0:
            print(f"{rest} more not shown")
