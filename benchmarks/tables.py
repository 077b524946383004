"""The rows of each benchmark as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Rows = list[dict[str, Any]]


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others are figures."""
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def train_times(rows: Rows) -> str:
    """CPU seconds, memory and sizes."""
    titles = (
        "training",
        "start-up, reading, encoding",
        "learning",
        "whole program",
        "certified gap",
        "passes",
        "peak memory",
        "attributes",
        "templates kept",
        "model file",
    )
    return markdown(titles, (or_missing(row, "task", _times, len(titles)) for row in rows))


def _times(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['cpu_before']:.1f} s",
        f"{row['cpu_learning']:.1f} s",
        f"{row['cpu']:.1f} s",
        f"{100 * row['gap']:.2f} %" + ("" if row["converged"] else " (not reached)"),
        f"{row['passes']}",
        f"{row['peak_mb']:.0f} MB",
        f"{row['attributes']:,}",
        f"{row['active_templates']} of {row['templates']}",
        f"{row['model_mb']:.1f} MB",
    ]


def train_scores(rows: Rows) -> str:
    """Scores beside the paper's."""
    titles = ("training", "F1 dev", "paper", "F1 test", "paper", "R_iv test", "paper", "R_oov test")
    return markdown(titles, (or_missing(row, "task", _scores, len(titles)) for row in rows))


def _scores(row: dict[str, Any]) -> list[str]:
    pairs = [(row.get(key), row["paper"].get(key)) for key in ("dev", "test", "r_iv")]
    return [score(value) for pair in pairs for value in pair] + [score(row.get("r_oov"))]


def commands(rows: Rows) -> str:
    """What was run."""
    return "```\n" + "\n".join(row["command"] for row in rows) + "\n```"


def tutorial(rows: Rows) -> str:
    """Feature dicts, ours and the peer's."""
    titles = (
        "feature dicts",
        "CPU of fit",
        "times ours",
        "F1 test",
        "predicting",
        "peak memory",
        "from generators",
    )
    return markdown(titles, (or_missing(row, "program", _dicts, len(titles)) for row in rows))


def _dicts(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['cpu']:.1f} s",
        f"{row.get('times_ours', 1.0):.1f}",
        f"{row['test']:.2f}",
        f"{row['predicting']:.1f} s",
        f"{row['peak_mb']:.0f} MB",
        f"{row['streamed_mb']:.0f} MB",
    ]


def solvers(rows: Rows) -> str:
    """Seconds to each goal."""
    if "goals" not in rows[0]:
        return str(rows[0]["missing"])
    titles = ("solver", *rows[0]["goals"])
    return markdown(titles, ([f"`{row['solver']}`", *map(_goal, row["goals"].values())] for row in rows))


def bound(rows: Rows) -> str:
    """Iterations measured, and the bound."""
    if "goals" not in rows[0]:
        return str(rows[0]["missing"])
    titles = ("ε", *(f"c = {row['c']:g}{word}" for row in rows for word in ("", ", bound")))
    lines = zip(*(row["goals"] for row in rows), strict=True)
    return markdown(titles, ([f"{goals[0]['epsilon']:g}", *_iterations(goals)] for goals in lines))


def _iterations(goals: Iterable[dict[str, Any]]) -> list[str]:
    return [
        cell for goal in goals for cell in (f"{goal['iterations'] or 'not reached'}", f"{goal['bound']:,}")
    ]


def _goal(goal: dict[str, Any]) -> str:
    if "not_reached" in goal:
        return f"not reached in {goal['after']:.0f} s, at {_bound(goal)}"
    times = goal.get("times_coordinate", 1.0)
    ratio = f", {times:.1f} times" if times != 1.0 else ""
    return f"{goal['seconds']:.2f} s ({goal['passes']} passes{ratio})"


def _bound(goal: dict[str, Any]) -> str:
    return f"{100 * goal['not_reached']:.1f} %" if goal["of"] == "gap" else f"{goal['not_reached']:.2f}"


def labels(rows: Rows) -> str:
    """Features with all labels, and with labels seen."""
    titles = (
        *(
            "data, labels of an attribute",
            "features",
            "F1",
            "accuracy",
            "certified gap",
            "passes",
            "CPU",
            "learning",
        ),
        *("peak memory", "model"),
    )
    named = ({**row, "name": f"{row['data']}, {row['support']}"} for row in rows)
    return markdown(titles, (or_missing(row, "name", _labels, len(titles)) for row in named))


def _labels(row: dict[str, Any]) -> list[str]:
    if row.get("stopped"):
        found = ["", "", "", f"not in {row['limit']:.0f} s", "", f"{row['cpu']:.0f} s", ""]
        return [*found, f"{row['peak_mb']:.0f} MB", ""]
    return [
        f"{row['features']:,}",
        score(row["f1"]),
        score(row["accuracy"]),
        f"{100 * row['gap']:.2f} %",
        str(row["passes"]),
        f"{row['cpu']:.0f} s",
        f"{row['cpu_learning']:.0f} s",
        f"{row['peak_mb']:.0f} MB",
        f"{row['model_mb']:.0f} MB",
    ]


def parsing(rows: Rows) -> str:
    """CPU seconds, memory and speed of trees."""
    titles = (
        "training",
        "start-up, reading, encoding",
        "learning",
        "longest full pass",
        "labels",
        "certified gap",
        "passes",
        "peak memory",
        "templates kept",
        "parsing, tokens/s",
        "with labels",
    )
    return markdown(titles, (or_missing(row, "task", _parsing, len(titles)) for row in rows))


def _parsing(row: dict[str, Any]) -> list[str]:
    labels, longest = row["cpu_labels"], row.get("cpu_pass")
    return [
        f"{row['cpu_before']:.1f} s",
        f"{row['cpu_learning']:.1f} s",
        "" if longest is None else f"{longest:.1f} s",
        "" if labels is None else f"{labels:.1f} s",
        f"{100 * row['gap']:.2f} %" if row["converged"] else "none",
        f"{row['passes']}",
        f"{row['peak_mb']:.0f} MB",
        f"{row['active_templates']} of {row['templates']}",
        f"{row['tokens_per_second']:,.0f}",
        "" if labels is None else f"{row['tokens_per_second_labelled']:,.0f}",
    ]


def parsing_scores(rows: Rows) -> str:
    """Attachment beside the paper's."""
    titles = ("training", "ACC", "paper", "UASP", "paper", "UAS", "paper", "LAS", "labels right")
    return markdown(titles, (or_missing(row, "task", _attachment, len(titles)) for row in rows))


def _attachment(row: dict[str, Any]) -> list[str]:
    pairs = [(row[key], row["paper"].get(key)) for key in ("acc", "uasp", "uas")]
    rest = (row.get("las"), row.get("label_accuracy"))
    return [score(value) for value in (*(one for pair in pairs for one in pair), *rest)]


def serve(rows: Rows) -> str:
    """Requests at a rate, and as many as it takes."""
    titles = ("requests", "seconds", "answered", "errors", "a second", "median", "99 %", "CPU a request")
    return markdown(titles, (or_missing(row, "load", _served, len(titles)) for row in rows))


def _served(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['seconds']:.0f}",
        f"{row['requests']:,}",
        f"{row['errors']}",
        f"{row['per_second']:.0f}",
        f"{1000 * row['median']:.0f} ms",
        f"{1000 * row['p99']:.0f} ms",
        f"{1000 * row['cpu'] / row['requests']:.2f} ms",
    ]


def threads(rows: Rows) -> str:
    """The whole and its parts, on one thread and on two."""
    titles = ("by the clock", "one thread", "two threads", "speed-up", "CPU of the two")
    return markdown(titles, (or_missing(row, "what", _threads, len(titles)) for row in rows))


def _threads(row: dict[str, Any]) -> list[str]:
    cpu = f"{row['cpu_1']:.1f} s, {row['cpu_2']:.1f} s" if "cpu_1" in row else ""
    differs = "" if row.get("same", True) else " **the models differ**"
    times = [f"{row['wall_1']:.2f} s", f"{row['wall_2']:.2f} s"]
    return [*times, f"{row['wall_1'] / row['wall_2']:.2f}{differs}", cpu]


def or_missing(
    row: dict[str, Any], key: str, cells: Callable[[dict[str, Any]], list[str]], width: int
) -> list[str]:
    """A line of a table: the name and the cells of a row, or why there are none."""
    name = str(row.get(key, ""))
    if "missing" in row:
        return [name, row["missing"], *[""] * (width - 2)]
    return [name, *cells(row)]


def score(value: float | None) -> str:
    """A score in percent, if there is one."""
    return "" if value is None else f"{value:.2f}"
