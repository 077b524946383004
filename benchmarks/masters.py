"""The masters on cuts that Algorithm 1 made: CPU seconds to a certified gap of 1e-6, one thread."""

from __future__ import annotations

from typing import Any

from benchmarks import measure
from benchmarks.places import head
from benchmarks.tasks import ESP_MTL, preset

SENTENCES, CUTS = 300, (50, 100, 200)


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a number of cuts and a norm."""
    few = head(ESP_MTL.part("train"), SENTENCES)
    run = measure.python("benchmarks.programs.masters", preset(ESP_MTL.preset), few, repeat, *CUTS)
    rows: list[dict[str, Any]] = run.json["rows"]
    return rows
