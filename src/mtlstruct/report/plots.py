"""Plots: template weights, scores of a tuning grid, scores along a selection.

matplotlib is imported only when a plot is drawn, and only writes files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import MtlError

if TYPE_CHECKING:
    from mtlstruct.model.model import TemplateWeight
    from mtlstruct.tuning.study import Finding

FORMATS = (".png", ".svg", ".pdf")

MAX_TICKS, MAX_NAMED = 40, 10
"""Up to so many templates are named on the axis; of more, a legend names the largest."""

MIN_RELATIVE = 1e-4
"""Smaller relative weights are drawn as this one."""

INK, PALE, LINE = "#22303c", "#c3ccd3", "#d1495b"
SHADES = {"one cell": "#2a6f97", "two cells": "#61a5c2", "three or more": "#a9d6e5", "transition": "#ee9b00"}
COLOURS = ("#2a6f97", "#ee9b00", "#6a994e", "#9b5de5", "#bc6c25", "#00a6a6", "#c9184a", "#577590")
RING: dict[str, Any] = {"marker": "o", "ms": 11, "mfc": "none", "mec": LINE, "mew": 1.4, "zorder": 4}
SCORE_NAMES = {"f1": "F1", "uas": "UAS", "accuracy": "accuracy"}


def check_picture(path: Path) -> None:
    """Raise an error if a file name does not end in a picture format."""
    if path.suffix.lower() not in FORMATS:
        raise MtlError(f"{path}: expected a picture file ending in {', '.join(FORMATS)}")


def new_figure(path: Path, inches: tuple[float, float]) -> Any:
    """Return an empty figure for a file, whose format is checked."""
    check_picture(path)
    return figure_class()(figsize=inches, layout="constrained")


def figure_class() -> Any:
    """Return matplotlib's Figure, without pyplot; raise an error if matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MtlError('pictures need matplotlib: pip install "mtlstruct[plot]"') from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "mtlstruct"  # equal plots give equal files
    return Figure


def save(figure: Any, path: Path) -> None:
    """Write a figure; equal figures give equal bytes."""
    no_date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    with replacing(path) as out:
        figure.savefig(out, format=path.suffix[1:].lower(), dpi=160, metadata=no_date)


def style(axes: Any) -> None:
    """Draw pale axes without the top and right ones, and horizontal grid lines."""
    axes.grid(axis="y", color="#eef1f3", zorder=0)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    axes.tick_params(which="both", color=PALE, labelcolor=INK, labelsize=8)


def title(figure: Any, text: str) -> None:
    """Write a title above a figure, on the left."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=11, color=INK)


def legend(owner: Any, place: str, **options: Any) -> None:
    """Add a legend without a frame to a figure or to axes."""
    owner.legend(loc=place, frameon=False, fontsize=8, title_fontsize=8, labelcolor=INK, **options)


def mark_average(axes: Any) -> None:
    """Draw a named line at 1, the average."""
    axes.axhline(1.0, color=LINE, lw=0.9, zorder=4)
    beside = {"color": LINE, "va": "center", "fontsize": 8, "transform": axes.get_yaxis_transform()}
    axes.text(1.005, 1.0, "average", **beside)


def log_axis(axes: Any, values: Sequence[float], name: str) -> None:
    """Set a log scale with a tick per value."""
    axes.set_xscale("log")
    axes.set_xticks(values, labels=[f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(name, color=INK)


def short_label(text: str) -> str:
    """Shorten a template for a plot: U025:%x[-1,0]/%x[0,0] becomes U025 [-1,0]/[0,0]."""
    first, *others = text.split(" + ")
    short = first.replace("%x", "").replace(":", " ", 1)
    more = f" +{len(others)}" if others else ""
    return (short if len(short) <= 30 else short[:29] + "…") + more


def plot_weights(weights: Sequence[TemplateWeight], path: Path, *, learned: bool = True) -> None:
    """Draw relative weights in template order as bars on a log scale; 1 is the average.

    If weights are not learned (svm), the norms of the blocks are drawn instead.
    """
    ordered = sorted(weights, key=lambda weight: weight.index)
    values = np.array([weight.relative if learned else weight.norm for weight in ordered])
    heights = values if learned else values / (values.mean() or 1.0)
    kept = np.array([weight.features > 0 for weight in ordered])
    shades = np.array([template_class(weight.text) for weight in ordered])
    lowest = np.log10(heights[kept & (heights > 0)].min(initial=0.1))
    low = max(float(10 ** np.floor(lowest)), MIN_RELATIVE)
    figure = new_figure(path, (min(15.0, max(7.5, 6.0 + 0.035 * len(ordered))), 4.8))
    axes = figure.add_subplot()
    for shade, colour in SHADES.items():
        (places,) = np.nonzero(kept & (shades == shade))
        if len(places):
            tops = heights[places].clip(1.3 * low) - low
            axes.bar(places, tops, bottom=low, width=0.82, color=colour, label=shade, zorder=2)
    (gone,) = np.nonzero(~kept)
    if len(gone):
        mark = {"marker": "|", "s": 49, "lw": 1.2, "color": PALE, "clip_on": False, "zorder": 3}
        axes.scatter(gone, np.full(len(gone), low), label=f"dropped ({len(gone)})", **mark)
    axes.set_yscale("log")
    high = heights.max(initial=1.0) * 1.6
    digits = "25" if high < 1000 * low else ""  # further decades leave no space for minor labels
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in digits else "")
    axes.set_ylim(low, high)
    axes.set_xlim(-0.8, len(ordered) - 0.2)
    axes.set_ylabel("relative weight" if learned else "relative norm", color=INK)
    style(axes)
    mark_average(axes)
    title(figure, f"{kept.sum()} of {len(kept)} templates have a weight")
    legend(figure, "outside lower right", ncols=5, handles=[*axes.containers, *axes.collections])
    if len(ordered) <= MAX_TICKS:
        names = [short_label(weight.text) for weight in ordered]
        axes.set_xticks(range(len(names)), labels=names, rotation=55, ha="right", rotation_mode="anchor")
    else:
        axes.set_xlabel("template, in the order of the file", color=INK)
        heaviest = [int(i) for i in np.argsort(-heights, kind="stable")[:MAX_NAMED] if kept[i]]
        _name_heaviest(axes, [ordered[i].text for i in heaviest], heaviest, heights)
    save(figure, path)


def plot_paths(names: Sequence[str], texts: Sequence[str], relative: Any, file: Path) -> None:
    """Draw relative weights float64[models, m]: a line per template; a legend names the largest."""
    heaviest = np.argsort(-relative.max(axis=0), kind="stable")[:MAX_NAMED].tolist()
    figure = new_figure(file, (8.6, 4.8))
    axes, lines = figure.add_subplot(), relative.clip(MIN_RELATIVE)
    rest = np.delete(lines, heaviest, axis=1)
    axes.plot(rest, color="#7d8f9b", lw=0.7, alpha=min(0.8, 60 / len(texts)), zorder=1)
    for rank, j in enumerate(heaviest):
        how = {"color": COLOURS[rank % len(COLOURS)], "ls": "-" if rank < len(COLOURS) else "--"}
        axes.plot(lines[:, j], lw=1.6, marker="o", ms=3, label=short_label(texts[j]), **how)
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), labels=names)
    axes.set_ylabel("relative weight", color=INK)
    style(axes)
    mark_average(axes)
    legend(figure, "outside right upper", title="heaviest")
    save(figure, file)


def _name_heaviest(axes: Any, texts: Sequence[str], places: Sequence[int], heights: Any) -> None:
    """Write ranks above the highest bars, and the templates of these ranks in a legend."""
    from matplotlib.patches import Patch

    for rank, i in enumerate(places, 1):
        offset = {"xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate(str(rank), (i, heights[i]), **offset, ha="center", fontsize=7.5, color=INK)
    names = [f"{rank}  {short_label(text)}" for rank, text in enumerate(texts, 1)]
    colours = [Patch(color=SHADES[template_class(text)]) for text in texts]
    legend(axes.figure, "outside right upper", handles=colours, labels=names, title="heaviest")


def template_class(text: str) -> str:
    """Return the class of a template that its colour shows."""
    if text.startswith("B"):
        return "transition"
    cells = text.partition(" + ")[0].count("%")  # the other lines of a template have as many
    return "three or more" if cells > 2 else "two cells" if cells == 2 else "one cell"


def plot_settings(found: Sequence[Finding], score: str, path: Path) -> None:
    """Draw scores over c: a line per method, loss and p, with the standard deviation over folds."""
    best = max(found, key=lambda finding: finding.mean(score))
    name = SCORE_NAMES.get(score, score)
    figure = new_figure(path, (7.0, 4.2))
    axes = figure.add_subplot()
    lines = list(dict.fromkeys(map(_line_name, found)))
    for line, colour in zip(lines, COLOURS * len(lines), strict=False):
        mine = sorted(
            (f for f in found if _line_name(f) == line), key=lambda finding: finding.options.c_value
        )
        x, y = [finding.options.c_value for finding in mine], [finding.mean(score) for finding in mine]
        spreads = [finding.deviation(score) for finding in mine]
        bars = {"yerr": spreads, "capsize": 2.5, "elinewidth": 0.9} if any(spreads) else {}
        axes.errorbar(x, y, color=colour, marker="o", ms=4.5, lw=1.6, zorder=3, label=line, **bars)
    axes.plot(best.options.c_value, best.mean(score), **RING)
    log_axis(axes, sorted({finding.options.c_value for finding in found}), "c")
    axes.set_ylabel(f"{name}, percent", color=INK)
    axes.margins(x=0.08, y=0.14)
    style(axes)
    legend(figure, "outside right upper")
    title(figure, f"best {name} {best.mean(score):.2f}: {_line_name(best)}, c = {best.options.c_value:g}")
    save(figure, path)


def _line_name(finding: Finding) -> str:
    options = finding.options
    name = f"{options.method} {options.loss_name}" + f" {options.scheme}" * (options.scheme != "keep")
    return name if options.p is None else f"{name} p={options.p:.3g}"


def plot_elimination(steps: Sequence[tuple[int, float, float]], chosen: int, score: str, path: Path) -> None:
    """Draw (templates, score, speed) of each step, and a ring at the chosen number of templates."""
    sizes, scores, speeds = map(list, zip(*steps, strict=True))
    name, figure = SCORE_NAMES.get(score, score), new_figure(path, (7.0, 4.2))
    axes = figure.add_subplot()
    axes.plot(sizes, scores, color=COLOURS[0], marker="o", ms=4.5, lw=1.6, zorder=3, label=f"{name}, percent")
    at = sizes.index(chosen)
    axes.plot(chosen, scores[at], **RING)
    log_axis(axes, sizes[::2], "templates")
    axes.set_ylabel(f"{name}, percent", color=COLOURS[0])
    style(axes)
    other = axes.twinx()
    other.plot(sizes, np.array(speeds) / 1000, color=COLOURS[1], marker=".", lw=1.0)
    other.set_ylabel("thousand tokens per second", color=COLOURS[1])
    other.set_ylim(bottom=0)
    other.spines[["top"]].set_visible(False)
    title(figure, f"{chosen} of {max(sizes)} templates: {name} {scores[at]:.2f}, best {max(scores):.2f}")
    save(figure, path)
