"""The trace of a training run, MODEL.log.jsonl: the run, a record a pass, how the model does on held-out data, the
summary; a JSON object a line.

Times live here and not in the model, which must come out the same on every machine. The file is written at
the end, as a whole: the log of an older model stays beside it until there is a new model.
"""

from __future__ import annotations

import platform
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlstruct import __version__
from mtlstruct._system.atomic_write import replacing
from mtlstruct.cli.common import to_json

if TYPE_CHECKING:
    from mtlstruct.cli.training_run import TrainingRun
    from mtlstruct.corpus import Corpus
    from mtlstruct.model.model import Model
    from mtlstruct.solvers import Record
    from mtlstruct.templates import TemplateSet


MOMENT = "%Y-%m-%dT%H:%M:%S%z"
"""How a point in time is written."""


class RunLog:
    """Collects the lines."""

    def __init__(self, job: TrainingRun, corpus: Corpus, templates: TemplateSet) -> None:
        self.lines = [_run(job, corpus, templates)]

    def add_pass(self, record: Record, seconds: float) -> None:
        """A pass, and when it ended, counted from the start of the run."""
        self.lines.append({"event": "pass", **record.as_dict(), "seconds": seconds})

    def take_up(self, started: str, first: int, lines: list[dict[str, Any]], seconds: float) -> int:
        """Goes on with the lines that an earlier run had from the `first` on; returns the pass it had come to."""
        passes = [line["passes"] for line in lines if line["event"] in ("pass", "label-pass")]
        after = passes[-1] if passes else 0
        moment = {"passes": after, "seconds": seconds, "time": time.strftime(MOMENT)}
        self.lines[0]["started"] = started
        self.lines[first:] = [*lines, {"event": "resumed", **moment}]
        return after

    def add_label_pass(self, record: Record, seconds: float) -> None:
        """A pass of the second stage; seconds count from its start."""
        self.lines.append({"event": "label-pass", **record.as_dict(), "seconds": seconds})

    def add_event(self, sentence: str) -> None:
        """Something that befell a worker."""
        self.lines.append({"event": "worker", "says": sentence, "time": time.strftime(MOMENT)})

    def add_assessment(self, model: Model, valid: Corpus | None, source: str) -> None:
        """How the model does on held-out data, if there are any, for the report."""
        from mtlstruct.tasks import task_of

        if valid is not None:
            found = task_of(model.task).assess(model, valid, source)
            self.lines.append({"event": "assessment", **found.as_dict()})

    def write(self, path: Path, summary: dict[str, Any]) -> None:
        """The whole log, with the summary as its last line."""
        lines = [*self.lines, {"event": "summary", **summary}]
        with replacing(path) as out:
            out.write("".join(to_json(line) + "\n" for line in lines).encode())


def _run(job: TrainingRun, corpus: Corpus, templates: TemplateSet) -> dict[str, Any]:
    return {
        "event": "run",
        "started": time.strftime(MOMENT),
        "command": ["mtlstruct", *job.arguments],
        "options": asdict(job.options),
        "files": {
            "templates": str(job.templates),
            "train": str(job.data),
            "valid": job.valid and str(job.valid),
            "from": job.start and str(job.start),
            "label_templates": job.label_templates and str(job.label_templates),
        },
        "data": {
            "sentences": len(corpus),
            "tokens": corpus.tokens,
            "columns": len(corpus.columns),
            "labels": list(corpus.labels),
            "templates": len(templates),
        },
        "versions": {"mtlstruct": __version__, "python": platform.python_version()} | _packages(),
    }


def _packages() -> dict[str, str]:
    return {name: found for name in ("numpy", "numba", "scipy") if (found := _installed(name))}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
