"""Pictures of a grid: scores over c as lines, over c and p as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.report.plots import INK, LINE, PALE, new_figure, quiet, save, spread, title

if TYPE_CHECKING:
    from mtlstruct.tuning.study import Finding

COLOURS = ("#2a6f97", "#ee9b00", "#6a994e", "#9b5de5", "#bc6c25", "#00a6a6", "#c9184a", "#577590")
NAMES = {"f1": "F1", "uas": "UAS", "accuracy": "accuracy"}

Row = tuple[str, float | None]
"""Method and p."""


def plot_settings(found: Sequence[Finding], score: str, path: Path) -> None:
    """Scores in percent: a heat map of p against c where p varies, else a line over c for each method."""
    rows = list(dict.fromkeys(map(_row, found)))
    if len({p for _, p in rows if p is not None}) > 1:
        figure = _heat_map(found, rows, score, path)
    else:
        figure = _lines(found, rows, score, path)
    save(figure, path)


def _row(finding: Finding) -> Row:
    return finding.options.method, finding.options.p


def _name(row: Row) -> str:
    method, p = row
    return method if p is None else f"{method} p={p:.3g}"


def _lines(found: Sequence[Finding], rows: Sequence[Row], score: str, path: Path) -> Any:
    """A line for each method; a bar shows the standard deviation over folds."""
    figure = new_figure(path, (7.0, 4.2))
    axes = figure.add_subplot()
    ends = []
    for row, colour in zip(rows, COLOURS * len(rows), strict=False):
        mine = sorted((f for f in found if _row(f) == row), key=lambda finding: finding.options.c)
        spreads = [finding.deviation(score) for finding in mine]
        x, y = [finding.options.c for finding in mine], [finding.mean(score) for finding in mine]
        bars = {"yerr": spreads, "capsize": 2.5, "elinewidth": 0.9} if any(spreads) else {}
        axes.errorbar(x, y, color=colour, marker="o", ms=4.5, lw=1.6, zorder=3, **bars)
        ends.append((y[-1], x[-1], _name(row), colour))
    best = max(found, key=lambda finding: finding.mean(score))
    axes.plot(best.options.c, best.mean(score), "o", ms=11, mfc="none", mec=LINE, mew=1.4, zorder=4)
    c_axis(axes, sorted({finding.options.c for finding in found}))
    axes.set_ylabel(f"{NAMES.get(score, score)}, percent", color=INK)
    axes.margins(x=0.08, y=0.14)
    quiet(axes, "y")
    _name_ends(axes, sorted(ends))
    _say_best(figure, best, score)
    return figure


def _name_ends(axes: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """The name of each line right of its last point, moved apart where two would touch."""
    low, high = axes.get_ylim()
    spots = spread([y for y, *_ in ends], least=(high - low) * 0.05, low=low, high=high)
    for spot, (_, x, name, colour) in zip(spots, ends, strict=True):
        axes.annotate(
            name,
            (x, spot),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )


def _heat_map(found: Sequence[Finding], rows: Sequence[Row], score: str, path: Path) -> Any:
    """Rows are methods with their p, columns are c. A cell that was not run stays white."""
    import numpy as np

    columns = sorted({finding.options.c for finding in found})
    values = np.full((len(rows), len(columns)), np.nan)
    for finding in found:
        values[rows.index(_row(finding)), columns.index(finding.options.c)] = finding.mean(score)
    figure = new_figure(path, (2.6 + 0.95 * len(columns), 1.5 + 0.48 * len(rows)))
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap="YlGnBu", aspect="auto")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for i, j in np.argwhere(np.isfinite(values)).tolist():
        ink = "white" if values[i, j] > middle else INK
        axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=9, color=ink)
    best = max(found, key=lambda finding: finding.mean(score))
    i, j = rows.index(_row(best)), columns.index(best.options.c)
    axes.add_patch(_frame_around(j, i))
    axes.set_xticks(range(len(columns)), labels=[f"{c:g}" for c in columns])
    axes.set_yticks(range(len(rows)), labels=[_name(row) for row in rows])
    axes.set_xlabel("c", color=INK)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK, labelsize=9)
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=PALE, labelcolor=INK, labelsize=8)
    _say_best(figure, best, score)
    return figure


def _frame_around(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, fill=False, ec=LINE, lw=2)


def c_axis(axes: Any, values: Sequence[float]) -> None:
    """A log scale with a tick for each c that was tried."""
    axes.set_xscale("log")
    axes.set_xticks(values, labels=[f"{c:g}" for c in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("c", color=INK)


def _say_best(figure: Any, best: Finding, score: str) -> None:
    name = NAMES.get(score, score)
    title(figure, f"best {name} {best.mean(score):.2f}: {_name(_row(best))}, c = {best.options.c:g}")
