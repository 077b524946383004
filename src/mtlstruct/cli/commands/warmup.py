"""`warmup`: compile the kernels before they are needed."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, get_args

import typer

from mtlstruct._numba.decorators import COMPILED, cache_folder
from mtlstruct.errors import MtlError
from mtlstruct.samples import recipes as demo
from mtlstruct.templates import TemplateSet, generate
from mtlstruct.templates.presets import preset
from mtlstruct.training.options import Method, Task

LINES = 20
"""How many lines of the demo's corpus are trained on."""

PASSES = {"coordinate": "30"}
"""The most passes of a solver, if not 3: this one is quick, and has kernels that only its last passes call."""


def warmup(
    task: Annotated[
        list[str] | None,
        typer.Option("--task", metavar="TASK", help="Only these tasks.", show_default="all"),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="METHOD", help="Only these methods.", show_default="all"),
    ] = None,
) -> None:
    """Compile the kernels of training and prediction, for images and CI.

    Small models are trained and used with each task and method. What is compiled is kept in the cache folder, whose
    name is printed at the end; NUMBA_CACHE_DIR sets another one.
    """
    tasks, methods = _known("--task", task, get_args(Task)), _known("--method", method, get_args(Method))
    folder = cache_folder() if COMPILED else None
    if folder is None:
        raise MtlError(
            "there is no folder for compiled kernels: expected NUMBA_CACHE_DIR to name a writable one"
        )
    with tempfile.TemporaryDirectory() as place:
        for one in tasks:
            begin = time.perf_counter()
            for command in _commands(Path(place), one, methods):
                _run(command)
            print(f"{one}: {time.perf_counter() - begin:.1f} s", flush=True)
    print(folder)


def _known(option: str, given: Sequence[str] | None, words: Sequence[str]) -> Sequence[str]:
    """Return the values of an option, or all that it can have; raise an error for others."""
    for one in given or ():
        if one not in words:
            raise MtlError(f"{option} must be one of {', '.join(words)}, got {one!r}")
    return given or words


def _commands(place: Path, task: str, methods: Sequence[str]) -> Iterator[list[str]]:
    """Return command lines that use the kernels of a task, with their small files."""
    from mtlstruct.tasks import task_of
    from mtlstruct.training.methods import METHODS

    data, templates = place / f"{task}.txt", place / f"{task}.tpl"
    data.write_text(_corpus(task), "utf-8")
    templates.write_text(_templates(task), "utf-8")
    trees = not task_of(task).divisible
    for method in methods:
        model = place / f"{task}-{method}.mtl"
        for solver in reversed(METHODS[method].solvers):  # the model of the default solver is used below
            kinds = [["--projective"], ["--labels"]] if trees else [[]]
            options = ["--task", task, "--method", method, "--solver", solver, "--quiet", "--no-log"]
            few = ["--max-iter", PASSES.get(solver, "3")]
            for kind in kinds:
                yield ["train", *map(str, (templates, data, model)), *options, *few, *kind]
        yield ["predict", str(model), str(data)]
        yield ["predict", str(model), str(data), "--scores", *([] if trees else ["--nbest", "2"])]
        yield ["evaluate", str(model), str(data)]
        yield ["weights", str(model)]


def _run(command: Sequence[str]) -> None:
    """Run a command line; raise what it raises."""
    from mtlstruct.cli import invoke

    with io.TextIOWrapper(io.BytesIO()) as sink, redirect_stdout(sink), redirect_stderr(sink):
        invoke(command)


def _corpus(task: str) -> str:
    lines = demo.bundled()[:LINES]
    write = {"segmentation": "  ".join, "dependency": _tree}.get(task)
    if write is not None:
        return "".join(write(line.tokens) + "\n" for line in lines)
    return demo.column_file(lines, seed=0)


def _tree(tokens: Sequence[str]) -> str:
    """Return tokens that depend on the one before, as CoNLL-X."""
    rows = (
        [number, token, "_", token[:1], token[:1], "_", number - 1, f"r{number % 3}", "_", "_"]
        for number, token in enumerate(tokens, 1)
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _templates(task: str) -> str:
    templates = {
        "sequence": generate((-1, 1), range(4), bigrams=True),
        "segmentation": preset("cws-tp2"),
        "dependency": preset("dependency"),
        "multiclass": TemplateSet.parse("".join(f"U{k}:%x[0,{k}]\n" for k in range(4))),
    }
    return templates[task].text()
