"""Column files of CRF++ and CoNLL: one token per line, a blank line after each sentence.

Cells are separated by runs of spaces or tabs only: any other character, also a no-break space or a
form feed, belongs to its cell. With a separator (`CellFormat`), cells may be empty or have spaces.
The last column is the label. Rejected: rows of different widths, unless they may be ragged, or of
more than MOST_COLUMNS, a labelled file of one column, a file without sentences, and labels that a
partly labelled file cannot have.

With `alone` (--task multiclass), each row is a sentence of one token, and blank lines are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats import text

BYTES_PER_ROW = 16
"""An estimate that turns the size of a batch in tokens into bytes."""

MISSING_CELL = "_"
"""The cell that ragged rows get in columns that they lack."""


@dataclass(frozen=True)
class CellFormat:
    """The division of rows into cells.

    Attributes
    ----------
    separator : str
        The character between cells; "" for runs of spaces and tabs.
    ragged : bool
        Whether rows may lack cells after the first. Those of a labelled row are missing before the
        label.
    """

    separator: str = ""
    ragged: bool = False

    @property
    def between(self) -> str:
        """The character between the cells of `lines`."""
        return "\t" if self.separator else " "

    def lines(self, given: str, source: str, first: int) -> list[str]:
        """Return the lines of a text, the first of which has the number `first`."""
        if not self.separator:
            return text.tidy(given)
        if self.separator != "\t":
            if "\t" in given:  # output is separated by tabs
                line = first + given.count("\n", 0, given.index("\t"))
                raise FormatError(
                    source, line, f"expected {self.separator!r} between cells, got a tab in a cell"
                )
            given = given.replace(self.separator, "\t")
        return ["" if text.is_blank(line) else line for line in given.split("\n")]

    def padded(self, lines: list[str], width: int, labelled: bool) -> list[str]:
        """Return lines with at least `width` cells, if they may be ragged."""
        if not self.ragged:
            return lines
        out = []
        for line in lines:
            missing = [MISSING_CELL] * (width - 1 - line.count(self.between))
            if missing and line.count(self.between) >= labelled and line:
                cells = line.split(self.between)
                cells[len(cells) - labelled : len(cells) - labelled] = missing
                line = self.between.join(cells)
            out.append(line)
        return out


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
    lines = cells.lines(text.load(path, encoding), str(path), 1)
    least = int(labelled) + max(1, len(names))
    if cells.ragged:
        width = least if names else max(line.count(cells.between) for line in lines) + 1
        lines = cells.padded(lines, width, labelled)
    widths = _widths(str(path), least, least if names else None)
    try:
        _check_widths(widths, lines, 1, cells.between)
    except FormatError as error:
        raise FormatError(str(path), error.line, error.problem + _other_format(lines, least)) from None
    if not widths.width:
        raise FormatError(str(path), None, "no sentences: expected rows of columns, got none")
    return _corpus(lines, widths.width, widths.width - labelled, cells.between, tuple(names), alone=alone)


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
    blocks = text.blocks if alone else text.sentence_blocks
    for first, block in blocks(lines, source, encoding, batch_tokens * BYTES_PER_ROW):
        rows = cells.padded(cells.lines(block, source, first), least, known is not None)
        _check_widths(widths, rows, first, cells.between)
        if known is not None:
            _check_labels(rows, first, source, known, cells.between)
        if any(rows):
            yield _corpus(rows, widths.width, columns, cells.between, first=first, alone=alone)


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
    return str(corpus.extra).split("\n") if corpus.tokens else []


def _corpus(
    lines: list[str],
    width: int,
    observed: int,
    between: str,
    names: tuple[str, ...] = (),
    first: int = 1,
    alone: bool = False,
) -> Corpus:
    """Return a corpus of lines, of which the first is line `first` of its file.

    All rows have `width` cells with `between` between them; a cell after the `observed` ones is the
    label.
    """
    found = [line for line in lines if line]
    cells = between.join(found).split(between)
    columns = tuple(text.column(cells[c::width]) for c in range(observed))
    echo = "\n".join(found).replace(between, "\t")  # one string, not T: a fifth of the memory
    ptr, starts = _bounds(lines, alone)
    if width == observed:
        return Corpus(columns, ptr, names=names, lines=starts + first, extra=echo)
    outputs, labels = label_outputs(text.column(cells[observed::width]))
    return Corpus(columns, ptr, outputs, labels, names, starts + first, echo)


def _bounds(lines: list[str], alone: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where sentences start: int64[S+1] counted in rows, int64[S] counted in lines."""
    filled = np.array([bool(line) for line in lines])
    starts = np.flatnonzero(filled if alone else filled & ~np.concatenate([[False], filled[:-1]]))
    rows_before = np.cumsum(filled) - filled
    return np.append(rows_before[starts], filled.sum()).astype(np.int64), starts


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
        return text.WidthCheck(source, least, None, f"at least {_columns(least)}")
    with_label = f" (or {most} with a label)" if most > least else ""
    return text.WidthCheck(source, least, most, _columns(least) + with_label)


def _check_widths(widths: text.WidthCheck, lines: list[str], first: int, between: str) -> None:
    for number, line in enumerate(lines, first):
        if line and line.count(between) != widths.width - 1:
            widths.check(line.count(between) + 1, number)


def _other_format(lines: list[str], least: int) -> str:
    """Return what lines with too few or different columns may be, as the end of a message."""
    if lines[0].startswith("# "):
        return "; trees with comments (CoNLL-U) are for --task dependency"
    widths = Counter(line.count(" ") for line in lines if line)
    if widths.total() >= 5 and max(widths.values()) * 2 < widths.total():
        return "; segmented text, one sentence per line, is for --task segmentation"
    return "; is the label column missing?" if max(widths) + 2 == least else ""


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
