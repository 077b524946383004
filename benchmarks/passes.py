"""What a pass of L-BFGS costs beside a pass over margins, 134 templates."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks import measure
from benchmarks.tasks import ESP_MTL, preset

NAMES = {
    "margin": "margins: loss-augmented decoding and subgradient",
    "likelihood": "likelihood and gradient, on merged attributes",
    "lbfgs": "a whole pass of L-BFGS",
}
C, PASSES = 1.0, 24


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a kind of pass. Figures are medians: the passes in which a pair is kept first also pay for its memory."""
    run = measure.python(
        "benchmarks.programs.passes", preset(ESP_MTL.preset), ESP_MTL.part("train"), C, PASSES
    )
    seconds = {name: run.json[name] for name in NAMES}
    figures = {name: median(all) for name, all in seconds.items()}
    return [
        {
            "name": name,
            "pass": text,
            "seconds": figures[name],
            "times_margin": figures[name] / figures["margin"],
            "all": seconds[name],
        }
        for name, text in NAMES.items()
    ]
