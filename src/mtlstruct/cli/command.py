"""Commands that are imported when they run, with their options in groups in the help."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

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
        return super().parse_args(ctx, [*given, *args[end:]])

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
            groups[title].append(parameter.get_help_record(ctx))
        for title, records in groups.items():
            if rows := [record for record in records if record is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows)


def add_command(app: typer.Typer, name: str, target: str, summary: str) -> None:
    """Add a command to an application without importing it.

    Parameters
    ----------
    target : str
        "module:name" below `mtlstruct.cli.commands`, of a function or an application.
    summary : str
        The first line of the command's help.
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
