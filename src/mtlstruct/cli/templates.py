"""`templates …`: template files that nobody wants to type."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.errors import IncompatibleError, MtlError

if TYPE_CHECKING:
    from mtlstruct.templates import TemplateSet

app = typer.Typer(
    name="templates", help="Make template files.", context_settings={"help_option_names": ["-h", "--help"]}
)

PRESETS = "cws-tp1, cws-tp2, ner-134"
"""The names in templates.PRESETS, for the help text only."""


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def generate(
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to write.", show_default="stdout")
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", help=f"A set by name: {PRESETS}.")] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="First and last offset from the token.", show_default="-3:3"),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Columns to look at, such as 0,1.", show_default="0")
    ] = None,
    unigrams: Annotated[
        bool | None,
        typer.Option("--unigrams/--no-unigrams", help="Single cells.", show_default="unigrams"),
    ] = None,
    bigrams: Annotated[bool, typer.Option("--bigrams", help="Pairs of cells of one column.")] = False,
    trigrams: Annotated[
        str | None, typer.Option("--trigrams", help="Columns with triples of cells, such as 1.")
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Pairs of cells of two columns at different offsets.")
    ] = False,
    transitions: Annotated[
        bool | None,
        typer.Option(
            "--transitions/--no-transitions", help="B, the pair of labels.", show_default="transitions"
        ),
    ] = None,
) -> None:
    """Enumerate templates: all n-grams of cells in a window, or a set of the paper."""
    from mtlstruct import templates

    chosen = (window, columns, unigrams, bigrams or None, trigrams, cross or None, transitions)
    if preset is not None:
        if any(choice is not None for choice in chosen):
            raise IncompatibleError(
                "--preset is a whole set: expected no other choice of templates beside it"
            )
        return _write(templates.preset(preset), out)
    found = templates.generate(
        _window(window or "-3:3"),
        _numbers("--columns", columns or "0"),
        unigrams=unigrams is not False,
        bigrams=bigrams,
        trigrams=_numbers("--trigrams", trigrams or ""),
        cross=cross,
        transitions=transitions is not False,
    )
    return _write(found, out)


def _write(templates: TemplateSet, out: Path | None) -> None:
    from mtlstruct.files import replacing

    if out is None or out == Path("-"):
        print(templates.text(), end="")
    else:
        with replacing(out) as file:
            file.write(templates.text().encode())


def _window(text: str) -> tuple[int, int]:
    first, _, last = text.partition(":")
    try:
        return int(first), int(last)
    except ValueError:
        raise MtlError(f"--window: expected first:last such as -3:3, got {text!r}") from None


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if text]
    except ValueError:
        raise MtlError(f"{option}: expected column numbers such as 0,1, got {text!r}") from None
