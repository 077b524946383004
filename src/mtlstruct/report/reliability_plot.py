"""The reliability diagram: how often labels of each probability are right, and how many there are of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct.model.calibration import Reliability, Trust
from mtlstruct.report.plots import INK, LINE, SHADES, new_figure, quiet, save

RIGHT = SHADES["one cell"]


def plot_reliability(worth: Trust, path: Path) -> None:
    """Draw accuracy by probability beside the diagonal, the gap between them, and counts below."""
    found = worth.reliability
    figure = new_figure(path, (5.2, 5.6))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    _bars(upper, found)
    _counts(lower, found)
    figure.align_ylabels()
    state = "" if worth.calibrated else "not calibrated: "
    title = f"{state}calibration error {100 * found.error:.2f}% over {found.counts.sum():,} tokens"
    figure.suptitle(
        f"{title}, temperature {worth.temperature:.3g}", x=0.01, ha="left", fontsize=11, color=INK
    )
    save(figure, path)


def _bars(axes: Any, found: Reliability) -> None:
    places, width = _places(found)
    some = found.counts > 0
    low, high = np.minimum(found.confidence, found.accuracy), np.maximum(found.confidence, found.accuracy)
    axes.bar(places[some], found.accuracy[some], width=0.92 * width, color=RIGHT, zorder=2, label="right")
    axes.bar(
        places[some],
        (high - low)[some],
        bottom=low[some],
        width=0.92 * width,
        facecolor="none",
        edgecolor=LINE,
        hatch="////",
        lw=0.6,
        zorder=3,
        label="gap to the probability",
    )
    axes.plot([0, 1], [0, 1], color=LINE, lw=0.9, zorder=4)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("part of labels that are right", color=INK)
    axes.figure.legend(loc="outside lower right", ncols=2, frameon=False, fontsize=8, labelcolor=INK)
    quiet(axes, "y")


def _counts(axes: Any, found: Reliability) -> None:
    places, width = _places(found)
    axes.bar(places, found.counts, width=0.92 * width, color=SHADES["two cells"], zorder=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0.8, max(10, found.counts.max(initial=1)) * 1.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("probability of the label", color=INK)
    axes.set_ylabel("tokens", color=INK)
    quiet(axes, "y")


def _places(found: Reliability) -> tuple[Any, float]:
    """The middles of the bins, and their width."""
    bins = len(found.counts)
    return (np.arange(bins) + 0.5) / bins, 1 / bins
