"""Results of trainings in one JSON-lines file, so that an interrupted grid is resumed.

A line holds the result of one training, its *facts* (a JSON object of everything that the result
depends on: checksums of the data, the templates, the options) and their digest as the key. Changed
inputs have another key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from mtlstruct._system.atomic_write import cannot_write
from mtlstruct._system.digest import digest
from mtlstruct.errors import MtlError

FILE = "results.jsonl"

Options = TypeVar("Options")
Facts = Mapping[str, Any]
Result = Mapping[str, Any]


def combinations(base: Options, axes: Mapping[str, Sequence[Any]]) -> list[Options]:
    """Return the dataclass `base` with every combination of the values of the named fields.

    The last axis varies fastest.
    """
    known = {field.name for field in fields(base)}  # type: ignore[arg-type]
    for name in axes:
        if name not in known:
            raise MtlError(f"there is no option {name!r} to vary: expected one of {', '.join(sorted(known))}")
    rows = product(*axes.values())
    return [replace(base, **dict(zip(axes, row, strict=True))) for row in rows]  # type: ignore[type-var]


def key_of(facts: Facts) -> str:
    """Return the key of a result: a digest of its facts."""
    return digest(facts)[:20]


class Store:
    """Results in a folder, or in memory if there is none. Incomplete lines are ignored."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.path = None if folder is None else folder / FILE
        lines = () if self.path is None else _read(self.path)
        self._lines = {line["key"]: line for line in lines}

    def load(self, key: str) -> Result | None:
        """Return the result of a key, or None."""
        return self._lines[key]["result"] if key in self._lines else None

    def save(self, facts: Facts, result: Result) -> None:
        """Append a result to the file, if there is one, and wait until it is on disk."""
        line = {"key": key_of(facts), "facts": facts, "result": result}
        text = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        if self.path is not None:
            _append(self.path, text)
        self._lines[line["key"]] = json.loads(text)

    def __iter__(self) -> Iterator[tuple[Facts, Result]]:
        """Yield facts and result of every training, in the order of the file."""
        return ((line["facts"], line["result"]) for line in self._lines.values())


def _append(path: Path, text: bytes) -> None:
    try:
        with open(path, "a+b") as file:
            if file.tell():  # a killed run may have left an incomplete line
                file.seek(-1, os.SEEK_END)
                text = text if file.read(1) == b"\n" else b"\n" + text
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from None


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of a file; a file that does not exist has none.

    Raise an error for a file that holds something else: results would be appended to it.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise MtlError(f"{path}: cannot be read: {error.strerror or error}") from None
    found = [line for line in map(_line, lines) if line is not None]
    if not found and not all(b'{"key": "'.startswith(text[:9]) for text in lines):
        raise MtlError(f"{path}: expected a new file or results of earlier trainings, got something else")
    yield from found


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and {"key", "facts", "result"} <= line.keys() else None
