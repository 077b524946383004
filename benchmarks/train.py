"""Training: CPU time by stage, the certified gap, peak memory, model size, and scores beside the paper's."""

from __future__ import annotations

from typing import Any

from benchmarks import measure
from benchmarks.places import PKU, Missing, corpus
from benchmarks.tasks import TASKS, Task


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a task."""
    return [_row(task, repeat) for task in TASKS]


def _row(task: Task, repeat: int) -> dict[str, Any]:
    row: dict[str, Any] = {"task": task.name, "command": task.command(), "paper": task.paper}
    try:
        return row | _figures(task, repeat) | _scores(task)
    except Missing as reason:
        return row | {"missing": str(reason)}


def _figures(task: Task, repeat: int) -> dict[str, Any]:
    run = measure.best(lambda: measure.python("benchmarks.programs.train", *task.arguments()), repeat)
    found, stages = run.json, run.json["cpu"]
    kept = ("gap", "converged", "passes", "objective", "attributes", "templates", "active_templates")
    return {
        "cpu": run.cpu,
        "cpu_before": stages["before"],
        "cpu_learning": stages["learning"],
        "encode_seconds": found["encode_seconds"],
        "wall": run.wall,
        "peak_mb": run.peak_mb,
        "model_mb": task.model.stat().st_size / 1e6,
        **{key: found[key] for key in kept},
    }


def _scores(task: Task) -> dict[str, Any]:
    words = ["--words", corpus(PKU, "training_words.txt")] if task.segmentation else []
    scored = {
        part: measure.python("mtlstruct", "evaluate", task.model, task.part(part), *words, "--json").json
        for part in task.scored
    }
    f1 = {part: found["f1"] for part, found in scored.items()}
    if not task.segmentation:
        return f1
    return f1 | {key: scored["test"][key] for key in ("r_iv", "r_oov")}
