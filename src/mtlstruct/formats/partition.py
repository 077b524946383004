"""Data files split into shards of whole sentences, with about the same number of bytes."""

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from mtlstruct.corpus import Corpus, joined
from mtlstruct.errors import FormatError, MtlError
from mtlstruct.formats.text import Part

BLANK_LINE = re.compile(rb"\n(?:[ \t\r]*\n)+")
LINE_END = re.compile(rb"\n(?:[ \t\r]*\n)*")
"""The end of a sentence, with the blank lines that follow."""


def files_of(path: Path) -> list[Path]:
    """Return the files of a folder, sorted by name, without hidden ones; or the file itself."""
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    if not found:
        raise FormatError(path, None, "expected a folder with data files, got none in it")
    return found


def split(files: Sequence[Path], count: int, *, at_blank_lines: bool) -> list[list[Part]]:
    """Split files into at most `count` consecutive shards, each a list of parts of files.

    Shards end where sentences do: at blank lines, or at any line.
    """
    try:
        sizes = [file.stat().st_size for file in files]
    except OSError as error:
        raise FormatError(str(error.filename), None, f"cannot be read: {error.strerror}") from None
    end = BLANK_LINE if at_blank_lines else LINE_END
    starts = [0, *accumulate(sizes)]  # of the files, one after the other
    places = [0, starts[-1]]
    for goal in (starts[-1] * k // count for k in range(1, count)):
        number = min(bisect(starts, goal), len(files)) - 1
        at = _next_end(files[number], goal - starts[number], sizes[number], end)
        places.append(starts[number] + at)
    shards = []
    for low, high in pairwise(sorted(places)):
        ends = [(max(low - first, 0), min(high - first, n)) for first, n in zip(starts, sizes, strict=False)]
        shards.append([Part(file, a, b) for file, (a, b) in zip(files, ends, strict=True) if a < b])
    return [shard for shard in shards if shard]


def read(parts: Sequence[Path | Part], read_one: Callable[[Any], Corpus]) -> Corpus:
    """Return the labelled sentences of files, or of the parts of a shard, as one corpus."""
    corpora = [_read(part, read_one) for part in parts]
    widths = {len(corpus.columns): part for part, corpus in zip(parts, corpora, strict=True)}
    if len(widths) > 1:
        (a, first), (b, second), *_ = widths.items()
        raise MtlError(f"{second}: expected {a} observation columns as in {first}, got {b}")
    return corpora[0] if len(corpora) == 1 else joined(corpora)


def _read(part: Path | Part, read_one: Callable[[Any], Corpus]) -> Corpus:
    try:
        return read_one(part)
    except FormatError as error:
        if error.line is None or not isinstance(part, Part):
            raise
        before = Part(part.path, 0, part.start).read_bytes().count(b"\n")
        raise FormatError(part.path, error.line + before, error.problem) from None


def _next_end(file: Path, at: int, size: int, end: re.Pattern[bytes]) -> int:
    """Return the end of the sentence that contains byte `at`."""
    if at >= size:
        return size
    with file.open("rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as content:
        found = end.search(content, max(0, at - 1))
        return size if found is None else found.end()
