"""The rows of a long benchmark, each written down as soon as it is known, so that a run can go on where one ended.

A row has a key, which names it, and a stamp, which says what its figures depend on: our code, or a peer's program and
what it was told. A row whose stamp is still right is not measured again unless that is asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from benchmarks import machine
from benchmarks.places import Missing

Row = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """How to measure, as the command line has it.

    limit       seconds that a single run may take; longer ones are stopped, and shown as such
    only        words of which a row's key must have one, if there are any
    again       whether rows are measured again that are known
    sentences   a trial on so many sentences of each training text, whose figures are kept apart
    case, off   parts of the names of the cases and mechanisms of `ablation` to measure, all if empty
    against     the checkout that `ablation` compares with, in place of mechanisms
    """

    repeat: int = 3
    limit: float = 900.0
    only: tuple[str, ...] = ()
    again: bool = False
    sentences: int | None = None
    case: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    against: Path | None = None

    def chosen(self, key: Mapping[str, str]) -> bool:
        """Whether a row is asked for."""
        named = (
            (self.only, " ".join(key.values())),
            (self.case, key.get("case", "")),
            (self.off, key.get("off", "")),
        )
        return all(not words or any(word in text for word in words) for words, text in named)

    def options(self) -> str:
        """As on the command line, without what only says which rows to measure."""
        limit = "" if self.limit == Ask.limit else f" --limit {self.limit:g}"
        cut = "" if self.sentences is None else f" --try {self.sentences}"
        return f"--repeat {self.repeat}{limit}{cut}"


@dataclass
class Book:
    """The rows of one benchmark, in the order in which they are asked for, and the file they are in."""

    name: str
    path: Path
    ask: Ask
    rows: list[Row] = field(default_factory=list)
    _known: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.is_file():
            found = json.loads(self.path.read_text("utf-8"))["rows"]
            self._known = {_named(row["key"]): row for row in found if "key" in row}

    def row(self, key: Mapping[str, str], stamp: str, make: Callable[[], Row]) -> Row | None:
        """The row of that key: as it is known, or measured now; None if it is neither known nor asked for."""
        name = _named(key)
        known = self._known.pop(name, None)
        if self.ask.chosen(key) and (self.ask.again or known is None or self._stale(known, stamp)):
            print(f"  {name} …", file=sys.stderr)
            known = self._measured(key, stamp, make)
        if known is not None:
            self.rows.append(known)
            self._write([*self.rows, *self._known.values()])
        return known

    def close(self) -> None:
        """Drops what nobody has asked for: rows of what is measured no more."""
        self._write(self.rows)

    def _stale(self, row: Row, stamp: str) -> bool:
        """Whether its figures are of something else; one that was stopped may go on for longer."""
        return (
            row["stamp"] != stamp
            or "missing" in row
            or bool(row.get("stopped") and row["limit"] < self.ask.limit)
        )

    def _measured(self, key: Mapping[str, str], stamp: str, make: Callable[[], Row]) -> Row:
        try:
            found = make()
        except Missing as reason:
            found = {"missing": str(reason)}
        except CalledProcessError as failed:  # a peer without memory is a row, not the end of the run
            found = {"missing": f"failed: {Path(failed.cmd[0]).name} ended with code {failed.returncode}"}
        facts = {"date": machine.today(), "load": round(os.getloadavg()[0], 1), "limit": self.ask.limit}
        return {"key": dict(key), **key, **found, "stamp": stamp, **facts}

    def _write(self, rows: list[Row]) -> None:
        command = f"python -m benchmarks {self.name} {self.ask.options()}"
        keep(self.path, self.name, command, machine.source(), rows)


def keep(path: Path, name: str, command: str, code: str, rows: list[Row]) -> None:
    """Writes the results of a benchmark; the file is never half a file."""
    found = {
        "benchmark": name,
        "command": command,
        "machine": machine.facts(),
        "source": code,
        "load": round(os.getloadavg()[0], 1),
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    part.replace(path)


def _named(key: Mapping[str, str]) -> str:
    return " · ".join(key.values())
