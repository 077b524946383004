"""The model card: the figures of the report as a short page of Markdown.

Mitchell et al.: Model cards for model reporting, FAT* 2019.
"""

from collections.abc import Iterable, Sequence
from typing import Any

LISTED_TEMPLATES = 10
LISTED_LABELS = 30
LISTED_ROWS = 20

WHAT = {
    "sequence": "labels each token of a sentence",
    "segmentation": "divides text without blanks into words",
    "multiclass": "gives each item one of several classes",
    "dependency": "finds the head of each word of a sentence",
}


def model_card(figures: dict[str, Any]) -> str:
    """Return the card of a model, given the figures of `html_report.report_figures`."""
    stage, sizes, run = figures["stages"][0], figures["sizes"], figures["run"] or {}
    facts, labels, found = stage["facts"], stage["labels"], figures["assessment"]
    method = f"{facts['method']}" + (f", c = {facts['c']:g}" if facts["c"] is not None else "")
    lines = [f"# Model card: {figures['name']}", "", f"A linear model that {WHAT[figures['task']]}.", ""]
    names = ", ".join(map(_code, labels[:LISTED_LABELS]))
    more = f" and {len(labels) - LISTED_LABELS} more" if len(labels) > LISTED_LABELS else ""
    took = "" if run.get("seconds") is None else f"{run['seconds']:.1f} s,"
    data, train = "", (run.get("files") or {}).get("train")
    if facts["tokens"] is not None:
        size = f"{facts['sentences']:,} sentences, {facts['tokens']:,} tokens, {facts['columns']} columns"
        data = f"{_code(train)}: {size}" if train else size
    rows = {
        "task": figures["task"],
        "labels": f"{len(labels)}: {names}{more}" if labels else "",
        "method": method,
        "duality gap": "" if facts["gap"] is None else f"{facts['gap']:.2%}",
        "training data": data,
        "templates": f"{sizes['kept']:,} of {sizes['templates']:,} kept",
        "features": f"{sizes['features']:,}",
        "file": "" if sizes["file"] is None else f"{sizes['file'] / 1e6:.2f} MB",
        "training": " ".join(filter(None, (took, run.get("started")))),
        "command": _code(run["command"]) if run.get("command") else "",
        "written by": f"mtlstruct {figures['version']}",
    }
    lines += _table(("", ""), rows.items())
    lines += ["## Scores", ""]
    if found is None:
        lines += ["Not measured: `mtlstruct report --data GOLD` adds the scores on labelled data.", ""]
    else:
        scores = found["scores"]
        size = f"{scores.get('sentences', 0):,} sentences, {scores.get('tokens', 0):,} tokens"
        lines += [f"On {_code(found['source'])} ({size}): {found['headline']}.", ""]
        for group in found["groups"]:
            some = [(_code(r["name"]), *_scores(r), f"{r['gold']:,}") for r in group["rows"][:LISTED_ROWS]]
            lines += _table((group["title"], "precision", "recall", "F1", "gold"), some)
    lines += ["## Templates of the largest weights", ""]
    kept = [row for row in stage["templates"] if row["kept"]][:LISTED_TEMPLATES]
    some = [(_code(r["text"]), f"{r['mu']:.3g}", f"{r['norm']:.3g}", f"{r['features']:,}") for r in kept]
    lines += _table(("template", "mu", "norm", "features"), some)
    return "\n".join([*lines, "## Limits", "", *(f"- {sentence}" for sentence in _limits(figures)), ""])


def _limits(figures: dict[str, Any]) -> list[str]:
    """Return what a reader must know before use."""
    calibrated = figures["stages"][0]["facts"]["temperature"] is not None
    found = figures["assessment"]
    return [
        "It knows the labels of its training data only, and text of another kind gets worse labels"
        + ("." if found is None else " than the scores above show."),
        "Its templates see a window of cells; it has no knowledge of the world and no embeddings of its own.",
        "Bias in the training data, such as names of one origin labelled less well, is learned with the rest.",
        "Probabilities are calibrated (they fit held-out data or come from a likelihood)."
        if calibrated
        else "Probabilities are not calibrated: do not use them before `mtlstruct calibrate`.",
    ]


def _scores(row: dict[str, Any]) -> list[str]:
    return ["" if row.get(key) is None else f"{row[key]:.2f}" for key in ("precision", "recall", "f1")]


def _code(text: Any) -> str:
    """Return text as code that no character of it can end."""
    ticks = "`" * (2 if "`" in str(text) else 1)
    space = " " if "`" in str(text) else ""
    return f"{ticks}{space}{text}{space}{ticks}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, without rows whose second cell is empty."""
    shown = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows if row[1]]
    lines = [head, ["---"] * len(head), *shown]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]
