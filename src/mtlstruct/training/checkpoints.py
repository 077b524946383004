"""Checkpoints: the state of a run in one file, from which a later run ends with the same bytes.

The file is an archive like that of models: arrays and JSON, a digest over the whole file, written
completely or not at all. Beside the state it holds the *facts*, everything that the run depends on:
a checkpoint of other data, options or versions is rejected, as is a damaged one.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct import __version__
from mtlstruct._system import archive
from mtlstruct._system.atomic_write import check_writable
from mtlstruct._system.digest import digest
from mtlstruct._system.stateful import Checkpointer, State, Stateful
from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet

FORMAT = "mtlstruct checkpoint"
VERSION = 3
SUFFIX = ".checkpoint"

_WRONG_VALUES = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError)
"""What can be raised while reading values that no run has written."""


class Checkpoint(Checkpointer):
    """Writes the state of a run to `path` at the first safe point after every `every` seconds.

    Subclasses add notes to the state, report failures, and end the run at a safe point.
    """

    def __init__(self, path: Path, every: float) -> None:
        self.path, self.every = path, every
        self.learning = False
        self.facts: Mapping[str, Any] = {}
        self._state: State | None = None
        self._due = 0.0

    def open(self, facts: Mapping[str, Any]) -> None:
        """Read the checkpoint of an earlier run, if any; raise an error if its facts differ."""
        check_writable(self.path)
        self.facts = json.loads(json.dumps(facts))
        if self.path.exists():
            facts, notes, self._state = read(self.path)
            _check_facts(self.path, facts, self.facts)
            self.resumed(notes)

    def restore(self, run: Stateful) -> None:
        """Restore the state of the earlier run, if there is one; safe points follow."""
        run.state_dict()  # raises before the first pass if there is a value that cannot be stored
        if self._state is not None:
            try:
                run.load_state_dict(self._state)
            except _WRONG_VALUES as error:
                raise ModelFileError(
                    f"{self.path}: this checkpoint does not hold what it should, remove it to start anew: {error!r}"
                ) from None
            self._state = None
        self.learning = True
        self._due = time.monotonic() + self.every

    def at_safe_point(self, run: Stateful) -> None:
        """Write a checkpoint if it is due or the run ends here."""
        end = self.leaving()
        if end is None and time.monotonic() < self._due:
            return
        try:
            write(self.path, self.facts, self.notes(), run.state_dict())
        except (MtlError, MemoryError) as error:
            self.failed(error)
        self._due = time.monotonic() + self.every
        if end is not None:
            raise end

    def notes(self) -> Any:
        """Return a JSON value to store beside the state."""
        return None

    def resumed(self, notes: Any) -> None:
        """Receive the notes of the checkpoint that the run is resumed from."""

    def failed(self, error: Exception) -> None:
        """Report that a checkpoint could not be written; the last one is intact."""

    def leaving(self) -> BaseException | None:
        """Return the exception to raise after the checkpoint if the run must end here."""
        return None


def write(path: Path, facts: Mapping[str, Any], notes: Any, state: State) -> None:
    """Write a checkpoint in place of the last one; floats are written bit by bit."""
    floats = {name: value.hex() for name, value in state.items() if isinstance(value, float)}
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in state.items() if name not in floats and name not in arrays}
    described = {"format": FORMAT, "version": VERSION, "facts": facts, "notes": notes}
    archive.write(path, described | {"floats": floats, "scalars": scalars}, arrays)


def read(path: Path) -> tuple[dict[str, Any], Any, State]:
    """Return the facts, the notes and the state; its arrays are mapped and read-only."""
    try:
        header, arrays = archive.read(path)
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ModelFileError(f"{path}: expected a checkpoint of format {VERSION}, got something else")
        if not isinstance(header["facts"]["options"], dict):
            raise ModelFileError("its facts are missing")
        floats = {name: float.fromhex(value) for name, value in header["floats"].items()}
        return header["facts"], header["notes"], {**arrays, **header["scalars"], **floats}
    except (ModelFileError, *_WRONG_VALUES) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ModelFileError(
            f"{path}: this checkpoint cannot be read, remove it to start anew: {reason}"
        ) from None


def facts_of(
    data: str, names: Sequence[str], templates: TemplateSet, options: Mapping[str, Any], start: Model | None
) -> dict[str, Any]:
    """Return everything that a training depends on: digests (`data` is one) and options."""
    lists = {name: list(entries) for name, entries in templates.lists.items()}
    lines, model = [template.title for template in templates], None
    if start is not None:
        seen = hashlib.sha256(digest([template.title for template in start.templates]).encode())
        arrays: tuple[NDArray[Any], ...] = (start.mu, *start.weights)
        for array in arrays:
            seen.update(array.tobytes())
        model = seen.hexdigest()
    return {
        "mtlstruct": __version__,
        "data": data,
        "templates": digest([names, lines, lists]),
        "start model": model,
        "options": dict(options),
    }


def _check_facts(path: Path, stored: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    stored, now = ({**facts, **facts["options"], "options": None} for facts in (stored, now))
    other = []
    for name in sorted(stored.keys() | now.keys()):
        was, has = stored.get(name), now.get(name)
        digests = any(isinstance(value, str) and len(value) == 64 for value in (was, has))
        if was != has:
            other.append(f"other {name}" if digests else f"{name} was {was}, is {has}")
    if other:
        raise IncompatibleError(
            f"{path}: this is the checkpoint of another training: {'; '.join(other[:4])}; go on with the same data "
            "and options, or remove it to start anew"
        )
