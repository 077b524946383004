"""Programs side by side on the same data: training, memory, model, start-up, tagging, scores; ours first.

A program that is still learning when its time is over is stopped. If it leaves no model then, it learns once more for
a few iterations: the size of its model and the speed of its tagging do not depend on how long it has learned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks import measure
from benchmarks.book import Book, Row
from benchmarks.measure import Run
from benchmarks.peers.base import Job, Program, Trained, digest
from benchmarks.peers.cases import CASES, TREES, Case
from benchmarks.peers.labellers import LABELLERS, clear
from benchmarks.peers.parsers import PARSERS
from benchmarks.places import Missing, work

SHORT = 3


def measure_all(book: Book) -> None:
    """A row for each case and program."""
    for case in CASES:
        _case(book, case, LABELLERS, "sequence")
    for trees in TREES:
        _case(book, trees, PARSERS, "dependency")


def _case(book: Book, case: Case, programs: Iterable[Program], task: str) -> None:
    try:
        job = case.job(book.ask.sentences)
    except Missing as reason:
        book.row({"case": case.name, "program": "all"}, "", _missing(reason))
        return
    for one in programs:
        if getattr(one, "segments", False) and not job.segmented:
            continue
        key = {"case": case.name, "program": one.name}
        try:
            stamp = _stamp(one, job)
        except Missing as reason:
            book.row(key, "", _missing(reason))
            continue
        book.row(key, stamp, partial(_row, book, job, one, task))


def _missing(reason: Missing) -> Callable[[], Row]:
    return lambda: {"missing": str(reason)}


def _stamp(one: Program, job: Job) -> str:
    """What a row depends on: the program, what it is told, and the files."""
    text = " ".join([one.identity(), one.settings, digest(job.templates, job.train, job.test)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def model_of(case: str, one: Program) -> Path:
    """Where its model is kept."""
    return work() / f"{case}.{one.name}.model".replace(" ", "_")


def _row(book: Book, job: Job, one: Program, task: str) -> Row:
    model = model_of(job.name, one)
    model.unlink(missing_ok=True)
    try:
        return _figures(book, job, one, model, task)
    finally:
        clear()


def _figures(book: Book, job: Job, one: Program, model: Path, task: str) -> Row:
    trained = one.train(job, model, book.ask.limit)
    row = _training(one, trained)
    if not model.is_file():
        again = one.train(job, model, book.ask.limit, SHORT)
        if not model.is_file():
            return row
        row["model_after"] = again.iterations
    score = "model_after" not in row
    return row | {"model_mb": model.stat().st_size / 1e6} | _tagging(book, job, one, model, task, score=score)


def _training(one: Program, trained: Trained) -> Row:
    run = trained.run
    return {
        "settings": one.settings,
        "stopped": run.stopped,
        "iterations": trained.iterations,
        "cpu": run.cpu,
        "wall": run.wall,
        "peak_mb": run.peak_mb,
        "making": trained.making,
    }


def _tagging(book: Book, job: Job, one: Program, model: Path, task: str, *, score: bool) -> Row:
    out = model.with_suffix(".tagged")
    row = throughput(job, lambda data, out: one.tag(job, model, data, out), out, book.ask.repeat)
    if score:
        one.tag(job, model, job.test, out)
        row |= _scores(job, out, task)
    return row


def throughput(job: Job, tag: Callable[[Path, Path], Run], out: Path, repeat: int) -> Row:
    """Start-up is what a few sentences take, and tokens a second come from what a long text adds to it."""
    few = [tag(job.few, out) for _ in range(repeat)]
    long = [tag(job.long, out) for _ in range(repeat)]
    row: Row = {"start_up": min(run.wall for run in few), "tag_peak_mb": max(run.peak_mb for run in long)}
    seconds = _least(long) - _least(few)
    if seconds > 0:
        row["tokens_per_second"] = (_tokens(job.long) - _tokens(job.few)) / seconds
    return row


def _least(runs: list[Run]) -> float:
    return min(run.cpu for run in runs)


def _scores(job: Job, out: Path, task: str) -> Row:
    if task == "dependency":
        found = measure.python("mtlstruct", "score", job.test, out, "--task", task, "--json").json
        return {name: found[name] for name in ("uas", "las") if name in found}
    kind = "segmentation" if job.segmented else task
    return {"f1": measure.python("benchmarks.programs.peer_score", kind, job.test, out).json["f1"]}


def _tokens(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(bool(line.strip()) for line in lines)
