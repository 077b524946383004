"""Features with all labels beside features with labels seen only, from few labels to many.

Names in the first sentences of CoNLL-2002 Spanish have 9 labels. Words of the Danish Dependency Treebank have a part
of speech with its morphology, 143 labels; with what the word is to its head there are more. Of these the frequent
ones stay, and the others become one. They are learned from the words alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import machine, measure
from benchmarks.book import Ask, Book, Row
from benchmarks.measure import Run
from benchmarks.places import DANISH, ESP, corpus, head, work
from benchmarks.tasks import preset

SENTENCES = 2000
TAGGING = (
    *(f"U:%x[{row},0]" for row in range(-2, 3)),
    *("U:%x[-1,0]/%x[0,0]", "U:%x[0,0]/%x[1,0]"),
    *(f"U:%suffix[0,0,{n}]" for n in range(1, 5)),
    *(f"U:%prefix[0,0,{n}]" for n in range(1, 4)),
    *("U:%shape[0,0]", "U:%suffix[-1,0,2]", "U:%suffix[1,0,2]", "B"),
)
"""Templates for parts of speech that look at words only."""


TAGS: dict[str, tuple[int | None, tuple[int, ...]]] = {
    "50 tags": (50, (4, 5)),
    "143 tags": (None, (4, 5)),
    "300 tags": (300, (4, 5, 7)),
}
"""How many labels there are, and the columns they are made of."""


def measure_all(book: Book) -> None:
    """A row for each set of labels and support."""
    for data in ("9 names", *TAGS):
        for support in ("all", "seen"):
            key = {"data": data, "support": support}
            book.row(key, machine.source(), partial(_row, data, support, book.ask))


def _row(data: str, support: str, ask: Ask) -> Row:
    model = work() / "labels.mtl"
    templates, train, test = _names() if data not in TAGS else _tagged(*TAGS[data])
    options = ("--loss", "hinge", "-c", "1", "--label-support", support, "--threads", "1")
    program = "benchmarks.programs.train"
    run = measure.best(lambda: _learned(program, [templates, train, model, *options], ask.limit), ask.repeat)
    if run.stopped:
        return {"stopped": True, "cpu": run.cpu, "peak_mb": run.peak_mb}
    score = measure.python("mtlstruct", "evaluate", model, test, "--json", "--threads", "1").json
    found = run.json
    row = {
        **{key: found[key] for key in ("features", "objective", "gap", "passes")},
        "cpu": run.cpu,
        "cpu_learning": found["cpu"]["learning"],
        "peak_mb": run.peak_mb,
        "model_mb": model.stat().st_size / 1e6,
        "f1": score["f1"] or None,
        "accuracy": score["accuracy"],
    }
    model.unlink()
    return row


def _names() -> tuple[Path, Path, Path]:
    return preset("ner-134"), head(corpus(ESP, "train.conll"), SENTENCES), corpus(ESP, "dev.conll")


def _learned(program: str, arguments: list[object], limit: float) -> Run:
    return measure.python(program, *arguments, limit=limit)


def _tagged(most: int | None, columns: tuple[int, ...]) -> tuple[Path, Path, Path]:
    templates = work() / "tagging.tpl"
    templates.write_text("\n".join(TAGGING) + "\n", "utf-8")
    train, test = (list(_words(part, columns)) for part in ("train", "test"))
    often = Counter(label for _, label in filter(None, train))
    kept = {label for label, _ in often.most_common(None if most is None else most - 1)}
    return templates, _written("train", train, kept), _written("test", test, kept)


def _words(part: str, columns: tuple[int, ...]) -> Iterator[tuple[str, str] | None]:
    """Words with their labels, None between sentences."""
    for line in corpus(DANISH, f"{part}.conll").read_text("utf-8").splitlines():
        cells = line.split("\t")
        yield (cells[1], "|".join(cells[column] for column in columns)) if len(cells) > 5 else None


def _written(part: str, words: list[tuple[str, str] | None], kept: set[str]) -> Path:
    """A column file, in which labels that are not kept are one."""
    target = work() / f"tagged.{part}.txt"
    lines = (
        "" if pair is None else f"{pair[0]}\t{pair[1] if pair[1] in kept else 'other'}" for pair in words
    )
    target.write_text("\n".join(lines) + "\n", "utf-8")
    return target
