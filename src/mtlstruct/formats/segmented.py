"""Segmented text of SIGHAN: one sentence per line, words separated by blanks.

Labels are B I E (a word of one character is B), B M E S, or B B2 B3 M E S, which number the first
three characters of a word (Zhao, Huang, Li and Lu, PACLIC 2006). Written text has two blanks
between words, and one line for each line read, also for empty ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import text

BLANKS = "\t\u3000"
"""Separators of words other than the space."""

TAGS = {
    "bie": (("B",), "I", "E", "B"),
    "bmes": (("B",), "M", "E", "S"),
    "six": (("B", "B2", "B3"), "M", "E", "S"),
}
"""The labels of a word's first, inner and last characters, and of a word of one character."""

BYTES_PER_CHARACTER = 3
"""An estimate that turns the size of a batch in tokens into bytes."""

STARTS = frozenset("BS")
ENDS = frozenset("ES")

CHECKED_LINES = 100
"""The number of lines by which segmented text is told from a column file."""

CHUNKS = re.compile(r"O|_|([BIESLUM]-)?<.+>|[BIESLUM]-[A-Za-z].*")
PLACES = re.compile(r"[BIESLUMO]")
TAGS_IN_ASCII = re.compile(r"(?=.*[A-Za-z_])[!-~]+")
"""Forms of the last cell of a column file: a label of chunks or fields, or an unused column; the
place of a character in a word; any tag."""

ROWS_PER_TAG = 4
"""The least average number of rows with the same tag: last words of sentences are more varied."""


def read(path: str | Path | text.Part, *, tags: str = "bie", encoding: str = "utf-8") -> Corpus:
    """Read a whole file with labels. Empty lines are no sentences."""
    lines = _lines(path, encoding)
    _check_not_columns(lines, 1, str(path))
    lengths = map(len, " ".join(filter(None, lines)).split(" "))
    outputs, labels = label_outputs(text.column(labels_of(lengths, tags)))
    return _corpus(lines, [[len(line) - line.count(" ")] for line in lines], outputs, labels)


def rows(line: str) -> list[tuple[str]]:
    """Return one row of one cell per character of a line, without blanks."""
    return [(character,) for character in line if character not in f" {BLANKS}"]


def words(path: str | Path, *, encoding: str = "utf-8") -> Iterator[list[str]]:
    """Yield the words of each line, an empty list for an empty line."""
    lines = _lines(path, encoding)
    _check_not_columns(lines, 1, str(path))
    yield from (line.split(" ") if line else [] for line in lines)


def vocabulary(path: str | Path, *, encoding: str = "utf-8") -> set[str]:
    """Return the distinct words of a file: a list with one word per line, or segmented text."""
    return set().union(*(line.split(" ") for line in _lines(path, encoding) if line))


def words_by_sentence(corpus: Corpus, labels: Sequence[str] | None = None) -> list[list[str]]:
    """Return the words of each sentence that labels make, one label per token: given or gold."""
    if labels is None:
        assert corpus.outputs is not None
        labels = text.named(corpus.outputs, corpus.labels)
    characters = "".join(corpus.columns[0].cells())
    return [cut(characters[span], labels[span]) for span in corpus.sentences()]


def stream(
    lines: BinaryIO,
    *,
    raw: bool,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    on_blanks: Callable[[int], None] | None = None,
) -> Iterator[Corpus]:
    """Yield batches of unlabelled lines as they are read (see `text.blocks`).

    Blanks in the input are dropped; if `raw`, they stay word boundaries in the output. `on_blanks`
    is called once with the first line whose blanks are dropped. A batch may have empty lines and no
    sentence: it must still be written.
    """
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_PER_CHARACTER):
        fresh = text.tidy(block, BLANKS)
        if first == 1:
            _check_not_columns(fresh, first, source)
        if on_blanks is not None and not raw:
            spaced = next((number for number, line in enumerate(fresh, first) if " " in line), None)
            if spaced is not None:
                on_blanks(spaced)
                on_blanks = None
        pieces = [line.split(" ") if raw else [line.replace(" ", "")] for line in fresh]
        yield _corpus(fresh, [[len(piece) for piece in line] for line in pieces], first=first)


def format_text(corpus: Corpus, outputs: NDArray[np.int32], labels: Sequence[str]) -> str:
    """Return all lines with two blanks between the words that labels[outputs] make."""
    text.check_ids(outputs, labels)
    starts = _starts(labels, outputs, run_starts(corpus))
    lines = np.flatnonzero([any(runs) for runs in corpus.extra])
    before, filler = 2 * starts, np.full(len(starts), ord(" "), np.uint32)
    before[corpus.ptr[:-1]], filler[corpus.ptr[:-1]] = np.diff(lines, prepend=0), ord("\n")
    out = np.repeat(filler, before + 1)
    out[np.cumsum(before + 1) - 1] = text.code_points("".join(corpus.columns[0].strings))[
        corpus.columns[0].ids
    ]
    return out.tobytes().decode(*text.CODE_POINTS) + "\n" * (len(corpus.extra) - int(lines.max(initial=0)))


def format_lines(corpus: Corpus, found: Words, suffixes: Sequence[str] = ()) -> list[str]:
    """Return the text of each line: its words with their suffixes, and two blanks between."""
    words = word_texts(corpus, found)
    if suffixes:
        words = [word + suffix for word, suffix in zip(words, suffixes, strict=True)]
    return ["  ".join(words[first:last]) + "\n" for first, last in pairwise(found.lines)]


def word_texts(corpus: Corpus, found: Words) -> list[str]:
    """Return the words."""
    characters = "".join(corpus.columns[0].cells())
    return [characters[start:stop] for start, stop in zip(found.starts, found.stops, strict=True)]


class Words(NamedTuple):
    """Start and stop token of each word, and the number of words before each line and in all."""

    starts: list[int]
    stops: list[int]
    lines: list[int]


def words_of(corpus: Corpus, labels: Sequence[str]) -> Words:
    """Return the words that labels make, one label per token. No word crosses the end of a run."""
    starts = np.flatnonzero(_starts(labels, slice(None), run_starts(corpus)))
    lines = np.searchsorted(starts, [0, *accumulate(map(sum, corpus.extra))])
    stops = [*starts[1:].tolist(), *[len(labels)] * (len(starts) > 0)]
    return Words(starts.tolist(), stops, lines.tolist())


def run_starts(corpus: Corpus) -> NDArray[np.int64]:
    """Return the first token of each run that is segmented separately."""
    runs = np.array([run for runs in corpus.extra for run in runs if run], np.int64)
    return np.cumsum(runs) - runs


def label_stops(corpus: Corpus, words: Words, labels: Sequence[str]) -> list[int]:
    """Return where the labels of each word stop: one later if the next label ends the word."""
    ends = set(accumulate(run for runs in corpus.extra for run in runs))
    return [stop + (labels[stop - 1] not in ENDS and stop not in ends) for stop in words.stops]


def labels_of(word_lengths: Iterable[int], tags: str = "bie") -> list[str]:
    """Return the labels of the characters of words with these lengths."""
    if tags not in TAGS:
        raise IncompatibleError(f"expected tags {', '.join(TAGS)}, got {tags!r}")
    return [label for length in word_lengths for label in _word_labels(length, tags)]


def tag_labels(tags: str) -> tuple[str, ...]:
    """Return all labels of characters, sorted."""
    first, *others = TAGS[tags]
    return tuple(sorted({*first, *others}))


def relabelled(corpus: Corpus, tags: str) -> Corpus:
    """Return labelled text with the labels of the same words in another scheme."""
    if corpus.labels == tag_labels(tags):
        return corpus
    found = labels_of((len(word) for sentence in words_by_sentence(corpus) for word in sentence), tags)
    outputs, labels = label_outputs(text.column(found))
    return replace(corpus, outputs=outputs, labels=labels)


@lru_cache(maxsize=1024)
def _word_labels(length: int, tags: str) -> tuple[str, ...]:
    first, inner, last, single = TAGS[tags]
    if length == 1:
        return (single,)
    begun = (*first, *([inner] * (length - 1 - len(first))))
    return (*begun[: length - 1], last)


def cut(characters: str, labels: Sequence[str]) -> list[str]:
    """Return the words of a sentence: they start at B and S, and after E and S.

    The first character always starts a word, and all other labels continue one.
    """
    starts = np.flatnonzero(_starts(labels, slice(None), slice(0, 1))).tolist()
    return [characters[start:stop] for start, stop in pairwise([*starts, len(characters)])]


def _starts(labels: Sequence[str], outputs: Any, firsts: Any) -> NDArray[np.bool_]:
    """Return whether labels[outputs] start a word at each character; one starts at `firsts`."""
    starts: NDArray[np.bool_] = np.array([label in STARTS for label in labels], bool)[outputs]
    ends = np.array([label in ENDS for label in labels], bool)[outputs]
    starts[1:] |= ends[:-1]
    starts[firsts] = True
    return starts


def _check_not_columns(lines: Sequence[str], first: int, source: str) -> None:
    """Raise if some tidy lines, from line `first` of the input on, are rows of a column file.

    Such rows have the same number of cells, at least two, and each ends in a label. Lines that
    begin with "# " are comments there and prove nothing.
    """
    rows = [(n, line) for n, line in enumerate(lines, first) if line and not line.startswith("# ")]
    rows = rows[:CHECKED_LINES]
    widths = {line.count(" ") + 1 for _, line in rows}
    labels = [line.rpartition(" ")[2] for _, line in rows]
    if len(widths) == 1 and widths != {1} and _are_labels(labels):
        problem = (
            "expected segmented text (one sentence per line, words separated by blanks), got a column file (for "
            f"other tasks than segmentation): {widths.pop()} cells per row, the last a label such as {labels[0]!r}"
        )
        raise FormatError(source, rows[0][0], problem)


def _are_labels(cells: Sequence[str]) -> bool:
    """Return whether the last cells of rows are labels; less specific forms need more rows."""
    rows, distinct = len(cells), set(cells)
    if rows >= 3 and distinct != {"O"} and all(map(CHUNKS.fullmatch, distinct)):
        return True
    if rows >= 5 and len(distinct) > 1 and all(map(PLACES.fullmatch, distinct)):
        return True
    varied = len(distinct) * ROWS_PER_TAG > rows
    return rows >= 20 and not varied and all(map(TAGS_IN_ASCII.fullmatch, distinct))


def _lines(path: str | Path | text.Part, encoding: str) -> list[str]:
    """Return the tidy lines of a file; raise unless there is a word."""
    lines = text.tidy(text.load(path, encoding), BLANKS)
    if not any(lines):
        raise FormatError(str(path), None, "no sentences: expected words, got only blank lines")
    return lines


def _corpus(
    lines: list[str],
    runs: list[list[int]],
    outputs: NDArray[np.int32] | None = None,
    labels: tuple[str, ...] = (),
    first: int = 1,
) -> Corpus:
    """Return the corpus of tidy lines from line `first` on, with the lengths of their runs."""
    sizes = np.array([sum(line) for line in runs], np.int64)
    filled = np.flatnonzero(sizes)
    ptr = np.concatenate([[0], np.cumsum(sizes[filled])]).astype(np.int64)
    column = text.character_column("".join(lines).replace(" ", ""))
    return Corpus((column,), ptr, outputs, labels, lines=filled + first, extra=runs)
