"""Pictures of a model. matplotlib is imported only when one is asked for, and draws only into files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import MtlError
from mtlstruct.report.tables import dropped

if TYPE_CHECKING:
    from mtlstruct.model.model import TemplateWeight

FORMATS = (".png", ".svg", ".pdf")

LABELLED = 14
"""How many of the heaviest templates are named in a picture that cannot name all."""

NAMED_ALL = 40
"""Up to here every template has its name on the axis."""

FLOOR = 1e-4
"""Relative weights below this are drawn as if they were this."""

INK, PALE, LINE = "#22303c", "#c3ccd3", "#d1495b"
SHADES = {"one cell": "#2a6f97", "two cells": "#61a5c2", "three or more": "#a9d6e5", "transition": "#ee9b00"}


def plot_weights(weights: Sequence[TemplateWeight], path: Path, *, learned: bool = True) -> None:
    """Bars of relative weights in template order, on a log scale, with a line at the average.

    Where the weights are not learned (svm) all are alike, and the norms of the blocks are drawn instead.
    """
    ordered = sorted(weights, key=lambda weight: weight.index)
    heights = _heights(ordered, learned)
    figure = new_figure(path, (min(15.0, max(7.5, 6.0 + 0.035 * len(ordered))), 4.8))
    axes = figure.add_subplot()
    _bars(axes, ordered, heights)
    _frame(axes, len(ordered), heights, learned)
    _names(axes, ordered, heights)
    _captions(axes, heights)
    save(figure, path)


def new_figure(path: Path, inches: tuple[float, float]) -> Any:
    """An empty figure for a file; refuses, before any work, a file that it could not be saved to."""
    check_picture(path)
    return _matplotlib()(figsize=inches, layout="constrained")


def check_picture(path: Path) -> None:
    """Refuses a file name whose ending is no picture format of ours."""
    if path.suffix.lower() not in FORMATS:
        raise MtlError(f"{path}: expected a picture file ending in {', '.join(FORMATS)}")


def check_drawing() -> None:
    """Refuses, before any work, to draw where there is nothing to draw with."""
    _matplotlib()


def save(figure: Any, path: Path) -> None:
    """Writes a figure: the same bytes for the same picture."""
    with replacing(path) as out:
        figure.savefig(out, format=path.suffix[1:].lower(), dpi=160, metadata=_metadata(path))


def quiet(axes: Any, grid: str) -> None:
    """Pale axes, without those on top and on the right, and a grid along one direction."""
    axes.grid(axis=grid, color="#eef1f3", zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(which="both", color=PALE, labelcolor=INK, labelsize=8)


def title(figure: Any, text: str) -> None:
    """What a picture says, above it on the left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, color=INK)


def _matplotlib() -> Any:
    """The figure class with its own canvas, away from pyplot and its global state."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MtlError('pictures need matplotlib: pip install "mtlstruct[plot]"') from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "mtlstruct"  # equal weights, equal file
    return Figure


def _metadata(path: Path) -> dict[str, None]:
    """No clock reading in the file, where the format would have one."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})


def _heights(weights: Sequence[TemplateWeight], learned: bool) -> list[float]:
    """1 is the average; 0 for dropped templates."""
    values = [weight.relative if learned else weight.norm for weight in weights]
    mean = 1.0 if learned else sum(values) / len(values) or 1.0
    return [0.0 if dropped(w) else value / mean for w, value in zip(weights, values, strict=True)]


def _shade(text: str) -> str:
    if text.startswith("B"):
        return "transition"
    line, _, _ = text.partition(" + ")  # the others of a template have as many cells
    return {0: "one cell", 1: "one cell", 2: "two cells"}.get(line.count("%"), "three or more")


def _bars(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """A bar for each template that was kept, a mark under the axis for each that was not."""
    low = _low(heights)
    for shade, colour in SHADES.items():
        places = [i for i, w in enumerate(weights) if heights[i] > 0 and _shade(w.text) == shade]
        if places:
            tops = [max(heights[i], 1.3 * low) - low for i in places]
            axes.bar(places, tops, bottom=low, width=0.82, color=colour, label=shade, zorder=2)
    gone = [i for i, height in enumerate(heights) if height == 0]
    if gone:
        label = f"dropped ({len(gone)})"
        axes.plot(
            gone, [low] * len(gone), "|", color=PALE, ms=7, mew=1.2, label=label, clip_on=False, zorder=3
        )


def _frame(axes: Any, count: int, heights: Sequence[float], learned: bool) -> None:
    """The log scale, the line at the average, and as little else as possible."""
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
    axes.axhline(1.0, color=LINE, lw=0.9, zorder=4)
    axes.text(
        1.005, 1.0, "average", color=LINE, va="center", fontsize=8, transform=axes.get_yaxis_transform()
    )


def _captions(axes: Any, heights: Sequence[float]) -> None:
    """What the picture says, and what its colours mean."""
    kept = sum(height > 0 for height in heights)
    title(axes.figure, f"{kept} of {len(heights)} templates have a weight")
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("dropped"))  # dropped ones last
    axes.figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower right",
        ncols=5,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
    )


def _digit(value: float) -> int:
    """The first digit of a tick: 5 of 0.05."""
    return round(value / 10.0 ** math.floor(math.log10(value)))


def _low(heights: Sequence[float]) -> float:
    """The foot of the bars: the power of ten below the lightest template that was kept."""
    least = min((height for height in heights if height > 0), default=0.1)
    low = 0.1
    while low > FLOOR and low > least:
        low /= 10
    return low


def _names(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """All templates by name under the axis if they fit, else the heaviest above it."""
    if len(weights) > NAMED_ALL:
        return _name_heaviest(axes, weights, heights)
    labels = [short_label(weight.text) for weight in weights]
    axes.set_xticks(range(len(labels)), labels=labels, rotation=55, ha="right", rotation_mode="anchor")
    for tick, height in zip(axes.get_xticklabels(), heights, strict=True):
        tick.set_color(INK if height > 0 else "#9aa7b1")
    axes.set_xlabel("")
    return None


def _name_heaviest(axes: Any, weights: Sequence[TemplateWeight], heights: Sequence[float]) -> None:
    """Names in a row above the bars, moved apart where they would touch, each with a line to its bar."""
    places = _heaviest(weights, heights)
    inches = axes.figure.get_figwidth() - 1.0
    spots = spread(places, least=0.17 * len(weights) / inches, low=0, high=len(weights) - 1)
    for place, spot in zip(places, spots, strict=True):
        axes.annotate(
            short_label(weights[place].text),
            xy=(place, heights[place]),
            xytext=(spot, 1.03),
            textcoords=axes.get_xaxis_transform(),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=INK,
            arrowprops={
                "arrowstyle": "-",
                "color": "#9aa7b1",
                "lw": 0.6,
                "shrinkA": 1,
                "shrinkB": 1,
                "relpos": (0.5, 0),
            },
        )


def _heaviest(weights: Sequence[TemplateWeight], heights: Sequence[float]) -> list[int]:
    """The heaviest templates of all, and the heaviest of each shade, in template order."""
    falling = sorted((i for i, height in enumerate(heights) if height > 0), key=lambda i: -heights[i])
    first_of_shade = {_shade(weights[i].text): i for i in reversed(falling)}
    return sorted({*falling[:LABELLED], *first_of_shade.values()})


def spread(places: Sequence[float], *, least: float, low: float, high: float) -> list[float]:
    """Sorted places moved so that neighbours are `least` apart, inside low..high as far as they fit.

    Neighbours that would touch form a group around the mean of where its members want to be; groups that
    touch merge.
    """
    groups = [[float(place)] for place in places]
    while (at := _touching(groups, least)) is not None:
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    spots = [_start(group, least) + least * k for group in groups for k in range(len(group))]
    for k in range(len(spots)):
        spots[k] = max(spots[k], low + k * least)
    for k in range(len(spots)):
        spots[-1 - k] = min(spots[-1 - k], high - k * least)
    return spots


def _touching(groups: Sequence[Sequence[float]], least: float) -> int | None:
    """The first group that is too near to the next."""
    gaps = (_start(b, least) - _end(a, least) for a, b in pairwise(groups))
    return next((number for number, gap in enumerate(gaps) if gap < least), None)


def _start(group: Sequence[float], least: float) -> float:
    return sum(group) / len(group) - least * (len(group) - 1) / 2


def _end(group: Sequence[float], least: float) -> float:
    return _start(group, least) + least * (len(group) - 1)


def short_label(text: str) -> str:
    """A template short enough for a picture: U025:%x[-1,0]/%x[0,0] is U025 [-1,0]/[0,0]."""
    first, *others = text.split(" + ")
    short = first.replace("%x", "").replace(":", " ", 1)
    more = f" +{len(others)}" if others else ""
    return (short if len(short) <= 30 else short[:29] + "…") + more
