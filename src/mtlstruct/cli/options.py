"""Command-line options made from the fields of `Options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import Field, fields
from typing import Annotated, Any, Literal

import typer

from mtlstruct.training.options import TYPES, LossWeights, Options, declaration, flag

Dialect = Literal["mtlstruct", "crfpp", "wapiti"]

DialectOption = Annotated[
    Dialect, typer.Option("--dialect", help="The language of the template file: ours, CRF++'s or Wapiti's.")
]


def with_options(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command one option per field of `Options`.

    The command itself takes them as one argument, `options`. Fields named in `without` keep their defaults.
    """
    chosen = [row for row in fields(Options) if row.name not in without and declaration(row).command_line]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.name != "options"
        ]

        def called(**values: Any) -> None:
            given = {row.name: _parsed(row, values.pop(row.name)) for row in chosen}
            command(**values, options=Options(**given))

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        arguments = [one for one in own if _is_argument(one)]
        rest = [one for one in own if not _is_argument(one)]
        parameters = [*arguments, *map(_parameter, chosen), *rest]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _is_argument(parameter: inspect.Parameter) -> bool:
    known = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(one, typer.models.ArgumentInfo) for one in known)


def _parameter(row: Field[Any]) -> inspect.Parameter:
    known = declaration(row)
    special = row.name == "loss_weights"
    option = typer.Option(
        flag(row.name), help=known.help, metavar=known.metavar, show_default=known.shown or not special
    )
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default="" if special else row.default,
        annotation=Annotated[str if special else TYPES[row.name], option],
    )


def _parsed(row: Field[Any], value: Any) -> Any:
    if row.name != "loss_weights":
        return value
    from mtlstruct.objective.losses import parse_weights

    found: LossWeights = parse_weights(value)
    return found
