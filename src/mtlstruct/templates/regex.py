"""Regular expressions without backtracking: at most (n + 1)(m + b) steps.

Here m is the number of atoms and b that of alternatives. An expression is alternatives of atoms
(one character each), and an atom may be repeated or optional. There are no groups, so nothing
nests, and a pair (atom, place) that failed once is never tried again. Two flavours:

    ours     . \\x [a-z] [^…]   * + ? (as much as possible)   ^ $   |
    wapiti   . \\x              * (as little as possible) ? ^ $     other characters are literal

\\x is a class on Unicode letters (CLASSES; a capital is the complement) or the character x.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

MAX_CELL_LENGTH = 256
"""Characters of a cell that are matched."""

MAX_ATOMS = 64
MAX_CHARACTERS = 1000
"""Length of an expression."""

Test = Callable[[str], bool]


CLASSES: dict[str, Test] = {
    "a": str.isalpha,
    "d": str.isdigit,
    "l": str.islower,
    "p": lambda char: unicodedata.category(char)[0] in "PS",
    "s": str.isspace,
    "u": str.isupper,
    "w": str.isalnum,
}
"""Letter, digit, lower case, punctuation or symbol, blank, upper case, letter or digit."""


class RegexError(ValueError):
    """An expression that is not in the language; the message is a clause."""


class Atom(NamedTuple):
    """One character's test, and how often: "" once, "*", "+" or "?"."""

    test: Test
    repeat: str = ""


class Branch(NamedTuple):
    """One alternative."""

    atoms: tuple[Atom, ...]
    start: bool
    end: bool


class Regex(NamedTuple):
    """A compiled expression."""

    branches: tuple[Branch, ...]
    lazy: bool

    def search(self, cell: str) -> str | None:
        """Return the first part of the cell that matches, or None."""
        cell = cell[:MAX_CELL_LENGTH]
        failed: list[set[tuple[int, int]]] = [set() for _ in self.branches]
        for first in range(len(cell) + 1):
            for branch, known in zip(self.branches, failed):
                if first and branch.start:
                    continue
                stop = _end_of_match(branch, self.lazy, cell, first, known)
                if stop is not None:
                    return cell[first:stop]
        return None


def _end_of_match(
    branch: Branch, lazy: bool, cell: str, first: int, failed: set[tuple[int, int]]
) -> int | None:
    """Return where the match from `first` on ends; the stack has states to try, best on top."""
    stack = [(0, first)]
    while stack:
        state = stack.pop()
        if state in failed:
            continue
        failed.add(state)  # it either fails, or ends the search
        number, at = state
        if number == len(branch.atoms):
            if not branch.end or at == len(cell):
                return at
            continue
        atom = branch.atoms[number]
        fits = at < len(cell) and atom.test(cell[at])
        stack.extend(_next(atom.repeat, lazy, fits, number, at))
    return None


def _next(repeat: str, lazy: bool, fits: bool, number: int, at: int) -> list[tuple[int, int]]:
    """Return the states after an atom, the one to try first last."""
    past = (number + 1, at)
    if not repeat:
        return [(number + 1, at + 1)] if fits else []
    if not fits:
        return [past]
    if repeat == "?":
        return [past, (number + 1, at + 1)]
    return [(number, at + 1), past] if lazy else [past, (number, at + 1)]


@lru_cache(maxsize=1024)
def compiled(text: str, *, wapiti: bool = False) -> Regex:
    """Read an expression; RegexError says what is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        raise RegexError(f"an expression of at most {MAX_CHARACTERS:,} characters, got {len(text):,}")
    reader = _Reader(text, wapiti)
    branches = [reader.branch()]
    while reader.take("|"):
        branches.append(reader.branch())
    if sum(len(branch.atoms) for branch in branches) > MAX_ATOMS:
        raise RegexError(f"an expression of at most {MAX_ATOMS} characters and classes, got more")
    return Regex(tuple(branches), lazy=wapiti)


class _Reader:
    """Read an expression from left to right."""

    def __init__(self, text: str, wapiti: bool) -> None:
        self.text, self.wapiti, self.at = text, wapiti, 0
        self.repeats = "*?" if wapiti else "*?+"

    def take(self, char: str) -> bool:
        """Step over `char` if it is next."""
        found = self.text.startswith(char, self.at)
        self.at += len(char) * found
        return found

    def branch(self) -> Branch:
        start = (self.at == 0 or not self.wapiti) and self.take("^")
        atoms: list[Atom] = []
        while not self._ends():
            atoms += self._atom()
        return Branch(tuple(atoms), start, self.take("$"))

    def _ends(self) -> bool:
        rest = self.text[self.at : self.at + 2]
        return rest in ("", "$") or (not self.wapiti and (rest[0] == "|" or rest == "$|"))

    def _atom(self) -> list[Atom]:
        """Return the next atom with its repetition: `x+` is `x` and `x*`."""
        test = self._test()
        repeat = self.text[self.at : self.at + 1]
        if not repeat or repeat not in self.repeats:
            return [Atom(test)]
        self.at += 1
        if self.text[self.at : self.at + 1] in [*self.repeats]:
            raise RegexError(f"one repetition a character, got {self.text[self.at - 1 : self.at + 1]!r}")
        return [Atom(test), Atom(test, "*")] if repeat == "+" else [Atom(test, repeat)]

    def _test(self) -> Test:
        char = self.text[self.at]
        self.at += 1
        if char == ".":
            return lambda _: True
        if char == "\\":
            return self._escape()
        if char in self.repeats:
            raise RegexError(f"something to repeat before {char!r}")
        if self.wapiti:
            return char.__eq__
        if char == "[":
            return self._set()
        if char in "(){}]^$":
            raise RegexError(f"no groups, counts or anchors inside, got {char!r} (to match it: \\{char})")
        return char.__eq__

    def _escape(self) -> Test:
        char = self.text[self.at : self.at + 1]
        if not char:
            raise RegexError("a character after the last backslash")
        self.at += 1
        inner = CLASSES.get(char.lower())
        if inner is None:
            return char.__eq__
        return inner if char in CLASSES else lambda c: not inner(c)

    def _set(self) -> Test:
        """Return the test of a set, from after [ to ]."""
        negative = self.take("^")
        tests: list[Test] = []
        while not self.take("]"):
            if self.at >= len(self.text):
                raise RegexError("a ']' that closes the set")
            tests.append(self._member())
        if not tests:
            raise RegexError("a set with something in it, got '[]'")
        return lambda c: any(test(c) for test in tests) != negative

    def _member(self) -> Test:
        if self.take("\\"):
            return self._escape()
        low = self.text[self.at]
        self.at += 1
        high = self.text[self.at + 1 : self.at + 2]
        if not self.text.startswith("-", self.at) or high in ("", "]", "\\"):
            return low.__eq__
        self.at += 2
        if low > high:
            raise RegexError(f"a range that rises, got {low}-{high}")
        return lambda c: low <= c <= high
