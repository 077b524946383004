"""The corpus of the demo: ingredient lines of recipes that come with the package, as columns.

`ingredients.txt` marks spans with brackets, one ingredient per line: `[QTY 2] [UNIT cups] [NAME
flour]`. `column_file` gives each token the columns that a user would have, and two columns of noise
that training should drop.
"""

import random
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

NOISE_COLUMNS = (6, 7)
"""The columns that are independent of the label."""

NOISE_VALUES = "abcd"

_SPAN = re.compile(r"\[(?P<type>[A-Z]+) (?P<inside>[^\[\]]+)\]|(?P<outside>\S+)")


class Ingredient(NamedTuple):
    """Tokens of an ingredient line, and one label per token."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]


def bundled() -> list[Ingredient]:
    """Return the corpus that comes with the package."""
    text = files("mtlstruct.samples").joinpath("ingredients.txt").read_text(encoding="utf-8")
    return [parse(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def parse(text: str) -> Ingredient:
    """Read a line with brackets."""
    tokens, labels = list[str](), list[str]()
    for span in _SPAN.finditer(text):
        found = (span["inside"] or span["outside"]).split()
        tokens += found
        labels += [f"{'I' if k else 'B'}-{span['type']}" if span["type"] else "O" for k in range(len(found))]
    return Ingredient(tuple(tokens), tuple(labels))


def split(lines: Sequence[Ingredient]) -> tuple[list[Ingredient], list[Ingredient]]:
    """Return training and test lines, three to one."""
    train = [line for number, line in enumerate(lines) if number % 4 != 3]
    return train, list(lines[3::4])


def column_file(lines: Iterable[Ingredient], seed: int) -> str:
    """Return the lines as a column file.

    The columns are word, lower-cased word, its last three letters, shape, position, whether it
    stands in parentheses, noise of the token, noise of the line, and the label. `seed` is that of
    the noise.
    """
    draw, found = random.Random(seed), ""
    for tokens, labels in lines:
        lower, n = [token.lower() for token in tokens], len(tokens)
        columns: list[Iterable[str]] = [tokens, lower, [word[-3:] for word in lower], map(shape, tokens)]
        columns += [map(position, range(n)), parentheses(tokens)]
        columns += [[draw.choice(NOISE_VALUES) for _ in tokens], draw.choice(NOISE_VALUES) * n, labels]
        found += "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)) + "\n"
    return found


def shape(token: str) -> str:
    """Return the word shape: letters as X or x, digits as 9, runs once; 14-ounce becomes 9-x."""
    cases = ("X" if c.isupper() else "x" if c.isalpha() else c for c in token)
    return re.sub(r"(.)\1+", r"\1", "".join("9" if c.isnumeric() else c for c in cases))


def position(number: int) -> str:
    """Return the position in the line: numbers up to 2, then bins."""
    return str(number) if number <= 2 else "3-4" if number <= 4 else "5-8" if number <= 8 else "9-"


def parentheses(tokens: Iterable[str]) -> list[str]:
    """Return per token whether it is in parentheses: "in" or "out"."""
    found, depth = [], 0
    for token in tokens:
        depth -= token == ")"
        found.append("in" if depth > 0 else "out")
        depth += token == "("
    return found
