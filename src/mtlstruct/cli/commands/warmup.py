"""`warmup`: compile the kernels before they are needed."""

import io
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, get_args

from mtlstruct import cli
from mtlstruct._numba.decorators import COMPILED, cache_folder
from mtlstruct.cli.command import option
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.samples import recipes
from mtlstruct.templates import TemplateSet, generate
from mtlstruct.templates.generate import preset
from mtlstruct.training.methods import METHODS, solver_name
from mtlstruct.training.options import FixedMethod, Options, Task

LINES = 20
"""Training data: the first lines of the corpus of the demo."""

PASSES = {"coordinate": "30"}
"""Passes per solver, if not 3: some kernels of this one are called in late passes only."""


def warmup(
    task: list[Task] | None = option(None, "Task; may be repeated.", shown="all"),
    method: list[FixedMethod] | None = option(None, "Method; may be repeated.", shown="all"),
) -> None:
    """Compile all kernels ahead of time, for images and CI.

    Trains and uses small models with each task and method. The compiled kernels are in the cache
    folder, which is printed at the end; NUMBA_CACHE_DIR sets another one.

    Example: mtlstruct warmup --task sequence --method mtl
    """
    folder = cache_folder() if COMPILED else None
    if folder is None:
        raise MtlError("no folder for compiled kernels: expected NUMBA_CACHE_DIR to name a writable folder")
    with tempfile.TemporaryDirectory() as place:
        for one in task or get_args(Task):
            begin = time.perf_counter()
            for command in _commands(Path(place), one, method or METHODS):
                with io.TextIOWrapper(io.BytesIO()) as sink, redirect_stdout(sink), redirect_stderr(sink):
                    cli.invoke(command)
            print(f"{one}: {time.perf_counter() - begin:.1f} s", flush=True)
    print(folder)


def _commands(place: Path, task: Task, methods: Iterable[str]) -> Iterator[list[str]]:
    """Write small files, and yield command lines that use the kernels of a task."""
    data, templates = str(place / f"{task}.txt"), str(place / f"{task}.tpl")
    lines = recipes.bundled()[:LINES]
    columns, trees = recipes.column_file(lines, seed=0), not Options(task=task).labelled
    text, made = {
        "sequence": (columns, generate((-1, 1), range(4), orders=(1, 2))),
        "multiclass": (columns, TemplateSet.parse("".join(f"U{k}:%x[0,{k}]\n" for k in range(4)))),
        "segmentation": ("".join("  ".join(line.tokens) + "\n" for line in lines), preset("cws-tp2")),
        "dependency": ("".join(map(_tree, lines)), preset("dependency")),
    }[task]
    Path(data).write_text(text, "utf-8")
    Path(templates).write_text(made.text(), "utf-8")
    for method in methods:
        model = str(place / f"{task}-{method}.mtl")
        for loss, solver in _objectives(task, method):
            options = f"--task {task} --method {method} --loss {loss} --solver {solver} -q --no-log".split()
            few = ["--max-iter", PASSES.get(solver, "3")]
            for kind in [["--projective"], ["--labels"]] if trees else [[]]:
                yield ["train", templates, data, model, *options, *few, *kind]
        yield ["predict", model, data]
        yield ["predict", model, data, "--scores", *([] if trees else ["--nbest", "2"])]
        yield ["evaluate", model, data]
        yield ["weights", model]


def _objectives(task: str, method: str) -> list[tuple[str, str]]:
    """Return the losses and solvers of a method for a task, the default last."""
    found = []
    for loss, solvers in METHODS[method].solvers.items():
        for solver in solvers:
            with suppress(IncompatibleError):
                options: Any = {"task": task, "method": method, "loss": loss, "solver": solver}
                found.append((loss, solver_name(Options(**options))))
    return found[::-1]


def _tree(line: recipes.Ingredient) -> str:
    """Return a tree in CoNLL-X in which the head of each token is the token before it."""
    rows = (
        [number, token, "_", token[:1], token[:1], "_", number - 1, f"r{number % 3}", "_", "_"]
        for number, token in enumerate(line.tokens, 1)
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows) + "\n"
