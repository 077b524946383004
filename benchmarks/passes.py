"""What a pass of L-BFGS costs beside a pass over margins, 134 templates."""

from __future__ import annotations

from statistics import mean
from typing import Any

from benchmarks import measure
from benchmarks.tasks import ESP_MTL, preset

NAMES = {
    "margin": "margins: loss-augmented decoding and subgradient",
    "likelihood": "likelihood and gradient, by the same oracle",
    "lbfgs": "a whole pass of L-BFGS, on merged attributes",
}
C, PASSES = 1.0, 12


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """A row a kind of pass. One of L-BFGS may try several steps, so its figure is a mean; of the others the best."""
    run = measure.python(
        "benchmarks.programs.passes", preset(ESP_MTL.preset), ESP_MTL.part("train"), C, PASSES
    )
    seconds = {name: run.json[name] for name in NAMES}
    figures = {name: mean(all) if name == "lbfgs" else min(all) for name, all in seconds.items()}
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
