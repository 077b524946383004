"""The command line. One file a command group: parse arguments, call, print.

Nothing heavy is imported before a command runs: `--help` does not wait for numba, and `predict` loads neither
a learner nor scipy's solvers. Results go to stdout, everything else to stderr.

Exit codes: 0 done · 1 the answer is no (`score --min`), or part of the work failed (`tune`) · 2 bad usage or bad
input, one sentence on stderr · 3 a fault of ours · 130 interrupted · 143 terminated. What is raised ends in `run`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from mtlstruct.cli.commands import (
    bench,
    calibrate,
    convert,
    demo,
    evaluate,
    explain,
    predict,
    report,
    serve,
    templates,
    train,
    tune,
    warmup,
    weights,
)
from mtlstruct.cli.errors import exit_code, heed_termination, tolerant

app = typer.Typer(
    name="mtlstruct",
    help="Structured prediction from feature templates, where the templates weigh themselves.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train.train)
app.command()(tune.tune)
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.command()(evaluate.score)
app.command()(calibrate.calibrate)
app.command()(weights.weights)
app.command()(explain.explain)
app.command()(report.report)
app.command()(serve.serve)
app.command()(convert.export)
app.command("import")(convert.import_)
app.add_typer(templates.app)
app.command()(bench.bench)
app.command()(demo.demo)
app.command()(warmup.warmup)


def main() -> None:
    """The console script."""
    tolerant(sys.stdout)
    heed_termination()
    code = run(sys.argv[1:])
    gc.freeze()  # the last collection at exit would take 0.2 s: the compiler has made many objects
    sys.exit(code)


def run(arguments: Sequence[str], app: typer.Typer = app, name: str = "mtlstruct") -> int:
    """Run one command line of an application and return its exit code."""
    arguments, debug = _without_debug(arguments)
    return exit_code(lambda: invoke(arguments, app, name), debug=debug)


def invoke(arguments: Sequence[str], app: typer.Typer = app, name: str = "mtlstruct") -> None:
    """Run one command line; raise what it raises."""
    # Not app(): there, click and typer turn interrupts and closed pipes into exit codes of their own.
    command = typer.main.get_command(app)
    with command.make_context(name, list(arguments), obj=tuple(arguments)) as context:
        command.invoke(context)


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Takes `--debug` out wherever it stands, so that it may come before or after the command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [a for a in arguments[:end] if a != "--debug"]
    return [*kept, *arguments[end:]], len(kept) < end


def _version(wanted: bool) -> None:
    if wanted:
        from mtlstruct import __version__

        print(f"mtlstruct {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works after a command too.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
