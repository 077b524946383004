"""The HTML report of a model: what was learned, how the training converged, and scores.

All figures come from the model file, the log of the training and, if given, labelled data; the
scripts of the page only draw them. Parts without figures (no log, no data) are left out, and the
page says how to get them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlstruct import __version__
from mtlstruct.errors import IncompatibleError
from mtlstruct.explain.top_features import top_features
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.report import web
from mtlstruct.report.tables import dropped
from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.tasks import task_of
from mtlstruct.training.run_log import RunLog

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model


LISTED_TEMPLATES = 60
"""The number of templates, those of the largest weights, whose features are listed."""

FEATURES_PER_LABEL = 6
"""The number of features that are listed per template and label."""

MAX_LABELS = 40
"""With more labels, only the largest feature per template and label is listed."""

CONFUSED_LABELS = 24
"""The number of labels in the table of confusions: those with the most errors."""

FACTS = (
    *("method", "c", "p", "solver", "seed", "min_count", "objective", "dual", "gap", "epsilon", "passes"),
    *("converged", "sparse", "sentences", "tokens", "columns", "temperature"),
)
"""The facts of a model that the page shows."""

PASS_FIGURES = ("passes", "objective", "dual", "gap", "risk", "active", "certified", "seconds")
"""The figures of a pass that the page shows."""


def report_of(
    model: Model, *, name: str, log: str | Path | None, data: Corpus | None, source: str
) -> web.Page:
    """Return the report of a model, given the path of its log and labelled data, if any."""
    trace = None if log is None else RunLog.read(log)
    if trace is not None and not trace.is_of(model):
        raise IncompatibleError(f"{log} is the log of another training than that of this model")
    assessment = None if data is None else task_of(model.task).assess(model, data, source)
    return make_report(model, name=name, trace=trace, assessment=assessment)


def make_report(model: Model, **given: Any) -> web.Page:
    """Return the report of a model; the arguments are those of `report_figures`."""
    figures = report_figures(model, **given)
    styles, scripts = ["base.css", "report.css"], ["base.js", "charts.js", "tables.js", "report.js"]
    return web.page(f"{figures['name']} · mtlstruct", figures, styles=styles, scripts=scripts)


def report_figures(
    model: Model,
    *,
    name: str = "model",
    size: int | None = None,
    trace: RunLog | None = None,
    assessment: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the figures of a report. `name` and `size` (in bytes) are those of the model file."""
    stored = trace.assessment if trace is not None else None
    assessed = stored if assessment is None else assessment
    data: dict[str, Any] = {
        "version": __version__,
        "name": name,
        "task": model.task,
        **model.kind,
        "structure": model.structure.name,
        "sizes": _sizes(model, size, trace),
        "search": model.facts.get("search"),
        "run": None if trace is None else _run(trace),
        "assessment": assessed
        and assessed | {"confusions": list(map(_most_confused, assessed["confusions"]))},
        "stages": [_stage(model, [] if trace is None else trace.passes)],
    }
    if model.relations is not None:
        data["stages"].append(_stage(model.relations, [] if trace is None else trace.labels))
    return data


def _stage(model: Model, passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what one training learned; trees with labels have two stages, other models one."""
    return {
        "facts": {key: model.facts.get(key) for key in FACTS},
        "labels": list(model.learned_labels),
        "learned": bool(model.facts.get("sparse")) or len(set(model.mu.tolist())) > 1,
        "templates": _templates(model),
        "passes": [{name: record.get(name) for name in PASS_FIGURES} for record in passes],
        "features": _features(model),
    }


def _templates(model: Model) -> list[dict[str, Any]]:
    """Return a row per template, largest weight first."""
    seen = model.facts.get("seen") or [None] * len(model.templates)
    rows = []
    for weight in model.template_weights():
        more = {"seen": seen[weight.index], "kept": not dropped(weight), "cells": _cells(model, weight.index)}
        rows.append(asdict(weight) | more)
    return rows


def _cells(model: Model, j: int) -> str:
    """Return the class of a template that its colour shows."""
    template = model.templates[j]
    if template.kind == "B":
        return "transition"
    count = sum(term.sees for term in template.terms)
    return {0: "one cell", 1: "one cell", 2: "two cells"}.get(count, "three or more")


def _sizes(model: Model, size: int | None, trace: RunLog | None) -> dict[str, Any]:
    stages = [model] if model.relations is None else [model, model.relations]
    indexes = [stage.index for stage in stages]
    words = [index.words if isinstance(index, ArcIndex) else index for index in indexes]
    summary = trace.summary if trace is not None else {}
    return {
        "file": size,
        "templates": sum(len(stage.templates) for stage in stages),
        "kept": sum(int(np.count_nonzero(stage.features)) for stage in stages),
        "attributes": sum(int(index.sizes.sum()) for index in indexes),
        "attributes_seen": summary.get("attributes") if len(stages) == 1 else None,
        "features": sum(int(stage.features.sum()) for stage in stages),
        "features_seen": sum(sum(stage.facts.get("seen") or ()) for stage in stages) or None,
        "strings": sum(len(vocabulary) for index in words for vocabulary in index.vocabularies),
        "weights": sum(weights.nbytes for stage in stages for weights in stage.weights),
        "peak": summary.get("peak_rss_mb"),
    }


def _run(trace: RunLog) -> dict[str, Any]:
    command = trace.run.get("command") or []
    return {
        "command": shlex.join(command) if len(command) > 1 else None,
        "started": trace.run.get("started"),
        "files": trace.run.get("files"),
        "versions": trace.run.get("versions"),
        "seconds": trace.summary.get("seconds"),
        "encode": trace.summary.get("encode_seconds"),
        "asked": (trace.run.get("options") or {}).get("gap"),
        "valid": (trace.summary.get("valid") or {}).get("f1"),
    }


def _most_confused(confusion: dict[str, Any]) -> dict[str, Any]:
    """Return a table of confusions with as many labels as a page can show."""
    names, cells = confusion["names"], confusion["cells"]
    errors = [0] * len(names)
    for right, chosen, count in cells:
        for side in (right, chosen) if right != chosen else ():
            errors[side] += count
    worst = sorted(range(len(names)), key=lambda n: -errors[n])[:CONFUSED_LABELS]
    place = {n: k for k, n in enumerate(sorted(worst))}
    return {
        "axis": confusion["axis"],
        "of": len(names),
        "names": [names[n] for n in sorted(worst)],
        "cells": [[place[r], place[c], n] for r, c, n in cells if r in place and c in place],
        "rows": [sum(n for r, _, n in cells if r == k) for k in sorted(worst)],
    }


def _features(model: Model) -> list[dict[str, Any]]:
    """Return the largest features of the templates of the largest weights: text, part, weight."""
    count = FEATURES_PER_LABEL if len(model.labels) <= MAX_LABELS else 1
    heaviest = [weight for weight in model.template_weights() if not dropped(weight)][:LISTED_TEMPLATES]
    found = [(weight.index, top_features(model, weight.index, count)) for weight in heaviest]
    return [{"index": j, "list": [[f.text, f.part, f.weight] for f in some]} for j, some in found]


def explanation_page(
    title: str, unit: str, found: Iterable[tuple[Mapping[str, Any], Tree | None]]
) -> web.Page:
    """Return the page of sentences (or another `unit`): records of `explain --json`, and trees."""
    sentences = [{**record, "tree": None if tree is None else _tree(tree)} for record, tree in found]
    return web.page(
        title,
        {"title": title, "unit": unit, "sentences": sentences},
        styles=["base.css", "tree.css", "explain.css"],
        scripts=["base.js", "explain.js"],
    )


def _tree(tree: Tree) -> dict[str, Any]:
    counts = {"wrong": len(tree.missed), "mislabelled": len(tree.mislabelled), "words": len(tree.words)}
    return {"drawing": tree_svg(tree), "gold": None if tree.gold is None else counts}
