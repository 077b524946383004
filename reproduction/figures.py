"""The paper's figures from the cells: time and F1 against c, template weights, convergence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct.report.plots import COLOURS, INK, LINE, MIN_RELATIVE, log_axis, new_figure, save, style
from mtlstruct.tuning.study import Finding
from reproduction.plan import Case, cases_of
from reproduction.results import CHOOSING, Results, mean, relative_weights
from reproduction.specs import MTL, Experiment, Grid, Row

FORMATS = (".svg", ".png")
MARKERS = "osD^vP*X"
PANEL = (4.9, 3.5)

Curve = tuple[Row, list[Finding]]


def draw(experiment: Experiment, results: Results, folder: Path) -> list[Path]:
    """Draws what an experiment shows; returns the pictures, one path for each, of its SVG."""
    drawn = []
    for view in experiment.views:
        if view not in VIEWS:
            continue
        panels = list(_panels(experiment, results, view))
        if not panels:
            continue
        name = view if view == experiment.name else f"{experiment.name}-{view}"
        for ending in FORMATS:
            VIEWS[view](panels, folder / f"{name}{ending}")
        drawn.append(folder / f"{name}{FORMATS[0]}")
    return drawn


class Panel:
    """One plot of a picture: a case, and the curves of its rows, of however many grids they come from."""

    def __init__(self, case: Case, name: str) -> None:
        self.case, self.name = case, name
        self.curves: list[Curve] = []


def _panels(experiment: Experiment, results: Results, view: str) -> Iterator[Panel]:
    """A panel for each case that was run. Convergence has grids of its own."""
    found: dict[Case, Panel] = {}
    for grid in experiment.grids:
        if grid.converging == (view == "convergence"):
            for case in cases_of(grid):
                _add(found, grid, case, results)
    yield from (panel for panel in found.values() if panel.curves)


def _add(found: dict[Case, Panel], grid: Grid, case: Case, results: Results) -> None:
    if case not in results.outcomes:
        return
    name = f"{results.corpora[case.data].title}, {case.templates}"
    panel = found.setdefault(case, Panel(case, name))
    for row in grid.rows:
        curve = results.curve(grid, row, case)
        if curve:
            panel.curves.append((row, curve))


def _time(panels: Sequence[Panel], path: Path) -> None:
    """CPU seconds of learning against c, both by their logarithms."""

    def value(panel: Panel, row: Row, finding: Finding) -> float:
        return finding.mean("learn_cpu_seconds") * row.times

    _against_c(panels, path, value, "CPU seconds of training", log=True)


def _sensitivity(panels: Sequence[Panel], path: Path) -> None:
    """The score on the test text against c."""

    def value(panel: Panel, row: Row, finding: Finding) -> float:
        return mean(finding, panel.case, "test", CHOOSING[panel.case.task])

    _against_c(panels, path, value, "F1 on the test text", log=False)


def _against_c(
    panels: Sequence[Panel],
    path: Path,
    value: Callable[[Panel, Row, Finding], float],
    label: str,
    *,
    log: bool,
) -> None:
    figure, spots = _grid_of(panels, path)
    names = list(dict.fromkeys(row.label for panel in panels for row, _ in panel.curves))
    for axes, panel in zip(spots, panels, strict=True):
        for row, curve in panel.curves:
            number = names.index(row.label)
            x = [finding.options.c_value for finding in curve]
            y = [value(panel, row, finding) for finding in curve]
            axes.plot(x, y, color=COLOURS[number], marker=MARKERS[number], ms=5, lw=1.5, label=row.label)
        log_axis(axes, sorted({f.options.c_value for _, curve in panel.curves for f in curve}), "c")
        if log:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}" if _narrow(axes) else "")
        axes.set_ylabel(label, color=INK)
        axes.set_title(panel.name, fontsize=10, color=INK, loc="left")
        style(axes)
    _legend(figure, spots)
    save(figure, path)


def _weights(panels: Sequence[Panel], path: Path) -> None:
    """Relative weights in template order at the best c of each row, with the line at the average."""
    figure = new_figure(path, (11, 0.4 + 2.9 * len(panels)))
    spots = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, panel in zip(spots, panels, strict=True):
        learned = [(row, curve) for row, curve in panel.curves if row.method in ("mtl", "online-mkl")]
        for (row, curve), shift in zip(learned, (-0.2, 0.2), strict=False):
            colour = COLOURS[row.label == MTL]  # the same in every panel
            chosen = max(curve, key=lambda finding: finding.mean(CHOOSING[panel.case.task]))
            heights = relative_weights(chosen.results[0])
            kept = int(np.count_nonzero(heights > 1e-5 * len(heights)))
            at = np.arange(len(heights)) + (shift if len(learned) > 1 else 0)
            width = 0.4 if len(learned) > 1 else 0.8
            label = f"{row.label}, c = {chosen.options.c_value:g}: {kept} of {len(heights)} kept"
            axes.bar(
                at,
                np.maximum(heights, MIN_RELATIVE) - MIN_RELATIVE,
                width,
                bottom=MIN_RELATIVE,
                color=colour,
                label=label,
                zorder=2,
            )
        axes.axhline(1.0, color=LINE, lw=1, zorder=3)
        axes.set_yscale("log")
        axes.set_ylim(bottom=MIN_RELATIVE)
        axes.set_ylabel("relative weight", color=INK)
        axes.set_title(panel.name, fontsize=10, color=INK, loc="left")
        axes.margins(x=0.005)
        style(axes)
        axes.legend(fontsize=8, frameon=False, loc="upper right", ncols=2, bbox_to_anchor=(1, 1.13))
    spots[-1].set_xlabel("template, in the order of the file", color=INK)
    save(figure, path)


def _weights_by_p(panels: Sequence[Panel], path: Path) -> None:
    """Weights that sum to one, in falling order, for each p: on a scale of their own the shapes can be compared."""
    figure, spots = _grid_of(panels, path)
    for axes, panel in zip(spots, panels, strict=True):
        for (row, curve), colour in zip(panel.curves, COLOURS, strict=False):
            heights = np.sort(relative_weights(curve[0].results[0]) / max(1, _count(curve[0])))[::-1]
            axes.plot(
                np.arange(1, len(heights) + 1),
                np.maximum(heights, 1e-7),
                color=colour,
                lw=1.6,
                label=row.label,
            )
        axes.set_yscale("log")
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no half of a template
        axes.set_xlabel("template, heaviest first", color=INK)
        axes.set_ylabel("share of all weight", color=INK)
        axes.set_title(panel.name, fontsize=10, color=INK, loc="left")
        style(axes)
    _legend(figure, spots)
    save(figure, path)


def _count(finding: Finding) -> int:
    return len(finding.results[0]["mu"])


def _convergence(panels: Sequence[Panel], path: Path) -> None:
    """The relative gap against seconds."""
    figure, spots = _grid_of(panels, path)
    for axes, panel in zip(spots, panels, strict=True):
        for (row, curve), colour in zip(panel.curves, COLOURS, strict=False):
            trace = [(p[0], p[3]) for p in curve[0].results[0]["trace"] if p[3] is not None and p[3] > 0]
            seconds, gaps = zip(*trace, strict=True)
            axes.plot(seconds, gaps, color=colour, lw=1.6, marker=".", ms=4, label=row.label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("seconds", color=INK)
        axes.set_ylabel("relative duality gap", color=INK)
        axes.set_title(panel.name, fontsize=10, color=INK, loc="left")
        style(axes)
    _legend(figure, spots)
    save(figure, path)


VIEWS: dict[str, Callable[[Sequence[Panel], Path], None]] = {
    "time": _time,
    "sensitivity": _sensitivity,
    "weights": _weights,
    "weights-by-p": _weights_by_p,
    "convergence": _convergence,
}


def _grid_of(panels: Sequence[Panel], path: Path) -> tuple[Any, list[Any]]:
    """A figure of two columns of plots, one for each panel."""
    wide = min(2, len(panels))
    high = -(-len(panels) // wide)
    figure = new_figure(path, (PANEL[0] * wide, PANEL[1] * high + 0.5))
    spots = list(figure.subplots(high, wide, squeeze=False).flat)
    for empty in spots[len(panels) :]:
        empty.set_visible(False)
    return figure, spots[: len(panels)]


def _narrow(axes: Any) -> bool:
    """Whether the scale of y has room for numbers between the powers of ten."""
    low, high = axes.get_ylim()
    return bool(high < 20 * low)


def _legend(figure: Any, spots: Sequence[Any]) -> None:
    """One for all panels, below them."""
    found = {
        label: handle
        for axes in spots
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    columns = 4 if figure.get_figwidth() > PANEL[0] else 2
    style = {"loc": "outside lower center", "fontsize": 8.5, "frameon": False}
    figure.legend(found.values(), found.keys(), ncols=columns, **style)
