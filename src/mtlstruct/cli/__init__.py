"""The command line: a module per group of commands in `commands`, and what commands share.

The module of a command is imported when the command runs, so `mtlstruct --help` is quick and
`predict` loads no solver. `command` parses command lines; `training_run` and `tuning_run` are what
`train` and `tune` do. Results go to stdout, everything else to stderr.

Exit codes: 0 done; 1 the answer is no (`score --min`, `templates check`) or a training of `tune`
failed; 2 bad usage or bad input, one sentence on stderr; 3 internal error; 130 interrupted; 143
terminated.

May import: every package.
Start reading at `COMMANDS`, then `commands.train` and `training_run.TrainingRun`.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

from mtlstruct.cli.command import HELP, OPTIONS, Command, help_page
from mtlstruct.cli.errors import UsageError, exit_code, raise_on_sigterm, unknown

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
    "templates generate": (
        "templates:generate",
        "Generate templates: a preset, or all n-grams of cells in a window.",
    ),
    "templates check": ("templates:check", "Report errors and likely mistakes in a template file."),
    "templates convert": (
        "templates:convert",
        "Translate a template file into the language of another program.",
    ),
    "templates select": ("select:select", "Write the most useful templates of a model to a file."),
    "bench": ("bench:bench", "Measure the speed of this machine."),
    "demo": ("demo:demo", "Run all main commands on a small corpus."),
    "warmup": ("warmup:warmup", "Compile all kernels ahead of time, for images and CI."),
}
"""Each command: where it is defined, and the first line of its help."""

SUMMARY = "Structured prediction from feature templates, with a learned weight for each template."
ABOVE = [("--version", "Print the version."), ("--debug", "Print the traceback of an error."), HELP.help()]


def main() -> None:
    """Run the console script."""
    with suppress(AttributeError, OSError):
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    raise_on_sigterm()
    code = run(sys.argv[1:])
    gc.freeze()  # the last collection at exit would take 0.2 s: the compiler has made many objects
    sys.exit(code)


def run(arguments: Sequence[str], work: Callable[[Sequence[str]], None] | None = None) -> int:
    """Run one command line, by default of this program, and return its exit code."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = [a for a in arguments[:end] if a != "--debug"]  # it may stand before or after the command
    rest = [*given, *arguments[end:]]
    return exit_code(lambda: (work or invoke)(rest), debug=len(given) < end)


def invoke(arguments: Sequence[str]) -> None:
    """Run one command line; raise what it raises."""
    words = list(arguments)
    group = words.pop(0) if words[:1] == ["templates"] else ""
    word, *rest = words or ["--help"]
    path, name = f"mtlstruct {group}".rstrip(), f"{group} {word}".lstrip()
    if word in HELP.flags:
        print(overview(group))
    elif name == "--version":
        from mtlstruct import __version__

        print(f"mtlstruct {__version__}")
    elif name in COMMANDS:
        command(name)(rest)
    else:
        known = [*_members(group), *HELP.flags, *(() if group else ("templates", "--version", "--debug"))]
        raise UsageError(f"{unknown(word, known)} (see {path} --help)")


def command(name: str) -> Command:
    """Import a command."""
    module, _, function = COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"mtlstruct.cli.commands.{module}"), function)
    return Command(found, f"mtlstruct {name}")


def overview(group: str = "") -> str:
    """Return the help of all commands, or of those of a group."""
    rows = list(_members(group).items())
    path = f"mtlstruct {group}".rstrip()
    sections = {"Commands": rows} if group else {OPTIONS: ABOVE, "Commands": rows}
    return help_page(
        f"{path} COMMAND [OPTIONS]", "" if group else f"{SUMMARY}\n\nTry: mtlstruct demo", sections
    )


def _members(group: str) -> dict[str, str]:
    """Return the commands of a group, or all, and the first lines of their help."""
    return {
        name.removeprefix(f"{group} "): said for name, (_, said) in COMMANDS.items() if name.startswith(group)
    }
