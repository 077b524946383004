"""Checkpoints: the state of a run in one file, written now and then, from which a later run goes on to the same bits.

The file is a container like that of models: plain arrays and JSON, a digest over the whole file, written
completely or not at all. Beside the state it holds the *facts*, everything that the run depends on, and a
run with other facts is refused. An array that is mostly zeros is kept as what is in it, which makes the
dual of a large corpus small.

Refused: a checkpoint of other data, options or versions; one that nobody asked to go on from; a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import re
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
from mtlstruct._system.stateful import Keeper, Kept, State
from mtlstruct.errors import IncompatibleError, ModelFileError, MtlError
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet

FORMAT = "mtlstruct checkpoint"
VERSION = 2
SUFFIX = ".checkpoint"

_PLAIN = re.compile("[<|][bui][1248]|<f[248]")
"""Types of arrays. numpy would take any text for one, and try to make sense of it."""

_WRONG = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError)
"""What values that no run has written can lead to: of other kinds, beyond all limits, of absurd sizes."""

SPARSE = 4
"""An array is kept by its entries if that takes this many times less room."""


class Checkpoint(Keeper):
    """Writes the state of a run to `path` at the first safe place after `every` seconds, again and again.

    What goes beside the state, what is said, and when to leave is up to subclasses.
    """

    def __init__(self, path: Path, every: float) -> None:
        self.path, self.every = path, every
        self.learning = False
        self.facts: Mapping[str, Any] = {}
        self._state: State | None = None
        self._due = 0.0

    def open(self, facts: Mapping[str, Any]) -> None:
        """Before anything else: what the run depends on. Reads what an earlier run has left, if it was the same."""
        check_writable(self.path)
        self.facts = json.loads(json.dumps(facts))
        if self.path.exists():
            header, self._state = read(self.path)
            _check_facts(self.path, header["facts"], self.facts)
            self.resumed(header["notes"])

    def begin(self, run: Kept) -> None:
        """Takes the run to where the earlier one was; from now on there are safe places."""
        run.pack()  # what cannot be kept says so before the first pass
        if self._state is not None:
            _unpack(self.path, run, self._state)
            self._state = None
        self.learning = True
        self._wait()

    def safe(self, run: Kept) -> None:
        """Writes if it is time, or if this is the last place."""
        end = self.leaving()
        if end is None and time.monotonic() < self._due:
            return
        try:
            write(self.path, self.facts, self.notes(), run.pack())
        except (MtlError, MemoryError) as error:
            self.failed(error)
        self._wait()
        if end is not None:
            raise end

    def _wait(self) -> None:
        self._due = time.monotonic() + self.every

    def notes(self) -> Any:
        """A JSON value to keep beside the state."""
        return None

    def resumed(self, notes: Any) -> None:
        """The notes of the checkpoint that the run goes on from."""

    def failed(self, error: Exception) -> None:
        """A checkpoint could not be written; the last one is still there, and the next will be tried."""

    def leaving(self) -> BaseException | None:
        """What to raise when the checkpoint is written, if the run is to end here."""
        return None


def write(path: Path, facts: Mapping[str, Any], notes: Any, state: State) -> None:
    """One checkpoint in the place of the last."""
    arrays: dict[str, NDArray[Any]] = {}
    content = {name: _flat(value, name, arrays) for name, value in (("state", state), ("notes", notes))}
    archive.write(path, {"format": FORMAT, "version": VERSION, "facts": facts, **content}, arrays)


def read(path: Path) -> tuple[dict[str, Any], State]:
    """The header with its facts and notes, and the state, on arrays that are mapped: not to be written to."""
    try:
        header, arrays = archive.read(path)
        if header.get("format") != FORMAT or header.get("version") != VERSION:
            raise ModelFileError(f"{path}: expected a checkpoint of format {VERSION}, got something else")
        if not isinstance(header["facts"]["options"], dict):
            raise ModelFileError("its facts are missing")
        header["notes"] = _full(header["notes"], arrays)
        return header, _full(header["state"], arrays)
    except (ModelFileError, *_WRONG) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ModelFileError(
            f"{path}: this checkpoint cannot be read, remove it to start anew: {reason}"
        ) from None


def _unpack(path: Path, run: Kept, state: State) -> None:
    try:
        run.unpack(state)
    except _WRONG as error:
        raise ModelFileError(
            f"{path}: this checkpoint does not hold what it should, remove it to start anew: {error!r}"
        ) from None


def facts_of(
    data: str, names: Sequence[str], templates: TemplateSet, options: Mapping[str, Any], start: Model | None
) -> dict[str, Any]:
    """What a training depends on, and nothing else: checksums, of which `data` is one, and the options as they are.

    names    of the columns, if they have any
    """
    lists = {name: list(entries) for name, entries in templates.lists.items()}
    lines = [template.title for template in templates]
    return {
        "mtlstruct": __version__,
        "data": data,
        "templates": digest([names, lines, lists]),
        "start model": None if start is None else _model_digest(start),
        "options": dict(options),
    }


def _model_digest(model: Model) -> str:
    seen = hashlib.sha256(digest([template.title for template in model.templates]).encode())
    arrays: tuple[NDArray[Any], ...] = (model.mu, *model.weights)
    for array in arrays:
        seen.update(array.tobytes())
    return seen.hexdigest()


def _check_facts(path: Path, kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    kept, now = ({**facts, **facts["options"], "options": None} for facts in (kept, now))
    names = sorted(kept.keys() | now.keys())
    other = [_told(name, kept.get(name), now.get(name)) for name in names if kept.get(name) != now.get(name)]
    if other:
        raise IncompatibleError(
            f"{path}: this is the checkpoint of another training: {'; '.join(other[:4])}; go on with the same data "
            "and options, or remove it to start anew"
        )


def _told(name: str, was: Any, now: Any) -> str:
    sums = [value for value in (was, now) if isinstance(value, str) and len(value) == 64]
    return f"other {name}" if sums else f"{name} was {was}, is {now}"


def _flat(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """JSON, with arrays put aside by name. Floats are kept bit by bit, infinite ones too."""
    if isinstance(value, np.ndarray):
        return _put_aside(value, name, arrays)
    if isinstance(value, bool) or not isinstance(value, float | dict | list):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, list):
        return [_flat(item, f"{name}/{k}", arrays) for k, item in enumerate(value)]
    return {"dict": {key: _flat(item, f"{name}/{key}", arrays) for key, item in value.items()}}


def _full(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_full(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {key: _full(item, arrays) for key, item in value["dict"].items()}
    return float.fromhex(value["float"]) if "float" in value else _take_back(value, arrays)


def _put_aside(array: NDArray[Any], name: str, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(np.dtype(f"u{flat.itemsize}"))  # minus zero is not zero here
    room = np.count_nonzero(bits) * (8 + flat.itemsize)
    if SPARSE * room < flat.nbytes:
        arrays[f"{name}.at"] = np.flatnonzero(bits)
        flat = flat[arrays[f"{name}.at"]]
    arrays[name] = flat if flat.dtype.str in archive.DTYPES else flat.view(np.uint8)
    return {"array": name, "dtype": array.dtype.str, "shape": list(array.shape)}


def _take_back(kept: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    name, kind, shape = kept["array"], kept["dtype"], kept["shape"]
    if not _PLAIN.fullmatch(kind):
        raise ValueError(f"an array of type {kind[:60]!r}")
    dtype = np.dtype(kind)
    values: NDArray[Any] = arrays[name].view(dtype)
    at = arrays.get(f"{name}.at")
    if at is None:
        return values.reshape(shape)
    out: NDArray[Any] = np.zeros(shape, dtype)
    out.reshape(-1)[at] = values
    return out
