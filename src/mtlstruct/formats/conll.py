"""Dependency trees, as CoNLL-X and CoNLL-U have them: a token a line, ten columns separated by tabs.

A token has a number (1, 2, ... in its sentence), five observations, the number of its head (0: the root) and the
name of that relation. Comment lines, multiword ranges (`3-4`) and empty nodes (`5.1`) are no tokens: they are kept
for writing and seen by nobody else. The last columns may be missing, from the ninth on in trees and from the
seventh on in text to be parsed.

Rejected: lines of another width than the first, cells without text, numbers that do not count up, heads outside the
sentence, a token under itself, cycles. Several tokens under the root are legal in CoNLL-X and kept, unless the
reader asks for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import text

FIELDS = ("ID", "FORM", "LEMMA", "CPOSTAG", "POSTAG", "FEATS", "HEAD", "DEPREL", "PHEAD", "PDEPREL")
"""The columns by their CoNLL-X names; CoNLL-U calls the two tags UPOS and XPOS, the last columns DEPS and MISC."""

OBSERVED = FIELDS[1:6]
"""The columns that templates may look at."""

HEAD, DEPREL = 6, 7

BYTES_A_ROW = 40
"""About; turns a batch size in tokens into one in bytes."""

_NO_TOKEN = re.compile(r"[0-9]+(-|\.)[0-9]+")
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Sheet:
    """The lines a corpus was read from, and the line of each of its tokens: int64[T]. This is Corpus.extra."""

    lines: list[str]
    tokens: NDArray[np.int64]

    def cells(self, field: int) -> list[str]:
        """One column of the tokens, `_` where the lines are too short to have it."""
        rows = (self.lines[line].split("\t", field + 1) for line in self.tokens.tolist())
        return [row[field] if len(row) > field else "_" for row in rows]


def read(
    path: str | Path, *, single_root: bool = False, trees: bool = True, encoding: str = "utf-8"
) -> Corpus:
    """A whole file: outputs are the heads, numbered in the sentence, 0 the root. They must be trees, or anything."""
    lines = text.load(path, encoding).split("\n")
    reader = _Reader(path, DEPREL + 1)
    reader.take(lines, 1)
    if not reader.rows:
        raise FormatError(path, None, "no sentences: expected rows of columns, got none")
    return reader.corpus(_heads(reader, single_root, trees))


def stream(
    lines: BinaryIO, *, source: str, encoding: str = "utf-8", batch_tokens: int = 20000
) -> Iterator[Corpus]:
    """Batches of whole sentences to be parsed, as soon as they have been read; see text.blocks for when that is.

    HEAD and DEPREL are not looked at. A batch may have comments and no sentence: it must still be written.
    """
    reader = _Reader(source, HEAD)
    unfinished: list[str] = []
    begins = 1
    for first, block in text.blocks(lines, source, encoding, batch_tokens * BYTES_A_ROW):
        fresh = block.split("\n")
        end = text.end_of_sentences(fresh)
        if end:
            reader.take(unfinished + fresh[:end], begins)
            yield reader.corpus()
            unfinished, begins = [], first + end
        unfinished += fresh[end:]  # in place: a long sentence that comes row by row must not cost its square
    if unfinished:
        reader.take(unfinished, begins)
        yield reader.corpus()


def write(
    out: TextIO,
    corpus: Corpus,
    labels: Sequence[str] | None,
    predictions: NDArray[np.int32],
    relations: Sequence[str] | None = None,
    comments: Sequence[Mapping[str, str]] = (),
) -> None:
    """The lines as they were read, with other heads, and other relations if given; all else is left as it is.

    `predictions` int32[T] are heads. `labels` is there for the sake of the other formats: heads need no names.
    comments: for each sentence those to put before its first token, by name; they replace any of that name.
    """
    if len(predictions) != corpus.tokens:
        raise IncompatibleError(f"expected {corpus.tokens} heads, got {len(predictions)}")
    sheet: Sheet = corpus.extra
    lines = list(sheet.lines)
    for number, (at, head) in enumerate(zip(sheet.tokens.tolist(), predictions.tolist(), strict=True)):
        cells = lines[at].split("\t")
        cells += "_" * (DEPREL + 1 - len(cells))
        cells[HEAD] = str(head)
        if relations is not None:
            cells[DEPREL] = relations[number]
        lines[at] = "\t".join(cells)
    if lines and not _blank(lines[-1]):
        lines.append("")
    if comments:
        starts = [_begins(lines, at) for at in sheet.tokens[corpus.ptr[:-1]].tolist()]
        lines = list(_commented(lines, dict(zip(starts, comments, strict=True))))
    out.writelines(f"{line}\n" for line in lines)


def _begins(lines: list[str], at: int) -> int:
    """The first line of the sentence whose first token stands at a line: a range may come before it."""
    while at and not _blank(lines[at - 1]) and not lines[at - 1].startswith("#"):
        at -= 1
    return at


def _commented(lines: list[str], given: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """The lines with comments before some of them, and without those that they replace."""
    names = {name for some in given.values() for name in some}
    for number, line in enumerate(lines):
        yield from (f"# {name} = {value}" for name, value in given.get(number, {}).items())
        if not (line.startswith("#") and line[1:].partition("=")[0].strip() in names):
            yield line


def relations(corpus: Corpus) -> Column:
    """The relation of each token to its head."""
    sheet: Sheet = corpus.extra
    return text.column(sheet.cells(DEPREL))


def given_trees(corpus: Corpus, span: slice) -> tuple[list[int], list[str]] | None:
    """Heads and relations in the lines of one sentence, whatever it was read for; None if the heads are none."""
    sheet: Sheet = corpus.extra
    rows = [sheet.lines[line].split("\t") for line in sheet.tokens[span].tolist()]
    heads = [row[HEAD] if len(row) > DEPREL else "_" for row in rows]
    if not all(_NUMBER.fullmatch(head) and len(head) <= 9 and int(head) <= len(rows) for head in heads):
        return None
    return [int(head) for head in heads], [row[DEPREL] for row in rows]


class _Reader:
    """Lines to sentences. Holds all rows of one input to the width of the first, and that to least..10."""

    def __init__(self, source: str | Path, least: int) -> None:
        self.source, self.least = source, least
        self.width = self.line = 0
        self.first, self.lines = 1, [""]
        self.rows: list[list[str]] = []
        self.at: list[int] = []
        self.ends: list[int] = []

    def take(self, lines: list[str], first: int) -> None:
        """Split whole sentences into rows; `first` is the number of the first line."""
        self.first, self.lines = first, lines
        self.rows, self.at, self.ends = [], [], [0]
        for index, line in enumerate(lines):
            if _blank(line):
                self._end_sentence()
            elif not line.startswith("#"):
                self._row(line, index)
        self._end_sentence()

    def corpus(self, outputs: NDArray[np.int32] | None = None) -> Corpus:
        """Return what was taken as a corpus with these heads."""
        columns = tuple(text.column([row[field] for row in self.rows]) for field in range(1, HEAD))
        sheet = Sheet(self.lines, np.array(self.at, np.int64))
        return Corpus(columns, np.array(self.ends, np.int64), outputs, names=OBSERVED, extra=sheet)

    def error(self, row: int, problem: str) -> FormatError:
        """Return the error for a row, with its line in the file."""
        return FormatError(self.source, self.first + self.at[row], problem)

    def _end_sentence(self) -> None:
        if len(self.rows) > self.ends[-1]:
            self.ends.append(len(self.rows))

    def _row(self, line: str, index: int) -> None:
        cells = line.split("\t")
        if len(cells) != self.width:
            self._meet(len(cells), self.first + index)
        if not all(cells):
            name = FIELDS[cells.index("")]
            problem = f"expected a value or _ in {name}, got nothing"
            raise FormatError(self.source, self.first + index, problem)
        expected = len(self.rows) - self.ends[-1] + 1
        if cells[0] == str(expected):
            self.rows.append(cells)
            self.at.append(index)
        elif not _NO_TOKEN.fullmatch(cells[0]):
            problem = f"expected token {expected}, a range or an empty node, got {cells[0]!r}"
            raise FormatError(self.source, self.first + index, problem)

    def _meet(self, width: int, line: int) -> None:
        """A row of another width than before: the first row of all, or an error."""
        if self.width:
            problem = f"expected {self.width} columns as on line {self.line}, got {width}"
            raise FormatError(self.source, line, problem)
        if not self.least <= width <= len(FIELDS):
            problem = f"expected {self.least} to {len(FIELDS)} columns separated by tabs, got {width}"
            raise FormatError(self.source, line, problem)
        self.width, self.line = width, line


def _heads(reader: _Reader, single_root: bool, trees: bool) -> NDArray[np.int32]:
    """Return the heads of all rows, int32[T]; check that they are numbers and, with `trees`, make trees."""
    found: list[int] = []
    for start, stop in pairwise(reader.ends):
        for row in range(start, stop):
            token, cell = reader.rows[row][0], reader.rows[row][HEAD]
            if not _NUMBER.fullmatch(cell) or len(cell) > 9:
                raise reader.error(row, f"expected the number of a head, got {cell!r}")
            if trees and (int(cell) > stop - start or cell == token):
                problem = (
                    f"expected a head from 0 to {stop - start} other than the token itself, got {cell!r}"
                )
                raise reader.error(row, problem)
            found.append(int(cell))
        wrong = tree_problem(found[start:], single_root) if trees else None
        if wrong is not None:
            raise reader.error(start + wrong[0] - 1, wrong[1])
    return np.array(found, np.int32)


def tree_problem(heads: Sequence[int], single_root: bool = False) -> tuple[int, str] | None:
    """Why heads (1 the first token, 0 the root; all in range) make no tree: the token, and a clause."""
    reached = {0: True}  # False: being followed now
    for token in range(1, len(heads) + 1):
        path = []
        while token not in reached:
            reached[token] = False
            path.append(token)
            token = heads[token - 1]
        if not reached[token]:
            cycle = " → ".join(map(str, [*path[path.index(token) :], token]))
            return token, f"expected a tree, got a cycle of heads, {cycle}"
        reached.update(dict.fromkeys(path, True))
    roots = [token for token, head in enumerate(heads, 1) if head == 0]
    if single_root and len(roots) > 1:
        some = ", ".join(map(str, roots[:3]))
        return roots[1], f"expected one token with head 0, got {len(roots)} ({some})"
    return None


def _blank(line: str) -> bool:
    return not line.strip(" \t")
