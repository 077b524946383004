"""How time and memory of `train` and `predict` grow with sentences, their length, templates, labels; and the picture.

Each axis goes from a sixteenth to all, for both losses. Templates are taken evenly from all over the set, the
transitions always. Labels are Danish tags with morphology, of which the frequent ones stay and the others become one.
For the length, the tokens of the Spanish text are cut into sentences of 16 to 256 tokens. `predict` gets the text of
the training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import DANISH, ESP, IMAGES, PKU, corpus, head, work
from benchmarks.tasks import preset

PARTS = (16, 8, 4, 2, 1)
PICTURE = IMAGES / "growth.png"
FIGURES = {
    "learning": "learning",
    "before": "start-up, reading, encoding",
    "memory": "peak memory",
    "predicting": "predict",
    "predict_memory": "peak memory of predict",
}
LOSSES = {"log": (), "hinge": ("-c", 1)}
"""The losses, and their options; the log loss has its default c."""
LONGEST = 256
SMALL = 20
"""Sentences of the run whose seconds and memory are those of the program itself."""


def measure_all(book: Book) -> None:
    """A row for each loss, axis, corpus and part; and one for the program alone."""
    for loss in LOSSES:
        book.row(
            _key("program", "ESP ner-134", 1, loss),
            machine.source(),
            partial(_row, book, _esp_small, 1, loss),
        )
        for (axis, data), files in AXES.items():
            for part in PARTS:
                stamp, row = machine.source(), partial(_row, book, files, part, loss)
                book.row(_key(axis, data, part, loss), stamp, row)


def _key(axis: str, data: str, part: int, loss: str) -> dict[str, str]:
    return {"axis": axis, "data": data, "part": f"1/{part}", "loss": loss}


Files = tuple[Path, Path, str, int]
"""Templates, training text, task, and how many there are of what is varied."""


def _esp_small(book: Book, part: int) -> Files:
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


def _esp_lengths(book: Book, part: int) -> Files:
    few, _ = _some(book, corpus(ESP, "train.conll"), 1)
    lines = [line for line in few.read_text("utf-8").split("\n") if line.strip()]
    length, target = LONGEST // part, work() / f"esp.lengths.{part}.conll"
    blocks = ("\n".join(lines[start : start + length]) for start in range(0, len(lines), length))
    target.write_text("\n\n".join(blocks) + "\n\n", "utf-8")
    return preset("ner-134"), target, "sequence", length


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
    ("length", "ESP ner-134"): _esp_lengths,
}


def _row(book: Book, files: Callable[[Book, int], Files], part: int, loss: str) -> Row:
    templates, train, task, count = files(book, part)
    model = work() / "growth.mtl"
    options = ["--task", task, "--loss", loss, *LOSSES[loss], "--threads", 1]
    run = measure.python("benchmarks.programs.train", templates, train, model, *options, limit=book.ask.limit)
    row: Row = {"count": count, "cpu": run.cpu, "stopped": run.stopped, "memory": run.peak_mb}
    if run.stopped:
        return row
    text = work() / "growth.text"
    given = train.read_text("utf-8")
    text.write_text(given.replace(" ", "") if task == "segmentation" else given, "utf-8")
    out = ("-o", model.with_suffix(".tagged"), "--force")
    tagging = ("mtlstruct", "predict", model, text, *out, "--threads", 1)
    tagged = measure.best(lambda: measure.python(*tagging), book.ask.repeat)
    found = run.json
    return row | {
        "before": found["cpu"]["before"],
        "learning": found["cpu"]["learning"],
        "predicting": tagged.cpu,
        "predict_memory": tagged.peak_mb,
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


def points(rows: list[Row], axis: str, data: str, figure: str, loss: str) -> list[tuple[float, float]]:
    """(count, figure less that of the program itself) of an axis; learning is all of the data's own."""
    mine = [row for row in rows if row["loss"] == loss]
    own = next((row for row in mine if row["axis"] == "program"), {})
    less = 0.0 if figure == "learning" else own.get(figure, 0.0)
    found = [row for row in mine if (row["axis"], row["data"]) == (axis, data) and figure in row]
    pairs = [(float(row["count"]), row[figure] - less) for row in found]
    return [(x, y) for x, y in pairs if y > 0]


def fits(rows: list[Row]) -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """Exponent and largest factor off, by axis, corpus, loss and figure; where there are three points or more."""
    found = {}
    for (axis, data), loss, figure in product(AXES, LOSSES, FIGURES):
        pairs = points(rows, axis, data, figure, loss)
        if len(pairs) >= 3:
            found[axis, data, loss, figure] = slope(*zip(*pairs, strict=True))
    return found


def draw(rows: list[Row]) -> None:
    """A panel for each figure and loss, a line for each axis and corpus; both scales are logarithmic."""
    from mtlstruct.report.plots import COLOURS, INK, new_figure, save, style, title

    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure = new_figure(PICTURE, (3.6 * len(FIGURES), 7.2))
    panels = figure.subplots(len(LOSSES), len(FIGURES))
    for (loss, (name, text)), axes in zip(product(LOSSES, FIGURES.items()), panels.flat, strict=True):
        for (axis, data), colour in zip(AXES, COLOURS, strict=False):
            pairs = points(rows, axis, data, name, loss)
            if len(pairs) >= 3:
                _line(axes, pairs, f"{axis}, {data}", colour)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("part of all", color=INK)
        axes.set_ylabel(f"{loss} loss: {text}, {'MB' if 'memory' in name else 's'}", color=INK)
        style(axes)
        if axes.lines:
            axes.legend(frameon=False, fontsize=7)
    title(figure, "Time and memory of train and predict, from a sixteenth to all")
    save(figure, PICTURE)


def _line(axes: Any, pairs: list[tuple[float, float]], label: str, colour: str) -> None:
    b, _ = slope(*zip(*pairs, strict=True))
    most = max(x for x, _ in pairs)
    xs, ys = zip(*[(x / most, y) for x, y in pairs], strict=True)
    axes.plot(xs, ys, color=colour, lw=1.5, marker="o", ms=4, label=f"{label}: x^{b:.2f}")
