"""`train --method auto` beside the default, the best fixed setting, and python-crfsuite at its defaults.

The best fixed setting is the one of the grid of `auto` with the best score where `auto` compares settings, on the
development part or on folds, each trained to the default gap. Scores are those of the test part. PKU is cut to
its first sentences; GROBID's data are divided at random, 80 to 20 %.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import machine, measure
from benchmarks.book import Ask, Book, Row
from benchmarks.peers.labellers import PYTHON_CRFSUITE
from benchmarks.places import DANISH, ESP, NED, PKU, corpus, head, work
from benchmarks.tables import Rows, markdown
from benchmarks.tasks import preset

SPLITS, PKU_SENTENCES = 5, 4000
PROGRAMS = ("default", "auto", "fixed", "crfsuite")
FIGURES = ("f1", "accuracy", "sequence_accuracy")


@dataclass(frozen=True)
class Files:
    """The files of a training; `columns` has the training and test part as python-crfsuite gets them."""

    templates: Path
    train: Path
    test: Path
    valid: Path | None = None
    task: str = "sequence"
    columns: tuple[Path, Path] | None = None


def _names(data: str, templates: str, sentences: int | None) -> Iterator[Files]:
    kind = "hand" if templates == "hand" else "plain"
    parts = [_columns(kind, data, part, sentences) for part in ("train", "test", "dev")]
    yield Files(preset(templates), *parts)


def _words(data: str, templates: str, sentences: int | None) -> Iterator[Files]:
    train = head(corpus(data, "train.txt"), sentences or PKU_SENTENCES)
    parts = train, corpus(data, "test.txt")
    yield Files(
        preset(templates), *parts, task="segmentation", columns=tuple(_written("segmented", p) for p in parts)
    )


def _tags(data: str, templates: str, sentences: int | None) -> Iterator[Files]:
    yield Files(preset(templates), *(_columns("tags", data, part, sentences) for part in ("train", "test")))


def _grobid(data: str, templates: str, sentences: int | None) -> Iterator[Files]:
    blocks = re.split(r"\n\s*\n", corpus(data, "all.conll").read_text("utf-8").strip())
    converted = work() / f"{templates}.tpl"
    source = corpus(data, f"{templates}.template")
    measure.python(
        "mtlstruct",
        "templates",
        "convert",
        source,
        "--dialect",
        "crfpp",
        "--to",
        "mtlstruct",
        "-o",
        converted,
        "--force",
    )
    for seed in range(SPLITS):
        order = random.Random(seed).sample(blocks, len(blocks))
        cut = len(blocks) * 4 // 5
        parts = [work() / f"{templates}.{seed}.{part}.columns" for part in ("train", "test")]
        for path, some in zip(parts, (order[:cut], order[cut:]), strict=True):
            path.write_text("\n\n".join(some) + "\n", "utf-8")
        yield Files(converted, *parts)


SETS = {
    "GROBID dates": (_grobid, "clients/grobid_date", "date"),
    "GROBID names": (_grobid, "clients/grobid_name_header", "name"),
    "Danish tags": (_tags, DANISH, "tags"),
    **{f"PKU {name}": (_words, PKU, name) for name in ("cws-tp1", "cws-tp2", "segmentation")},
    **{f"ESP {name}": (_names, ESP, name) for name in ("hand", "ner", "ner-134")},
    **{f"NED {name}": (_names, NED, name) for name in ("hand", "ner", "ner-134")},
}
"""How the files of a set are made, its corpus and its templates."""


def measure_all(book: Book) -> None:
    """A row for each set, split and program."""
    for name, (make, data, templates) in SETS.items():
        splits = SPLITS if make is _grobid else 1
        for split in range(splits):
            for program in PROGRAMS:
                key = {"set": name, "split": str(split), "program": program}
                made = partial(make, data, templates, book.ask.sentences)
                stamp = "python-crfsuite, defaults" if program == "crfsuite" else machine.source()
                book.row(key, stamp, partial(_row, made, split, program, book.ask))


def _row(make: Any, split: int, program: str, ask: Ask) -> Row:
    files: Files = list(make())[split]
    model = work() / "choice.mtl"
    shutil.rmtree(work() / "choice.mtl.auto", ignore_errors=True)
    if program == "fixed":
        return _fixed(files)
    if program == "crfsuite":
        return _crfsuite(files, model, ask.limit)
    valid = [] if files.valid is None or program == "default" else ["--valid", files.valid]
    method = ["--method", "auto"] if program == "auto" else []
    options = ["--task", files.task, *valid, *method, "--threads", 1, "--no-log", "--json", "-q", "--force"]
    run = measure.python("mtlstruct", "train", files.templates, files.train, model, *options)
    scores = measure.python("mtlstruct", "evaluate", model, files.test, "--json", "--threads", 1).json
    tried = run.json.get("search", {}).get("tried", [])
    kept = next((row for row in tried if row["chosen"]), {})
    return {"cpu": run.cpu, **_figures(scores), "chosen": kept, "model_mb": model.stat().st_size / 1e6}


def _fixed(files: Files) -> Row:
    valid = [] if files.valid is None else [files.valid]
    arguments = [files.task, files.templates, files.train, files.test, *valid]
    run = measure.python("benchmarks.programs.fixed", *arguments)
    kept = ("dev", "method", "loss", "p", "c", *FIGURES)
    return {"cpu": run.cpu, **{name: run.json.get(name) for name in kept}}


def _crfsuite(files: Files, model: Path, limit: float) -> Row:
    PYTHON_CRFSUITE.identity()  # raises Missing
    train, test = files.columns or (files.train, files.test)
    tagged = work() / "choice.tagged"
    program, peer = "benchmarks.programs.python_peers", "python-crfsuite-lbfgs"
    run = measure.python(program, "train", peer, files.templates, train, model, limit=limit)
    if run.stopped:
        return {"cpu": run.cpu, "stopped": True}
    measure.python(program, "tag", peer, files.templates, test, model, tagged)
    scores = measure.python("benchmarks.programs.peer_score", files.task, test, tagged).json
    return {"cpu": run.cpu - run.json["making"], **_figures(scores)}


def _figures(scores: dict[str, Any]) -> Row:
    return {name: scores.get(name) for name in FIGURES}


def _columns(kind: str, data: str, part: str, sentences: int | None) -> Path:
    source = corpus(data, f"{part}.conll")
    return _written(kind, source if sentences is None else head(source, sentences))


def _written(kind: str, source: Path) -> Path:
    target = work() / f"{source.parent.name}.{kind}.{source.stem}.columns"
    measure.python("benchmarks.programs.columns", kind, source, target)
    return target


def table(rows: Rows) -> str:
    """A line for each set: the score of each program, whole sequences, and the cost of `auto`."""
    lines = []
    for name in SETS:
        means = {}
        for program in PROGRAMS:
            some = [
                r
                for r in rows
                if (r["set"], r["program"]) == (name, program) and "cpu" in r and not r.get("stopped")
            ]
            means[program] = (
                {n: fmean(r[n] or 0.0 for r in some) for n in (*FIGURES, "cpu")} if some else None
            )
        if means["auto"] is None:
            continue
        score = "accuracy" if SETS[name][0] is _tags else "f1"
        cells = ["–" if m is None else f"{m[score]:.2f}" for m in means.values()]
        whole = [
            "–" if m is None or not m["sequence_accuracy"] else f"{m['sequence_accuracy']:.1f}"
            for m in means.values()
        ]
        ratio = "–" if means["default"] is None else f"{means['auto']['cpu'] / means['default']['cpu']:.1f}"
        lines.append([f"{name}, {'F1' if score == 'f1' else score}", *cells, " / ".join(whole), ratio])
    return markdown(("set", *PROGRAMS, "whole sequences", "CPU of auto / default"), lines)
