"""`weights`: what each template turned out to be worth, as a table, as data, as a picture."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlstruct.cli.common import print_json, refuse_overwriting
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.model import TemplateWeight


def weights(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the weights into this .png, .svg or .pdf file.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Only the heaviest ones.", show_default="all"),
    ] = None,
) -> None:
    """Show what each template is worth.

    mu are shares of a whole; relative is mu times the number of templates, so that 1 is the average.
    """
    from mtlstruct.model import Model
    from mtlstruct.report.tables import print_weights

    if json and csv:
        raise IncompatibleError("--json and --csv: expected one of them")
    refuse_overwriting([model], [plot])
    loaded = Model.load(model)
    found = loaded.template_weights()
    if plot is not None:
        _draw(found, plot, learned=bool(loaded.facts["sparse"]))
    if json:
        print_json([asdict(weight) for weight in found[:top]])
    elif csv:
        _print_csv(found[:top])
    else:
        print_weights(found, top)


def _draw(found: list[TemplateWeight], path: Path, *, learned: bool) -> None:
    from mtlstruct.report.plots import plot_weights

    plot_weights(found, path, learned=learned)
    print(f"drew {path}", file=sys.stderr)


def _print_csv(found: list[TemplateWeight]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(list(found[0].__dataclass_fields__))
    writer.writerows(asdict(weight).values() for weight in found)
