"""The log that a training leaves beside its model, read back: the run, the passes of each training, how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mtlstruct.errors import FormatError
from mtlstruct.formats import text
from mtlstruct.model.model import Model


@dataclass
class Trace:
    """A log by its events.

    passes       the passes of the training
    labels       the passes of a second stage, which learns the labels of arcs
    assessment   what `train --valid` found on its held-out data, as assessment.Assessment.as_dict says it
    """

    run: dict[str, Any] = field(default_factory=dict)
    passes: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    assessment: dict[str, Any] | None = None
    summary: dict[str, Any] = field(default_factory=dict)

    def is_of(self, model: Model) -> bool:
        """Whether this is the training that made the model: the same bounds after the same passes."""
        names = ("objective", "dual", "passes")
        return all(self.summary.get(name) == model.facts.get(name) for name in names)


def read(path: str | Path) -> Trace:
    """A log; refuses what is none, or not whole."""
    trace = Trace()
    for number, line in enumerate(text.load(path).split("\n"), 1):
        event = _event(path, number, line)
        match event["event"]:
            case "run":
                trace.run = event
            case "pass":
                trace.passes.append(event)
            case "label-pass":
                trace.labels.append(event)
            case "assessment":
                trace.assessment = {key: value for key, value in event.items() if key != "event"}
            case "summary":
                trace.summary = event
    if not trace.summary:
        raise FormatError(path, None, "expected the log of a training, with a summary at its end, got none")
    return trace


def _event(path: str | Path, number: int, line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise FormatError(path, number, f"expected a JSON object with an event, got {line[:40]!r}")
    return event
