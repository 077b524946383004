"""Training on one thread and on two, and the parts of the work that threads share: the time by the clock."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from benchmarks import measure
from benchmarks.places import work
from benchmarks.tasks import ESP_HINGE, ESP_MTL, Task, preset, trained, warm_up

LOSSES = {"log loss": ESP_MTL, "hinge": ESP_HINGE}

PARTS = {
    "encode": "encoding",
    "certificate": "a certificate",
    "likelihood": "a pass over probabilities",
    "predict": "prediction",
}

MACHINE = {
    "copy": "for comparison: copying memory",
    "touch": "for comparison: writing to new memory",
}
"""What two cores of this machine share whatever runs on them."""


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """Rows for the whole and for learning with each loss, and for each part."""
    warm_up()
    rows = [row for loss, task in LOSSES.items() for row in _trainings(loss, task, repeat)]
    titles = {**PARTS, **MACHINE}
    parts = {
        count: {name: min(run[name] for run in runs) for name in titles}
        for count, runs in _in_turn(_parts, repeat).items()
    }
    return rows + [{"what": title, **_times(parts, name, "wall")} for name, title in titles.items()]


def _trainings(loss: str, task: Task, repeat: int) -> list[dict[str, Any]]:
    """Rows for the whole program and for learning, the quickest run of each."""
    found = _in_turn(lambda count: _whole(task, count), repeat)
    same = len({run["sha256"] for runs in found.values() for run in runs}) == 1
    rows = []
    for what, wall, cpu in (("the whole program", "wall", "cpu"), ("learning", "learning", "learning_cpu")):
        best = {count: min(runs, key=lambda run: run[wall]) for count, runs in found.items()}
        times = {**_times(best, wall, "wall"), **_times(best, cpu, "cpu")}
        rows.append({"what": f"train, {loss}: {what}", **times, "same": same})
    return rows


def _in_turn(run: Callable[[int], dict[str, Any]], repeat: int) -> dict[int, list[dict[str, Any]]]:
    """Runs on one thread and on two in turn: what else the machine does changes within minutes."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(repeat):
        for count, runs in found.items():
            runs.append(run(count))
    return found


def _times(found: dict[int, dict[str, Any]], figure: str, name: str | None = None) -> dict[str, float]:
    return {f"{name or figure}_{count}": row[figure] for count, row in found.items()}


def _whole(task: Task, count: int) -> dict[str, Any]:
    """By the clock. The libraries' own threads are left as a user has them."""
    model = work() / f"threads-{count}.mtl"
    run = measure.python("benchmarks.programs.train", *task.arguments(count, model), one_thread=False)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    learning = {"learning": run.json["clock"]["learning"], "learning_cpu": run.json["cpu"]["learning"]}
    return {"wall": run.wall, "cpu": run.cpu, **learning, "sha256": digest}


def _parts(count: int) -> dict[str, float]:
    arguments = [preset(ESP_MTL.preset), ESP_MTL.part("train"), trained(ESP_MTL), ESP_MTL.part("test"), count]
    found: dict[str, float] = measure.python("benchmarks.programs.parts", *arguments, one_thread=False).json
    return found
