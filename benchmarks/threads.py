"""Training on one thread and on two: the time by the clock, and whether the model files are the same."""

from __future__ import annotations

import hashlib
from typing import Any

from benchmarks import measure
from benchmarks.places import work
from benchmarks.tasks import ESP_MTL


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a thread count."""
    rows = [_row(count, repeat) for count in (1, 2)]
    for row in rows:
        row["speed_up"] = rows[0]["wall"] / row["wall"]
        row["same"] = row["sha256"] == rows[0]["sha256"]
    return rows


def _row(count: int, repeat: int) -> dict[str, Any]:
    """The quickest run by the clock. The libraries' own threads are left as a user has them."""
    model = work() / f"threads-{count}.mtl"
    arguments = ESP_MTL.arguments(count, model)
    runs = [measure.python("benchmarks.programs.train", *arguments, one_thread=False) for _ in range(repeat)]
    quickest = min(runs, key=lambda run: run.wall)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    return {"threads": count, "wall": quickest.wall, "cpu": quickest.cpu, "sha256": digest}
