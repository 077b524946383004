"""Training on one thread and on two, and the parts of the work that threads share: the time by the clock."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from benchmarks import measure
from benchmarks.places import work
from benchmarks.tasks import ESP_MTL, preset, trained

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
    """A row for the whole and for each part."""
    found = _in_turn(_whole, repeat)
    same = found[1][0]["sha256"] == found[2][0]["sha256"]
    quickest = {count: min(runs, key=lambda run: run["wall"]) for count, runs in found.items()}
    rows = [
        {
            "what": "train, the whole program",
            **_times(quickest, "wall"),
            **_times(quickest, "cpu"),
            "same": same,
        }
    ]
    titles = {**PARTS, **MACHINE}
    parts = {
        count: {name: min(run[name] for run in runs) for name in titles}
        for count, runs in _in_turn(_parts, repeat).items()
    }
    return rows + [{"what": title, **_times(parts, name, "wall")} for name, title in titles.items()]


def _in_turn(run: Callable[[int], dict[str, Any]], repeat: int) -> dict[int, list[dict[str, Any]]]:
    """Runs on one thread and on two in turn: what else the machine does changes within minutes."""
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(repeat):
        for count, runs in found.items():
            runs.append(run(count))
    return found


def _times(found: dict[int, dict[str, Any]], figure: str, name: str | None = None) -> dict[str, float]:
    return {f"{name or figure}_{count}": row[figure] for count, row in found.items()}


def _whole(count: int) -> dict[str, Any]:
    """By the clock. The libraries' own threads are left as a user has them."""
    model = work() / f"threads-{count}.mtl"
    run = measure.python("benchmarks.programs.train", *ESP_MTL.arguments(count, model), one_thread=False)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    return {"wall": run.wall, "cpu": run.cpu, "sha256": digest}


def _parts(count: int) -> dict[str, float]:
    arguments = [preset(ESP_MTL.preset), ESP_MTL.part("train"), trained(ESP_MTL), ESP_MTL.part("test"), count]
    found: dict[str, float] = measure.python("benchmarks.programs.parts", *arguments, one_thread=False).json
    return found
