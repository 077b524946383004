"""Joint steps of workers whose links are held to a few megabytes a second, beside what the model of scale.md says.

Needs Ray. The seconds that a slow link adds to a joint step are compared: what the workers compute is the same with
and without it.
"""

from __future__ import annotations

from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks import measure
from benchmarks.places import Missing
from benchmarks.tasks import ESP_MTL, preset

SENTENCES, LINK = 400, 20e6
WORKERS = (2, 4, 8)


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a number of workers; one run each, `repeat` plays no part: a run has many joint steps."""
    if find_spec("ray") is None:
        raise Missing("ray is not installed")
    return [_row(workers) for workers in WORKERS]


def _row(workers: int) -> dict[str, Any]:
    data = preset(ESP_MTL.preset), ESP_MTL.part("train"), SENTENCES, workers
    free, slow = (measure.python("benchmarks.programs.links", *data, link).json for link in (0, LINK))
    seconds = {name: median(run["seconds"]) for name, run in (("free", free), ("slow", slow))}
    modelled = model(workers, slow["bytes"], LINK)
    return {
        "workers": workers,
        "sentences": SENTENCES,
        "link": LINK,
        "shared_bytes": slow["bytes"],
        "joint_steps": len(slow["seconds"]),
        **seconds,
        "added": seconds["slow"] - seconds["free"],
        "modelled": modelled,
        "ratio": (seconds["slow"] - seconds["free"]) / modelled,
    }


def model(workers: int, size: float, link: float) -> float:
    """Seconds of a joint step's way: up a tree of sums, to the driver, and down to all workers at once."""
    return ((workers - 1).bit_length() + 2) * size / link
