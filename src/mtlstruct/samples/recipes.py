"""The corpus of the demo: recipe ingredient lines that come with the package, made into columns.

`data/ingredients.txt` marks spans with brackets, a line an ingredient: `[QTY 2] [UNIT cups] [NAME flour]`.
`read` takes that apart, `bracketed` puts it together again; `column_file` gives each token the columns a
user would have, and two of pure noise, so that there is something to throw away. Refused: brackets that do
not pair, spans without tokens.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from mtlstruct.errors import FormatError

COLUMNS = ("word", "lower", "suffix", "shape", "position", "parentheses", "noise", "line noise")
"""What the columns hold; the last two say nothing about the label."""

NOISE = (6, 7)
"""The columns of noise."""

LETTERS = "abcd"
"""What the noise is drawn from."""

_SPAN = re.compile(r"(?:\[(?P<type>[A-Z]+) (?P<inside>[^\[\]]+)\]|(?P<outside>[^\[\]\s]+))(?=\s|$)|\s+")


@dataclass(frozen=True)
class Line:
    """An ingredient: its tokens, and a label for each."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]


def bundled() -> list[Line]:
    """The corpus in the package."""
    source = files("mtlstruct.samples").joinpath("ingredients.txt")
    return read(source.read_text(encoding="utf-8").splitlines())


def read(lines: Iterable[str], source: str = "ingredients.txt") -> list[Line]:
    """Takes bracketed lines apart; comments and blank lines are skipped."""
    return [
        _line(text, source, number)
        for number, text in enumerate(lines, 1)
        if text.strip() and not text.startswith("#")
    ]


def split(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Three lines to learn from for one to test on: every fourth, since the corpus is in random order."""
    train = [line for number, line in enumerate(lines) if number % 4 != 3]
    return train, list(lines[3::4])


def column_file(lines: Iterable[Line], seed: int) -> str:
    """The lines as a column file: COLUMNS and the label. `seed` is that of the noise."""
    draw = random.Random(seed)
    return "".join(_rows(line, draw) + "\n" for line in lines)


def bracketed(tokens: Sequence[str], labels: Sequence[str]) -> str:
    """The inverse of reading: tokens and labels as one line with brackets.

    Predicted labels may begin a span with I-; like B-, that opens a bracket.
    """
    pieces = []
    for token, label, last, coming in zip(tokens, labels, ["O", *labels], [*labels[1:], "O"], strict=False):
        opening = "" if label == "O" or _continues(last, label) else f"[{label[2:]} "
        closing = "" if label == "O" or _continues(label, coming) else "]"
        pieces.append(f"{opening}{token}{closing}")
    return " ".join(pieces)


def _continues(label: str, coming: str) -> bool:
    return coming.startswith("I-") and label[2:] == coming[2:]


def _line(text: str, source: str, number: int) -> Line:
    tokens: list[str] = []
    labels: list[str] = []
    at = 0
    while at < len(text):
        span = _SPAN.match(text, at)
        if span is None:
            raise FormatError(
                source, number, f"expected a token or [TYPE tokens], got {text[at : at + 20]!r}"
            )
        inside = (span["inside"] or "").split()
        outside = (span["outside"] or "").split()
        tokens += inside or outside
        labels += [f"{'I' if k else 'B'}-{span['type']}" for k in range(len(inside))] or ["O"] * len(outside)
        at = span.end()
    return Line(tuple(tokens), tuple(labels))


def _rows(line: Line, draw: random.Random) -> str:
    columns = zip(
        line.tokens,
        [token.lower() for token in line.tokens],
        [token.lower()[-3:] for token in line.tokens],
        [shape(token) for token in line.tokens],
        [position(number) for number in range(len(line.tokens))],
        parentheses(line.tokens),
        [draw.choice(LETTERS) for _ in line.tokens],
        draw.choice(LETTERS) * len(line.tokens),
        line.labels,
        strict=True,
    )
    return "".join("\t".join(row) + "\n" for row in columns)


def shape(token: str) -> str:
    """Letters as X or x, digits as 9, the rest as it is; runs count once: 14-ounce is 9-x."""
    classes = ("9" if c.isdigit() or c.isnumeric() else _case(c) for c in token)
    return re.sub(r"(.)\1+", r"\1", "".join(classes))


def position(number: int) -> str:
    """Where in the line: each of the first tokens for itself, then in bins."""
    return next((name for last, name in ((2, str(number)), (4, "3-4"), (8, "5-8")) if number <= last), "9-")


def parentheses(tokens: Iterable[str]) -> list[str]:
    """Whether each token stands in parentheses."""
    found, depth = [], 0
    for token in tokens:
        depth -= token == ")"
        found.append("in" if depth > 0 else "out")
        depth += token == "("
    return found


def _case(character: str) -> str:
    if not character.isalpha():
        return character
    return "X" if character.isupper() else "x"
