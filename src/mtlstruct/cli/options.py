"""Command-line options made from the fields of `Options`."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import Field, fields
from typing import Annotated, Any, Literal

from mtlstruct.cli.common import option
from mtlstruct.training.options import TYPES, Options, declaration, flag

Dialect = Literal["mtlstruct", "crfpp", "wapiti"]

DialectOption = Annotated[Dialect, option("Language of the template file: ours, CRF++'s or Wapiti's.")]


def with_options(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command one option per field of `Options`.

    The command itself takes them as one argument, `options`. Fields named in `without` keep their
    defaults.
    """
    chosen = [row for row in fields(Options) if row.name not in without and declaration(row).command_line]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [
            *(own[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in own if name != "options"),
            *map(_parameter, chosen),
        ]

        def called(**values: Any) -> None:
            from mtlstruct.objective.losses import parse_weights

            given = {row.name: values.pop(row.name) for row in chosen}
            given["loss_weights"] = parse_weights(given["loss_weights"])
            command(**values, options=Options(**given))

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return decorate


def _parameter(row: Field[Any]) -> inspect.Parameter:
    known = declaration(row)
    text = row.name == "loss_weights"  # parsed when the command runs
    limits = (None, None) if known.range is None or text else known.range
    words: dict[str, Any] = {"metavar": known.metavar, "shown": known.shown or True, "group": known.group}
    declared = option(known.help, flag(row.name), limits=limits, **words)
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default="" if text else row.default,
        annotation=Annotated[str if text else TYPES[row.name], declared],
    )
