"""Pictures of a grid: scores over c as lines, over c and p as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.report.plots import INK, LINE, PALE, legend, new_figure, quiet, save, title

if TYPE_CHECKING:
    from mtlstruct.tuning.study import Finding

COLOURS = ("#2a6f97", "#ee9b00", "#6a994e", "#9b5de5", "#bc6c25", "#00a6a6", "#c9184a", "#577590")
NAMES = {"f1": "F1", "uas": "UAS", "accuracy": "accuracy"}

Row = tuple[str, float | None]
"""Method and p."""


def plot_settings(found: Sequence[Finding], score: str, path: Path) -> None:
    """Draw scores in percent: a heat map of p and c if p varies, else a line for each method."""
    rows = list(dict.fromkeys(map(_row, found)))
    best = max(found, key=lambda finding: finding.mean(score))
    draw = _heat_map if len({p for _, p in rows if p is not None}) > 1 else _lines
    figure = draw(found, rows, best, score, path)
    name = NAMES.get(score, score)
    title(figure, f"best {name} {best.mean(score):.2f}: {_name(_row(best))}, c = {best.options.c:g}")
    save(figure, path)


def _row(finding: Finding) -> Row:
    return finding.options.method, finding.options.p


def _name(row: Row) -> str:
    method, p = row
    return method if p is None else f"{method} p={p:.3g}"


def _lines(found: Sequence[Finding], rows: Sequence[Row], best: Finding, score: str, path: Path) -> Any:
    """Draw a line for each method; a bar shows the standard deviation over folds."""
    figure = new_figure(path, (7.0, 4.2))
    axes = figure.add_subplot()
    for row, colour in zip(rows, COLOURS * len(rows), strict=False):
        mine = sorted((f for f in found if _row(f) == row), key=lambda finding: finding.options.c)
        spreads = [finding.deviation(score) for finding in mine]
        x, y = [finding.options.c for finding in mine], [finding.mean(score) for finding in mine]
        bars = {"yerr": spreads, "capsize": 2.5, "elinewidth": 0.9} if any(spreads) else {}
        axes.errorbar(x, y, color=colour, marker="o", ms=4.5, lw=1.6, zorder=3, label=_name(row), **bars)
    axes.plot(best.options.c, best.mean(score), "o", ms=11, mfc="none", mec=LINE, mew=1.4, zorder=4)
    c_axis(axes, sorted({finding.options.c for finding in found}))
    axes.set_ylabel(f"{NAMES.get(score, score)}, percent", color=INK)
    axes.margins(x=0.08, y=0.14)
    quiet(axes, "y")
    legend(figure, "outside right upper")
    return figure


def _heat_map(found: Sequence[Finding], rows: Sequence[Row], best: Finding, score: str, path: Path) -> Any:
    """Draw methods with their p as rows, c as columns. A cell that was not run stays white."""
    import numpy as np
    from matplotlib.patches import Rectangle

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
    x, y = columns.index(best.options.c), rows.index(_row(best))
    axes.add_patch(Rectangle((x - 0.48, y - 0.47), 0.96, 0.94, fill=False, ec=LINE, lw=2))
    axes.set_xticks(range(len(columns)), labels=[f"{c:g}" for c in columns])
    axes.set_yticks(range(len(rows)), labels=[_name(row) for row in rows])
    axes.set_xlabel("c", color=INK)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=INK, labelsize=9)
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(color=PALE, labelcolor=INK, labelsize=8)
    return figure


def c_axis(axes: Any, values: Sequence[float]) -> None:
    """Set a log scale with a tick for each c that was tried."""
    axes.set_xscale("log")
    axes.set_xticks(values, labels=[f"{c:g}" for c in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("c", color=INK)
