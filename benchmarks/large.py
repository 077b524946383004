"""A corpus of the size of AS, made of PKU: does it train in memory of 12 GB?"""

from __future__ import annotations

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.places import PKU, corpus, work
from benchmarks.tasks import preset

SENTENCES, CHARACTERS = 700_000, 8_400_000
REPLACED = 1 / 3
"""The part of the characters that is replaced by a random one, see `programs.resample`. It is large because a text
that is made of a smaller one repeats itself: with a twentieth there are half as many attributes as in AS."""


def measure_all(book: Book) -> None:
    """One row."""
    key = {"data": f"{SENTENCES:,} sentences made of PKU", "templates": "cws-tp2"}
    book.row(key, machine.source(), lambda: _row(book))


def _row(book: Book) -> Row:
    """Without a limit of time: what is asked is memory."""
    sentences = book.ask.sentences or SENTENCES
    text = work() / f"resampled.{sentences}.txt"
    length = CHARACTERS / SENTENCES
    arguments = [corpus(PKU, "train.txt"), text, sentences, length, REPLACED]
    made = measure.python("benchmarks.programs.resample", *arguments).json
    options = ["--task", "segmentation", "-c", 1, "--threads", 1]
    run = measure.python("benchmarks.programs.train", preset("cws-tp2"), text, work() / "large.mtl", *options)
    text.unlink()
    found = run.json
    return {
        **made,
        "cpu": run.cpu,
        "wall": run.wall,
        "peak_mb": run.peak_mb,
        "cpu_before": found["cpu"]["before"],
        "cpu_learning": found["cpu"]["learning"],
        **{name: found[name] for name in ("attributes", "features", "gap", "converged", "passes")},
    }
