"""Prediction: how long a small job takes from start to end, and how many tokens a second a big one does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks import crfsuite, measure
from benchmarks.places import head
from benchmarks.tasks import ESP_MTL, preset, trained

STARTS, ROUNDS = 5, 5


def measure_all(repeat: int) -> list[dict[str, Any]]:
    """Start-up, then throughput beside the peer."""
    model = trained(ESP_MTL)
    ours = _speed(
        "mtlstruct", _tagged(repeat, "benchmarks.programs.tag", model, ESP_MTL.part("test"), ROUNDS)
    )
    theirs = _their_speed(repeat)
    for figure in ("without", "with"):
        if figure in theirs:
            ours[f"times_peer_{figure}"] = ours[figure] / theirs[figure]
    return [_start_up(model), ours, theirs]


def _start_up(model: Path) -> dict[str, Any]:
    """Wall time, for this is what a user waits."""
    few = head(ESP_MTL.part("test"), 3)
    command = [sys.executable, "-m", "mtlstruct", "predict", str(model), str(few), "--threads", "1"]
    runs = [measure.run(command) for _ in range(STARTS)]
    return {"start_up": min(run.wall for run in runs), "all": sorted(run.wall for run in runs)}


def _their_speed(repeat: int) -> dict[str, Any]:
    model = crfsuite.peer_model()
    if not (crfsuite.installed() and model.is_file()):
        reason = "not run: python-crfsuite or its model not found (`python -m benchmarks crfsuite` makes it)"
        return {"program": crfsuite.ALGORITHM, "missing": reason}
    return _speed(
        crfsuite.ALGORITHM,
        _tagged(repeat, "benchmarks.programs.peer_tag", preset(ESP_MTL.preset), ESP_MTL.part("test"), model),
    )


def _tagged(repeat: int, module: str, *arguments: object) -> dict[str, Any]:
    runs = [measure.python(module, *arguments).json for _ in range(repeat)]
    return {key: min(run[key] for run in runs) for key in ("tokens", "making", "tagging")}


def _speed(program: str, found: dict[str, Any]) -> dict[str, Any]:
    """Tokens a second of tagging alone, and with the making of attributes (for us: encoding) before it."""
    whole = found["making"] + found["tagging"]
    return {
        "program": program,
        "without": found["tokens"] / found["tagging"],
        "with": found["tokens"] / whole,
    }
