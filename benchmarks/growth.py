"""How time and memory of `train` grow with sentences, templates and labels, from a sixteenth to all; and the picture.

Templates are taken evenly from all over the set, the transitions always. Labels are Danish tags with morphology, of
which the frequent ones stay and the others become one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import DANISH, ESP, IMAGES, PKU, corpus, head, work
from benchmarks.tasks import preset

PARTS = (16, 8, 4, 2, 1)
PICTURE = IMAGES / "growth.png"
FIGURES = {"learning": "learning", "before": "start-up, reading, encoding", "memory": "peak memory"}
SMALL = 20
"""Sentences of the run whose seconds and memory are those of the program itself."""


def measure_all(book: Book) -> None:
    """A row for each axis, corpus and part; and one for the program alone."""
    book.row(_key("program", "ESP ner-134", 1), machine.source(), lambda: _train(book, *_esp_small()))
    for (axis, data), files in AXES.items():
        for part in PARTS:
            book.row(_key(axis, data, part), machine.source(), partial(_part, book, files, part))


def _part(book: Book, files: Callable[[Book, int], Files], part: int) -> Row:
    return _train(book, *files(book, part))


def _key(axis: str, data: str, part: int) -> dict[str, str]:
    return {"axis": axis, "data": data, "part": f"1/{part}"}


Files = tuple[Path, Path, str, int]
"""Templates, training text, task, and how many there are of what is varied."""


def _esp_small() -> Files:
    return preset("ner-134"), head(corpus(ESP, "train.conll"), SMALL), "sequence", SMALL


def _esp_sentences(book: Book, part: int) -> Files:
    few, count = _some(book, corpus(ESP, "train.conll"), part)
    return preset("ner-134"), few, "sequence", count


def _pku_sentences(book: Book, part: int) -> Files:
    few, count = _some(book, corpus(PKU, "train.txt"), part)
    return preset("cws-tp2"), few, "segmentation", count


def _esp_templates(book: Book, part: int) -> Files:
    lines = preset("ner-134").read_text("utf-8").split("\n")
    units = [line for line in lines if line.startswith("U")]
    target = work() / f"ner-134.{part}.tpl"
    target.write_text("\n".join([*units[::part], "B", ""]), "utf-8")
    train, _ = _some(book, corpus(ESP, "train.conll"), 1)
    return target, train, "sequence", len(units[::part])


def _danish_labels(book: Book, part: int) -> Files:
    source = work() / "danish.morphology.columns"
    measure.python("benchmarks.programs.columns", "morphology", corpus(DANISH, "train.conll"), source)
    whole, _ = _some(book, source, 1)
    target = work() / f"danish.labels.{part}.columns"
    return preset("tags"), target, "sequence", fewer_labels(whole, target, part)


def _some(book: Book, source: Path, part: int) -> tuple[Path, int]:
    """The first sentences of a text, of all or of those of a trial."""
    text = source.read_text("utf-8").strip()
    there = text.count("\n\n" if "\n\n" in text else "\n") + 1
    count = (book.ask.sentences or there) // part
    return head(source, count), count


def fewer_labels(source: Path, target: Path, part: int) -> int:
    """Writes a column file with a part of another's labels, the frequent ones, and one for the others; how many."""
    lines = source.read_text("utf-8").split("\n")
    counts = Counter(line.rpartition("\t")[2] for line in lines if line)
    kept = {label for label, _ in counts.most_common(max(1, len(counts) // part - (part > 1)))}
    pairs = (line.rpartition("\t") for line in lines)
    rest = (
        f"{cells}{tab}{label if label in kept else 'other'}" if tab else "" for cells, tab, label in pairs
    )
    target.write_text("\n".join(rest), "utf-8")
    return len(kept) + (len(kept) < len(counts))


AXES: dict[tuple[str, str], Callable[[Book, int], Files]] = {
    ("sentences", "ESP ner-134"): _esp_sentences,
    ("sentences", "PKU cws-tp2"): _pku_sentences,
    ("templates", "ESP ner-134"): _esp_templates,
    ("labels", "Danish tags"): _danish_labels,
}


def _train(book: Book, templates: Path, train: Path, task: str, count: int) -> Row:
    options = ["--task", task, "--loss", "hinge", "-c", 1, "--threads", 1]
    arguments = [templates, train, work() / "growth.mtl", *options]
    run = measure.python("benchmarks.programs.train", *arguments, limit=book.ask.limit)
    row: Row = {"count": count, "cpu": run.cpu, "stopped": run.stopped, "memory": run.peak_mb}
    if run.stopped:
        return row
    found = run.json
    return row | {
        "before": found["cpu"]["before"],
        "learning": found["cpu"]["learning"],
        **{name: found[name] for name in ("passes", "gap", "attributes", "tokens")},
    }


def slope(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """The exponent b of y = a·x^b by least squares of logarithms, and the largest factor by which a point is off."""
    u, v = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mean_u, mean_v = sum(u) / len(u), sum(v) / len(v)
    spread = sum((one - mean_u) ** 2 for one in u)
    b = sum((one - mean_u) * (other - mean_v) for one, other in zip(u, v, strict=True)) / spread
    off = max(abs(other - mean_v - b * (one - mean_u)) for one, other in zip(u, v, strict=True))
    return b, math.exp(off)


def points(rows: list[Row], axis: str, data: str, figure: str) -> list[tuple[float, float]]:
    """(count, figure less that of the program itself) of an axis; learning is all of the data's own."""
    own = next((row for row in rows if row["axis"] == "program"), {})
    less = 0.0 if figure == "learning" else own.get(figure, 0.0)
    found = [row for row in rows if (row["axis"], row["data"]) == (axis, data) and figure in row]
    pairs = [(float(row["count"]), row[figure] - less) for row in found]
    return [(x, y) for x, y in pairs if y > 0]


def fits(rows: list[Row]) -> list[tuple[str, str, str, float, float]]:
    """Axis, corpus, figure, exponent, largest factor off; where there are three points or more."""
    found = []
    for axis, data in AXES:
        for figure in FIGURES:
            pairs = points(rows, axis, data, figure)
            if len(pairs) >= 3:
                found.append((axis, data, figure, *slope(*zip(*pairs, strict=True))))
    return found


def draw(rows: list[Row]) -> None:
    """A panel for each figure, a line for each axis and corpus; both scales are logarithmic, x is the part of all."""
    from mtlstruct.report.plots import INK, new_figure, save, style, title

    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure = new_figure(PICTURE, (11.5, 3.9))
    for axes, (name, text) in zip(figure.subplots(1, 3), FIGURES.items(), strict=True):
        for (axis, data), colour in zip(AXES, ("#2a6f97", "#61a5c2", "#ee9b00", "#6a994e"), strict=True):
            pairs = points(rows, axis, data, name)
            if len(pairs) >= 3:
                _line(axes, pairs, f"{axis}, {data}", colour)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("part of all", color=INK)
        axes.set_ylabel(f"{text}, {'MB' if name == 'memory' else 's'}", color=INK)
        style(axes)
        if axes.lines:
            axes.legend(frameon=False, fontsize=7)
    title(figure, "Time and memory of train, from a sixteenth to all")
    save(figure, PICTURE)


def _line(axes: Any, pairs: list[tuple[float, float]], label: str, colour: str) -> None:
    b, _ = slope(*zip(*pairs, strict=True))
    most = max(x for x, _ in pairs)
    xs, ys = zip(*[(x / most, y) for x, y in pairs], strict=True)
    axes.plot(xs, ys, color=colour, lw=1.5, marker="o", ms=4, label=f"{label}: x^{b:.2f}")
