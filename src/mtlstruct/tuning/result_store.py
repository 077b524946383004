"""A grid of runs: each cell is run once and kept as one JSON file, so that a grid can be gone on with after a kill.

A cell is named by its *facts*, a JSON object of everything that its result depends on: checksums of the data, the
templates, the options. The file is called after the hash of the facts and holds them beside the result, so a
folder of cells explains itself, and a changed input is another cell. What is done for a cell is none of this module's
business; `tuning` trains and scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol, TypeVar

from filelock import FileLock, Timeout

from mtlstruct._system.atomic_write import cannot_write, replacing
from mtlstruct._system.digest import digest
from mtlstruct._system.process_pool import Outcome, in_processes
from mtlstruct.errors import MtlError

FORMAT = "mtlstruct cell"
VERSION = 1

Options = TypeVar("Options")


@dataclass(frozen=True)
class Cell:
    """One run of a grid. `facts` is a JSON object: all that its result depends on, and nothing else."""

    facts: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name of its file: a hash of the facts."""
        return digest(self.facts)[:20]


def combinations(base: Options, axes: Mapping[str, Sequence[Any]]) -> list[Options]:
    """`base` (a dataclass) with every combination of the values of the named fields; the last axis runs fastest."""
    known = {field.name for field in fields(base)}  # type: ignore[arg-type]
    for name in axes:
        if name not in known:
            raise MtlError(f"there is no option {name!r} to vary: expected one of {', '.join(sorted(known))}")
    rows = product(*axes.values())
    return [replace(base, **dict(zip(axes, row, strict=True))) for row in rows]  # type: ignore[type-var]


class Store:
    """A folder of cells. A file is whole or not there; one that is not a cell of ours counts as not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return self.folder / f"{cell.key}.json"

    def load(self, cell: Cell) -> dict[str, Any] | None:
        """The result of a cell that has been run."""
        kept = _read(self.path(cell))
        return None if kept is None or kept[0] != json.loads(json.dumps(cell.facts)) else kept[1]

    def save(self, cell: Cell, result: Mapping[str, Any]) -> None:
        """Keeps a result."""
        content = {"format": FORMAT, "version": VERSION, "facts": cell.facts, "result": result}
        with replacing(self.path(cell)) as out:
            out.write(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1).encode() + b"\n")

    def __iter__(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Facts and result of every cell in the folder, in the order of their names."""
        found = (_read(path) for path in sorted(self.folder.glob("*.json")))
        return (kept for kept in found if kept is not None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder if need be, and keeps other runs out of it for the time of the block."""
        lock = FileLock(self.folder / ".lock", timeout=0)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            held = lock.acquire()
        except Timeout:
            raise MtlError(f"{self.folder}: another run is at work in this folder") from None
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        with held:  # released by the end of the process, too, however it comes
            yield


class HasCell(Protocol):
    """What is run for a cell: whatever the work needs to know, and the cell."""

    @property
    def cell(self) -> Cell:
        """Under which the result is kept."""
        ...


Run = TypeVar("Run", bound=HasCell)


def run(
    runs: Sequence[Run],
    store: Store,
    prepare: Callable[[], Callable[[Any], dict[str, Any]]],
    count: int,
    started: Callable[[Run], None] = lambda run: None,
    go_on: Callable[[], bool] = lambda: True,
) -> Generator[Outcome[Run], None, None]:
    """Does runs in `count` processes (see `processes.in_processes`) and keeps each result as soon as it is there."""
    for outcome in in_processes(prepare, runs, count, started, go_on):
        if outcome.failure is None:
            store.save(outcome.item.cell, outcome.result)
        yield outcome


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        content = json.loads(path.read_bytes())
        if (content["format"], content["version"]) != (FORMAT, VERSION):
            return None
        facts, result = content["facts"], content["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (facts, result) if isinstance(facts, dict) and isinstance(result, dict) else None
