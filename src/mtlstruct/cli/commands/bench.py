"""`bench`: this machine's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, ThreadsOption, print_json, use_threads
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.options import Task

if TYPE_CHECKING:
    from mtlstruct.cli.rates import Figure
    from mtlstruct.corpus import Corpus
    from mtlstruct.templates import TemplateSet


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
    """Measure this machine: memory, encoding, a pass, training, prediction.

    Without data of your own the corpus of `demo` is used, laid end to end. Each step but training is the best of
    three runs; `gather` and `scatter` stand beside what the memory could do.
    """
    from mtlstruct.cli.rates import bundled, figures
    from mtlstruct.tasks import task_of
    from mtlstruct.training.options import Options

    if (templates is None) != (data is None) or not task_of(task).divisible:
        raise IncompatibleError("expected templates and labelled data of sequences or items, or neither")
    use_threads(threads)
    corpus, chosen = (
        bundled() if data is None or templates is None else _read(templates, data, task, encoding)
    )
    found = []
    if not json:
        print(f"{len(corpus):,} sentences, {corpus.tokens:,} tokens, {len(chosen)} templates", flush=True)
    for figure in figures(corpus, chosen, Options(task=task, c=c).checked()):
        found.append(figure)
        if not json:
            print(_line(figure), flush=True)
    if json:
        print_json({figure.step: {"value": figure.value, "unit": figure.unit} for figure in found})


def _read(templates: Path, data: Path, task: Task, encoding: str) -> tuple[Corpus, TemplateSet]:
    from mtlstruct.tasks import Form, task_of
    from mtlstruct.templates import TemplateSet

    return task_of(task).read(data, Form(encoding)), TemplateSet.read(templates)


def _line(figure: Figure) -> str:
    digits = 0 if figure.value >= 100 or figure.unit == "" else 2
    return f"{figure.step:<20}{figure.value:>10,.{digits}f} {figure.unit:<16}{figure.note}".rstrip()
