"""Log of a training run, MODEL.log.jsonl: one JSON object per line.

The first line describes the run; a line per pass follows, then the scores on held-out data and the
summary. Times are in the log and not in the model, which must be the same on every machine. The
file is written when the model is saved, so that it always belongs to the model beside it.
"""

import json
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from mtlstruct import __version__
from mtlstruct._system.atomic_write import replacing
from mtlstruct._system.digest import to_json
from mtlstruct.corpus import Corpus
from mtlstruct.errors import FormatError
from mtlstruct.formats import text
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training.options import Options

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
PASS, LABEL_PASS = "pass", "label-pass"
"""Events of passes: of the training, and of the training of arc labels."""

Line = dict[str, Any]


@dataclass
class RunLog:
    """The lines of a log, each with its event: run, pass, label-pass, assessment, summary."""

    lines: list[Line]

    @classmethod
    def start(
        cls,
        options: Options,
        corpus: Corpus,
        templates: TemplateSet,
        files: Mapping[str, Path | None],
        arguments: Sequence[str],
    ) -> Self:
        """Return the log of a run that begins now."""
        run = {
            "event": "run",
            "started": time.strftime(TIME_FORMAT),
            "command": ["mtlstruct", *arguments],
            "options": options.as_dict(),
            "files": {name: path and str(path) for name, path in files.items()},
            "data": {
                "sentences": len(corpus),
                "tokens": corpus.tokens,
                "columns": len(corpus.columns),
                "labels": list(corpus.labels),
                "templates": len(templates),
            },
            "versions": {
                "mtlstruct": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("numpy", "numba", "scipy")},
            },
        }
        return cls([run])

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a log; raise FormatError for a file that is none, or that has no end."""
        log = cls([])
        for number, line in enumerate(text.load(path).split("\n"), 1):
            event = None
            with suppress(ValueError):
                event = json.loads(line)
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                raise FormatError(path, number, f"expected a JSON object with an event, got {line[:40]!r}")
            log.lines.append(event)
        if not log.last("summary"):
            raise FormatError(
                path, None, "expected the log of a training, with a summary at its end, got none"
            )
        return log

    def add(self, event: str, values: Mapping[str, Any]) -> None:
        """Add a line."""
        self.lines.append({"event": event, **values})

    def resume(self, started: str, first: int, lines: list[Line], seconds: float) -> int:
        """Replace the lines from `first` on by those of an earlier run; return its last pass."""
        passes = [line["passes"] for line in lines if line["event"] in (PASS, LABEL_PASS)]
        after = passes[-1] if passes else 0
        self.lines[0]["started"] = started
        self.lines[first:] = lines
        self.add("resumed", {"passes": after, "seconds": seconds, "time": time.strftime(TIME_FORMAT)})
        return after

    def write(self, path: Path) -> None:
        """Write the log."""
        with replacing(path) as out:
            out.write("".join(to_json(line) + "\n" for line in self.lines).encode())

    def events(self, name: str) -> list[Line]:
        """Return the lines of an event."""
        return [line for line in self.lines if line["event"] == name]

    def last(self, name: str) -> Line:
        """Return the values of the last line of an event; none if there is no such line."""
        found = self.events(name)[-1:]
        return {key: value for line in found for key, value in line.items() if key != "event"}

    def is_of(self, model: Model) -> bool:
        """Return whether this training made the model: the same bounds after the same passes."""
        summary = self.last("summary")
        return all(summary.get(name) == model.facts.get(name) for name in ("objective", "dual", "passes"))
