"""Dependency trees in CoNLL-X and CoNLL-U: one token per line, ten columns separated by tabs.

Comment lines, multiword ranges (`3-4`) and empty nodes (`5.1`) are no tokens: they are stored for
writing only. The last columns may be missing, from the ninth on in trees and from the seventh on in
text to be parsed. CoNLL-X allows several tokens under the root.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    source = str(path)
    corpus, rows = _parsed(text.load(path, encoding).split("\n"), 1, source, _widths(source, DEPREL + 1))
    if not rows:
        raise FormatError(source, None, "no sentences: expected rows of columns, got none")
    return replace(corpus, outputs=_heads(source, corpus, rows, single_root, trees))


def stream(
    lines: BinaryIO, *, source: str, encoding: str = "utf-8", batch_tokens: int = 20000
) -> Iterator[Corpus]:
    """Yield batches of whole sentences to be parsed as they are read (see `text.blocks`).

    HEAD and DEPREL are ignored. A batch may have comments and no sentence: it must still be
    written.
    """
    widths = _widths(source, HEAD)
    size = batch_tokens * BYTES_PER_ROW
    for first, block in text.blocks(lines, source, encoding, size, sentences=True):
        yield _parsed(block.split("\n"), first, source, widths)[0]


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
        cells = lines[at].split("\t", DEPREL + 1)
        cells += "_" * (DEPREL + 1 - len(cells))
        cells[HEAD] = str(head)
        if relations is not None:
            cells[DEPREL] = relations[number]
        lines[at] = "\t".join(cells)
    if lines and not text.is_blank(lines[-1]):
        lines.append("")
    if comments:
        names = {name for values in comments for name in values}
        kept = ["" if _comment_name(line) in names else f"{line}\n" for line in lines]
        for at, values in zip(sheet.tokens[corpus.ptr[:-1]].tolist(), comments, strict=True):
            while at and not text.is_blank(lines[at - 1]) and not lines[at - 1].startswith("#"):
                at -= 1  # to the first line of the sentence
            kept[at] = "".join(f"# {name} = {value}\n" for name, value in values.items()) + kept[at]
        return "".join(kept)
    return "\n".join([*lines, ""]) if lines else ""


def _comment_name(line: str) -> str | None:
    return line[1:].partition("=")[0].strip() if line.startswith("#") else None


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


def _widths(source: str, least: int) -> text.WidthCheck:
    expected = f"{least} to {len(FIELDS)} columns separated by tabs"
    return text.WidthCheck(source, least, len(FIELDS), expected)


def _parsed(
    lines: list[str], first: int, source: str, widths: text.WidthCheck
) -> tuple[Corpus, list[list[str]]]:
    """Return whole sentences without heads, and the cells of each token; first: the first line."""
    rows: list[list[str]] = []
    at, ends = [], [0]
    for index, line in enumerate([*lines, ""]):
        cells, expected = line.split("\t"), str(len(rows) - ends[-1] + 1)
        if cells[0] != expected or len(cells) != widths.width or "" in cells:
            if text.is_blank(line):
                ends += [len(rows)] * (len(rows) > ends[-1])
                continue
            if line.startswith("#"):
                continue
            widths.check(len(cells), first + index)
            if "" in cells:
                problem = f"expected a value or _ in {FIELDS[cells.index('')]}, got nothing"
                raise FormatError(source, first + index, problem)
            if _NO_TOKEN.fullmatch(cells[0]):
                continue
            if cells[0] != expected:
                problem = f"expected token {expected}, a range or an empty node, got {cells[0]!r}"
                raise FormatError(source, first + index, problem)
        rows.append(cells)
        at.append(index)
    columns = tuple(text.column([row[field] for row in rows]) for field in range(1, HEAD))
    sheet, ptr = Sheet(lines, np.array(at, np.int64)), np.array(ends, np.int64)
    return Corpus(columns, ptr, names=OBSERVED, extra=sheet), rows


def _heads(
    source: str, corpus: Corpus, rows: list[list[str]], single_root: bool, trees: bool
) -> NDArray[np.int32]:
    """Return the heads of all rows, int32[T]; raise unless they are numbers and make `trees`."""
    found: list[int] = []

    def error(row: int, problem: str) -> FormatError:
        return FormatError(source, int(corpus.extra.tokens[row]) + 1, problem)

    for span in corpus.sentences():
        last = span.stop - span.start
        for number, cells in enumerate(rows[span], span.start):
            cell = cells[HEAD]
            if not _NUMBER.fullmatch(cell) or len(cell) > 9:
                raise error(number, f"expected the number of a head, got {cell!r}")
            if trees and (int(cell) > last or cell == cells[0]):
                others = f"a head from 0 to {last} other than the token itself"
                raise error(number, f"expected {others}, got {cell!r}")
            found.append(int(cell))
        wrong = tree_problem(found[span], single_root) if trees else None
        if wrong is not None:
            raise error(span.start + wrong[0] - 1, wrong[1])
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
