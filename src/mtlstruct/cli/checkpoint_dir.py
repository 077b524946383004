"""Checkpoints of a training run: their folder, their log lines, and SIGINT and SIGTERM.

A run has one training or two (`--labels`), each with a checkpoint of its own. SIGINT and SIGTERM
end a run at the next safe point, with a checkpoint; a second signal ends it at once.
"""

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

from mtlstruct._system.digest import to_json
from mtlstruct._system.folder_lock import locked as locked_folder
from mtlstruct.cli.errors import Terminated, print_message
from mtlstruct.cli.progress import TrainingProgress
from mtlstruct.errors import IncompatibleError
from mtlstruct.training.checkpoints import SUFFIX, Checkpoint
from mtlstruct.training.run_log import RunLog

STAGES = ("training", "labels")
"""The trainings of a run; other files in the folder are left alone."""


@dataclass(frozen=True)
class CheckpointDir:
    """The folder of a run's checkpoints, the seconds between them, and whether to resume."""

    path: Path
    every: float
    resume: bool

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for a run; a run that ends well leaves no checkpoint."""
        with locked_folder(self.path):
            for name in STAGES:
                for half in self.path.glob(f".{name}{SUFFIX}.*.part"):  # of a run that was killed
                    half.unlink(missing_ok=True)
            if self.found() and not self.resume:
                raise IncompatibleError(
                    f"{self.path}: has the checkpoint of a training that has not ended: continue it with "
                    "--resume, or remove it to start over"
                )
            yield
            for path in self.found():
                path.unlink(missing_ok=True)

    def found(self) -> list[Path]:
        """Return the checkpoints that exist."""
        return [path for name in STAGES if (path := self.path / f"{name}{SUFFIX}").is_file()]


class Stage(Checkpoint):
    """The checkpoint of one training of a run; as a context it handles SIGINT and SIGTERM."""

    def __init__(self, folder: CheckpointDir, name: str, log: RunLog, shown: TrainingProgress) -> None:
        super().__init__(folder.path / f"{name}{SUFFIX}", folder.every)
        self.folder, self.log, self.shown = folder, log, shown
        self._first = len(log.lines)
        self._received: int | None = None
        self._handlers: dict[int, Any] = {}

    def open(self, facts: Mapping[str, Any]) -> None:
        """Read the checkpoint of an earlier run, if any; say if there is none to resume."""
        if self.folder.resume and not self.folder.found():
            self.shown.say(f"{self.folder.path} has no checkpoint: training starts from the beginning")
        super().open(facts)

    def notes(self) -> Any:
        """Return the log lines of this training, as text, and how long it took."""
        lines = [to_json(line) for line in self.log.lines[self._first :]]
        return {"started": self.log.lines[0]["started"], "lines": lines, "seconds": self.shown.seconds}

    def resumed(self, notes: Any) -> None:
        """Restore the log and the clock."""
        self.shown.began -= notes["seconds"]
        lines = [json.loads(line) for line in notes["lines"]]
        after = self.log.resume(notes["started"], self._first, lines, notes["seconds"])
        self.shown.say(f"resuming from {self.path}, after pass {after}")

    def failed(self, error: Exception) -> None:
        """Warn that a checkpoint could not be written; training goes on."""
        print_message(f"{error or 'no memory for a checkpoint'}; training continues and will try again")

    def leaving(self) -> BaseException | None:
        """Return the exception that a received signal asks for, if any."""
        if self._received is None:
            return None
        kind = "terminated" if self._received == signal.SIGTERM else "interrupted"
        where = f"--resume continues from {self.folder.path}"
        return _exception(self._received, f"{kind}; existing files are unchanged, {where}")

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None and self._received is not None:  # it came after the last safe point
            raise _exception(self._received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None or not self.learning:
            raise _exception(number)
        self._received = number
        with suppress(OSError):  # print is not for signal handlers
            os.write(2, b"mtlstruct: stopping after the next checkpoint; Ctrl-C again stops immediately\n")


def _exception(number: int, *message: str) -> KeyboardInterrupt:
    return Terminated(*message) if number == signal.SIGTERM else KeyboardInterrupt(*message)
