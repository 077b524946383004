"""Bytes to lines for all text formats: decompressed, decoded, with the line of what is invalid.

A line ends at LF or CRLF only. Streams are split before they are decoded, so encodings are rejected
in which a line end is not the single byte LF (UTF-16, EBCDIC), and those that write characters as
runs of ASCII (UTF-7, idna). Input may have no end: a line beyond MAX_LINE bytes, or text that does
not fit into memory, is rejected while it is read.
"""

import codecs
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory
from mtlstruct.corpus import MOST_COLUMNS, Column, LazyColumns
from mtlstruct.errors import FormatError, IncompatibleError, MtlError

OTHER_ENCODINGS = ("gb18030", "cp1252", "latin-1")
"""Encodings to try, in this order, for a file that cannot be decoded."""

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""

GZIP_BITS = 16 + zlib.MAX_WBITS

MAX_LINE = 64_000_000
"""Bytes of a line: what is longer is no text."""

CHUNK = 1 << 20
"""Bytes of a whole file that are read, or decompressed, at a time."""

MAX_DIRECT_LINES = 100
"""Lines that are read without arrays, which take longer to make than the lines to divide."""

PIPE_BYTES = 1 << 16
"""What a pipe holds; a larger buffer for each read would take longer to make than a line."""

PROBE = b"\\x41\\u0041+AGE-~{0z..xn--a-"
"""ASCII that encodings of text read as one character per byte, and encodings of escapes do not."""

CODE_POINTS = ("utf-32-le" if sys.byteorder == "little" else "utf-32-be", "surrogatepass")
"""The encoding, and treatment of errors, by which text becomes an array of code points."""


@dataclass(frozen=True)
class Part:
    """Bytes start:stop of a file, whole lines; readers take it in place of a path."""

    path: Path
    start: int
    stop: int

    def __str__(self) -> str:
        return str(self.path)

    def read_bytes(self) -> bytes:
        """Return the bytes."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


def load(path: str | Path | Part, encoding: str = "utf-8") -> str:
    """Return the text of a file, or of a part of one, without the LF after the last line."""
    check_encoding(encoding, str(path))
    return decode(load_bytes(path).removesuffix(b"\n"), str(path), encoding)


def load_bytes(path: str | Path | Part) -> bytes:
    """Return the bytes of a file of lines, or of a part of one; raise if it has no end."""
    found, size = [], 0
    try:
        part = path.read_bytes() if isinstance(path, Part) else b""
        if part.startswith(GZIP):
            raise FormatError(str(path), None, "expected text, since a gzip file cannot be split into shards")
        with io.BytesIO(part) if isinstance(path, Part) else open(path, "rb") as file:
            for chunk in _chunks(file, str(path), CHUNK):
                found.append(chunk)
                size = _grown(size, chunk, str(path))
    except MtlError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path no file can have
        reason = getattr(error, "strerror", None) or error
        raise FormatError(str(path), None, f"cannot be read: {reason}") from None
    return b"".join(found)


def _grown(size: int, more: Sized, source: str) -> int:
    """Return size + len(more); every MAX_LINE raise an error if text of that size does not fit."""
    if (size + len(more)) // MAX_LINE > size // MAX_LINE:
        memory.ensure(4 * size, f"{source}: reading {size:,} bytes and more")
    return size + len(more)


def blocks(
    stream: BinaryIO, source: str, encoding: str = "utf-8", size: int = 1 << 18, *, sentences: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield whole lines joined by LF, with the number of the first: one block per read.

    read1 returns what a pipe holds at that moment, so lines typed by hand come one by one and lines
    from a fast writer by the thousand. With `sentences`, blocks end at a blank line, or with the
    input.
    """
    check_encoding(encoding, source)
    first, held, pending, line = 1, 0, [b""], [b""]
    for chunk in _chunks(stream, source, max(1, size)):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            line.append(tail)  # joined once: adding to a bytes would be quadratic in a very long line
            continue
        lines, line = b"".join([*line, head, newline]), [tail]
        end = _after_blank_line(lines) if sentences else len(lines)
        if end:
            raw = b"".join([*pending, lines[:end]])
            yield first, decode(raw[:-1], source, encoding, first)
            first, held, pending = first + raw.count(b"\n"), 0, []
        pending.append(lines[end:])
        held = _grown(held, pending[-1], source)
    if raw := b"".join([*pending, *line]):
        yield first, decode(raw.removesuffix(b"\n"), source, encoding, first)


def _after_blank_line(lines: bytes) -> int:
    """Return where the last blank line ends; 0 without one."""
    stop = len(lines)
    while stop:
        start = lines.rfind(b"\n", 0, stop - 1) + 1
        if not lines[start : stop - 1].removesuffix(b"\r").strip(b" \t"):
            return stop
        stop = start
    return 0


def _chunks(stream: BinaryIO, source: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a stream, one chunk per read; raise for a line beyond MAX_LINE."""
    line, length = 1, 0
    for chunk in _plain_chunks(stream, source, size):
        ends = chunk.count(b"\n")
        line, length = line + ends, len(chunk) - chunk.rfind(b"\n") - 1 + (0 if ends else length)
        if length > MAX_LINE:
            raise FormatError(source, line, f"expected lines of at most {MAX_LINE:,} bytes, got a longer one")
        yield chunk


def _plain_chunks(stream: BinaryIO, source: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a stream, one chunk per read, decompressed if it is a gzip file."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    size = size if stream.seekable() else min(size, PIPE_BYTES)
    chunk = read(size)
    if chunk == GZIP[:1]:
        chunk += read(size)
    if not chunk.startswith(GZIP):
        while chunk:
            yield chunk
            chunk = read(size)
        return
    member = zlib.decompressobj(GZIP_BITS)
    try:
        while chunk:
            if member.eof:  # files may be concatenated
                member = zlib.decompressobj(GZIP_BITS)
            yield member.decompress(chunk, CHUNK)
            chunk = member.unconsumed_tail or member.unused_data or read(size)
    except zlib.error as error:
        problem = f"expected a whole gzip file, got one that is damaged: {error}"
        raise FormatError(source, None, problem) from None
    if not member.eof:
        raise FormatError(source, None, "expected a whole gzip file, got one that is cut short")


def is_blank(line: str) -> bool:
    """Return whether a line has only spaces and tabs."""
    return not line.strip(" \t")


def decode(raw: bytes, source: str | Path, encoding: str, first: int = 1) -> str:
    """Return the text of whole lines; `first` is the number of the first line, for messages."""
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


def encode(given: str, source: str | Path, encoding: str) -> bytes:
    """Return text as bytes; raise if the encoding lacks a character."""
    try:
        return given.encode(encoding)
    except UnicodeEncodeError as error:
        letter = error.object[error.start : error.end]
        raise FormatError(source, None, f"cannot be written: {encoding} has no {letter!r}") from None


def _bad_byte(raw: bytes, at: int, source: str | Path, encoding: str, first: int) -> FormatError:
    line = first + raw.count(b"\n", 0, at)
    offset = at - (raw.rfind(b"\n", 0, at) + 1)
    problem = f"expected {encoding} text, got byte 0x{raw[at]:02x} at offset {offset}"
    other = next((name for name in OTHER_ENCODINGS if _decodes(raw, name)), None)
    hint = "" if other is None else f"; it can be read as {other} (--encoding {other})"
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        hint = "; it looks like UTF-16: convert it to UTF-8"
    return FormatError(source, line, problem + hint)


def _decodes(raw: bytes, encoding: str) -> bool:
    try:
        return "\0" not in raw.decode(encoding)
    except UnicodeDecodeError:
        return False


def check_encoding(encoding: str, source: str | Path) -> None:
    """Raise for encodings that are unknown, that hide line ends, or that are escapes."""
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
    """Return the lines of `tidy_text`."""
    return tidy_text(text, blanks).split("\n")


def tidy_text(text: str, blanks: str = "\t") -> str:
    """Return a text with runs of spaces or other `blanks` as one space, and none at ends of lines.

    str.split() would not do: it takes U+0085, U+00A0, U+2028 and others for blanks.
    """
    for blank in blanks:
        text = text.replace(blank, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


PLAIN_TEXT = "is this plain text? expected one token per line (predict --raw cuts plain text)"


def counted(columns: int) -> str:
    """Return a number of columns for messages."""
    return "1 column" if columns == 1 else f"{columns} columns"


class WidthCheck:
    """A check that all rows of one input are as wide as the first, which has least..most cells."""

    def __init__(self, source: str | Path, least: int, most: int | None, expected: str) -> None:
        self.source, self.least, self.most, self.expected = source, least, most, expected
        self.width = self.line = 0  # of the first row

    def check(self, width: int, line: int) -> None:
        """Raise for a row that is not as wide as the first, unless it is the first."""
        if self.width == width:
            return
        if self.width:
            problem = f"expected {counted(self.width)} as on line {self.line}, got {width}"
            raise FormatError(self.source, line, problem)
        if width < self.least or width > (self.most or width):
            hint = f"; {PLAIN_TEXT}" if width > 2 * self.least + 1 else ""
            raise FormatError(self.source, line, f"expected {self.expected}, got {width}{hint}")
        if width > MOST_COLUMNS:
            raise FormatError(self.source, line, f"expected at most {MOST_COLUMNS:,} columns, got {width:,}")
        self.width, self.line = width, line


def column(cells: Sequence[str]) -> Column:
    """Return a column of these cells, numbered by first appearance."""
    numbers = dict(zip(dict.fromkeys(cells), count()))
    ids = np.fromiter(map(numbers.__getitem__, cells), np.int32, len(cells))
    return Column(ids, list(numbers))


def row_columns(sentences: Sequence[Sequence[Sequence[str]]]) -> LazyColumns:
    """Return the columns of sentences of rows, all as wide as the first."""
    given = list(sentences)
    rows = chain.from_iterable(given)
    width = len(given[0][0]) if given else 0
    return LazyColumns(given, width, lambda: [column(cells) for cells in zip(*rows, strict=True)])


def character_column(characters: str) -> Column:
    """Return a column with a cell for each character, numbered by first appearance."""
    codes = code_points(characters)
    places = np.arange(len(codes), dtype=np.int32)
    number = np.empty(int(codes.max(initial=0)) + 1, np.int32)
    number[codes[::-1]] = places[::-1]  # the last value that is assigned remains: the first place
    firsts = codes[number[codes] == places]
    number[firsts] = places[: len(firsts)]
    return Column(number[codes], list(firsts.tobytes().decode(*CODE_POINTS)))


def code_points(characters: str) -> NDArray[np.uint32]:
    """Return the code point of each character."""
    return np.frombuffer(characters.encode(*CODE_POINTS), np.uint32)


def named(ids: NDArray[np.int32], labels: Sequence[str]) -> list[str]:
    """Return the labels of ids; raise for ids out of range, UNKNOWN included."""
    check_ids(ids, labels)
    return [labels[i] for i in ids.tolist()]


def check_ids(ids: NDArray[np.int32], labels: Sequence[str]) -> None:
    """Raise for ids that are no indices of labels."""
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(labels):
        got = f"{int(ids.min())} to {int(ids.max())}"
        raise IncompatibleError(f"expected label ids from 0 to {len(labels) - 1}, got {got}")
