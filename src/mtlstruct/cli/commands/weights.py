"""`weights`: the weight of each template, as a table, as data, as a picture."""

import csv as csv_module
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from mtlstruct.cli import common
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.outputs import check_picture_output
from mtlstruct.errors import IncompatibleError
from mtlstruct.explain.decomposition import relation_shares, shares
from mtlstruct.explain.selection import removal_costs
from mtlstruct.model.model import Model
from mtlstruct.report.plots import plot_paths, plot_weights
from mtlstruct.report.tables import plain_table, print_weights, show
from mtlstruct.tasks import Task
from mtlstruct.training.options import MAX_COUNT

EXTRAS = {"dropped": ",", "share": ".2%", "cost": ".2f", "loss": ".4f"}
"""The keys that come after those of TemplateWeight, with their formats."""

Row = dict[str, Any]


def weights(
    models: list[Path] = argument(..., "MODEL", "Model file written by `train`; several to compare."),
    json: bool = option(False, "Print a JSON list instead of a table."),
    csv: bool = option(False, "Print CSV instead of a table."),
    plot: Path | None = common.PLOT,
    top: int | None = option(None, "Show the N heaviest templates.", range=(1, MAX_COUNT), shown="all"),
    data: Path | None = option(
        None,
        "Held-out data, to add each template's share in the scores and, with labels, what leaving it "
        "out costs.",
    ),
    labels: bool = option(False, "Show the templates of the arc labels (models trained with --labels)."),
    force: bool = common.FORCE,
    encoding: str | None = common.MODEL_ENCODING,
) -> None:
    """Show the weight of each template.

    The weights mu sum to 1; relative is mu times the number of templates, so that 1 is the average.
    features is the number of features with a weight, dropped the number of those without. --data
    adds the share of a template in the scores of the predicted labels, in absolute value. With
    labelled data it adds what is lost without the contributions of the template, while all other
    weights stay (there is no new training): cost in points of F1, UAS or accuracy, and loss in log
    loss per sentence. A large mu does not imply a large cost. Of several models with the same
    templates, such as models of different c, the relative weights are shown side by side.

    Example: mtlstruct weights ner.mtl --top 20 --plot weights.png
    """
    if json and csv:
        raise IncompatibleError("--json and --csv: expected one of them")
    check_picture_output(plot, inputs=[*models, data], force=force)
    if len(models) > 1:
        if data is not None or labels:
            raise IncompatibleError("--data and --labels: expected one model, got several")
        rows = _side_by_side(models, plot)
        table = plain_table(["text"], [*map(str, models)])
        for row in rows[:top]:
            table.add_row(Text(row["text"]), *(f"{row[str(path)]:.4g}" for path in models))
        text = partial(show, table)
    else:
        whole, task = common.load_model(models[0])
        loaded = whole.relations if labels else whole
        if loaded is None:
            raise IncompatibleError(f"--labels: {models[0]} has no arc labels (train --labels learns them)")
        rows = _rows(loaded, {} if data is None else _on_data(whole, task, data, encoding, labels=labels))
        if plot is not None:
            plot_weights(loaded.template_weights(), plot, learned=bool(loaded.facts["sparse"]))
        text = partial(_print_table, loaded, rows, top)
    if json:
        common.print_json(rows[:top])
    elif csv:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv_module.DictWriter(sys.stdout, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[:top])
    else:
        text()
    if plot is not None:
        print(f"drew {plot}", file=sys.stderr)


def _rows(model: Model, on_data: dict[str, list[float]]) -> list[Row]:
    """Return the fields of TemplateWeight, dropped features and figures on data."""
    seen: Any = model.facts.get("seen")
    known = isinstance(seen, list) and len(seen) == len(model.templates) and {*map(type, seen)} == {int}
    rows = []  # of an imported or edited model it is not known what was seen
    for weight in model.template_weights():
        dropped = seen[weight.index] - weight.features if known else None
        more = {key: values[weight.index] for key, values in on_data.items()}
        rows.append(asdict(weight) | {"dropped": dropped} | more)
    return rows


def _on_data(
    model: Model, task: Task, data: Path, encoding: str | None, *, labels: bool
) -> dict[str, list[float]]:
    """Return the share of each template and, of labelled data, the costs of removal, by key."""
    with common.reading(data, encoding or model.encoding) as source:
        batches = list(task.stream(model, source))
    found = {"share": (relation_shares if labels else shares)(model, batches)}
    if not labels and data != common.STANDARD and all(batch.outputs is not None for batch in batches):
        held_out = task.read_for(model, data, encoding)
        costs = removal_costs(model, held_out, lambda *found: task.main_score(model, *found)[1])
        found |= {"cost": costs.points, "loss": costs.loss}
    return {key: [float(value) for value in values] for key, values in found.items()}


def _print_table(model: Model, rows: list[Row], top: int | None) -> None:
    known = {key: form for key, form in EXTRAS.items() if any(row.get(key) is not None for row in rows)}
    extras = {
        key: {row["index"]: "" if row[key] is None else f"{row[key]:{form}}" for row in rows}
        for key, form in known.items()
    }
    more = "" if model.relations is None else "\n--labels shows the templates of the arc labels"
    print_weights(model.template_weights(), top, extras, more)


def _side_by_side(models: Sequence[Path], plot: Path | None) -> list[Row]:
    """Return for each template, the heaviest first, its relative weight in each model."""
    loaded = [common.load_model(path)[0] for path in models]
    texts = [template.title for template in loaded[0].templates]
    for path, other in zip(models, loaded, strict=True):
        if [template.title for template in other.templates] != texts:
            raise IncompatibleError(f"{path} has other templates than {models[0]}")
    relative = np.stack([model.mu * len(texts) / (model.mu.sum() or 1.0) for model in loaded])
    if plot is not None:
        plot_paths([path.stem for path in models], texts, relative, plot)
    order = np.argsort(-relative.max(axis=0), kind="stable").tolist()
    names = list(map(str, models))
    return [
        {"index": j, "text": texts[j]} | dict(zip(names, relative[:, j].tolist(), strict=True)) for j in order
    ]
