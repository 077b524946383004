"""The command line: one module per command group in `commands`, and what commands share.

The module of a command is imported when the command runs, so it may import what it needs at the top: `--help`
does not wait for numba, and `predict` loads neither a solver nor scipy.

Results go to stdout, everything else to stderr.

Exit codes: 0 done · 1 the answer is no (`score --min`), or part of the work failed (`tune`) · 2 bad usage or bad
input, one sentence on stderr · 3 a fault of ours · 130 interrupted · 143 terminated. What is raised ends in `run`.

May import: every package.
Start reading at `commands.train`, `training_run` and `errors`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from mtlstruct.cli.errors import exit_code, heed_termination, tolerant
from mtlstruct.cli.lazy import add_lazy_command

COMMANDS = {
    "train": ("train:train", "Learn a model, and how much each template is worth."),
    "tune": ("tune:tune", "Try options on data that training has not seen, and say which are best."),
    "predict": ("predict:predict", "Label text, from a file or a stream."),
    "evaluate": ("evaluate:evaluate", "Predict labelled data and score the result."),
    "score": ("evaluate:score", "Score one file against another."),
    "calibrate": (
        "calibrate:calibrate",
        "Fit the temperature at which a model's probabilities are worth most, and store it in the model.",
    ),
    "weights": ("weights:weights", "Show what each template is worth."),
    "explain": (
        "explain:explain",
        "Show how much each template speaks for the chosen label of a token, or for its head.",
    ),
    "report": ("report:report", "Write one page with all there is to know about a model."),
    "serve": ("serve:serve", "Serve a model on this machine: a page to try it on, and a JSON API."),
    "export": ("convert:export", "Write a model for another program."),
    "import": ("convert:import_", "Read a model of another program, for `predict`, `weights` and `explain`."),
    "templates": ("templates:app", "Make, check, convert and select template files."),
    "bench": ("bench:bench", "Measure this machine: encoding, a pass, training, prediction, memory."),
    "demo": ("demo:demo", "Try it all on a small corpus, in under a minute."),
    "warmup": ("warmup:warmup", "Compile the kernels of training and prediction, for images and CI."),
}
"""The commands: where each is defined, and the first line of its help."""

app = typer.Typer(
    name="mtlstruct",
    help="Structured prediction from feature templates, where the templates weigh themselves.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_target, _summary) in COMMANDS.items():
    add_lazy_command(app, _name, _target, _summary)


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
