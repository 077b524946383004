"""`weights`: what each template turned out to be worth, as a table, as data, as a picture."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct.cli.commands.path import Along, show_paths
from mtlstruct.cli.commands.predict import batches, reading
from mtlstruct.cli.common import EncodingOption, print_json
from mtlstruct.cli.outputs import ForceOption, check_picture_output
from mtlstruct.errors import IncompatibleError

if TYPE_CHECKING:
    from mtlstruct.model.model import Model, TemplateWeight
    from mtlstruct.report.tables import Extra

FIGURES = ("mu", "relative", "norm", "features")
"""What is set beside each other by --compare, as other_mu and so on."""

TITLES = {
    "dropped": "dropped",
    "same_as": "same as",
    "share": "share",
    "other_mu": "other mu",
    "other_relative": "relative",
    "other_norm": "norm",
    "other_features": "features",
}
"""The keys that come after those of TemplateWeight, and what the table calls them."""

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
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="MODEL", help="Another model, set beside this one.")
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="The templates for the labels of arcs, where trees have some.")
    ] = False,
    path: Annotated[
        bool,
        typer.Option(
            "--path", help="How weights move along c or p: models, or folders that `tune` has filled."
        ),
    ] = False,
    along: Annotated[
        Along | None,
        typer.Option("--along", help="What --path runs along.", show_default="what varies, c first"),
    ] = None,
    force: ForceOption = False,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Show what each template is worth.

    mu are shares of a whole; relative is mu times the number of templates, so that 1 is the average. features
    are those that training left with a weight, dropped those that it did not. --data adds how much of the
    scores of the chosen labels a template gives, in absolute value.
    """
    from mtlstruct.model.model import Model

    if json and csv:
        raise IncompatibleError("--json and --csv: expected one of them")
    check_picture_output(plot, inputs=[*models, data, compare], force=force)
    if path:
        if data is not None or compare is not None or labels:
            raise IncompatibleError("--path goes with none of --data, --compare and --labels")
        return show_paths(models, along, plot, top, as_json=json, as_csv=csv)
    if len(models) > 1 or along is not None:
        raise IncompatibleError("expected one model: several, and --along, are for --path")
    model = models[0]
    whole = Model.load(model)
    loaded = _labelling(whole, model) if labels else whole
    other = None if compare is None else Model.load(compare)
    if other is not None and compare is not None and labels:
        other = _labelling(other, compare)
    found = loaded.template_weights()
    share = None if data is None else _shares(whole, data, encoding, labels=labels)
    rows = _rows(loaded, found, share)
    strangers = [] if other is None else _set_beside(rows, other.template_weights())
    if plot is not None:
        _draw(found, plot, learned=bool(loaded.facts["sparse"]))
    if json:
        print_json([*rows[:top], *strangers])
    elif csv:
        _print_csv([*rows[:top], *strangers])
    else:
        _print_table(found, rows, strangers, top, _remark(loaded))
    return None


def _labelling(model: Model, path: Path) -> Model:
    """The second stage of a model."""
    if model.relations is None:
        raise IncompatibleError(f"--labels is for trees with labels: {path} has no labels of arcs")
    return model.relations


def _remark(model: Model) -> str:
    """How many templates were different at all, where that was found out; and where there are more."""
    gone = model.left_out
    more = (
        "\nthe model labels arcs too: --labels shows those templates" if model.relations is not None else ""
    )
    if not gone:
        return more
    constant = sum(same is None for same in gone.values())
    kept = sum(int(n > 0) for n in model.features)
    twins = sum(same is not None and int(model.features[same]) > 0 for same in gone.values())
    return (
        f"\n{len(model.templates) - len(gone)} of them are distinct: {len(gone) - constant} equal another on the "
        f"training data, {constant} cannot tell one tree from another; {kept + twins} are kept if those that equal a "
        f"kept one count too{more}"
    )


def _rows(model: Model, found: Sequence[TemplateWeight], share: list[float] | None) -> list[Row]:
    """The keys of the contract, then features dropped (None where the model does not say) and shares."""
    seen = _seen(model)
    rows = [asdict(weight) for weight in found]
    left_out = model.left_out
    for row in rows:
        if left_out:
            row["same_as"] = None
        row["dropped"] = None if seen is None else seen[row["index"]] - row["features"]
        if row["index"] in left_out:
            same = left_out[row["index"]]
            row["same_as"] = "constant" if same is None else model.templates[same].name
    if share is not None:
        for row in rows:
            row["share"] = share[row["index"]]
    return rows


def _seen(model: Model) -> list[int] | None:
    """How many features each template had in training, if the model says it and makes sense."""
    seen = model.facts.get("seen")
    sound = isinstance(seen, list) and len(seen) == len(model.templates) and all(type(n) is int for n in seen)
    return seen if sound else None


def _shares(model: Model, data: Path, encoding: str, *, labels: bool) -> list[float]:
    from mtlstruct.explain.sequences import shares
    from mtlstruct.explain.trees import relation_shares
    from mtlstruct.formats.text import check_encoding

    check_encoding(encoding, data)
    with reading(data) as source:
        text = batches(model, source, False, data, encoding)
        found = relation_shares(model, text) if labels else shares(model, text)
    return [float(share) for share in found]


def _set_beside(rows: list[Row], others: Sequence[TemplateWeight]) -> list[Row]:
    """Adds the other model's figures to templates of the same text; returns rows for those only it has.

    A text that is there several times is matched in file order.
    """
    waiting: dict[str, list[TemplateWeight]] = {}
    for weight in sorted(others, key=lambda weight: weight.index):
        waiting.setdefault(weight.text, []).append(weight)
    for row in sorted(rows, key=lambda row: int(row["index"])):
        same = waiting.get(row["text"])
        row.update(_figures(same.pop(0) if same else None))
    left = sorted((weight for same in waiting.values() for weight in same), key=lambda weight: weight.rank)
    empty = dict.fromkeys(rows[0])
    return [empty | {"name": weight.name, "text": weight.text} | _figures(weight) for weight in left]


def _figures(weight: TemplateWeight | None) -> Row:
    return {f"other_{name}": None if weight is None else getattr(weight, name) for name in FIGURES}


def _draw(found: list[TemplateWeight], path: Path, *, learned: bool) -> None:
    from mtlstruct.report.plots import plot_weights

    plot_weights(found, path, learned=learned)
    print(f"drew {path}", file=sys.stderr)


def _print_csv(rows: list[Row]) -> None:
    writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_table(
    found: list[TemplateWeight], rows: list[Row], strangers: list[Row], top: int | None, remark: str
) -> None:
    from mtlstruct.report.tables import print_weights

    known = [key for key in TITLES if any(row.get(key) is not None for row in (*rows, *strangers))]
    extras = [_column(key, rows, strangers) for key in known]
    print_weights(found, top, extras, [(row["name"], row["text"]) for row in strangers], remark)


def _column(key: str, rows: list[Row], strangers: list[Row]) -> Extra:
    from mtlstruct.report.tables import Extra

    cells = {row["index"]: _cell(key, row[key]) for row in rows}
    return Extra(TITLES[key], cells, [_cell(key, row[key]) for row in strangers])


def _cell(key: str, value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if key == "share":
        return f"{value:.2%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
