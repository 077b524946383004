"""The corpus of the demo: recipe ingredient lines that come with the package, made into columns.

`ingredients.txt` marks spans with brackets, a line an ingredient: `[QTY 2] [UNIT cups] [NAME
flour]`. `column_file` gives each token the columns that a user would have, and two columns of noise
that training should drop.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

NOISE = (6, 7)
"""The columns of noise, independent of the label."""

LETTERS = "abcd"
"""The values of the noise."""

_SPAN = re.compile(r"\[(?P<type>[A-Z]+) (?P<inside>[^\[\]]+)\]|(?P<outside>\S+)")


class Line(NamedTuple):
    """An ingredient: its tokens, and a label for each."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]


def bundled() -> list[Line]:
    """Return the corpus in the package."""
    text = files("mtlstruct.samples").joinpath("ingredients.txt").read_text(encoding="utf-8")
    return [parse(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def parse(text: str) -> Line:
    """Read a line with brackets."""
    tokens: list[str] = []
    labels: list[str] = []
    for span in _SPAN.finditer(text):
        found = (span["inside"] or span["outside"]).split()
        tokens += found
        labels += [f"{'I' if k else 'B'}-{span['type']}" if span["type"] else "O" for k in range(len(found))]
    return Line(tuple(tokens), tuple(labels))


def split(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Return training and test lines, three to one; the corpus is in random order."""
    train = [line for number, line in enumerate(lines) if number % 4 != 3]
    return train, list(lines[3::4])


def column_file(lines: Iterable[Line], seed: int) -> str:
    """Return the lines as a column file.

    The columns are word, lower-cased word, its last three letters, shape, position, whether it
    stands in parentheses, noise of the token, noise of the line, and the label. `seed` is that of
    the noise.
    """
    draw = random.Random(seed)
    return "".join(_rows(line, draw) + "\n" for line in lines)


def _rows(line: Line, draw: random.Random) -> str:
    lower = [token.lower() for token in line.tokens]
    columns = zip(
        line.tokens,
        lower,
        [word[-3:] for word in lower],
        map(shape, line.tokens),
        map(position, range(len(lower))),
        parentheses(line.tokens),
        [draw.choice(LETTERS) for _ in lower],
        draw.choice(LETTERS) * len(lower),
        line.labels,
        strict=True,
    )
    return "".join("\t".join(row) + "\n" for row in columns)


def shape(token: str) -> str:
    """Return letters as X or x, digits as 9, the rest as it is, each run once: 14-ounce is 9-x."""
    classes = ("9" if c.isnumeric() else _case(c) for c in token)
    return re.sub(r"(.)\1+", r"\1", "".join(classes))


def _case(character: str) -> str:
    return character if not character.isalpha() else "X" if character.isupper() else "x"


def position(number: int) -> str:
    """Return the place in the line: the first tokens each for itself, then in bins."""
    return next((name for last, name in ((2, str(number)), (4, "3-4"), (8, "5-8")) if number <= last), "9-")


def parentheses(tokens: Iterable[str]) -> list[str]:
    """Return for each token whether it stands in parentheses."""
    found, depth = [], 0
    for token in tokens:
        depth -= token == ")"
        found.append("in" if depth > 0 else "out")
        depth += token == "("
    return found
