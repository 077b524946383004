"""Column files of CRF++ and CoNLL: one token per line, a blank line after each sentence.

Cells are separated by runs of spaces or tabs only, or by a separator (`CellFormat`); the last one
is the label. All rows have the same width, unless they may be ragged. With `alone` (--task
multiclass), each row is a sentence of one token, and blank lines are ignored.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats import interning, text

NEWLINE = ord("\n")

BYTES_PER_ROW = 16
"""An estimate that turns the size of a batch in tokens into bytes."""

MISSING_CELL = "_"
"""The cell that ragged rows get in columns that they lack."""


@dataclass(frozen=True)
class CellFormat:
    """The division of rows into cells.

    separator   the character between cells; "" for runs of spaces and tabs
    ragged      rows may lack cells after the first, those of a labelled row before the label
    """

    separator: str = ""
    ragged: bool = False

    @property
    def between(self) -> str:
        """The character between the cells of `tidy`."""
        return "\t" if self.separator else " "

    def tidy(self, given: str, source: str, first: int) -> str:
        """Return a text with blank lines empty; its first line has the number `first`."""
        if not self.separator:
            return text.tidy_text(given)
        if self.separator != "\t":
            if "\t" in given:  # output is separated by tabs
                line = first + given.count("\n", 0, given.index("\t"))
                problem = f"expected {self.separator!r} between cells, got a tab in a cell"
                raise FormatError(source, line, problem)
            given = given.replace(self.separator, "\t")
        return "\n".join(["" if text.is_blank(line) else line for line in given.split("\n")])

    def padded(self, given: str, width: int, labelled: bool) -> str:
        """Return a text whose rows have at least `width` cells, if they may be ragged."""
        if not self.ragged:
            return given
        out = []
        for line in given.split("\n"):
            row = line.split(self.between)
            if line and len(row) > labelled:
                place = len(row) - labelled
                row[place:place] = [MISSING_CELL] * (width - len(row))
            out.append(self.between.join(row))
        return "\n".join(out)


SPACES = CellFormat()
"""Cells between runs of spaces and tabs, in rows of the same width."""


def read(
    path: str | Path | text.Part,
    *,
    labelled: bool = True,
    encoding: str = "utf-8",
    names: Sequence[str] = (),
    alone: bool = False,
    cells: CellFormat = SPACES,
) -> Corpus:
    """Read a whole file; if `names` are given, it must have exactly these observation columns."""
    given = cells.tidy(text.load(path, encoding), str(path), 1)
    least = int(labelled) + max(1, len(names))
    if cells.ragged:
        width = least if names else max(line.count(cells.between) for line in given.split("\n")) + 1
        given = cells.padded(given, width, labelled)
    widths = _widths(str(path), least, least if names else None)
    try:
        found = _corpus(given, cells.between, widths, 1, -1 if labelled else None, names, alone=alone)
    except FormatError as error:
        hint = _other_format(given.split("\n"), least)
        raise FormatError(str(path), error.line, error.problem + hint) from None
    if found is None:
        raise FormatError(str(path), None, "no sentences: expected rows of columns, got none")
    return found


def stream(
    lines: BinaryIO,
    *,
    columns: int,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    known: Collection[str] | None = None,
    alone: bool = False,
    cells: CellFormat = SPACES,
) -> Iterator[Corpus]:
    """Yield batches of whole sentences as they are read (see `text.blocks`); none is empty.

    Rows have `columns` cells, or one more, the label. With `known`, the label is required and must
    be one of these. Ragged rows have no label without `known`.
    """
    least = columns + (known is not None)
    widths = _widths(source, least, least if cells.ragged else columns + 1)
    size = batch_tokens * BYTES_PER_ROW
    for first, block in text.blocks(lines, source, encoding, size, sentences=not alone):
        given = cells.padded(cells.tidy(block, source, first), least, known is not None)
        found = None
        if known is None and not alone:
            found = _few(given, cells.between, columns, widths, first)
        if found is None:
            found = _corpus(given, cells.between, widths, first, columns, alone=alone)
        if known is not None:
            _check_labels(given.split("\n"), first, source, known, cells.between)
        if found is not None:
            yield found


def _few(given: str, between: str, columns: int, widths: text.WidthCheck, first: int) -> Corpus | None:
    """Return the corpus of a few rows without labels; None for other text."""
    lines = given.split("\n", text.MAX_DIRECT_LINES)
    if len(lines) > text.MAX_DIRECT_LINES:
        return None
    rows = [line.split(between) if line else None for line in lines]
    if any(row and len(row) != columns for row in rows) or not any(rows):
        return None
    begins = [n for n, row in enumerate(rows) if row and not (n and rows[n - 1])]
    widths.check(columns, first + begins[0])
    ends = [*begins[1:], len(rows)]
    sentences = [[row for row in rows[a:b] if row] for a, b in zip(begins, ends, strict=True)]
    ptr = np.array([0, *accumulate(map(len, sentences))], np.int64)
    return Corpus(
        text.row_columns(sentences), ptr, lines=np.array(begins) + first, extra=given.replace(between, "\t")
    )


def format_sentences(corpus: Corpus, cells: Sequence[str], *, alone: bool = False) -> list[str]:
    """Return the text of each sentence: its rows with one more cell each, and a blank line."""
    lines = [f"{row}\t{cell}\n" for row, cell in zip(rows(corpus), cells, strict=True)]
    if alone:
        return lines
    return ["".join(lines[span]) + "\n" for span in corpus.sentences()]


def format_text(
    corpus: Corpus, outputs: NDArray[np.int32], labels: Sequence[str], *, alone: bool = False
) -> str:
    """Return all rows with the cell labels[output], and a blank line after each sentence."""
    text.check_ids(outputs, labels)
    ends = [f"\t{label}\n" for label in labels]
    number = outputs.copy()
    if not alone:
        ends += [f"{end}\n" for end in ends]
        number[corpus.ptr[1:] - 1] += len(labels)
    pieces = [""] * (2 * len(number))
    pieces[::2], pieces[1::2] = rows(corpus), map(ends.__getitem__, number.tolist())
    return "".join(pieces)


def rows(corpus: Corpus) -> list[str]:
    """Return each row as it was read, with its label, cells joined by tabs."""
    return list(filter(None, str(corpus.extra).split("\n")))


def _corpus(
    given: str,
    between: str,
    widths: text.WidthCheck,
    first: int,
    observed: int | None,
    names: Sequence[str] = (),
    *,
    alone: bool,
) -> Corpus | None:
    """Return the rows of tidy text from line `first` on, columns[observed:] the label; or None."""
    blob = np.frombuffer(f"{given}\n".encode(), np.uint8)
    stops = np.flatnonzero((blob == ord(between)) | (blob == NEWLINE))
    starts = np.append(0, stops[:-1] + 1)
    last = np.flatnonzero(blob[stops] == NEWLINE)  # the last cell of each line
    width = np.diff(last, prepend=-1)
    filled = (width > 1) | (starts[last] < stops[last])
    for _ in range(2):  # the first row, and the first of another width
        for line in np.flatnonzero(filled & (width != widths.width))[:1].tolist():
            widths.check(int(width[line]), first + line)
    if not filled.any():
        return None
    cells = np.repeat(filled, width)
    ends = (some[cells].reshape(-1, widths.width).T for some in (starts, stops))
    columns = [interning.column(blob, *pair) for pair in zip(*ends, strict=True)]
    begins = np.flatnonzero(filled if alone else filled & ~np.append(False, filled[:-1]))
    ptr = np.append((np.cumsum(filled) - filled)[begins], filled.sum()).astype(np.int64)
    label = [] if observed is None else columns[observed:]
    outputs, labels = label_outputs(label[0]) if label else (None, ())
    echo = given.replace(between, "\t")
    return Corpus(tuple(columns[:observed]), ptr, outputs, labels, tuple(names), begins + first, echo)


def _check_labels(
    lines: list[str], first: int, source: str | Path, known: Collection[str], between: str
) -> None:
    """Raise unless the last cell of each row is a known label."""
    for number, line in enumerate(lines, first):
        if line and (label := line.rpartition(between)[2]) not in known:
            some = f"{', '.join(sorted(known)[:12])}{' …' if len(known) > 12 else ''}"
            raise FormatError(source, number, f"expected a label in the last column ({some}), got {label!r}")


def _widths(source: str, least: int, most: int | None) -> text.WidthCheck:
    """Return a check of rows with `least` to `most` cells, without limit if that is None."""
    if most is None:
        return text.WidthCheck(source, least, None, f"at least {text.counted(least)}")
    with_label = f" (or {most} with a label)" if most > least else ""
    return text.WidthCheck(source, least, most, text.counted(least) + with_label)


def _other_format(lines: list[str], least: int) -> str:
    """Return what lines with too few or different columns may be, as the end of a message."""
    if lines[0].startswith("# "):
        return "; trees with comments (CoNLL-U) are for --task dependency"
    widths = Counter(line.count(" ") for line in lines if line)
    if widths.total() >= 5 and max(widths.values()) * 2 < widths.total():
        return "; segmented text, one sentence per line, is for --task segmentation"
    return "; is the label column missing?" if max(widths) + 2 == least else ""
