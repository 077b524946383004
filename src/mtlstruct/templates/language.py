"""The template language of CRF++, read exactly: text <-> TemplateSet.

One template a line: the first letter is its kind (U looks at y_t, B at y_{t−1} and y_t), `%x[row,column]` is
a cell relative to the current position, and everything else stands for itself. Blank lines and lines that
start with `#` are skipped. Position in the set, not the name, identifies a template: real files repeat names.

Refused, each with the line and usually the character: another first letter (CRF++ drops such lines in
silence), blanks before it, a `%` that opens no known macro, blanks or `+` inside a macro, rows beyond
±MAX_ROW, NUL characters, and a file without templates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from mtlstruct.errors import MtlError, TemplateError

KINDS = ("U", "B")
"""Observation with one label, observation with two neighbouring labels."""

MAX_ROW = 255
"""The farthest a cell may lie from the current position (CRF++ itself stops at 8)."""

MAX_COLUMN = 999_999
"""More columns than any data has: a column beyond it is a slip of the keyboard."""

_MACRO = re.compile(r"%x\[(-?)([0-9]+),([0-9]+)\]")
_EXPECTED = "expected %x[row,column] with a row like -1, 0 or 1 and a column like 0, without blanks or '+'"
_SHOWN = 200  # characters of a line or macro that a message repeats


@dataclass(frozen=True)
class Term:
    """One macro: the cell it looks at, and the function of that cell ("" for the cell itself, `%x`)."""

    row: int
    column: int
    function: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Template:
    """One line of a template file; equal lines are equal templates, wherever they stand.

    text     the line as the user wrote it, without its line end
    name     what stands before the first ':', or else before the first macro
    kind     "U" or "B"
    pieces   the literal text around the terms, len(terms) + 1 strings
    line     where it stood, from 1
    """

    text: str
    name: str
    kind: str
    pieces: tuple[str, ...]
    terms: tuple[Term, ...]
    line: int = field(compare=False)


@dataclass(frozen=True)
class TemplateSet(Sequence[Template]):
    """Templates in order, immutable; position = template number = block of the weights.

    source   the text they were parsed from, comments and all; `line` of each template points into it,
             in a selection too, so that the user's own file can be written back
    """

    templates: tuple[Template, ...]
    path: str = field(default="templates", compare=False)
    source: str = field(default="", compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, path: str | Path = "templates") -> TemplateSet:
        """Reads template lines; `path` is what messages call them."""
        lines = [_Line(line, number, str(path)) for number, line in enumerate(_lines(text), 1)]
        templates = tuple(_template(line) for line in lines if not _skipped(line.text))
        if not templates:
            raise TemplateError("expected at least one template line, got none", path=path)
        return cls(templates, str(path), text)

    @classmethod
    def read(cls, path: str | Path) -> TemplateSet:
        """Reads a template file: UTF-8, with or without BOM, LF or CRLF."""
        try:
            data = Path(path).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a path no file can have
            reason = getattr(error, "strerror", None) or error
            raise MtlError(f"{path}: expected a readable template file, got: {reason}") from error
        return cls.parse(_decoded(data, path), path)

    def text(self) -> str:
        """The inverse of parse, without blank lines and comments."""
        return "".join(template.text + "\n" for template in self.templates)

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines of the source without line ends: template t stands at lines[t.line - 1]."""
        return tuple(_lines(self.source))

    def select(self, indices: Iterable[int]) -> TemplateSet:
        """The smaller set with these templates, in the order given."""
        return replace(self, templates=tuple(self.templates[index] for index in indices))

    def columns(self) -> frozenset[int]:
        """The data columns that are looked at."""
        return frozenset(term.column for term in self._terms())

    def reach(self) -> tuple[int, int]:
        """How far templates look (before, after) the current position; both are at least 0."""
        rows = [0, *(term.row for term in self._terms())]
        return -min(rows), max(rows)

    def check_columns(self, count: int) -> None:
        """Refuses a template that names a column which data with `count` observation columns lacks."""
        for template in self.templates:
            for term in template.terms:
                if term.column >= count:
                    problem = f"template names column {term.column}, but the data has {_columns(count)}"
                    raise _Line(template.text, template.line, self.path).error(problem)

    def __len__(self) -> int:
        return len(self.templates)

    def __iter__(self) -> Iterator[Template]:
        return iter(self.templates)

    @overload
    def __getitem__(self, index: int) -> Template: ...
    @overload
    def __getitem__(self, index: slice) -> TemplateSet: ...
    def __getitem__(self, index: int | slice) -> Template | TemplateSet:
        if isinstance(index, slice):
            return replace(self, templates=self.templates[index])
        return self.templates[index]

    def _terms(self) -> Iterator[Term]:
        return (term for template in self.templates for term in template.terms)


def boundary(k: int) -> str:
    """A cell outside the sentence: k = −1, −2, … before its first token, k = 1, 2, … after its last."""
    if k == 0:
        raise ValueError("expected a distance other than 0: a cell at the edge is inside the sentence")
    return f"_B{k:+d}"


def expand(template: Template, cells: Callable[[int, int], str]) -> str:
    """The template's string at one position; cells(row, column) reads a cell, boundaries included.

    The slow and obvious definition, for tests and explanations.
    """
    values = [cells(term.row, term.column) for term in template.terms]
    return template.pieces[0] + "".join(
        value + piece for value, piece in zip(values, template.pieces[1:], strict=True)
    )


def skeleton(template: Template) -> tuple[str, ...]:
    """The literal pieces: templates with equal skeletons expand alike where their cells agree."""
    return template.pieces


@dataclass(frozen=True)
class _Line:
    """A line and where it stands: what every message needs."""

    text: str
    number: int
    path: str

    def error(self, problem: str, column: int | None = None) -> TemplateError:
        """The error for this line; column: the character it is about, from 1."""
        return TemplateError(
            problem, text=_clipped(self.text), line=self.number, column=column, path=self.path
        )


def _decoded(data: bytes, path: str | Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8, got byte 0x{data[error.start]:02x} at offset {error.start}"
        line = data.count(b"\n", 0, error.start) + 1
        raise TemplateError(problem, line=line, path=path) from error


def _lines(text: str) -> list[str]:
    # Not splitlines: it also cuts at characters that are ordinary text here, such as U+2028.
    return [line.rstrip("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _skipped(text: str) -> bool:
    return not text.strip() or text.startswith("#")


def _template(line: _Line) -> Template:
    _check_kind(line)
    _check_characters(line)
    pieces, terms = _split(line)
    name = pieces[0].partition(":")[0]
    return Template(line.text, name, line.text[0], pieces, terms, line.number)


def _check_kind(line: _Line) -> None:
    first = line.text[0]
    if first.isspace():
        raise line.error("expected U or B as the first character, got a blank before the template", 1)
    if first not in KINDS:
        raise line.error(f"expected U or B as the first character, got {first!r}", 1)


def _check_characters(line: _Line) -> None:
    odd = re.search("[\0\r\ud800-\udfff]", line.text)
    if odd is None:
        return
    got = {"\0": "a NUL character", "\r": "a carriage return inside the line"}
    raise line.error(f"expected text, got {got.get(odd[0], 'half of a surrogate pair')}", odd.start() + 1)


def _split(line: _Line) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """Cuts a line into literal pieces and the terms between them."""
    pieces: list[str] = []
    terms: list[Term] = []
    start = 0
    while (at := line.text.find("%", start)) >= 0:
        term, end = _term(line, at)
        pieces.append(line.text[start:at])
        terms.append(term)
        start = end
    return (*pieces, line.text[start:]), tuple(terms)


def _term(line: _Line, at: int) -> tuple[Term, int]:
    """The macro that opens at character `at`, and where it ends."""
    macro = _MACRO.match(line.text, at)
    if macro is None:
        raise line.error(_macro_problem(line.text[at:]), at + 1)
    sign, row, column = macro[1], _number(macro[2]), _number(macro[3])
    if row > MAX_ROW:
        raise line.error(f"row offset beyond ±{MAX_ROW}, got {_clipped(macro[0])}", at + 1)
    if column > MAX_COLUMN:
        raise line.error(f"column beyond {MAX_COLUMN}, got {_clipped(macro[0])}", at + 1)
    return Term(-row if sign else row, column), macro.end()


def _macro_problem(rest: str) -> str:
    """Why `rest`, which starts with %, starts with no macro."""
    if not rest.startswith("%x"):
        return f"unknown macro {rest[:2]!r}: expected %x[row,column]"
    opened, closing, _ = rest.partition("]")
    return f"{_EXPECTED}, got {_clipped(opened + closing)!r}"


def _number(digits: str) -> int:
    # Ten significant digits are beyond every limit; int() itself refuses a few thousand.
    return int(digits.lstrip("0")[:10] or "0")


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _columns(count: int) -> str:
    if count == 0:
        return "no observation columns"
    return "1 observation column (0)" if count == 1 else f"{count} observation columns (0..{count - 1})"
