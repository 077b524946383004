"""Commands whose module is imported when they run, so that `mtlstruct --help` imports none of them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand


def add_lazy_command(app: typer.Typer, name: str, target: str, summary: str) -> None:
    """Add a command to an application; a module may name the class of its command in COMMAND_CLASS.

    Parameters
    ----------
    target : str
        "module:name" below `mtlstruct.cli.commands`, of a function or an application.
    summary : str
        The first line of the help of the command, which the list of commands shows.
    """

    class LazyCommand(TyperCommand):
        origin = target

        def make_context(
            self, info_name: str | None, args: list[str], parent: Any = None, **more: Any
        ) -> Any:
            module, found = load_target(self.origin)
            if not isinstance(found, typer.Typer):
                command, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
                found.command(name, cls=getattr(module, "COMMAND_CLASS", None))(command)
            return typer.main.get_command(found).make_context(info_name, args, parent, **more)

    app.command(name, cls=LazyCommand, help=summary)(lambda: None)


def load_target(target: str) -> tuple[ModuleType, Any]:
    """Import a module, and return it with the function or application that a target names."""
    path, _, name = target.partition(":")
    module = import_module(f"mtlstruct.cli.commands.{path}")
    return module, getattr(module, name)
