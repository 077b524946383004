"""CRF l2 beside CRF++'s `crf_learn`: the same templates, data, c and stopping rule, one thread each, in one run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.places import Missing, program, work
from benchmarks.tasks import ESP_CRF, ESP_CRF_NEAR, Task, preset


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """Ours and theirs, both until the objective settles, and ours to a certified gap."""
    ours = _ours("mtlstruct", ESP_CRF, repeat)
    near = _ours("mtlstruct, to a certified gap of 0.1 %", ESP_CRF_NEAR, 1)
    try:
        theirs = _theirs()
    except Missing as reason:
        theirs = {"program": "CRF++ 0.59", "missing": str(reason)}
    for row in (theirs, near):
        if "cpu" in row:
            row["times_ours"] = row["cpu"] / ours["cpu"]
    return [ours, theirs, near]


def _ours(name: str, task: Task, repeat: int) -> dict[str, Any]:
    run = measure.best(lambda: measure.python("benchmarks.programs.train", *task.arguments()), repeat)
    found = run.json
    return {
        "program": name,
        "passes": found["passes"],
        "objective": found["objective"],  # c is 1, so CRF++ would print the same
        "gap": found["gap"],
        "cpu": run.cpu,
        "peak_mb": run.peak_mb,
        "dev": _score(task.model, "dev"),
        "test": _score(task.model, "test"),
    }


def _score(model: Path, part: str) -> float:
    found = measure.python("mtlstruct", "evaluate", model, ESP_CRF.part(part), "--json").json
    return float(found["f1"])


def _theirs() -> dict[str, Any]:
    """Once: it is long."""
    model = work() / "esp.crfpp"
    command = [program("crf_learn", "CRF++"), "-c", "1", "-p", "1"]
    run = measure.run([*command, str(preset(ESP_CRF.preset)), str(ESP_CRF.part("train")), str(model)])
    last = re.findall(r"iter=(\d+) .*obj=([0-9.]+)", run.stdout)[-1]
    return {
        "program": "CRF++ 0.59",
        "passes": int(last[0]) + 1,
        "objective": float(last[1]),
        "cpu": run.cpu,
        "peak_mb": run.peak_mb,
        "dev": _their_score(model, "dev"),
        "test": _their_score(model, "test"),
    }


def _their_score(model: Path, part: str) -> float:
    tagged = work() / f"{part}.crfpp"
    measure.run([program("crf_test", "CRF++"), "-m", str(model), "-o", str(tagged), str(ESP_CRF.part(part))])
    arguments = ["score", ESP_CRF.part(part), tagged, "--task", "sequence", "--json"]
    return float(measure.python("mtlstruct", *arguments).json["f1"])
