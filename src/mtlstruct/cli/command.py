"""Commands that are imported when they run, with their options in groups in the help."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from mtlstruct.cli.errors import print_message
from mtlstruct.training.options import check_number

GROUPS: dict[str, Sequence[str]] = {
    "Common": ("method", "c", "p", "valid", "folds", "hold_out"),
    "Search": (),
    "Method": ("start",),
    "Data": ("dialect", "separator", "ragged", "encoding"),
    "Trees": ("label_templates",),
    "Cluster": ("engine", "address"),
    "Resume": ("checkpoint", "checkpoint_every", "resume"),
}
"""Groups in the help of `train` and `tune`, with the options that are not fields of `Options`."""


class Command(TyperCommand):
    """A command whose help lists options in groups: by their `rich_help_panel`, or by `GROUPS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments; --scores means --scores=best, --scores all means --scores=all."""
        end = args.index("--") if "--" in args else len(args)
        given: list[str] = []
        for argument in args[:end]:
            if argument == "all" and given[-1:] == ["--scores=best"]:
                given[-1] = "--scores=all"
            else:
                given.append("--scores=best" if argument == "--scores" else argument)
        given += args[end:]
        self._check_ranges(self.make_parser(ctx).parse_args(args=[*given])[0])
        return super().parse_args(ctx, given)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; say first that it waits for a named pipe, if it does."""
        for value in ctx.params.values():
            if isinstance(value, Path) and Path(os.path.realpath(value)).is_fifo():
                print_message(f"note: {value} is a named pipe: waiting for the program at its other end")
        return super().invoke(ctx)

    def _check_ranges(self, given: dict[str, Any]) -> None:
        """Raise an error that names option, range and value for a number out of its range."""
        for parameter in self.params:
            low, text = getattr(parameter, "min", None), given.get(parameter.name or "")
            if low is not None and isinstance(text, str):
                value: Any = text
                with suppress(ValueError):  # a text that is no number is rejected as it is
                    value = type(low)(text)
                check_number(parameter.opts[-1], value, type(low), (low, parameter.max))  # type: ignore[attr-defined]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line; none is optional after a first that is."""
        pieces = [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]
        optional = len(pieces) > 2 and pieces[1].startswith("[")
        return [*pieces[:2], *(piece.strip("[]") if optional else piece for piece in pieces[2:])]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options: in groups if the command has options of a training."""
        parameters = self.get_params(ctx)
        grouped = any(getattr(parameter, "rich_help_panel", None) for parameter in parameters)
        groups: dict[str, list[Any]] = {title: [] for title in ("Arguments", *GROUPS, "Options")}
        for parameter in parameters:
            title = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if grouped:
                by_name = (title for title, names in GROUPS.items() if parameter.name in names)
                title = getattr(parameter, "rich_help_panel", None) or next(by_name, title)
            record = parameter.get_help_record(ctx)
            if record is not None and record[0].startswith("["):  # it is not the one that may be missing
                record = record[0], record[1].removesuffix("[required]").rstrip()
            groups[title].append(record)
        for title, records in groups.items():
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows)


def add_command(app: typer.Typer, name: str, target: str, summary: str) -> None:
    """Add a command, with the first line of its help, to an application without importing it.

    `target` is "module:name" below `mtlstruct.cli.commands`, of a function or an application.
    """

    class LazyCommand(TyperCommand):
        origin = target

        def make_context(
            self, info_name: str | None, args: list[str], parent: Any = None, **more: Any
        ) -> Any:
            found = load_target(self.origin)
            if not isinstance(found, typer.Typer):
                command, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
                found.command(name, cls=Command)(command)
            return typer.main.get_command(found).make_context(info_name, args, parent, **more)

    app.command(name, cls=LazyCommand, help=summary)(lambda: None)


def load_target(target: str) -> Any:
    """Import the function or application that a target names."""
    module, _, name = target.partition(":")
    return getattr(import_module(f"mtlstruct.cli.commands.{module}"), name)
