"""Terms and templates: cells seen through functions, literal text around them; lines of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mtlstruct.errors import MtlError, TemplateError, shortened
from mtlstruct.templates.functions import FUNCTIONS, QUOTED, Lists, bound

NO_COLUMN = -1
"""The column of a term that names it (`name`) and is not resolved yet, or looks at no cell."""

MAX_CELLS = 100
"""Cells of a template."""

MAX_FILE_BYTES = 256 << 20
"""Size of a template or list file."""

MAX_ROW = 255
"""The farthest a cell may lie from the current position (CRF++ itself stops at 8)."""

MAX_COLUMN = 999_999
"""More columns than any data has: a column beyond it is a slip of the keyboard."""


@dataclass(frozen=True, order=True)
class Term:
    """A macro: a cell and a function of it ("" for the cell itself, `%x`).

    absolute   `row` counts from the sentence's first token (1, 2, …) or from its last (-1, -2, …)
               instead; of the words between two others from the first or last of these
    anchor     what `row` is counted from: "" the current token, else of an arc (see arcs.py)
    name       the column's name, where it was named; in quotes one that must be met to the letter
               (`quoted`)
    """

    row: int
    column: int
    function: str = ""
    arguments: tuple[str, ...] = ()
    absolute: bool = False
    anchor: str = ""
    name: str = ""

    @property
    def sees(self) -> bool:
        """Whether it reads a cell; functions of an arc do not."""
        return self.column != NO_COLUMN or bool(self.name)

    def text(self) -> str:
        """Return the macro in our language."""
        if not self.sees:
            return f"%{self.function}[{','.join(self.anchor)}]"
        kinds = FUNCTIONS[self.function].arguments if self.function else ()
        given = [f'"{a}"' if kind in QUOTED else a for a, kind in zip(self.arguments, kinds, strict=True)]
        row = f"@{self.row}" if self.absolute else f"{self.row:{'+' if self.anchor else ''}d}"
        row = "" if self.anchor and not self.row else row
        place = [f"{self.anchor}{row}", self.name or str(self.column), *given]
        return f"%{self.function or 'x'}[{','.join(place)}]"


@dataclass(frozen=True)
class Template:
    """One template line; equal lines are equal templates, wherever they stand.

    text     the line in our language, without its line end: as the user wrote it, or as a dialect
             was translated
    name     what stands before the first ':', or else before the first macro
    kind     what it looks at beside cells: "U" one label, "B" two neighbouring labels, "A" an arc
             of a tree
    pieces   the literal text around the terms, len(terms) + 1 strings; templates with equal pieces
             expand alike where their cells agree
    line     where it stood, from 1
    others   further lines that have their features in common with this one (TemplateSet.shared)
    """

    text: str
    name: str
    kind: str
    pieces: tuple[str, ...]
    terms: tuple[Term, ...]
    line: int = field(compare=False)
    others: tuple[Template, ...] = ()

    @property
    def members(self) -> tuple[Template, ...]:
        """The lines of this template: itself and, if identical lines are shared, the others."""
        return (self, *self.others)

    @property
    def title(self) -> str:
        """All of its lines, joined by +."""
        return " + ".join(member.text for member in self.members)


def written(pieces: tuple[str, ...], terms: tuple[Term, ...]) -> str:
    """Return the line of these pieces and terms."""
    rest = (term.text() + piece for term, piece in zip(terms, pieces[1:], strict=True))
    return pieces[0] + "".join(rest)


def quoted(name: str) -> str:
    """Return any name of a column as macros write it: a JSON string."""
    return json.dumps(name, ensure_ascii=False)


def boundary(k: int) -> str:
    """Return the cell k = −1, −2, … before the first token or k = 1, 2, … after the last."""
    if k == 0:
        raise ValueError("expected a distance other than 0: a cell at the edge is inside the sentence")
    return f"_B{k:+d}"


def expand(template: Template, cells: Callable[..., str], lists: Mapping[str, Lists] | None = None) -> str:
    """Return the template's string at one position; cells(row, column) reads a cell or a mark.

    A term that counts from the edge asks for cells(row, column, True). The slow and obvious
    definition, for tests and explanations.
    """
    found = template.pieces[0]
    for term, piece in zip(template.terms, template.pieces[1:], strict=True):
        place = (term.row, term.column, True) if term.absolute else (term.row, term.column)
        found += bound(term.function, term.arguments, lists or {})(cells(*place)) + piece
    return found


@dataclass(frozen=True)
class Line:
    """A line of a file."""

    text: str
    number: int
    path: str

    def error(self, problem: str, column: int | None = None) -> TemplateError:
        """Return an error about this line; column: the character it is about, from 1."""
        return TemplateError(
            problem, text=shortened(self.text, 100), line=self.number, column=column, path=self.path
        )

    def bad_macro(self, at: int, expected: str) -> TemplateError:
        """Return an error about the macro that opens at a position."""
        opened, closing, _ = self.text[at:].partition("]")
        return self.error(f"expected {expected}, got {shortened(opened + closing, 100)!r}", at + 1)


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends, LF or CRLF."""
    # Not splitlines: it also cuts at characters that are ordinary text here, such as U+2028.
    return [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]


def numbered(text: str, path: str | Path) -> list[Line]:
    """Return all lines of a file, blank ones and comments included."""
    return [Line(line, number, str(path)) for number, line in enumerate(split_lines(text), 1)]


def read_text(path: str | Path, what: str) -> str:
    """Return the text of a UTF-8 file; `what` is its name in messages."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)  # a name in a file may mean a device that never ends
    except (OSError, ValueError) as problem:  # ValueError: a path no file can have
        reason = getattr(problem, "strerror", None) or problem
        raise MtlError(f"{path}: cannot read the {what}: {reason}") from problem
    if len(data) > MAX_FILE_BYTES:
        raise MtlError(f"{path}: expected a {what} of at most {MAX_FILE_BYTES >> 20} MB, got more")
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        got = f"expected UTF-8, got byte 0x{data[problem.start]:02x} at offset {problem.start}"
        raise TemplateError(got, line=data.count(b"\n", 0, problem.start) + 1, path=path) from problem
