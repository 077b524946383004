"""`weights`: what each template turned out to be worth, as a table, as data, as a picture."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtlstruct.cli.commands.predict import reading
from mtlstruct.cli.common import EncodingOption, print_json
from mtlstruct.cli.outputs import ForceOption, check_picture_output
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.model.model import Model
    from mtlstruct.report.weight_path import WeightPath

SHOWN = 20
"""How many templates the table of --path has by default."""

TITLES = {"dropped": "dropped", "same_as": "same as", "share": "share"}
"""The keys that come after those of TemplateWeight, and their titles in the table."""

Row = dict[str, Any]


def weights(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL", help="A model that `train` has saved; several with --path."),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the weights into this .png, .svg or .pdf file.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Only the heaviest ones.", show_default="all"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Text, with or without labels: adds the share of each in its scores."),
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="The templates for the labels of arcs, where trees have some.")
    ] = False,
    path: Annotated[
        bool,
        typer.Option("--path", help="Weights along c or p, of several models or of folders of `tune`."),
    ] = False,
    along: Annotated[
        Literal["c", "p"] | None,
        typer.Option("--along", help="What --path runs along.", show_default="c if it varies, else p"),
    ] = None,
    force: ForceOption = False,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Show what each template is worth.

    mu are shares of a whole; relative is mu times the number of templates, so that 1 is the average. features
    are those that training left with a weight, dropped those that it did not. --data adds how much of the
    scores of the chosen labels a template gives, in absolute value.
    """
    if json and csv:
        raise IncompatibleError("--json and --csv: expected one of them")
    check_picture_output(plot, inputs=[*models, data], force=force)
    if path:
        if data is not None or labels:
            raise IncompatibleError("--path goes with neither --data nor --labels")
        from mtlstruct.report.weight_path import plot_paths, read_trainings, weight_paths

        paths = weight_paths([training for model in models for training in read_trainings(model)], along)
        if plot is not None:
            plot_paths(paths, plot)
        if json or csv:
            _print_rows([row for one in paths for row in one.rows(top)], as_csv=csv)
        else:
            _print_paths(paths, top or SHOWN)
    else:
        from mtlstruct.model.model import Model
        from mtlstruct.report.plots import plot_weights

        if len(models) > 1 or along is not None:
            raise IncompatibleError("expected one model: several, and --along, are for --path")
        whole = Model.load(models[0])
        loaded = whole.relations if labels else whole
        if loaded is None:
            raise IncompatibleError(f"--labels is for trees with labels: {models[0]} has no labels of arcs")
        share = None if data is None else _shares(whole, data, encoding, labels=labels)
        rows = _rows(loaded, share)
        if plot is not None:
            plot_weights(loaded.template_weights(), plot, learned=bool(loaded.facts["sparse"]))
        if json or csv:
            _print_rows(rows[:top], as_csv=csv)
        else:
            _print_table(loaded, rows, top)
    if plot is not None:
        print(f"drew {plot}", file=sys.stderr)


def _rows(model: Model, share: list[float] | None) -> list[Row]:
    """Return the keys of TemplateWeight, then features dropped (None if unknown), equal templates and shares."""
    seen, left_out = _seen(model), model.left_out
    rows = [asdict(weight) for weight in model.template_weights()]
    for row in rows:
        j = row["index"]
        if left_out:
            row["same_as"] = None
        row["dropped"] = None if seen is None else seen[j] - row["features"]
        if j in left_out:
            same = left_out[j]
            row["same_as"] = "constant" if same is None else model.templates[same].name
        if share is not None:
            row["share"] = share[j]
    return rows


def _seen(model: Model) -> list[int] | None:
    """Return how many features each template had in training, if the model has plausible numbers."""
    seen = model.facts.get("seen")
    sound = isinstance(seen, list) and len(seen) == len(model.templates) and all(type(n) is int for n in seen)
    return seen if sound else None


def _shares(model: Model, data: Path, encoding: str, *, labels: bool) -> list[float]:
    from mtlstruct.explain.sequences import shares
    from mtlstruct.explain.trees import relation_shares
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.tasks import task_of

    check_encoding(encoding, data)
    with reading(data, encoding) as source:
        text = task_of(model.task).stream(model, source)
        found = relation_shares(model, text) if labels else shares(model, text)
    return [float(share) for share in found]


def _print_rows(rows: list[Row], *, as_csv: bool) -> None:
    if not as_csv:
        return print_json(rows)
    writer = csv.DictWriter(
        sys.stdout, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return None


def _print_table(model: Model, rows: list[Row], top: int | None) -> None:
    from mtlstruct.report.tables import print_weights

    known = [key for key in TITLES if any(row.get(key) is not None for row in rows)]
    extras = {TITLES[key]: {row["index"]: _cell(key, row[key]) for row in rows} for key in known}
    print_weights(model.template_weights(), top, extras, _remark(model))


def _cell(key: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.2%}" if key == "share" else f"{value:,}"


def _remark(model: Model) -> str:
    """Say how many templates differ at all, where that is known, and whether there are others for labels."""
    gone = model.left_out
    more = (
        "\nthe model labels arcs too: --labels shows those templates" if model.relations is not None else ""
    )
    if not gone:
        return more
    constant = sum(same is None for same in gone.values())
    kept = sum(int(n > 0) for n in model.features)
    equal = sum(same is not None and int(model.features[same]) > 0 for same in gone.values())
    return (
        f"\n{len(model.templates) - len(gone)} of them are distinct: {len(gone) - constant} equal another on the "
        f"training data, {constant} cannot tell one tree from another; {kept + equal} are kept if those that equal a "
        f"kept one count too{more}"
    )


def _print_paths(paths: Sequence[WeightPath], top: int) -> None:
    from rich.text import Text

    from mtlstruct.report.tables import plain_table, show

    for path in paths:
        print(f"{path.title}: relative weights along {path.along}")
        table = plain_table(["text"], [f"{value:.4g}" for value in path.values])
        for j in path.heaviest(top):
            table.add_row(Text(path.texts[j]), *(f"{value:.4g}" for value in path.relative[:, j]))
        show(table)
        if len(path.texts) > top:
            print(f"{len(path.texts) - top} more not shown")
