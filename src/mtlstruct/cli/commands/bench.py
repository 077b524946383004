"""`bench`: speed of encoding, training and prediction on this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from mtlstruct.cli import common
from mtlstruct.cli.common import argument, option
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Options, Task

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet

REPEAT = 3
"""Runs of encoding and of prediction; the fastest counts."""

COPIES = 12
"""Copies of the bundled corpus, each with other noise."""

T = TypeVar("T")


def bench(
    templates: Annotated[Path | None, argument("[TEMPLATES", "Template file, together with DATA.")] = None,
    data: Annotated[Path | None, argument("DATA]", "Labelled data.")] = None,
    task: Annotated[Task, option("Task of the data.")] = "sequence",
    c: Annotated[float, option("Cost of training errors.", "-c", limits=(1e-9, 1e6))] = 1.0,
    json: common.JsonOption = False,
    threads: common.ThreadsOption = None,
    encoding: common.EncodingOption = "utf-8",
) -> None:
    """Measure the speed of this machine.

    Prints the speed of encoding, of a pass, of training and of prediction, and the memory used.
    Without TEMPLATES and DATA the corpus of `demo` is used. Encoding and prediction are the fastest
    of three runs.

    Example: mtlstruct bench --threads 2
    """
    from mtlstruct.tasks import FileOptions, task_of
    from mtlstruct.templates import TemplateSet

    if (templates is None) != (data is None) or not task_of(task).divisible:
        raise IncompatibleError("expected templates and labelled data of sequences or classes, or neither")
    common.use_resources(threads)
    if templates is None or data is None:
        corpus, chosen = _bundled()
    else:
        corpus, chosen = task_of(task).read(data, FileOptions(encoding)), TemplateSet.read(templates)
    if not json:
        print(f"{len(corpus):,} sentences, {corpus.tokens:,} tokens, {len(chosen)} templates", flush=True)
    found = {}
    for step, value, unit, note in _measurements(corpus, chosen, Options(task=task, c=c).checked()):
        found[step] = {"value": value, "unit": unit}
        if not json:
            digits = 0 if value >= 100 or unit == "" else 2
            print(f"{step:<12}{value:>10,.{digits}f} {unit:<16}{note}".rstrip(), flush=True)
    if json:
        common.print_json(found)


def _bundled() -> tuple[Corpus, TemplateSet]:
    """Return several copies of the corpus of the demo, and its templates."""
    from mtlstruct.formats import columns
    from mtlstruct.samples import recipes
    from mtlstruct.templates import generate

    text = "".join(recipes.column_file(recipes.bundled(), seed) for seed in range(COPIES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ingredients.txt"
        path.write_text(text, "utf-8")
        return columns.read(path), generate((-2, 2), range(8), bigrams=True, trigrams=(1, 3, 4))


def _measurements(
    corpus: Corpus, templates: TemplateSet, options: Options
) -> Iterator[tuple[str, float, str, str]]:
    """Yield step, value, unit and a note, as soon as they are known."""
    import numpy as np

    from mtlstruct._system import memory, threads
    from mtlstruct.training.train import encode, train

    yield "threads", threads.get_threads(), "", ""
    few = corpus.take(np.arange(min(50, len(corpus))))
    train(few, templates, options)  # compiles the kernels
    seconds, material = _best(lambda: encode(corpus, templates, options))
    entries = sum(int(design.ptr[-1]) for design in material.encoded.designs)
    yield "encode", entries / seconds / 1e6, "M attributes/s", f"{seconds:.2f} s"
    seconds, trained = _timed(lambda: train(corpus, templates, options, dataset=material))
    fit, model = trained.fit, trained.model
    yield "pass", 1e3 * seconds / fit.passes, "ms", "training time per pass"
    yield "train", seconds, "s", f"{fit.passes} passes to a gap of {fit.gap:.2%}"
    seconds, _ = _best(lambda: model.predict(corpus))
    yield "predict", corpus.tokens / seconds / 1e3, "k tokens/s", f"{seconds:.2f} s"
    yield "memory", memory.peak() / 1e6, "MB", "peak"


def _best(work: Callable[[], T]) -> tuple[float, T]:
    return min((_timed(work) for _ in range(REPEAT)), key=lambda found: found[0])


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
