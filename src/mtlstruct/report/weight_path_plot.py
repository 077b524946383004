"""A picture of template weights along c or p: a line a template, the heaviest ones in colour and by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct.errors import IncompatibleError
from mtlstruct.report.plots import FLOOR, INK, LINE, new_figure, quiet, save, short_label, spread, title

if TYPE_CHECKING:
    from mtlstruct.report.weight_path import WeightPath

NAMED = 14
"""How many of the heaviest templates have a colour and a name."""

MOST_PANELS = 6
COLOURS = ("#2a6f97", "#ee9b00", "#6a994e", "#9b5de5", "#bc6c25", "#00a6a6", "#c9184a")
GREY = "#7d8f9b"
STYLES = ("-", (0, (4, 1.5)))
"""Colours come again with a broken line."""


def plot_paths(paths: Sequence[WeightPath], path: Path) -> None:
    """A panel for each path, one below the other. Log scales; what is below the foot of the scale lies on it."""
    if len(paths) > MOST_PANELS:
        raise IncompatibleError(
            f"a picture has room for {MOST_PANELS} paths, got {len(paths)}: give fewer cells"
        )
    figure = new_figure(path, (8.6, 0.6 + 4.4 * len(paths)))
    for axes, one in zip(figure.subplots(len(paths), 1, squeeze=False)[:, 0], paths, strict=True):
        _panel(axes, one)
    title(figure, f"template weights along {paths[0].along}")
    save(figure, path)


def _kept(path: WeightPath) -> str:
    """How many templates have a weight at either end."""
    counts = (path.relative > FLOOR).sum(axis=1).tolist()
    ends = f"{counts[0]} of {len(path.texts)} above {FLOOR:g} at {path.along} = {path.values[0]:.4g}"
    return f"{ends}, {counts[-1]} at {path.values[-1]:.4g}"


def _panel(axes: Any, path: WeightPath) -> None:
    from matplotlib.collections import LineCollection

    low = _low(path)
    lines = path.relative.clip(low).T
    named = path.heaviest()[:NAMED]
    axes.set_yscale("log")
    x = _places(path)
    faint = min(0.8, 60 / len(lines))  # many lines over each other still let the density be seen
    rest = [list(zip(x, line, strict=True)) for j, line in enumerate(lines.tolist()) if j not in named]
    axes.add_collection(LineCollection(rest, colors=GREY, linewidths=0.7, alpha=faint, zorder=1))
    for rank, j in enumerate(named):
        style = {"color": _colour(rank), "ls": STYLES[rank // len(COLOURS) % 2]}
        axes.plot(x, lines[j], lw=1.6, marker="o", ms=3, zorder=3, **style)
    _frame(axes, path, low)
    _names(axes, path, lines, named)


def _places(path: WeightPath) -> list[float]:
    """Where the values stand: c by its logarithm; p, of which 4/3 and 100 are asked for, one beside the other."""
    return [math.log10(c) for c in path.values] if path.along == "c" else list(range(len(path.values)))


def _colour(rank: int) -> str:
    return COLOURS[rank % len(COLOURS)]


def _low(path: WeightPath) -> float:
    """The foot of the scale: the power of ten below the lightest weight, but not below FLOOR."""
    relative = path.relative
    exponent = math.floor(math.log10(float(relative[relative > 0].min(initial=1.0))))
    return max(FLOOR, math.pow(10, exponent))


def _frame(axes: Any, path: WeightPath, low: float) -> None:
    axes.set_ylim(low * 0.85, float(path.relative.max()) * 1.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}" if value > 1.01 * low else f"≤ {value:g}")
    axes.set_xticks(_places(path), labels=[f"{value:.4g}" for value in path.values])
    axes.set_xlabel(path.along, color=INK)
    axes.set_ylabel("relative weight", color=INK)
    axes.set_title(f"{path.title}: {_kept(path)}", loc="left", fontsize=9, color=INK)
    quiet(axes, "y")
    axes.set_axisbelow(True)
    axes.axhline(1.0, color=LINE, lw=0.9, zorder=2)
    axes.text(
        0.004, 1.05, "average", color=LINE, va="bottom", fontsize=8, transform=axes.get_yaxis_transform()
    )


def _names(axes: Any, path: WeightPath, lines: Any, named: Sequence[int]) -> None:
    """Names right of the last point, moved apart where they would touch."""
    low, high = map(math.log10, axes.get_ylim())
    rising = sorted(named, key=lambda j: float(lines[j][-1]))
    wanted = [math.log10(float(lines[j][-1])) for j in rising]
    spots = spread(wanted, least=(high - low) * 0.047, low=low, high=high)
    for j, spot in zip(rising, spots, strict=True):
        rank = list(named).index(j)
        axes.annotate(
            short_label(path.texts[j]),
            xy=(_places(path)[-1], lines[j][-1]),
            xytext=(1.035, (spot - low) / (high - low)),
            textcoords="axes fraction",
            va="center",
            fontsize=7.5,
            color=_colour(rank),
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": _colour(rank),
                "lw": 0.5,
                "shrinkA": 1,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )
