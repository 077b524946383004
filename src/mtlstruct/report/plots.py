"""Pictures of template weights, and what all pictures share.

matplotlib is imported only when a picture is drawn, and writes only into files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import MtlError
from mtlstruct.report.tables import dropped

if TYPE_CHECKING:
    from mtlstruct.model.model import TemplateWeight

FORMATS = (".png", ".svg", ".pdf")

LABELLED = 10
"""How many of the heaviest templates a picture names if it cannot name all."""

NAMED_ALL = 40
"""The largest number of templates that all have their names on the axis."""

FLOOR = 1e-4
"""Relative weights below this are drawn as if they were this."""

INK, PALE, LINE = "#22303c", "#c3ccd3", "#d1495b"
SHADES = {"one cell": "#2a6f97", "two cells": "#61a5c2", "three or more": "#a9d6e5", "transition": "#ee9b00"}


def plot_weights(weights: Sequence[TemplateWeight], path: Path, *, learned: bool = True) -> None:
    """Draw bars of relative weights in template order, on a log scale, with a line at the average.

    Where the weights are not learned (svm) all are alike, and the norms of the blocks are drawn
    instead.
    """
    ordered = sorted(weights, key=lambda weight: weight.index)
    heights = _heights(ordered, learned)
    figure = new_figure(path, (min(15.0, max(7.5, 6.0 + 0.035 * len(ordered))), 4.8))
    axes = figure.add_subplot()
    _bars(axes, ordered, heights)
    _frame(axes, len(ordered), heights, learned)
    kept = sum(height > 0 for height in heights)
    title(figure, f"{kept} of {len(heights)} templates have a weight")
    legend(figure, "outside lower right", ncols=5, handles=[*axes.containers, *axes.collections])
    (_name_all if len(ordered) <= NAMED_ALL else _name_heaviest)(axes, ordered, heights)
    save(figure, path)


def new_figure(path: Path, inches: tuple[float, float]) -> Any:
    """Return an empty figure; raise, before any work, if it could not be saved to the file."""
    check_picture(path)
    return _matplotlib()(figsize=inches, layout="constrained")


def check_picture(path: Path) -> None:
    """Raise if a file name does not end in a picture format."""
    if path.suffix.lower() not in FORMATS:
        raise MtlError(f"{path}: expected a picture file ending in {', '.join(FORMATS)}")


def check_drawing() -> None:
    """Raise if matplotlib is missing."""
    _matplotlib()


def save(figure: Any, path: Path) -> None:
    """Write a figure: equal pictures give equal bytes."""
    no_clock = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    with replacing(path) as out:
        figure.savefig(out, format=path.suffix[1:].lower(), dpi=160, metadata=no_clock)


def quiet(axes: Any, grid: str) -> None:
    """Make the axes pale, hide the top and right ones, and draw a grid along one direction."""
    axes.grid(axis=grid, color="#eef1f3", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(which="both", color=PALE, labelcolor=INK, labelsize=8)


def title(figure: Any, text: str) -> None:
    """Write a title above a figure, on the left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, color=INK)


def legend(owner: Any, place: str, **options: Any) -> None:
    """Add a legend without a frame to a figure or to axes."""
    style = {"frameon": False, "fontsize": 8, "labelcolor": INK, "handlelength": 1.5}
    owner.legend(loc=place, **style | options)


def short_label(text: str) -> str:
    """Shorten a template for a picture: U025:%x[-1,0]/%x[0,0] becomes U025 [-1,0]/[0,0]."""
    first, *others = text.split(" + ")
    short = first.replace("%x", "").replace(":", " ", 1)
    more = f" +{len(others)}" if others else ""
    return (short if len(short) <= 30 else short[:29] + "…") + more


def _matplotlib() -> Any:
    """Return the figure class with its own canvas, away from pyplot and its global state."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MtlError('pictures need matplotlib: pip install "mtlstruct[plot]"') from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "mtlstruct"  # equal weights, equal file
    return Figure


def _heights(weights: Sequence[TemplateWeight], learned: bool) -> list[float]:
    """Return relative weights or norms: 1 is the average, 0 a dropped template."""
    values = [weight.relative if learned else weight.norm for weight in weights]
    mean = 1.0 if learned else sum(values) / len(values) or 1.0
    return [0.0 if dropped(w) else value / mean for w, value in zip(weights, values, strict=True)]


def _shade(text: str) -> str:
    if text.startswith("B"):
        return "transition"
    line, _, _ = text.partition(" + ")  # the others of a template have as many cells
    return {0: "one cell", 1: "one cell", 2: "two cells"}.get(line.count("%"), "three or more")


def _bars(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """Draw a bar for each template that was kept, a mark under the axis for each that was not."""
    low = _low(heights)
    for shade, colour in SHADES.items():
        places = [i for i, w in enumerate(weights) if heights[i] > 0 and _shade(w.text) == shade]
        if places:
            tops = [max(heights[i], 1.3 * low) - low for i in places]
            axes.bar(places, tops, bottom=low, width=0.82, color=colour, label=shade, zorder=2)
    gone = [i for i, height in enumerate(heights) if height == 0]
    if gone:
        mark = {"marker": "|", "s": 49, "lw": 1.2, "color": PALE, "clip_on": False, "zorder": 3}
        axes.scatter(gone, [low] * len(gone), label=f"dropped ({len(gone)})", **mark)


def _frame(axes: Any, count: int, heights: Sequence[float], learned: bool) -> None:
    """Set the log scale and draw the line at the average."""
    axes.set_yscale("log")
    low, high = _low(heights), max([*heights, 1.0]) * 1.6
    marked = (2, 5) if high < 1000 * low else ()  # a few decades leave room for numbers between them
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if _digit(value) in marked else "")
    axes.set_ylim(low, high)
    axes.set_xlim(-0.8, count - 0.2)
    axes.set_ylabel("relative weight" if learned else "relative norm", color=INK)
    axes.set_xlabel("template, in the order of the file", color=INK)
    quiet(axes, "y")
    mark_average(axes)


def mark_average(axes: Any) -> None:
    """Draw and name the line at 1, the average."""
    axes.axhline(1.0, color=LINE, lw=0.9, zorder=4)
    beside = {"color": LINE, "va": "center", "fontsize": 8, "transform": axes.get_yaxis_transform()}
    axes.text(1.005, 1.0, "average", **beside)


def _digit(value: float) -> int:
    """Return the first digit of a tick: 5 of 0.05."""
    return round(value / 10.0 ** math.floor(math.log10(value)))


def _low(heights: Sequence[float]) -> float:
    """Return the foot of the bars: the power of ten below the lightest template that was kept."""
    least = min((height for height in heights if height > 0), default=0.1)
    low = 0.1
    while low > max(FLOOR, least):
        low /= 10
    return low


def _name_all(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """Write the name of each template under its bar."""
    labels = [short_label(weight.text) for weight in weights]
    axes.set_xticks(range(len(labels)), labels=labels, rotation=55, ha="right", rotation_mode="anchor")
    for tick, height in zip(axes.get_xticklabels(), heights, strict=True):
        tick.set_color(INK if height > 0 else "#9aa7b1")
    axes.set_xlabel("")


def _name_heaviest(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """Write ranks above the heaviest bars, and the templates of these ranks in a legend."""
    from matplotlib.patches import Patch

    kept = [i for i, height in enumerate(heights) if height > 0]
    heaviest = sorted(kept, key=lambda i: -heights[i])[:LABELLED]
    for rank, i in enumerate(heaviest, 1):
        offset = {"xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate(str(rank), (i, heights[i]), **offset, ha="center", fontsize=7.5, color=INK)
    names = [f"{rank}  {short_label(weights[i].text)}" for rank, i in enumerate(heaviest, 1)]
    colours = [Patch(color=SHADES[_shade(weights[i].text)]) for i in heaviest]
    style = {"title": "heaviest", "title_fontsize": 8}
    legend(axes.figure, "outside right upper", handles=colours, labels=names, **style)
