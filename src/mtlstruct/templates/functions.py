"""Functions of a cell: string -> string, computed once per distinct value of a column.

FUNCTIONS is the table that the parser, the encoder and docs/reference/templates.md read; a row adds
a function. Boundary marks are not passed through functions, and neither is a cell that spells one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

from mtlstruct.templates.regex import Regex, RegexError, compiled

Lists = tuple[str, ...]
"""The entries of a list file."""

NUMBER, REGEX, WAPITI, LIST = "n", '"regex"', '"wapiti regex"', '"list"'
"""Kinds of arguments, as the table of the docs writes them."""

QUOTED = (REGEX, WAPITI, LIST)

VALUE = "value"
"""The function that reads a cell as a number, which is the value of a feature."""

MAX_NUMBER = 99
"""The largest number an argument may be."""

MAX_COUNTED_LENGTH = 20
"""%len counts up to here."""

_NUMERAL = re.compile(r"[0-9]+|[0-9]+\.[0-9]+|[0-9]+[0-9,]+")  # what MSTParser takes for a number
_MARK = re.compile(r"_B[+-][0-9]+|_ROOT")


class Function:
    """A row of FUNCTIONS: a line for the docs, apply(cell, *arguments), kinds of arguments."""

    def __init__(self, doc: str, apply: Callable[..., str], *arguments: str) -> None:
        self.doc, self.apply, self.arguments = doc, apply, arguments


class ArgumentError(ValueError):
    """Arguments that a function cannot take; the message is a clause."""


def is_mark(cell: str) -> bool:
    """Return whether a cell is spelled like a boundary mark or the root of a tree."""
    return cell.startswith("_") and _MARK.fullmatch(cell) is not None


def bound(
    name: str,
    arguments: tuple[str, ...],
    lists: Mapping[str, Lists],
    normalize: Callable[[str], str] | None = None,
) -> Callable[[str], str]:
    """Return the function of a cell in normal form, with its arguments ("": identity).

    normalize   what cells went through; entries of a list go through it too
    """
    if not name:
        return lambda cell: cell
    row, ready = FUNCTIONS[name], list[Any]()
    for kind, given in zip(row.arguments, arguments):
        if kind == NUMBER:
            ready.append(int(given))
        elif kind == LIST:
            ready.append(frozenset(lists[given] if normalize is None else map(normalize, lists[given])))
        else:
            ready.append(compiled(given, wapiti=kind == WAPITI))
    return lambda cell: cell if is_mark(cell) else row.apply(cell, *ready)


def check(name: str, arguments: tuple[str, ...]) -> None:
    """Reject, with an ArgumentError, arguments of a wrong number or kind."""
    kinds = FUNCTIONS[name].arguments
    if len(kinds) != len(arguments):
        raise ArgumentError(f"expected {signature(name)}, got {len(arguments)} arguments after the column")
    for kind, given in zip(kinds, arguments):
        if kind == NUMBER and not 1 <= int(given) <= MAX_NUMBER:
            raise ArgumentError(f"expected a number from 1 to {MAX_NUMBER} in %{name}, got {given}")
        if kind == LIST and not given:
            raise ArgumentError(f"expected the name of a file in %{name}, got nothing")
        if kind in (REGEX, WAPITI):
            try:
                compiled(given, wapiti=kind == WAPITI)
            except RegexError as error:
                raise ArgumentError(f"expected {error}, in the regular expression {given[:200]!r}") from None


def signature(name: str, alias: str = "") -> str:
    """Return how a function is written, such as %prefix[row,column,n]; "": the cell itself."""
    return f"%{alias or name or 'x'}[{','.join(('row', 'column', *(FUNCTIONS[name].arguments if name else ())))}]"


# ---------------------------------------------------------------- characters


@lru_cache(maxsize=65536)
def character_type(char: str) -> str:
    """Return upper, lower, digit, numeral, punct, symbol, blank, mark, or the script."""
    category = unicodedata.category(char)
    if category in ("Lu", "Lt"):
        return "upper"
    if category == "Ll":
        return "lower"
    if category == "Nd":
        return "digit"
    if category[0] == "N" or (category == "Lo" and unicodedata.numeric(char, None) is not None):
        return "numeral"
    if category[0] == "L":
        return unicodedata.name(char, "letter").partition(" ")[0].lower()
    return {"P": "punct", "S": "symbol", "Z": "blank", "M": "mark"}.get(category[0], "other")


_DRAWN = {"upper": "X", "lower": "x", "digit": "0", "numeral": "1"}
_SIGNS = ("punct", "symbol", "blank", "other")


@lru_cache(maxsize=65536)
def _drawn(char: str) -> str:
    kind = character_type(char)
    return _DRAWN.get(kind) or (char if kind in _SIGNS else "o")


def _is_sign(char: str) -> bool:
    return character_type(char) in _SIGNS


# ---------------------------------------------------------------- functions


def _mask(cell: str) -> str:
    return "".join("0" if character_type(c) == "digit" else c for c in cell)


def _case(cell: str) -> str:
    cased = [c.isupper() or c.istitle() for c in cell if c.isupper() or c.islower() or c.istitle()]
    if not cased:
        return "none"
    if all(cased):
        return "initial" if len(cased) == 1 else "upper"
    if not any(cased):
        return "lower"
    return "capital" if cased[0] and not any(cased[1:]) else "mixed"


def _share(found: Iterable[bool]) -> str:
    truths = set(found)
    return "none" if True not in truths else "some" if False in truths else "all"


def _digits(cell: str) -> str:
    numeric = [character_type(c) in ("digit", "numeral") for c in cell]
    others_are_signs = all(number or _is_sign(c) for number, c in zip(numeric, cell))
    found = _share(numeric)
    return "number" if found == "some" and others_are_signs else found


def _root(cell: str) -> str:
    return "".join(c for c in _mask(cell.lower()) if not _is_sign(c))


def _test(cell: str, regex: Regex) -> str:
    return "true" if regex.search(cell) is not None else "false"


def _match(cell: str, regex: Regex) -> str:
    return regex.search(cell) or ""


FUNCTIONS: dict[str, Function] = {
    "prefix": Function("the first n characters; the whole cell if it is shorter", lambda c, n: c[:n], NUMBER),
    "suffix": Function("the last n characters; the whole cell if it is shorter", lambda c, n: c[-n:], NUMBER),
    "lprefix": Function("the first n characters in lower case", lambda c, n: c.lower()[:n], NUMBER),
    "lsuffix": Function("the last n characters in lower case", lambda c, n: c.lower()[-n:], NUMBER),
    "lower": Function("the cell in lower case", str.lower),
    "first": Function(
        "the first of several values that a bar separates, as in FEATS", lambda c: c.partition("|")[0]
    ),
    "num": Function(
        "<num> for a number in digits (3, 3.14 or 1,000), else the cell",
        lambda c: "<num>" if _NUMERAL.fullmatch(c) else c,
    ),
    "mask": Function("the cell with every digit turned into 0", _mask),
    "root": Function("the cell in lower case, digits turned into 0, punctuation and symbols left out", _root),
    "shape": Function(
        "X for upper case, x for lower case, 0 for a digit, o for other letters, signs as they are",
        lambda c: "".join(map(_drawn, c)),
    ),
    "short": Function(
        "the shape with runs of one character made one",
        lambda c: "".join(drawn for drawn, _ in groupby(map(_drawn, c))),
    ),
    "case": Function(
        "lower, upper, capital (first letter only), initial (one capital), mixed or none", _case
    ),
    "type": Function(
        "types of characters in order: upper, lower, digit, numeral, punct, symbol, cjk, hiragana, thai …",
        lambda c: "+".join(dict.fromkeys(map(character_type, c))),
    ),
    "len": Function(
        f"the number of characters, {MAX_COUNTED_LENGTH} if there are more",
        lambda c: str(min(len(c), MAX_COUNTED_LENGTH)),
    ),
    "digits": Function("which characters are digits: none, some, all, or number (digits and signs)", _digits),
    "punct": Function(
        "which characters are punctuation or symbols: none, some or all", lambda c: _share(map(_is_sign, c))
    ),
    "test": Function("true if the expression matches somewhere, else false", _test, REGEX),
    "match": Function("the first part that the expression matches, empty if none", _match, REGEX),
    "in": Function(
        "true if the cell is an entry of the list, else false",
        lambda c, entries: "true" if c in entries else "false",
        LIST,
    ),
    VALUE: Function(
        "the cell as a number, or as several with commas between: [real values](#real-values)",
        lambda c: c,  # the encoder reads it
    ),
    "t": Function("Wapiti's test: true or false", _test, WAPITI),
    "m": Function("Wapiti's match: the first part that matches, empty if none", _match, WAPITI),
    "M": Function("Wapiti's match in lower case", lambda c, regex: _match(c, regex).lower(), WAPITI),
}
"""Functions of a cell by name."""

ALIASES = {"x": "", "X": "lower", "T": "t"}
"""Other names: the cell itself, and Wapiti's capitals, which lower the result."""
