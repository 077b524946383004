"""Made-up sentences about people and towns: with names, parts of speech and trees, different ones for each seed."""

from __future__ import annotations

import random

# fmt: off
PEOPLE = [
    "Ann", "Bo", "Carla", "Dov", "Edda", "Finn", "Greta", "Hugo", "Ines", "Jon",
    "Kara", "Leo", "Mona", "Nils", "Olga", "Per", "Rosa", "Sven", "Tilda", "Ugo",
]
SURNAMES = ["Abel", "Berg", "Cruz", "Dahl", "Egede", "Falk", "Grieg", "Holm", "Ibsen", "Juhl", "Krog", "Lund"]
TOWNS = ["Oslo", "Bergen", "Turku", "Malmo", "Aarhus", "Visby", "Narvik", "Odense", "Umea", "Vaasa"]
# fmt: on
VERBS, PLACED = ("saw", "met", "knew", "called"), ("lives", "works", "sleeps", "waited")
NOUNS = ("doctor", "baker", "teacher", "painter", "dog", "cat")
ADJECTIVES = ("old", "young", "tired", "happy")

Token = tuple[str, str, str, int]
"""Word, part of speech, label of the name it belongs to, number of the head."""


def sentences(count: int, seed: int, unseen: bool = False) -> list[list[Token]]:
    """So many sentences. `unseen`: with names that the other ones do not have."""
    draw = random.Random(seed)
    return [_sentence(draw, unseen) for _ in range(count)]


def _name(draw: random.Random, words: list[str], unseen: bool) -> str:
    half = len(words) // 2
    return draw.choice(words[half:] if unseen else words[:half])


def _person(draw: random.Random, unseen: bool) -> list[Token]:
    """Somebody; heads are numbers in the phrase, and 0 is what the phrase hangs on."""
    if draw.random() < 0.3:
        words = [("the", "D"), *([(draw.choice(ADJECTIVES), "J")] if draw.random() < 0.5 else [])]
        noun = len(words) + 1
        return [(word, tag, "O", noun) for word, tag in words] + [(draw.choice(NOUNS), "N", "O", 0)]
    first = (_name(draw, PEOPLE, unseen), "P", "B-PER", 0)
    if draw.random() < 0.4:
        return [first, (_name(draw, SURNAMES, unseen), "P", "I-PER", 1)]
    return [first]


def _sentence(draw: random.Random, unseen: bool) -> list[Token]:
    subject = _person(draw, unseen)
    verb = len(subject) + 1
    if draw.random() < 0.5:
        words = [*subject, (draw.choice(VERBS), "V", "O", 0)]
        rest = _person(draw, unseen)
    else:
        words = [*subject, (draw.choice(PLACED), "V", "O", 0)]
        rest = [("in", "I", "O", 0), (_name(draw, TOWNS, unseen), "P", "B-LOC", 1)]
    placed = [(w, t, y, h or verb) for w, t, y, h in subject] + [words[-1]]
    return [*placed, *((w, t, y, h + verb if h else verb) for w, t, y, h in rest), (".", ".", "O", verb)]
