"""Training beside python-crfsuite's averaged perceptron, on the same attributes, in one run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.places import work
from benchmarks.tasks import ESP_MTL, preset

ALGORITHM = "python-crfsuite, averaged perceptron"


def installed() -> bool:
    """Whether the peer is there."""
    return find_spec("pycrfsuite") is not None


def peer_model() -> Path:
    """Where the peer's model is kept."""
    return work() / "esp.crfsuite"


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """Ours, theirs, and how many times less ours takes."""
    ours, theirs = _ours(repeat), _theirs()
    if "missing" in theirs:
        return [ours, theirs]
    theirs["times_ours"] = theirs["cpu"] / ours["cpu"]
    theirs["times_ours_memory"] = theirs["peak_mb"] / ours["peak_mb"]
    return [ours, theirs]


def _ours(repeat: int) -> dict[str, Any]:
    run = measure.best(lambda: measure.python("benchmarks.programs.train", *ESP_MTL.arguments()), repeat)
    scored = measure.python("mtlstruct", "evaluate", ESP_MTL.model, ESP_MTL.part("test"), "--json")
    size = ESP_MTL.model.stat().st_size / 1e6
    f1 = scored.json["f1"]
    return {"program": "mtlstruct", "cpu": run.cpu, "peak_mb": run.peak_mb, "test": f1, "model_mb": size}


def _theirs() -> dict[str, Any]:
    """Once: it is long, and noise of a second is nothing to it. Making the strings is not counted."""
    if not installed():
        return {"program": ALGORITHM, "missing": "not run: python-crfsuite not found"}
    templates, model = preset(ESP_MTL.preset), peer_model()
    run = measure.python("benchmarks.programs.peer_train", templates, ESP_MTL.part("train"), model)
    scored = measure.python("benchmarks.programs.peer_tag", templates, ESP_MTL.part("test"), model)
    return {
        "program": ALGORITHM,
        "cpu": run.cpu - run.json["making"],
        "making": run.json["making"],
        "appending": run.json["appending"],
        "iterations": run.json["iterations"],
        "peak_mb": run.peak_mb,
        "test": scored.json["f1"],
        "model_mb": model.stat().st_size / 1e6,
    }
