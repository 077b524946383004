"""Bytes to lines, for every text format: one place that decodes, and says where it could not.

A line ends at LF or CRLF and nowhere else; a byte order mark at the start is dropped. Rejected, with the line:
bytes that are not text in the encoding, and NUL. Rejected at once: an encoding in which a line end is not the
single byte LF (UTF-16, UTF-32, EBCDIC), since streams are cut there before they are decoded, and one that spells
characters by runs of ASCII (UTF-7, unicode_escape, idna), which are escapes rather than text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column
from mtlstruct.errors import FormatError, IncompatibleError

PROBE = b"\\x41\\u0041+AGE-~{0z..xn--a-"
"""ASCII that every encoding of text reads a character a byte, and every encoding of escapes does not."""


@dataclass(frozen=True)
class Part:
    """Some bytes of a file, from the beginning of a line to the end of one; may be read wherever a file may."""

    path: Path
    start: int
    stop: int

    def __str__(self) -> str:
        return str(self.path)

    def read_bytes(self) -> bytes:
        """The bytes."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)

    def lines_before(self) -> int:
        """How many lines of the file come before."""
        return Part(self.path, 0, self.start).read_bytes().count(b"\n") if self.start else 0


def load(path: str | Path | Part, encoding: str = "utf-8") -> str:
    """A whole file, or a part of one: lines joined by LF, none after the last."""
    check_encoding(encoding, str(path))
    try:
        raw = path.read_bytes() if isinstance(path, Part) else Path(path).read_bytes()
    except OSError as error:
        raise FormatError(str(path), None, f"cannot be read: {error.strerror or error}") from None
    return decode(raw.removesuffix(b"\n"), str(path), encoding)


def blocks(
    stream: BinaryIO, source: str, encoding: str = "utf-8", size: int = 1 << 18
) -> Iterator[tuple[int, str]]:
    """Runs of whole lines joined by LF, and the number of their first: a run for each read of up to `size`.

    read1 returns what a pipe holds at that moment, so lines typed by hand come one by one and lines from a
    fast writer come by the thousand, with no clock and no guess about who is at the other end.
    """
    check_encoding(encoding, source)
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    first, pending = 1, [b""]
    while chunk := read(max(1, size)):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            pending.append(tail)  # joined once: adding to a bytes would be quadratic in a very long line
            continue
        raw = b"".join([*pending, head])
        yield first, decode(raw, source, encoding, first)
        first, pending = first + raw.count(b"\n") + 1, [tail]
    if raw := b"".join(pending):
        yield first, decode(raw, source, encoding, first)


def decode(raw: bytes, source: str | Path, encoding: str, first: int = 1) -> str:
    """Whole lines as text; `first` is the number of the first line, for messages."""
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise _bad_byte(raw, error.start, source, encoding, first) from None
    if "\0" in text:
        line = first + text.count("\n", 0, text.index("\0"))
        raise FormatError(source, line, "expected text, got a NUL byte")
    if first == 1:
        text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").removesuffix("\r")


def _bad_byte(raw: bytes, at: int, source: str | Path, encoding: str, first: int) -> FormatError:
    line = first + raw.count(b"\n", 0, at)
    offset = at - (raw.rfind(b"\n", 0, at) + 1)
    return FormatError(source, line, f"expected {encoding} text, got byte 0x{raw[at]:02x} at offset {offset}")


def check_encoding(encoding: str, source: str | Path) -> None:
    """Reject encodings that are unknown, that hide line ends, or that are escapes."""
    try:
        plain = b"\n".decode(encoding) == "\n" and len(PROBE.decode(encoding)) == len(PROBE)
    except UnicodeError:
        plain = False
    except (LookupError, ValueError):  # ValueError: a name with a NUL in it
        raise FormatError(source, None, f"expected the name of a text encoding, got {encoding!r}") from None
    if not plain:
        problem = f"expected an encoding with one-byte line ends, got {encoding!r}; convert the file to utf-8"
        raise FormatError(source, None, problem)


def tidy(text: str, blanks: str = "\t") -> list[str]:
    """The lines of a text, where every run of spaces or other `blanks` is one space, with none at the ends.

    A few passes in C over the whole instead of a regular expression for each line. str.split() is of no use
    here, it takes U+0085, U+00A0, U+2028 and others for blanks.
    """
    for blank in blanks:
        text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ").split("\n")


def end_of_sentences(lines: Sequence[str]) -> int:
    """Return how many lines there are up to the last blank one, which is included; 0 if there is none."""
    return next((i + 1 for i in reversed(range(len(lines))) if not lines[i].strip(" \t")), 0)


def column(cells: Sequence[str]) -> Column:
    """A column of these cells, numbered by first appearance, in two passes that never leave C."""
    numbers = dict(zip(dict.fromkeys(cells), count()))
    ids = np.fromiter(map(numbers.__getitem__, cells), np.int32, len(cells))
    return Column(ids, list(numbers))


def named(ids: NDArray[np.int32], labels: Sequence[str]) -> list[str]:
    """The label strings of ids. UNKNOWN is refused: as an index it would quietly mean the last label."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(labels):
        got = f"{int(ids.min())} to {int(ids.max())}"
        raise IncompatibleError(f"expected label ids from 0 to {len(labels) - 1}, got {got}")
    return [labels[i] for i in ids.tolist()]
