"""Columns made by a first pass: context beyond the window of a template.

Stacking: a second model sees the labels that a first one predicts, to the left and to the right of
a token, how probable they are, and how the same word and the same entity are labelled elsewhere in
the text. An entity is a chunk, or a token whose label is neither of a chunk nor O. Letters: T
tokens, L labels, K types of entities, E entities.

References
----------
Cohen, Carvalho: Stacked sequential learning, IJCAI 2005.
Krishnan, Manning: An effective two-stage model for exploiting non-local dependencies in named
entity recognition, ACL 2006.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.structures.schemes import OUTSIDE
from mtlstruct.templates import TemplateSet

if TYPE_CHECKING:
    from mtlstruct.model.model import Model

WINDOW = 60
"""Sentences before and after a sentence that are near."""

TOPIC_WINDOW = 10
"""Sentences before and after a sentence that have the same topic."""

GRADES = (0.05, 0.3, 0.6, 0.9, 0.98)
"""The probabilities at which a grade begins; types below the first are not shown."""

MIN_TOTAL = 1e-6
"""The smallest sum of probabilities that is divided by."""

NONE = "_"
"""The cell of a token for which a column has no evidence."""

COLUMNS = {
    "label": "label of the first pass",
    "certainty": "label, and the grade of its probability",
    "second": "second most probable type",
    "word": "most probable type of the same word elsewhere in the text",
    "near": "most probable type of the same word in the window",
    "entity": "most probable type of the same entity elsewhere in the text",
    "near_entity": "most probable type of the same entity in the window",
    "longer": "most probable type of entities of several words in the window that have the word",
    "sentence": "most frequent type of the other entities of the sentence",
    "topic": "most frequent type of the other entities of the sentences around",
    "previous": "type of the entity before, in the sentence",
    "next": "type of the entity after, in the sentence",
}
"""The columns that `with_context` adds. Types have the grade of their probability or share."""

FORM_CELLS = "%x[-1,0] %x[0,0] %x[1,0] %lower[0,0] %case[0,0] %case[-1,0]/%case[0,0] %case[0,0]/%case[1,0]"
COLUMN_CELLS = (
    "%x[-1,{0}] %x[0,{0}] %x[1,{0}] %x[-1,{0}]/%x[0,{0}] %x[0,{0}]/%x[1,{0}] %x[0,{0}]/%x[0,{1}] "
    "%x[0,{0}]/%x[0,0]"
)
"""The cells of templates: of the word, and of each column {0} with those of the label {1}."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Labelling(NamedTuple):
    """The result of a first pass: the labels, int32[T] of them, and probabilities float64[T, L]."""

    labels: tuple[str, ...]
    outputs: NDArray[np.int32]
    probabilities: Floats


def first_pass(model: Model, corpus: Corpus) -> Labelling:
    """Return the learned labels of a corpus and their probabilities."""
    lattice = model.lattice(corpus)
    marginals = replace(lattice, conversion=None).marginals(model.temperature)
    return Labelling(model.learned_labels, lattice.path(), marginals.node)


def context_templates(columns: int) -> TemplateSet:
    """Return the templates of a second pass, whose columns follow those of the data."""
    cells = {"form": FORM_CELLS} | {
        name: COLUMN_CELLS.format(number, columns) for number, name in enumerate(COLUMNS, columns)
    }
    lines = [f"U_{name}_{n}:{cell}" for name in cells for n, cell in enumerate(cells[name].split(), 1)]
    lines += [f"B_{name}:%x[0,{number}]" for number, name in enumerate(COLUMNS, columns)]
    return TemplateSet.parse("\n".join([*lines, "B"]))


def with_context(corpus: Corpus, first: Labelling) -> Corpus:
    """Return a corpus with the columns `COLUMNS` made of the result of a first pass."""
    labels, outputs, probabilities = first
    tokens, words = np.arange(len(outputs)), corpus.columns[0].ids.astype(np.int64)
    sentence = np.repeat(np.arange(len(corpus)), np.diff(corpus.ptr))
    types, type_of = np.unique([_type(label) for label in labels], return_inverse=True)
    by_type = np.stack([probabilities[:, type_of == k].sum(axis=1) for k in range(len(types))], axis=1)
    names, shares = types[types != ""].tolist(), by_type[:, types != ""]  # all but O, which comes first
    by_type[tokens, type_of[outputs]] = 0
    start, type_, number, before = _entities(corpus.ptr, labels, outputs, type_of - (types[0] == ""))
    length, where = np.bincount(number, minlength=len(start) + 1)[:-1], sentence[start]
    phrase = _numbered([words[a : a + n].tobytes() for a, n in zip(start, length, strict=True)])
    sums = [np.bincount(number, shares[:, k], len(start) + 1)[:-1] for k in range(len(names))]
    means = np.stack(sums, axis=1) / length[:, None]
    counts = np.zeros((len(corpus) + 1, len(names)))
    np.add.at(counts, (where + 1, type_), 1)
    counts = np.cumsum(counts, axis=0)  # of the entities before a sentence
    own = np.append(type_, -1)[number, None] == np.arange(len(names))

    def of_entities(window: int) -> Column:
        mean, found = _elsewhere(phrase, where, means, window)
        padded = np.vstack([mean, np.zeros((1, len(names)))])
        return _graded(names, padded[number], np.append(found, 0)[number])

    def of_others(window: int) -> Column:
        low, high = np.maximum(sentence - window, 0), np.minimum(sentence + window + 1, len(corpus))
        return _graded(names, *_normalized(counts[high] - counts[low] - own))

    def beside(which: Ints) -> Column:
        same = np.append(where, -1)[which] == sentence
        return _column(np.where(same, np.append(type_, -1)[which], -1), names)

    text, long = len(corpus), np.append(length > 1, False)[number, None]
    certainty = np.digitize(probabilities[tokens, outputs], GRADES)
    added = (
        _column(outputs, labels),
        _column(outputs * (len(GRADES) + 1) + certainty, _grades(labels)),
        _graded([name or OUTSIDE for name in types.tolist()], by_type, np.ones(len(tokens))),
        _graded(names, *_elsewhere(words, sentence, shares, text)),
        _graded(names, *_elsewhere(words, sentence, shares, WINDOW)),
        of_entities(text),
        of_entities(WINDOW),
        _graded(names, *_normalized(_elsewhere(words, sentence, shares * long, WINDOW)[0])),
        of_others(0),
        of_others(TOPIC_WINDOW),
        beside(before - 1),
        beside(before + (number < len(start))),
    )
    names = [*corpus.names, *COLUMNS] if corpus.names else []
    return replace(corpus, columns=(*corpus.columns, *added), names=tuple(names))


def _entities(
    ptr: Ints, labels: Sequence[str], outputs: NDArray[np.int32], type_of: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return first tokens and types int64[E] of entities, and of each token the entity (E outside).

    Last, the number of entities before each token, its own not counted. An entity is a range of
    tokens with labels of one type (`type_of`, -1 for O). It ends before B, S and plain labels.
    """
    type_ = type_of[outputs]
    inside = type_ >= 0
    begins = np.array([label[:2] in ("B-", "S-") or _type(label) == label for label in labels])[outputs]
    begins[1:] |= type_[1:] != type_[:-1]
    begins[ptr[:-1]] = True
    start, begun = np.flatnonzero(begins & inside), np.cumsum(begins & inside)
    return start, type_[start], np.where(inside, begun - 1, len(start)), begun - inside


def _elsewhere(key: Ints, sentence: Ints, values: Floats, window: int) -> tuple[Floats, Ints]:
    """Return the mean of the values of other items with the same key, and the number of these.

    The items are in order of sentences. Those of sentences beyond the window do not count.
    """
    sentences = int(sentence.max(initial=0)) + 1
    window = min(window, sentences)
    place = key * (2 * sentences + 1) + sentence
    order = np.argsort(place, kind="stable")
    sums = np.vstack([np.zeros((1, values.shape[1])), np.cumsum(values[order], axis=0)])
    low = np.searchsorted(place[order], place - window, "left")
    high = np.searchsorted(place[order], place + window, "right")
    found = high - low - 1
    return (sums[high] - sums[low] - values) / np.maximum(found, 1)[:, None], found


def _normalized(counts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return rows that sum to 1, and which rows have a sum to divide by."""
    total = counts.sum(axis=1)
    known = total > MIN_TOTAL
    return counts / np.where(known, total, 1.0)[:, None], known


def _graded(names: Sequence[str], shares: Floats, known: NDArray[Any]) -> Column:
    """Return the name with the largest share and its grade, O below all, NONE if not known."""
    best = shares.argmax(axis=1)
    grade = np.digitize(shares[np.arange(len(best)), best], GRADES)
    table = [*_grades(names), OUTSIDE]
    code = np.where(grade > 0, best * (len(GRADES) + 1) + grade, len(table) - 1)
    return _column(np.where(known > 0, code, -1), table)


def _grades(names: Sequence[str]) -> list[str]:
    return [f"{name} {grade}" for name in names for grade in range(len(GRADES) + 1)]


def _column(ids: NDArray[Any], strings: Sequence[str]) -> Column:
    """Return a column of cells by number; NONE for negative numbers."""
    return Column.merged(np.where(ids < 0, len(strings), ids).astype(np.int32), [*strings, NONE])


def _numbered(keys: Sequence[Hashable]) -> Ints:
    """Return the number of each key by first appearance."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], np.int64)


def _type(label: str) -> str:
    """Return the type of a label of chunks such as B-PER, another label itself; empty for O."""
    return label[2:] if label[1:2] == "-" else "" if label == OUTSIDE else label
