"""How near block updates and prediction come to what memory and processor allow: a row for each corpus and loss.

Bytes and flops are counted from the sizes of the data, seconds and roofs are measured (programs/roofline.py).
Attributes are numbered by falling frequency, so many rows are in a cache when they are wanted again, and a step can
be faster than random rows.
"""

from __future__ import annotations

from functools import partial

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import ESP, PKU, corpus, head
from benchmarks.tables import Rows, markdown, or_missing
from benchmarks.tasks import preset

DATA = {
    "ESP ner-134": (ESP, "train.conll", "test.conll", "ner-134", "sequence"),
    "PKU cws-tp2": (PKU, "train.txt", "test.txt", "cws-tp2", "segmentation"),
}


def measure_all(book: Book) -> None:
    """A row for each corpus and loss."""
    for data in DATA:
        for loss in ("log", "hinge"):
            book.row({"data": data, "loss": loss}, machine.source(), partial(_row, book, data, loss))


def _row(book: Book, data: str, loss: str) -> Row:
    folder, train, test, templates, task = DATA[data]
    files = [corpus(folder, part) for part in (train, test)]
    if book.ask.sentences is not None:
        files = [head(file, book.ask.sentences) for file in files]
    return measure.python("benchmarks.programs.roofline", preset(templates), *files, task, loss).json


def table(rows: Rows) -> str:
    """A line for each step: what it asks for, how fast, and which share of each roof that is."""
    titles = (
        "step",
        "bytes per token",
        "flops per byte",
        "GB/s",
        "of sequential",
        "of random rows",
        "of flops",
    )
    lines = []
    for row in rows:
        name = " ".join(row["key"].values())
        if "missing" in row:
            lines.append(or_missing({"name": name, **row}, "name", lambda _: [], len(titles)))
            continue
        for step, found in row["steps"].items():
            speed = found["bytes"] / found["seconds"]
            shares = (
                speed / row["sequential"],
                speed / row["random"],
                found["flops"] / found["seconds"] / row["flops"],
            )
            cells = [
                f"{found['bytes'] / found.get('tokens', row['tokens']):,.0f}",
                f"{found['flops'] / found['bytes']:.2f}",
                f"{speed / 1e9:.2f}",
            ]
            lines.append([f"{name}, {step}", *cells, *(f"{share:.1%}" for share in shares)])
    return markdown(titles, lines)
