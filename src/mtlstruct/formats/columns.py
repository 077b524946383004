"""Column files, as CRF++ and CoNLL have them: a token a line, a blank line after each sentence.

Cells are separated by runs of spaces or tabs, and by nothing else: any other character, be it a no-break
space or a form feed, belongs to its cell. The last column is the label. Rejected: rows of different widths, or of
more than MOST_COLUMNS, a labelled file of one column, a file without sentences, labels that a partly labelled file
cannot have.

Where rows stand `alone` (--task multiclass), each row is a sentence of one token, and blank lines mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import MOST_COLUMNS, Corpus, label_outputs
from mtlstruct.errors import FormatError
from mtlstruct.formats import text

BYTES_A_ROW = 16
"""About; turns a batch size in tokens into one in bytes."""


def read(
    path: str | Path | text.Part,
    *,
    labelled: bool = True,
    encoding: str = "utf-8",
    names: Sequence[str] = (),
    alone: bool = False,
) -> Corpus:
    """Read a whole file. `names` are for the observation columns; if given, the file must have just these."""
    lines = text.tidy(text.load(path, encoding))
    least = int(labelled) + max(1, len(names))
    ruler = _Ruler(str(path), least, least if names else None)
    try:
        ruler.check(lines, 1)
    except FormatError as error:
        raise FormatError(str(path), error.line, error.problem + _other_format(lines)) from None
    if not ruler.width:
        raise FormatError(str(path), None, "no sentences: expected rows of columns, got only blank lines")
    return _corpus(lines, ruler.width, ruler.width - labelled, tuple(names), alone=alone)


def stream(
    lines: BinaryIO,
    *,
    columns: int,
    source: str,
    encoding: str = "utf-8",
    batch_tokens: int = 20000,
    known: Collection[str] | None = None,
    alone: bool = False,
) -> Iterator[Corpus]:
    """Batches of whole sentences, as soon as they have been read; see text.blocks for when that is.

    Rows have `columns` cells, or one more, the label. With `known` they must have it, and it must be one of these, or
    a mark for an unknown one. No batch is empty; an empty input gives no batch.
    """
    ruler = _Ruler(source, columns + (known is not None), columns + 1)
    unfinished: list[str] = []
    begin = 1  # the line of the first of them
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_A_ROW):
        fresh = text.tidy(block)
        ruler.check(fresh, first)
        if known is not None:
            _check_labels(fresh, first, source, known)
        end = len(fresh) if alone else text.end_of_sentences(fresh)
        unfinished += fresh[:end]
        if end:
            if any(unfinished):
                yield _corpus(unfinished, ruler.width, columns, first=begin, alone=alone)
            unfinished, begin = [], first + end
        unfinished += fresh[end:]  # in place: a long sentence that comes row by row must not cost its square
    if any(unfinished):
        yield _corpus(unfinished, ruler.width, columns, first=begin, alone=alone)


def write(
    out: TextIO,
    corpus: Corpus,
    labels: Sequence[str] | None,
    predictions: NDArray[np.int32],
    *,
    alone: bool = False,
) -> None:
    """The input's rows, their cells joined by tabs, each with its predicted label: what conlleval reads.

    `predictions` int32[T] are ids into `labels` (None: the corpus's own). A blank line follows each sentence,
    unless rows stand alone.
    """
    predicted = text.named(predictions, corpus.labels if labels is None else labels)
    out.write("".join(blocks(corpus, predicted, alone=alone)))


def blocks(corpus: Corpus, cells: Sequence[str], *, alone: bool = False) -> list[str]:
    """Return each sentence as it is written: its rows with one more cell each, and a blank line."""
    lines = [f"{row}\t{cell}\n" for row, cell in zip(rows(corpus), cells, strict=True)]
    if alone:
        return lines
    return ["".join(lines[span]) + "\n" for span in corpus.sentences()]


def rows(corpus: Corpus) -> list[str]:
    """The rows as they were read, label and all, cells joined by tabs: one string a token."""
    return str(corpus.extra).split("\n") if corpus.tokens else []


def _corpus(
    lines: list[str],
    width: int,
    observed: int,
    names: tuple[str, ...] = (),
    first: int = 1,
    alone: bool = False,
) -> Corpus:
    """A corpus of tidy lines, the first of them line `first` of its file.

    All rows have `width` cells; a cell after the `observed` ones is the label.
    """
    found = [line for line in lines if line]
    cells = " ".join(found).split(" ")
    columns = tuple(text.column(cells[c::width]) for c in range(observed))
    echo = "\n".join(found).replace(" ", "\t")  # one string, not T: a fifth of the memory
    ptr, starts = _bounds(lines, alone)
    if width == observed:
        return Corpus(columns, ptr, names=names, lines=starts + first, extra=echo)
    outputs, labels = label_outputs(text.column(cells[observed::width]))
    return Corpus(columns, ptr, outputs, labels, names, starts + first, echo)


def _bounds(lines: list[str], alone: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where sentences start: int64[S+1] as a number of rows, with the end, and int64[S] as a number of lines."""
    filled = np.array([bool(line) for line in lines])
    starts = np.flatnonzero(filled if alone else filled & ~np.concatenate([[False], filled[:-1]]))
    rows_before = np.cumsum(filled) - filled
    return np.append(rows_before[starts], filled.sum()).astype(np.int64), starts


def _check_labels(lines: list[str], first: int, source: str | Path, known: Collection[str]) -> None:
    """The last cells of tidy lines must be labels, or marks for unknown ones."""
    for number, line in enumerate(lines, first):
        if line and (label := line.rpartition(" ")[2]) not in known:
            some = f"{', '.join(sorted(known)[:12])}{' …' if len(known) > 12 else ''}"
            raise FormatError(source, number, f"expected a label in the last column ({some}), got {label!r}")


class _Ruler:
    """Holds the rows of one input to the width of its first row, and that to least..most (None: no limit)."""

    def __init__(self, source: str | Path, least: int, most: int | None) -> None:
        self.source, self.least, self.most = source, least, most
        self.width = self.line = 0

    def check(self, lines: list[str], first: int) -> None:
        """Measure tidy lines, of which the first has number `first`."""
        gaps = self.width - 1
        for number, line in enumerate(lines, first):
            if line and line.count(" ") != gaps:
                self._meet(line.count(" ") + 1, number)
                gaps = self.width - 1

    def _meet(self, width: int, line: int) -> None:
        """A row of another width than before: the first row of all, or an error."""
        if self.width:
            problem = f"expected {_columns(self.width)} as on line {self.line}, got {width}"
            raise FormatError(self.source, line, problem)
        if width < self.least or width > (self.most or width):
            raise FormatError(self.source, line, f"expected {self._expected()}, got {width}")
        if width > MOST_COLUMNS:
            raise FormatError(self.source, line, f"expected at most {MOST_COLUMNS:,} columns, got {width:,}")
        self.width, self.line = width, line

    def _expected(self) -> str:
        if self.most is None:
            return f"at least {_columns(self.least)}"
        with_label = f" (or {self.most} with a label)" if self.most > self.least else ""
        return _columns(self.least) + with_label


def _other_format(lines: list[str]) -> str:
    """What lines that are no rows of columns may be instead, as the end of a message."""
    if lines[0].startswith("# "):
        return "; trees with comments (CoNLL-U) are for --task dependency"
    widths = Counter(line.count(" ") for line in lines if line)
    if widths.total() >= 5 and max(widths.values()) * 2 < widths.total():
        return "; segmented text, a sentence a line, is for --task segmentation"
    return ""


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
