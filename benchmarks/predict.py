"""Prediction on one core: start-up, tokens a second beside other taggers and segmenters, text."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import machine, measure
from benchmarks.book import Book, Row
from benchmarks.measure import Run
from benchmarks.peers.base import Job, Program
from benchmarks.peers.cases import CASES
from benchmarks.peers.labellers import (
    LABELLERS,
    PYTHON_CRFSUITE,
    CrfPlus,
    CrfsuiteCommand,
    PythonPeer,
    Wapiti,
    clear,
)
from benchmarks.peers.study import model_of, throughput
from benchmarks.places import Missing, head
from benchmarks.tasks import ESP_MTL, PKU_MTL, Task, preset, trained

STARTS, ROUNDS = 5, 5
CASE = CASES[0]
COMMAND = "mtlstruct predict"
SEGMENTERS = ("mtlstruct", "python-crfsuite", "crfs", "spacy-pkuseg", "ltp-extension", "vaporetto")
PACKAGES = {peer.name: peer for peer in LABELLERS if isinstance(peer, PythonPeer)}
SEGMENTED = next(case for case in CASES if case.name == "PKU cws-tp2")
SEGMENTER_SECONDS = 3600.0
"""What the training of another segmenter may take."""


def measure_all(book: Book) -> None:
    """Start-up; in memory beside python-crfsuite; whole commands beside the others; and where our time goes."""
    code = machine.source()
    _row(book, "start-up", code, lambda: _start_up(_model(book)))
    _row(book, "mtlstruct", code, lambda: _ours(book))
    _row(book, PYTHON_CRFSUITE.name, _identity(PYTHON_CRFSUITE), lambda: _their_speed(book))
    _row(book, "text", code, lambda: _text(book))
    _row(book, COMMAND, code, lambda: _command(book))
    peers: tuple[Program, ...] = (CrfPlus(), Wapiti(), CrfsuiteCommand())
    for peer in peers:
        _row(book, peer.name, _identity(peer), partial(_tagger, book, peer))
    for segmenter in SEGMENTERS:
        _row(book, f"{segmenter}, segmentation", code, partial(_segmenter, book, segmenter))


def _segmenter(book: Book, name: str) -> Row:
    """Characters a second of a segmenter on the test part of PKU, read from a file and written to memory."""
    data = head(PKU_MTL.part("test.raw"), book.ask.sentences or 10**9)
    if name == "mtlstruct":
        model = _model(book, PKU_MTL)
    else:
        learner = "python-crfsuite" if name == "crfs" else name
        if importlib.util.find_spec("crfs" if name == "crfs" else PACKAGES[learner].module) is None:
            raise Missing(f"not run: {name} is not installed")
        model = _segmenter_model(book, PACKAGES[learner])
    found = measure.python("benchmarks.programs.segmenters", name, model, data, ROUNDS).json
    return {"characters_per_second": found["characters"] / found["seconds"]}


def _segmenter_model(book: Book, peer: PythonPeer) -> Path:
    """The model of `peers`, or one of a few iterations: speed hardly depends on how long it was trained."""
    job, model = SEGMENTED.job(book.ask.sentences), model_of(SEGMENTED.name, peer)
    if not model.is_file() and peer.train(job, model, SEGMENTER_SECONDS, 3).run.stopped:
        raise Missing(f"not run: training did not end in {SEGMENTER_SECONDS:.0f} s")
    return model


def _model(book: Book, task: Task = ESP_MTL) -> Path:
    """That of `train`, or one of a trial."""
    if book.ask.sentences is None:
        return trained(task)
    few = head(task.part("train"), book.ask.sentences)
    measure.python("benchmarks.programs.train", *task.arguments(train=few))
    return task.model


def _row(book: Book, program: str, stamp: str, make: Callable[[], Row]) -> None:
    book.row({"program": program}, stamp, make)


def _identity(peer: Program) -> str:
    try:
        return peer.identity()
    except Missing:
        return ""


def _start_up(model: Path) -> Row:
    """Wall time, for this is what a user waits."""
    few = head(ESP_MTL.part("test"), 3)
    command = [sys.executable, "-m", "mtlstruct", "predict", str(model), str(few), "--threads", "1"]
    runs = [measure.run(command) for _ in range(STARTS)]
    return {"start_up": min(run.wall for run in runs), "all": sorted(run.wall for run in runs)}


def _ours(book: Book) -> Row:
    return _speed(_tagged(book, "benchmarks.programs.tag", _model(book), ESP_MTL.part("test"), ROUNDS))


def _their_speed(book: Book) -> Row:
    model, peer = model_of(CASE.name, PYTHON_CRFSUITE), PYTHON_CRFSUITE.name
    PYTHON_CRFSUITE.identity()
    if not model.is_file():
        raise Missing(f"not run: no model of {peer} (`python -m benchmarks peers` makes it)")
    arguments = ["tag", peer, preset(ESP_MTL.preset), ESP_MTL.part("test"), model]
    return _speed(_tagged(book, "benchmarks.programs.python_peers", *arguments))


def _tagged(book: Book, module: str, *arguments: object) -> Row:
    runs = [measure.python(module, *arguments).json for _ in range(book.ask.repeat)]
    return {key: min(run[key] for run in runs) for key in ("tokens", "making", "tagging")}


def _speed(found: Row) -> Row:
    """Tokens a second of tagging alone, and with the making of attributes (for us: encoding) before it."""
    whole = found["making"] + found["tagging"]
    return {"without": found["tokens"] / found["tagging"], "with": found["tokens"] / whole}


def _text(book: Book) -> Row:
    """Shares of reading, predicting and writing in the whole work of `predict`."""
    arguments = [_model(book), CASE.job(book.ask.sentences).long]
    runs = [measure.python("benchmarks.programs.stream", *arguments).json for _ in range(book.ask.repeat)]
    return min(runs, key=lambda found: sum(found[step] for step in ("reading", "predicting", "writing")))


def _command(book: Book) -> Row:
    """Our own command, measured as the others are; its model is that of `train`."""
    job, model = CASE.job(book.ask.sentences), _model(book)

    def tag(data: Path, out: Path) -> Run:
        return measure.python("mtlstruct", "predict", model, data, "-o", out, "--threads", 1)

    return throughput(job, tag, model.with_suffix(".tagged"), book.ask.repeat)


def _tagger(book: Book, peer: Program) -> Row:
    """A peer's command; its model is that of `peers`."""
    peer.identity()
    job: Job = CASE.job(book.ask.sentences)
    model = model_of(CASE.name, peer)
    if not model.is_file():
        raise Missing(f"not run: no model of {peer.name} (`python -m benchmarks peers` makes it)")
    try:
        out = model.with_suffix(".tagged")
        return throughput(job, lambda data, out: peer.tag(job, model, data, out), out, book.ask.repeat)
    finally:
        clear()


def beside(rows: list[Row]) -> dict[str, float]:
    """How many times a peer's tokens a second ours are: from memory without and with attributes, and by command."""
    named = {row["program"]: row for row in rows if "missing" not in row}
    found = {}
    ours, theirs = named.get("mtlstruct", {}), named.get(PYTHON_CRFSUITE.name, {})
    for figure in ("without", "with"):
        if figure in ours and figure in theirs:
            found[f"python-crfsuite {figure}"] = ours[figure] / theirs[figure]
    speed = named.get(COMMAND, {}).get("tokens_per_second")
    for name, row in named.items():
        if speed and name != COMMAND and "tokens_per_second" in row:
            found[name] = speed / row["tokens_per_second"]
    return found
