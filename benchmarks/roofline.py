"""How near a pass comes to what the memory allows: bytes that each step touches, counted, over its measured seconds.

Two roofs: bytes in a row, which no access to random rows can reach, and rows of the same size at random places of a
table of the same size, asked for ahead as our kernels do. Attributes are numbered by falling frequency, so many rows
are in a cache when they are wanted again, and gathering can be faster than the second roof.
"""

from __future__ import annotations

from functools import partial

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import ESP, PKU, corpus, head
from benchmarks.tasks import preset

DATA = {
    "ESP ner-134": (ESP, "train.conll", "ner-134", "sequence"),
    "PKU cws-tp2": (PKU, "train.txt", "cws-tp2", "segmentation"),
}


def measure_all(book: Book) -> None:
    """A row for each corpus."""
    for data in DATA:
        book.row({"data": data}, machine.source(), partial(_row, book, data))


def _row(book: Book, data: str) -> Row:
    folder, part, templates, task = DATA[data]
    train = corpus(folder, part)
    if book.ask.sentences is not None:
        train = head(train, book.ask.sentences)
    return measure.python("benchmarks.programs.roofline", preset(templates), train, task).json
