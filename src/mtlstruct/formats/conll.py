"""Dependency trees in CoNLL-X and CoNLL-U: one token per line, ten columns separated by tabs.

A token has a number (1, 2, ... in its sentence), five observations, the number of its head (0: the
root) and the name of that relation. Comment lines, multiword ranges (`3-4`) and empty nodes (`5.1`)
are no tokens: they are stored for writing only. The last columns may be missing, from the ninth on
in trees and from the seventh on in text to be parsed.

Rejected: lines of another width than the first, cells without text, token numbers out of order,
heads outside of the sentence, a token under itself, cycles; with `single_root` also several tokens
under the root, which CoNLL-X allows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats import text

FIELDS = ("ID", "FORM", "LEMMA", "CPOSTAG", "POSTAG", "FEATS", "HEAD", "DEPREL", "PHEAD", "PDEPREL")
"""The CoNLL-X names of the columns; in CoNLL-U the tags are UPOS, XPOS, the last DEPS, MISC."""

OBSERVED = FIELDS[1:6]
"""The columns that templates may use."""

HEAD, DEPREL = 6, 7

BYTES_PER_ROW = 40
"""An estimate that turns the size of a batch in tokens into bytes."""

_NO_TOKEN = re.compile(r"[0-9]+(-|\.)[0-9]+")
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Sheet:
    """The `extra` of a corpus: the lines it was read from, and the line of each token, int64[T]."""

    lines: list[str]
    tokens: NDArray[np.int64]

    def cells(self, field: int) -> list[str]:
        """Return one column of the tokens, `_` where the lines are too short to have it."""
        rows = (self.lines[line].split("\t", field + 1) for line in self.tokens.tolist())
        return [row[field] if len(row) > field else "_" for row in rows]


def read(
    path: str | Path, *, single_root: bool = False, trees: bool = True, encoding: str = "utf-8"
) -> Corpus:
    """Read a whole file; outputs are heads, numbered in the sentence, 0 the root."""
    lines = text.load(path, encoding).split("\n")
    reader = _SentenceReader(path, DEPREL + 1)
    reader.take(lines, 1)
    if not reader.rows:
        raise FormatError(path, None, "no sentences: expected rows of columns, got none")
    return reader.corpus(_heads(reader, single_root, trees))


def stream(
    lines: BinaryIO, *, source: str, encoding: str = "utf-8", batch_tokens: int = 20000
) -> Iterator[Corpus]:
    """Yield batches of whole sentences to be parsed as they are read (see `text.blocks`).

    HEAD and DEPREL are ignored. A batch may have comments and no sentence: it must still be
    written.
    """
    reader = _SentenceReader(source, HEAD)
    for first, block in text.sentence_blocks(lines, source, encoding, batch_tokens * BYTES_PER_ROW):
        reader.take(block.split("\n"), first)
        yield reader.corpus()


def format_trees(
    corpus: Corpus,
    heads: NDArray[np.int32],
    relations: Sequence[str] | None = None,
    comments: Sequence[Mapping[str, str]] = (),
) -> str:
    """Return the lines as they were read with heads int32[T], and with relations if given.

    comments: for each sentence values by name, written before its first token in place of comments
    of the same name.
    """
    if len(heads) != corpus.tokens:
        raise IncompatibleError(f"expected {corpus.tokens} heads, got {len(heads)}")
    sheet: Sheet = corpus.extra
    lines = list(sheet.lines)
    for number, (at, head) in enumerate(zip(sheet.tokens.tolist(), heads.tolist(), strict=True)):
        cells = lines[at].split("\t")
        cells += "_" * (DEPREL + 1 - len(cells))
        cells[HEAD] = str(head)
        if relations is not None:
            cells[DEPREL] = relations[number]
        lines[at] = "\t".join(cells)
    if lines and not text.is_blank(lines[-1]):
        lines.append("")
    if comments:
        starts = [_first_line(lines, at) for at in sheet.tokens[corpus.ptr[:-1]].tolist()]
        lines = list(_commented(lines, dict(zip(starts, comments, strict=True))))
    return "".join(f"{line}\n" for line in lines)


def _first_line(lines: list[str], at: int) -> int:
    """Return the first line of the sentence whose first token is at line `at`."""
    while at and not text.is_blank(lines[at - 1]) and not lines[at - 1].startswith("#"):
        at -= 1
    return at


def _commented(lines: list[str], given: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines with comments before some of them, without those that they replace."""
    names = {name for some in given.values() for name in some}
    for number, line in enumerate(lines):
        yield from (f"# {name} = {value}" for name, value in given.get(number, {}).items())
        if not (line.startswith("#") and line[1:].partition("=")[0].strip() in names):
            yield line


def relations(corpus: Corpus) -> Column:
    """Return the relation of each token to its head."""
    sheet: Sheet = corpus.extra
    return text.column(sheet.cells(DEPREL))


def given_trees(corpus: Corpus, span: slice) -> tuple[list[int], list[str]] | None:
    """Return heads and relations in the lines of one sentence; None if there are no valid heads."""
    sheet: Sheet = corpus.extra
    rows = [sheet.lines[line].split("\t") for line in sheet.tokens[span].tolist()]
    heads = [row[HEAD] if len(row) > DEPREL else "_" for row in rows]
    if not all(_NUMBER.fullmatch(head) and len(head) <= 9 and int(head) <= len(rows) for head in heads):
        return None
    return [int(head) for head in heads], [row[DEPREL] for row in rows]


class _SentenceReader:
    """Sentences of lines; all rows of one input are as wide as the first, `least` to 10 columns."""

    def __init__(self, source: str | Path, least: int) -> None:
        self.source = source
        expected = f"{least} to {len(FIELDS)} columns separated by tabs"
        self.widths = text.WidthCheck(source, least, len(FIELDS), expected)
        self.first, self.lines = 1, [""]
        self.rows: list[list[str]] = []
        self.at: list[int] = []
        self.ends: list[int] = []

    def take(self, lines: list[str], first: int) -> None:
        """Split whole sentences into rows; `first` is the number of the first line."""
        self.first, self.lines = first, lines
        self.rows, self.at, self.ends = [], [], [0]
        for index, line in enumerate(lines):
            if text.is_blank(line):
                self._end_sentence()
            elif not line.startswith("#"):
                self._row(line, index)
        self._end_sentence()

    def corpus(self, outputs: NDArray[np.int32] | None = None) -> Corpus:
        """Return the sentences as a corpus with these heads."""
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
        cells, problem = line.split("\t"), None
        self.widths.check(len(cells), self.first + index)
        expected = len(self.rows) - self.ends[-1] + 1
        if not all(cells):
            problem = f"expected a value or _ in {FIELDS[cells.index('')]}, got nothing"
        elif cells[0] == str(expected):
            self.rows.append(cells)
            self.at.append(index)
        elif not _NO_TOKEN.fullmatch(cells[0]):
            problem = f"expected token {expected}, a range or an empty node, got {cells[0]!r}"
        if problem is not None:
            raise FormatError(self.source, self.first + index, problem)


def _heads(reader: _SentenceReader, single_root: bool, trees: bool) -> NDArray[np.int32]:
    """Return the heads of all rows, int32[T]; raise unless they are numbers and make `trees`."""
    found: list[int] = []
    for start, stop in pairwise(reader.ends):
        for row in range(start, stop):
            token, cell = reader.rows[row][0], reader.rows[row][HEAD]
            if not _NUMBER.fullmatch(cell) or len(cell) > 9:
                raise reader.error(row, f"expected the number of a head, got {cell!r}")
            if trees and (int(cell) > stop - start or cell == token):
                others = f"a head from 0 to {stop - start} other than the token itself"
                raise reader.error(row, f"expected {others}, got {cell!r}")
            found.append(int(cell))
        wrong = tree_problem(found[start:], single_root) if trees else None
        if wrong is not None:
            raise reader.error(start + wrong[0] - 1, wrong[1])
    return np.array(found, np.int32)


def tree_problem(heads: Sequence[int], single_root: bool = False) -> tuple[int, str] | None:
    """Return the token at which heads (0 the root) make no tree, and why; None for a tree."""
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
