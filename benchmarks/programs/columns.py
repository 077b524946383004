"""A corpus as a column file that CRF++, Wapiti and we read alike: KIND SOURCE TARGET.

plain       word, tag, label: as it is
hand        the same with the word in small letters, its first and last three letters, and its shape before the label
segmented   the characters of segmented text, labelled B I E
morphology  words of CoNLL-X; coarse tag and features, joined, are the label
tags        words of CoNLL-X with their tag
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mtlstruct.formats.segmented import labels_of, words

Rows = list[tuple[str, ...]]


def plain(path: Path) -> Iterator[Rows]:
    """The rows of each sentence."""
    for block in re.split(r"\n\s*\n", path.read_text("utf-8").strip()):
        yield [tuple(line.split()) for line in block.split("\n")]


def hand(path: Path) -> Iterator[Rows]:
    """Rows with four more columns, all made of the word."""
    for rows in plain(path):
        yield [(word, tag, *_more(word), label) for word, tag, label in rows]


def segmented(path: Path) -> Iterator[Rows]:
    """A row a character."""
    for line in words(path):
        if line:
            yield list(zip("".join(line), labels_of(map(len, line)), strict=True))


def morphology(path: Path) -> Iterator[Rows]:
    """A row a token."""
    for rows in plain(path):
        yield [(row[1], f"{row[3]}|{row[5]}") for row in rows]


def tags(path: Path) -> Iterator[Rows]:
    """A row a token."""
    for rows in plain(path):
        yield [(row[1], row[4]) for row in rows]


def _more(word: str) -> tuple[str, str, str, str]:
    return word.lower(), word[:3], word[-3:], shape(word)


def shape(word: str) -> str:
    """Letters by their size and digits, each stretch of the same as one; other signs as they are."""
    signs = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
    return re.sub(r"(.)\1+", r"\1", signs)


KINDS = {"plain": plain, "hand": hand, "segmented": segmented, "morphology": morphology, "tags": tags}


def main(kind: str, source: Path, target: Path) -> None:
    """Writes the file."""
    with target.open("w", encoding="utf-8") as out:
        for rows in KINDS[kind](source):
            out.write("".join("\t".join(row) + "\n" for row in rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
