"""The command line: a module per group of commands in `commands`, and what commands share.

The module of a command is imported when the command runs, so `mtlstruct --help` is quick and
`predict` loads no solver. `options` makes command-line options from `Options`; `training_run` and
`tuning_run` are what `train` and `tune` do. Results go to stdout, everything else to stderr.

Exit codes: 0 done; 1 the answer is no (`score --min`, `templates check`) or a training of `tune`
failed; 2 bad usage or bad input, one sentence on stderr; 3 internal error; 130 interrupted; 143
terminated.

May import: every package.
Start reading at `COMMANDS`, then `commands.train` and `training_run.TrainingRun`.
"""

import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from mtlstruct.cli.command import add_command
from mtlstruct.cli.common import option
from mtlstruct.cli.errors import exit_code, raise_on_sigterm

COMMANDS = {
    "train": ("train:train", "Train a model and learn a weight for each template."),
    "tune": ("tune:tune", "Choose -c, -p, --loss, --scheme and --method on held-out data."),
    "predict": ("predict:predict", "Label text from a file or from standard input."),
    "evaluate": ("evaluate:evaluate", "Label a file with gold labels and print the scores."),
    "score": ("evaluate:score", "Score a file of predictions against a gold file."),
    "calibrate": ("evaluate:calibrate", "Calibrate a model's probabilities on held-out data."),
    "weights": ("weights:weights", "Show the weight of each template."),
    "explain": ("explain:explain", "Show which templates decided each prediction."),
    "report": ("report:report", "Write an HTML page or a model card about a model."),
    "serve": ("serve:serve", "Serve a model as a web page and a JSON API."),
    "export": ("convert:export", "Write a model for CRF++, Wapiti, CRFsuite, or stand-alone."),
    "import": ("convert:import_", "Read a model of CRF++, Wapiti or CRFsuite."),
    "templates": ("templates:app", "Generate, check, convert and select template files."),
    "bench": ("bench:bench", "Measure the speed of this machine."),
    "demo": ("demo:demo", "Run all main commands on a small corpus."),
    "warmup": ("warmup:warmup", "Compile all kernels ahead of time, for images and CI."),
}
"""Each command: where it is defined, and the first line of its help."""

app = typer.Typer(
    name="mtlstruct",
    help="Structured prediction from feature templates, with a learned weight for each template.",
    epilog="Try: mtlstruct demo",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _entry in COMMANDS.items():
    add_command(app, _name, *_entry)


def main() -> None:
    """Run the console script."""
    with suppress(AttributeError, OSError):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    raise_on_sigterm()
    code = run(sys.argv[1:])
    gc.freeze()  # the last collection at exit would take 0.2 s: the compiler has made many objects
    sys.exit(code)


def run(arguments: Sequence[str], app: typer.Typer = app, name: str = "mtlstruct") -> int:
    """Run one command line of an application and return its exit code."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = [a for a in arguments[:end] if a != "--debug"]  # it may stand before or after the command
    rest = [*given, *arguments[end:]]
    return exit_code(lambda: invoke(rest, app, name), debug=len(given) < end)


def invoke(arguments: Sequence[str], app: typer.Typer = app, name: str = "mtlstruct") -> None:
    """Run one command line; raise what it raises."""
    # app() would turn interrupts and closed pipes into exit codes of its own.
    command = typer.main.get_command(app)
    with command.make_context(name, list(arguments), obj=tuple(arguments)) as context:
        command.invoke(context)


def _print_version(wanted: bool) -> None:
    if wanted:
        from mtlstruct import __version__

        print(f"mtlstruct {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, option("Print the traceback of an error (also after a command).", "--debug")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
