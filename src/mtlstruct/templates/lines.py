"""Lines of a template file and their positions, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mtlstruct.errors import MtlError, TemplateError, shortened

MAX_FILE_BYTES = 256 << 20
"""Size of a template or list file."""


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
