"""OnlineMKL beside MTL: what an epoch costs with the fast and with the dense step, and what both make of the time."""

from __future__ import annotations

from typing import Any

from benchmarks import measure
from benchmarks.tasks import ESP_MTL, preset

C, EPOCHS, LIMIT = 1.0, 20, 60
"""LIMIT seconds of dense visits are measured; a whole epoch of them is computed from their mean."""


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row for MTL and for each step, with how many times MTL's seconds it takes."""
    run = measure.python(
        "benchmarks.programs.online", preset(ESP_MTL.preset), ESP_MTL.part("train"), C, EPOCHS, LIMIT
    )
    mtl, fast, dense = (run.json[name] for name in ("mtl", "fast", "dense"))
    # what stands before and after the epochs is the same for both steps
    whole = fast["seconds"] + EPOCHS * (dense["epoch"] - fast["epoch"])
    rows = [
        {"learner": "mtl to a gap of 1 %", **mtl},
        {"learner": f"OnlineMKL, {EPOCHS} epochs, fast step", **fast},
        {"learner": f"OnlineMKL, {EPOCHS} epochs, dense step", **dense, "measured": dense["seconds"]},
    ]
    rows[2]["seconds"] = whole
    for row in rows:
        row["times_mtl"] = row["seconds"] / mtl["seconds"]
    rows[2]["times_fast"] = dense["epoch"] / fast["epoch"]
    return rows
