"""`warmup`: compile the kernels before they are needed."""

import io
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Annotated, Any, get_args

from mtlstruct._numba.decorators import COMPILED, cache_folder
from mtlstruct.cli.common import option
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.samples import recipes
from mtlstruct.templates import TemplateSet, generate
from mtlstruct.templates.generate import preset
from mtlstruct.training.options import Method, Options, Task

LINES = 20
"""Training data: the first lines of the corpus of the demo."""

PASSES = {"coordinate": "30"}
"""Passes per solver, if not 3: some kernels of this one are called in late passes only."""


def warmup(
    task: Annotated[list[str] | None, option("Task; may be repeated.", metavar="TASK", shown="all")] = None,
    method: Annotated[
        list[str] | None, option("Method; may be repeated.", metavar="METHOD", shown="all")
    ] = None,
) -> None:
    """Compile all kernels ahead of time, for images and CI.

    Trains and uses small models with each task and method. The compiled kernels are in the cache
    folder, which is printed at the end; NUMBA_CACHE_DIR sets another one.

    Example: mtlstruct warmup --task sequence --method mtl
    """
    tasks, methods = _known("--task", task, get_args(Task)), _known("--method", method, get_args(Method))
    folder = cache_folder() if COMPILED else None
    if folder is None:
        raise MtlError("no folder for compiled kernels: expected NUMBA_CACHE_DIR to name a writable folder")
    with tempfile.TemporaryDirectory() as place:
        for one in tasks:
            begin = time.perf_counter()
            for command in _commands(Path(place), one, methods):
                _run(command)
            print(f"{one}: {time.perf_counter() - begin:.1f} s", flush=True)
    print(folder)


def _known(option: str, given: Sequence[str] | None, known: Sequence[str]) -> Sequence[str]:
    """Return the names given, or all; typer does not check lists of choices."""
    for name in given or ():
        if name not in known:
            raise MtlError(f"{option}: expected one of {', '.join(known)}, got {name!r}")
    return given or known


def _commands(place: Path, task: str, methods: Sequence[str]) -> Iterator[list[str]]:
    """Write small files, and yield command lines that use the kernels of a task."""
    from mtlstruct.tasks import task_of

    data, templates = place / f"{task}.txt", place / f"{task}.tpl"
    data.write_text(_corpus(task), "utf-8")
    templates.write_text(_templates(task), "utf-8")
    trees = not task_of(task).divisible
    for method in methods:
        model = place / f"{task}-{method}.mtl"
        for loss, solver in _objectives(task, method):
            kinds = [["--projective"], ["--labels"]] if trees else [[]]
            options = f"--task {task} --method {method} --loss {loss} --solver {solver} -q --no-log".split()
            few = ["--max-iter", PASSES.get(solver, "3")]
            for kind in kinds:
                yield ["train", *map(str, (templates, data, model)), *options, *few, *kind]
        yield ["predict", str(model), str(data)]
        yield ["predict", str(model), str(data), "--scores", *([] if trees else ["--nbest", "2"])]
        yield ["evaluate", str(model), str(data)]
        yield ["weights", str(model)]


def _objectives(task: str, method: str) -> list[tuple[str, str]]:
    """Return the losses and solvers of a method for a task, the default last."""
    from mtlstruct.training.methods import METHODS, solver_name

    found = []
    for loss, solvers in METHODS[method].solvers.items():
        for solver in solvers:
            with suppress(IncompatibleError):
                options: Any = {"task": task, "method": method, "loss": loss, "solver": solver}
                found.append((loss, solver_name(Options(**options))))
    return found[::-1]


def _run(command: Sequence[str]) -> None:
    """Run a command line; raise what it raises."""
    from mtlstruct.cli import invoke

    with io.TextIOWrapper(io.BytesIO()) as sink, redirect_stdout(sink), redirect_stderr(sink):
        invoke(command)


def _corpus(task: str) -> str:
    lines = recipes.bundled()[:LINES]
    blocks = {"segmentation": "  ".join, "dependency": _tree}
    if block := blocks.get(task):
        return "".join(block(line.tokens) + "\n" for line in lines)
    return recipes.column_file(lines, seed=0)


def _tree(tokens: Sequence[str]) -> str:
    """Return a tree in CoNLL-X in which the head of each token is the token before it."""
    rows = (
        [number, token, "_", token[:1], token[:1], "_", number - 1, f"r{number % 3}", "_", "_"]
        for number, token in enumerate(tokens, 1)
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _templates(task: str) -> str:
    templates = {
        "sequence": generate((-1, 1), range(4), orders=(1, 2)),
        "segmentation": preset("cws-tp2"),
        "dependency": preset("dependency"),
        "multiclass": TemplateSet.parse("".join(f"U{k}:%x[0,{k}]\n" for k in range(4))),
    }
    return templates[task].text()
