"""Segmented text of any size made of another: SOURCE TARGET SENTENCES LENGTH REPLACED. Prints what it has made.

A sentence is a few stretches of words from random places, together as many characters as an exponential says, LENGTH
on average; a part of the characters, REPLACED, becomes another character of the source. Both make observations that
no text has had before, as new text does. The same arguments make the same file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from mtlstruct.formats.segmented import words

STRETCH = 2
"""Words that stand together in a sentence as they do in the source."""


def sentences(
    source: list[str], count: int, length: float, replaced: float, seed: int = 0
) -> Iterator[list[str]]:
    """The words of each sentence, about `length` characters on average and at least one word."""
    rng = random.Random(seed)
    length -= _overshoot(source)
    alphabet = sorted(set("".join(source)))
    for _ in range(count):
        wanted, found, size = rng.expovariate(1 / length), list[str](), 0
        while not found or size < wanted:
            start = rng.randrange(len(source))
            for word in source[start : start + STRETCH]:
                if found and size >= wanted:
                    break
                found.append(_replaced(word, replaced, alphabet, rng))
                size += len(word)
        yield found


def _overshoot(source: list[str]) -> float:
    """By how much the last word of a sentence goes beyond its end, on average; words are met by their length."""
    return sum(len(word) ** 2 for word in source) / (2 * sum(map(len, source)))


def _replaced(word: str, part: float, alphabet: list[str], rng: random.Random) -> str:
    return "".join(rng.choice(alphabet) if rng.random() < part else character for character in word)


def main(source: str, target: str, count: int, length: float, replaced: float) -> dict[str, int]:
    """Writes the file."""
    text = [word for line in words(source) for word in line]
    characters = 0
    with Path(target).open("w", encoding="utf-8") as out:
        for line in sentences(text, count, length, replaced):
            out.write("  ".join(line) + "\n")
            characters += sum(map(len, line))
    return {"sentences": count, "characters": characters}


if __name__ == "__main__":
    source, target, count, length, replaced = sys.argv[1:]
    print(json.dumps(main(source, target, int(count), float(length), float(replaced))))
