"""The reliability diagram: accuracy and number of labels by their probability."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mtlstruct.model.calibration import Trust
from mtlstruct.report.plots import INK, LINE, SHADES, legend, new_figure, quiet, save, title


def plot_reliability(worth: Trust, path: Path) -> None:
    """Draw accuracy by probability beside the diagonal, the gap between them, and counts below."""
    found, bins = worth.reliability, len(worth.reliability.counts)
    figure = new_figure(path, (5.2, 5.6))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    middles, some = (np.arange(bins) + 0.5) / bins, found.counts > 0
    bar = {"width": 0.92 / bins, "zorder": 2}
    upper.bar(middles[some], found.accuracy[some], color=SHADES["one cell"], label="right", **bar)
    foot = np.minimum(found.confidence, found.accuracy)[some]
    hatch = {"facecolor": "none", "edgecolor": LINE, "hatch": "////", "lw": 0.6}
    gap = np.abs(found.confidence - found.accuracy)[some]
    upper.bar(middles[some], gap, bottom=foot, label="gap to the probability", **hatch, **bar)
    upper.plot([0, 1], [0, 1], color=LINE, lw=0.9, zorder=4)
    upper.set_ylim(0, 1.02)
    upper.set_ylabel("part of labels that are right", color=INK)
    lower.bar(middles, found.counts, color=SHADES["two cells"], **bar)
    lower.set_yscale("log")
    lower.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    lower.set_ylim(0.8, max(10, found.counts.max(initial=1)) * 1.5)
    lower.set_xlim(0, 1)
    lower.set_xlabel("probability of the label", color=INK)
    lower.set_ylabel("tokens", color=INK)
    for axes in (upper, lower):
        quiet(axes, "y")
    figure.align_ylabels()
    legend(figure, "outside lower right", ncols=2)
    state = "" if worth.calibrated else "not calibrated: "
    error = f"calibration error {100 * found.error:.2f}% over {found.counts.sum():,} tokens"
    title(figure, f"{state}{error}, temperature {worth.temperature:.3g}")
    save(figure, path)
