"""Checkpoints of a training run: their folder, what makes the log whole again, and what Ctrl-C does.

A run has one training or two (`--labels`), each with a file of its own, so the first is quickly gone
through again when the second is gone on with. SIGINT and SIGTERM end a run at the next safe place, with a checkpoint;
once more, and it ends at once.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from mtlstruct._system.folder_lock import locked
from mtlstruct.cli.common import to_json
from mtlstruct.cli.errors import Terminated, complain
from mtlstruct.cli.progress import Progress
from mtlstruct.cli.runlog import RunLog
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.checkpoints import SUFFIX, Checkpoint

STAGES = ("training", "refit", "labels")
"""The trainings of a run. Other files in its folder are not ours, whatever their names end in."""


@dataclass(frozen=True)
class CheckpointDir:
    """The folder of a run's checkpoints, the seconds between them, and whether to continue from there."""

    path: Path
    every: float
    resume: bool

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The time of a run: nobody else works here, and a run that ends well leaves no checkpoint."""
        with locked(self.path):
            for name in STAGES:
                for half in self.path.glob(f".{name}{SUFFIX}.*.part"):  # somebody was killed while writing it
                    half.unlink(missing_ok=True)
            if self.found() and not self.resume:
                raise IncompatibleError(
                    f"{self.path}: there is the checkpoint of a training that has not ended: --resume goes on with "
                    "it; remove it to start anew"
                )
            yield
            for path in self.found():
                path.unlink(missing_ok=True)

    def found(self) -> list[Path]:
        """The checkpoints that are there."""
        return [path for name in STAGES if (path := self.path / f"{name}{SUFFIX}").is_file()]


class Stage(Checkpoint):
    """One training of a run. As a context it handles SIGINT and SIGTERM, unless they are ignored."""

    def __init__(self, folder: CheckpointDir, name: str, log: RunLog, shown: Progress) -> None:
        super().__init__(folder.path / f"{name}{SUFFIX}", folder.every)
        self.folder, self.log, self.shown = folder, log, shown
        self._first = len(log.lines)
        self._heard: int | None = None
        self._before: dict[int, Any] = {}

    def open(self, facts: Mapping[str, Any]) -> None:
        """As always; a run that was to go on and cannot says so."""
        if self.folder.resume and not self.folder.found():
            self.shown.say(f"{self.folder.path} has no checkpoint: this training starts anew")
        super().open(facts)

    def notes(self) -> Any:
        """The lines of the log so far, and how long it took."""
        lines = [
            to_json(line) for line in self.log.lines[self._first :]
        ]  # as text, which keeps the order of keys
        return {"started": self.log.lines[0]["started"], "lines": lines, "seconds": self.shown.seconds}

    def resumed(self, notes: Any) -> None:
        """The log and the clock go on, too."""
        self.shown.began -= notes["seconds"]
        lines = [json.loads(line) for line in notes["lines"]]
        after = self.log.take_up(notes["started"], self._first, lines, notes["seconds"])
        self.shown.say(f"going on from {self.path}, after pass {after}")

    def failed(self, error: Exception) -> None:
        """A full disk is no reason to lose what is being learned."""
        complain(f"{error or 'no memory for a checkpoint'}; training goes on and will try again")

    def leaving(self) -> BaseException | None:
        """What the signal asks for, if there was one."""
        if self._heard is None:
            return None
        kind = "terminated" if self._heard == signal.SIGTERM else "interrupted"
        return _raised(
            self._heard, f"{kind}; what existed before is unchanged, --resume goes on from {self.folder.path}"
        )

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            both = (signal.SIGINT, signal.SIGTERM)
            numbers = [number for number in both if signal.getsignal(number) != signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._hear) for number in numbers}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._heard is not None:  # it came after the last safe place
            raise _raised(self._heard)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._heard is not None or not self.learning:
            raise _raised(number)
        self._heard = number
        with suppress(OSError):  # print is not for signal handlers
            os.write(
                2, b"mtlstruct: ending with a checkpoint at the next safe place; once more ends at once\n"
            )


def _raised(number: int, *said: str) -> KeyboardInterrupt:
    return Terminated(*said) if number == signal.SIGTERM else KeyboardInterrupt(*said)
