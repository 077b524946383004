"""Training on one thread and on two, and the parts of the work that threads share: the time by the clock."""

from __future__ import annotations

import hashlib
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
    found = {count: _whole(count, repeat) for count in (1, 2)}
    same = found[1]["sha256"] == found[2]["sha256"]
    rows = [
        {"what": "train, the whole program", **_times(found, "wall"), **_times(found, "cpu"), "same": same}
    ]
    parts = {count: _parts(count, repeat) for count in (1, 2)}
    titles = {**PARTS, **MACHINE}
    return rows + [{"what": title, **_times(parts, name, "wall")} for name, title in titles.items()]


def _times(found: dict[int, dict[str, Any]], figure: str, name: str | None = None) -> dict[str, float]:
    return {f"{name or figure}_{count}": row[figure] for count, row in found.items()}


def _whole(count: int, repeat: int) -> dict[str, Any]:
    """The quickest run by the clock. The libraries' own threads are left as a user has them."""
    model = work() / f"threads-{count}.mtl"
    arguments = ESP_MTL.arguments(count, model)
    runs = [measure.python("benchmarks.programs.train", *arguments, one_thread=False) for _ in range(repeat)]
    quickest = min(runs, key=lambda run: run.wall)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    return {"wall": quickest.wall, "cpu": quickest.cpu, "sha256": digest}


def _parts(count: int, repeat: int) -> dict[str, float]:
    arguments = [preset(ESP_MTL.preset), ESP_MTL.part("train"), trained(ESP_MTL), ESP_MTL.part("test"), count]
    runs = [
        measure.python("benchmarks.programs.parts", *arguments, one_thread=False).json for _ in range(repeat)
    ]
    return {name: min(run[name] for run in runs) for name in (*PARTS, *MACHINE)}
