"""Segmented text, as SIGHAN has it: a sentence a line, words separated by blanks; tokens are the characters.

Blanks are space, tab and U+3000, in runs of any length; a character is a Unicode code point. Labels are B I E
(a word of one character is B), or B M E S. Writing gives two blanks between words, and a line for each line
read, empty ones too. Rejected: a file without words, and column files (a token a line, its label last).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus, label_outputs
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import text

BLANKS = "\t\u3000"
"""What separates words beside the space."""

TAGS = {"bie": ("B", "I", "E", "B"), "bmes": ("B", "M", "E", "S")}
"""The labels of a word's first, inner and last character, and of a word of one character."""

BYTES_A_CHARACTER = 3
"""About; turns a batch size in tokens into one in bytes."""

FEW = 1 << 14
"""Characters for which a table of all code points would be more work than it saves."""

STARTS = frozenset("BS")
ENDS = frozenset("ES")

LOOK = 100
"""So many filled lines are looked at to tell segmented text from a column file."""

CHUNKS = re.compile(r"O|_|([BIESLUM]-)?<.+>|[BIESLUM]-[A-Za-z].*")
PLACES = re.compile(r"[BIESLUMO]")
TAGS_IN_ASCII = re.compile(r"(?=.*[A-Za-z_])[!-~]+")
"""Forms of the last cell of a column file: a label of chunks or fields, or an unused column; the place of a character
in a word; any tag."""

ROWS_A_TAG = 4
"""How often a tag recurs on average, at least: words at the ends of sentences are more varied."""


def read(path: str | Path | text.Part, *, tags: str = "bie", encoding: str = "utf-8") -> Corpus:
    """A whole file with labels. Empty lines are no sentences."""
    lines = _lines(path, encoding)
    ColumnCheck(str(path)).see(lines, 1)
    lengths = map(len, " ".join(filter(None, lines)).split(" "))
    outputs, labels = label_outputs(text.column(labels_of(lengths, tags)))
    return _corpus(lines, [[len(line) - line.count(" ")] for line in lines], outputs, labels)


def rows(line: str) -> list[tuple[str]]:
    """Return a row of one cell for each character of a line; blanks are no characters."""
    return [(character,) for character in line if character not in f" {BLANKS}"]


def words(path: str | Path, *, encoding: str = "utf-8") -> Iterator[list[str]]:
    """The words of each line; none for an empty line, so that lines keep their numbers."""
    lines = _lines(path, encoding)
    ColumnCheck(str(path)).see(lines, 1)
    for line in lines:
        yield line.split(" ") if line else []


def vocabulary(path: str | Path, *, encoding: str = "utf-8") -> set[str]:
    """The distinct words of a file: a word list (a word a line) or segmented text."""
    return set().union(*(line.split(" ") for line in _lines(path, encoding) if line))


def known_words(corpus: Corpus) -> set[str]:
    """The distinct words of a labelled corpus."""
    assert corpus.outputs is not None
    labels = text.named(corpus.outputs, corpus.labels)
    characters = "".join(corpus.columns[0].cells())
    return set().union(*(cut(characters[span], labels[span]) for span in corpus.sentences()))


def stream(
    lines: BinaryIO,
    *,
    raw: bool,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    on_blanks: Callable[[int], None] | None = None,
) -> Iterator[Corpus]:
    """Batches of unlabelled lines, as soon as they have been read; see text.blocks for when that is.

    Blanks in the input are dropped; if `raw`, they stay word boundaries in the output, whatever is predicted.
    `on_blanks` is called once with the first line whose blanks are dropped. A batch may hold empty lines and no
    sentence at all: it must still be written.
    """
    check = ColumnCheck(source)
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_A_CHARACTER):
        fresh = text.tidy(block, BLANKS)
        check.see(fresh, first)
        if on_blanks is not None and not raw:
            spaced = next((number for number, line in enumerate(fresh, first) if " " in line), None)
            if spaced is not None:
                on_blanks(spaced)
                on_blanks = None
        pieces = [line.split(" ") if raw else [line.replace(" ", "")] for line in fresh]
        yield _corpus(fresh, [[len(piece) for piece in line] for line in pieces], first=first)


def write(out: TextIO, corpus: Corpus, labels: Sequence[str] | None, predictions: NDArray[np.int32]) -> None:
    """A line of words for each line read.

    `predictions` int32[T] are ids into `labels` (None: the corpus's own).
    """
    predicted = text.named(predictions, corpus.labels if labels is None else labels)
    out.write("".join(blocks(corpus, words_of(corpus, predicted))))


def blocks(corpus: Corpus, found: Words, notes: Sequence[str] = ()) -> list[str]:
    """Each line as it is written: its words, each with its note if there are any, and two blanks between."""
    characters = "".join(corpus.columns[0].cells())
    words = [characters[start:stop] for start, stop in zip(found.starts, found.stops, strict=True)]
    if notes:
        words = [word + note for word, note in zip(words, notes, strict=True)]
    return ["  ".join(words[first:last]) + "\n" for first, last in pairwise(found.lines)]


class Words(NamedTuple):
    """Where the words of a corpus start and stop, in tokens; and the words before each line, and before the end."""

    starts: list[int]
    stops: list[int]
    lines: list[int]


def words_of(corpus: Corpus, labels: Sequence[str]) -> Words:
    """The words that labels make, one label a token. No word reaches over a stretch that is cut on its own."""
    found, at = Words([], [], [0]), 0
    for runs in corpus.extra:
        for run in runs:
            starts = [at + start for start in _starts(labels[at : at + run])]
            at += run
            found.starts.extend(starts)
            found.stops.extend([*starts[1:], at] if starts else ())
        found.lines.append(len(found.starts))
    return found


def stretches(corpus: Corpus) -> NDArray[np.int64]:
    """Where the stretches begin that are cut on their own, in tokens; if read as raw, at every blank."""
    runs = np.array([run for runs in corpus.extra for run in runs if run], np.int64)
    return np.cumsum(runs) - runs


def reaches(corpus: Corpus, words: Words, labels: Sequence[str]) -> list[int]:
    """Where the labels stop that make each word: with it, or one later if only the next word's label ends it."""
    ends = set(accumulate(run for runs in corpus.extra for run in runs))
    return [stop + (labels[stop - 1] not in ENDS and stop not in ends) for stop in words.stops]


def labels_of(word_lengths: Iterable[int], tags: str = "bie") -> list[str]:
    """The labels of the characters of words with these lengths."""
    if tags not in TAGS:
        raise IncompatibleError(f"expected tags {' or '.join(TAGS)}, got {tags!r}")
    return list("".join([_word_labels(length, tags) for length in word_lengths]))


@lru_cache(maxsize=1024)
def _word_labels(length: int, tags: str) -> str:
    first, inner, last, single = TAGS[tags]
    return single if length == 1 else first + inner * (length - 2) + last


def cut(characters: str, labels: Sequence[str]) -> list[str]:
    """The words of a sentence: one starts at B and S, and after E and S.

    Any labels give words that join to the text: the first character starts a word, all others but these
    continue one.
    """
    return [characters[start:stop] for start, stop in pairwise([*_starts(labels), len(characters)])]


def _starts(labels: Sequence[str]) -> list[int]:
    before = ["E", *labels]
    return [i for i, label in enumerate(labels) if label in STARTS or before[i] in ENDS]


class ColumnCheck:
    """Rejection of an input whose first lines are rows of a column file.

    Such rows have the same number of cells, at least two, and each ends in a label. Rows are counted as they come
    in, up to LOOK of them. Lines that begin with "# " are comments there and prove nothing.
    """

    def __init__(self, source: str) -> None:
        self.source, self.rows = source, list[str]()
        self.line = 0  # of the first row
        self.open = True  # whether it may still be a column file

    def see(self, lines: Sequence[str], first: int) -> None:
        """Look at the next tidy lines; the first of them is line `first` of the input."""
        if not self.open:
            return
        for number, line in enumerate(lines, first):
            if line and not line.startswith("# "):
                self.line = self.line or number
                self.rows.append(line)
                if len(self.rows) == LOOK:
                    break
        gaps = self.rows[0].count(" ") if self.rows else 1
        self.open = gaps > 0 and all(row.count(" ") == gaps for row in self.rows)
        if self.open and self._end_in_labels():
            label = self.rows[0].rpartition(" ")[2]
            problem = (
                "expected segmented text (a sentence a line, words separated by blanks), got a column file "
                f"(for other tasks than segmentation): {gaps + 1} cells a row, the last a label such as {label!r}"
            )
            raise FormatError(self.source, self.line, problem)
        self.open &= len(self.rows) < LOOK

    def _end_in_labels(self) -> bool:
        """Whether all last cells are labels; the less a form says, the more rows it takes."""
        cells = [row.rpartition(" ")[2] for row in self.rows]
        rows, distinct = len(cells), set(cells)
        return (
            (rows >= 3 and distinct != {"O"} and all(map(CHUNKS.fullmatch, distinct)))
            or (rows >= 5 and len(distinct) > 1 and all(map(PLACES.fullmatch, distinct)))
            or (
                rows >= 20
                and len(distinct) * ROWS_A_TAG <= rows
                and all(map(TAGS_IN_ASCII.fullmatch, distinct))
            )
        )


def _lines(path: str | Path | text.Part, encoding: str) -> list[str]:
    """The tidy lines of a file that has at least one word."""
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
    """A corpus of tidy lines from line `first` on; runs: for each, the lengths of the stretches cut on their own."""
    sizes = np.array([sum(line) for line in runs], np.int64)
    filled = np.flatnonzero(sizes)
    ptr = np.concatenate([[0], np.cumsum(sizes[filled])]).astype(np.int64)
    column = _column("".join(lines).replace(" ", ""))
    return Corpus((column,), ptr, outputs, labels, lines=filled + first, extra=runs)


def _column(characters: str) -> Column:
    """text.column of characters, by their code points: no string is made for a character that is not new."""
    if len(characters) < FEW:
        return text.column(characters)
    codes = np.frombuffer(characters.encode("utf-32-le", "surrogatepass"), "<u4")
    first = np.full(codes.max(initial=0) + 1, -1)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several values for one index the last one stays
    distinct = np.flatnonzero(first >= 0)
    distinct = distinct[np.argsort(first[distinct])]
    number = np.empty(len(first), np.int32)
    number[distinct] = np.arange(len(distinct))
    return Column(number[codes], [chr(code) for code in distinct.tolist()])
