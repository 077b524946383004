"""`bench`: this machine's figures."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, ThreadsOption, print_json, use_threads
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Options, Task

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet

REPEAT = 3
"""Encoding and prediction are timed this often, and the best time is taken."""

COPIES = 12
"""How often the bundled corpus is laid end to end, each time with other noise."""

T = TypeVar("T")


class Figure(NamedTuple):
    """A figure of a step."""

    step: str
    value: float
    unit: str
    note: str = ""


def bench(
    templates: Annotated[
        Path | None, typer.Argument(metavar="[TEMPLATES", help="Templates, with the data that go with them.")
    ] = None,
    data: Annotated[Path | None, typer.Argument(metavar="DATA]", help="Labelled data.")] = None,
    task: Annotated[Task, typer.Option("--task", help="The format of the data.")] = "sequence",
    c: Annotated[float, typer.Option("-c", help="As for `train`.")] = 1.0,
    json: JsonOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Measure this machine: encoding, a pass, training, prediction, memory.

    Without data of your own the corpus of `demo` is used, laid end to end. Encoding and prediction are the best of
    three runs.
    """
    from mtlstruct.tasks import Form, task_of
    from mtlstruct.templates import TemplateSet

    if (templates is None) != (data is None) or not task_of(task).divisible:
        raise IncompatibleError("expected templates and labelled data of sequences or items, or neither")
    use_threads(threads)
    if templates is None or data is None:
        corpus, chosen = _bundled()
    else:
        corpus, chosen = task_of(task).read(data, Form(encoding)), TemplateSet.read(templates)
    if not json:
        print(f"{len(corpus):,} sentences, {corpus.tokens:,} tokens, {len(chosen)} templates", flush=True)
    found = []
    for figure in _figures(corpus, chosen, Options(task=task, c=c).checked()):
        found.append(figure)
        if not json:
            digits = 0 if figure.value >= 100 or figure.unit == "" else 2
            line = f"{figure.step:<12}{figure.value:>10,.{digits}f} {figure.unit:<16}{figure.note}"
            print(line.rstrip(), flush=True)
    if json:
        print_json({figure.step: {"value": figure.value, "unit": figure.unit} for figure in found})


def _bundled() -> tuple[Corpus, TemplateSet]:
    """Return several copies of the demo's corpus, and its templates."""
    from mtlstruct.formats import columns
    from mtlstruct.samples import recipes
    from mtlstruct.templates import generate

    text = "".join(recipes.column_file(recipes.bundled(), seed) for seed in range(COPIES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ingredients.txt"
        path.write_text(text, "utf-8")
        return columns.read(path), generate((-2, 2), range(8), bigrams=True, trigrams=(1, 3, 4))


def _figures(corpus: Corpus, templates: TemplateSet, options: Options) -> Iterator[Figure]:
    """Yield the figure of each step as soon as it is known."""
    import numpy as np

    from mtlstruct._system import memory, threads
    from mtlstruct.training.train import encode, train

    yield Figure("threads", threads.get_threads(), "")
    few = corpus.take(np.arange(min(50, len(corpus))))
    train(few, templates, options, lambda record: False)  # compiles the kernels
    seconds, material = _best(lambda: encode(corpus, templates, options))
    entries = sum(int(design.ptr[-1]) for design in material.encoded.designs)
    yield Figure("encode", entries / seconds / 1e6, "M attributes/s", f"{seconds:.2f} s")
    seconds, trained = _timed(
        lambda: train(corpus, templates, options, lambda record: False, dataset=material)
    )
    fit, model = trained.fit, trained.model
    yield Figure("pass", 1e3 * seconds / fit.passes, "ms", "training time by passes")
    yield Figure("train", seconds, "s", f"{fit.passes} passes to a gap of {fit.gap:.2%}")
    seconds, _ = _best(lambda: model.predict(corpus))
    yield Figure("predict", corpus.tokens / seconds / 1e3, "k tokens/s", f"{seconds:.2f} s")
    yield Figure("memory", memory.peak() / 1e6, "MB", "peak")


def _best(work: Callable[[], T]) -> tuple[float, T]:
    return min((_timed(work) for _ in range(REPEAT)), key=lambda found: found[0])


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
