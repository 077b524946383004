"""`bench`: speed of encoding, training and prediction on this machine."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mtlstruct._system import memory
from mtlstruct._system.threads import get_threads
from mtlstruct.cli import common
from mtlstruct.formats import columns
from mtlstruct.samples import recipes
from mtlstruct.templates import generate
from mtlstruct.training.options import Options
from mtlstruct.training.train import encode, train

REPEAT = 3
"""Runs of encoding and of prediction; the fastest counts."""

COPIES = 12
"""Copies of the bundled corpus, each with other noise."""


def bench(json: bool = common.JSON, threads: int | None = common.THREADS) -> None:
    """Measure the speed of this machine.

    Prints the speed of encoding, of a pass, of training and of prediction, and the memory used, on
    copies of the corpus of `demo`. Encoding and prediction are the fastest of three runs.

    Example: mtlstruct bench --threads 2
    """
    common.use_resources(threads)
    found = {}
    for step, value, unit, note in _measurements():
        found[step] = {"value": value, "unit": unit}
        if not json:
            digits = 0 if value >= 100 or unit == "" else 2
            print(f"{step:<12}{value:>10,.{digits}f} {unit:<16}{note}".rstrip(), flush=True)
    if json:
        common.print_json(found)


def _measurements() -> Iterator[tuple[str, float, str, str]]:
    """Yield step, value, unit and a note, as soon as they are known."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ingredients.txt"
        path.write_text("".join(recipes.column_file(recipes.bundled(), n) for n in range(COPIES)), "utf-8")
        corpus = columns.read(path)
    templates, options = generate((-2, 2), range(8), orders=(1, 2), trigrams=(1, 3, 4)), Options(c=1.0)
    size = f"{len(corpus):,} sentences, {corpus.tokens:,} tokens, {len(templates)} templates"
    yield "threads", get_threads(), "", size
    train(corpus.take(np.arange(50)), templates, options)  # compiles the kernels
    seconds, material = _timed(lambda: encode(corpus, templates, options), REPEAT)
    entries = sum(int(design.ptr[-1]) for design in material.encoded.designs)
    yield "encode", entries / seconds / 1e6, "M attributes/s", f"{seconds:.2f} s"
    seconds, trained = _timed(lambda: train(corpus, templates, options, dataset=material))
    fit = trained.fit
    yield "pass", 1e3 * seconds / fit.passes, "ms", "training time per pass"
    yield "train", seconds, "s", f"{fit.passes} passes to a gap of {fit.gap:.2%}"
    seconds, _ = _timed(lambda: trained.model.predict(corpus), REPEAT)
    yield "predict", corpus.tokens / seconds / 1e3, "k tokens/s", f"{seconds:.2f} s"
    yield "memory", memory.peak() / 1e6, "MB", "peak"


def _timed(work: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """Return the shortest time of some runs, and the last result."""
    times, found = [], None
    for _ in range(repeat):
        began = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - began)
    return min(times), found
