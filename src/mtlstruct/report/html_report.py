"""The HTML report of a model: what was learned, how the training converged, and scores.

All figures come from the model file, the log of the training and, if given, labelled data; the
scripts of the page only draw them. Parts without figures (no log, no data) are left out, and the
page says how to get them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtlstruct import __version__
from mtlstruct.errors import IncompatibleError
from mtlstruct.explain.top_features import top_features
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.report import web
from mtlstruct.report.plots import template_class
from mtlstruct.report.tree_svg import Tree, tree_svg
from mtlstruct.tasks import task_of
from mtlstruct.training.run_log import LABEL_PASS, PASS, RunLog

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model

LISTED_TEMPLATES, FEATURES_PER_LABEL = 60, 6
"""The numbers of templates whose features are listed, and of features per template and label."""

MAX_LABELS, CONFUSED_LABELS = 40, 24
"""With more labels: one feature per template and label; the table of confusions has the worst."""

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
    return report_page(report_figures(model, name=name, trace=trace, assessment=assessment))


def report_page(figures: dict[str, Any]) -> web.Page:
    """Return the report with these figures."""
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
    assessed = (trace.last("assessment") or None) if assessment is None and trace else assessment
    stages = [(model, trace.events(PASS) if trace else [])]
    if model.relations is not None:
        stages.append((model.relations, trace.events(LABEL_PASS) if trace else []))
    return {
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
        "stages": [_stage(*stage) for stage in stages],
    }


def _stage(model: Model, passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what one training learned; trees with labels have two stages, other models one."""
    seen = model.facts.get("seen") or [None] * len(model.templates)
    count = FEATURES_PER_LABEL if len(model.labels) <= MAX_LABELS else 1
    weights = model.template_weights()
    listed = [weight.index for weight in weights if weight.features][:LISTED_TEMPLATES]
    return {
        "facts": {key: model.facts.get(key) for key in FACTS},
        "labels": list(model.learned_labels),
        "learned": bool(model.facts.get("sparse")) or len(set(model.mu.tolist())) > 1,
        "templates": [
            asdict(weight)
            | {"seen": seen[weight.index], "kept": weight.features > 0, "cells": template_class(weight.text)}
            for weight in weights
        ],
        "passes": [{name: record.get(name) for name in PASS_FIGURES} for record in passes],
        "features": [
            {"index": j, "list": [[f.text, f.part, f.weight] for f in top_features(model, j, count)]}
            for j in listed
        ],
    }


def _sizes(model: Model, size: int | None, trace: RunLog | None) -> dict[str, Any]:
    stages = [model] if model.relations is None else [model, model.relations]
    indexes = [stage.index for stage in stages]
    words = [index.words if isinstance(index, ArcIndex) else index for index in indexes]
    summary = trace.last("summary") if trace is not None else {}
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
    run, summary = trace.last("run"), trace.last("summary")
    command = run.get("command") or []
    return {
        "command": shlex.join(command) if len(command) > 1 else None,
        **{name: run.get(name) for name in ("started", "files", "versions")},
        "seconds": summary.get("seconds"),
        "encode": summary.get("encode_seconds"),
        "asked": (run.get("options") or {}).get("gap"),
        "valid": (summary.get("valid") or {}).get("f1"),
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


def explanation_page(title: str, unit: str, found: Iterable[tuple[dict[str, Any], Tree | None]]) -> web.Page:
    """Return the page of sentences (or another `unit`): records of `explain --json`, and trees."""
    sentences: list[dict[str, Any]] = []
    for record, tree in found:
        sentences.append(record | {"tree": None})
        if tree is not None:
            counts = {
                "wrong": len(tree.missed),
                "mislabelled": len(tree.mislabelled),
                "words": len(tree.words),
            }
            known = None if tree.gold is None else counts
            sentences[-1]["tree"] = {"drawing": tree_svg(tree), "gold": known}
    figures = {"title": title, "unit": unit, "sentences": sentences}
    styles, scripts = ["base.css", "tree.css", "explain.css"], ["base.js", "explain.js"]
    return web.page(title, figures, styles=styles, scripts=scripts)
