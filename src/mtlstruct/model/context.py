"""Columns made from the labels of a first pass: context beyond the window of a template.

Stacking: a second model sees the labels that a first one predicts, to the left and to the right of
a token, and how the same word and the same name were labelled in other sentences nearby.

References
----------
Cohen, Carvalho: Stacked sequential learning, IJCAI 2005.
Krishnan, Manning: An effective two-stage model for exploiting non-local dependencies in named
entity recognition, ACL 2006.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from mtlstruct.corpus import Corpus
from mtlstruct.formats import text
from mtlstruct.templates import TemplateSet

WINDOW = 60
"""Sentences before and after a sentence whose labels count."""

NONE = "_"
"""The cell of a word or name that does not occur elsewhere in the window."""

COLUMNS = ("first-pass label", "label elsewhere", "entity elsewhere")
"""The columns that `with_context` adds: the predicted label of a token, the most frequent label of
the same word elsewhere in the window, and the most frequent type of the same predicted entity
elsewhere."""

TEMPLATES = """\
U_label_1:%x[-2,{label}]
U_label_2:%x[-1,{label}]
U_label_3:%x[0,{label}]
U_label_4:%x[1,{label}]
U_label_5:%x[2,{label}]
U_label_6:%x[-1,{label}]/%x[0,{label}]
U_label_7:%x[0,{label}]/%x[1,{label}]
U_label_8:%x[-1,{label}]/%x[1,{label}]
U_label_9:%x[0,{label}]/%x[0,0]
U_word_1:%x[-1,{word}]
U_word_2:%x[0,{word}]
U_word_3:%x[1,{word}]
U_word_4:%x[-1,{word}]/%x[0,{word}]
U_word_5:%x[0,{word}]/%x[1,{word}]
U_word_6:%x[0,{word}]/%x[0,{label}]
U_word_7:%x[0,{word}]/%x[0,0]
U_entity_1:%x[-1,{entity}]
U_entity_2:%x[0,{entity}]
U_entity_3:%x[1,{entity}]
U_entity_4:%x[0,{entity}]/%x[0,{label}]
U_entity_5:%x[0,{entity}]/%x[0,{word}]
U_entity_6:%x[0,{entity}]/%x[0,{word}]/%x[0,{label}]
B_label:%x[0,{label}]
B_word:%x[0,{word}]
B_entity:%x[0,{entity}]
"""
"""Templates over the columns of the context; the learned weights tell which of them matter."""


def with_context(corpus: Corpus, labels: Sequence[str]) -> Corpus:
    """Return a corpus with the columns `COLUMNS` made of first-pass labels, one per token."""
    words, spans = corpus.columns[0].cells(), list(pairwise(corpus.ptr.tolist()))
    tokens = [(i, words[t], labels[t]) for i, span in enumerate(spans) for t in range(*span)]
    elsewhere = list(_most_frequent_elsewhere(tokens))
    added = (labels, elsewhere, _entities_elsewhere(words, labels, spans))
    names = (*corpus.names, *COLUMNS) if corpus.names else ()
    return replace(corpus, columns=(*corpus.columns, *map(text.column, added)), names=names)


def context_templates(templates: TemplateSet, columns: int) -> TemplateSet:
    """Return templates with those of the context, whose columns follow those of the data."""
    number = dict(zip(("label", "word", "entity"), range(columns, columns + len(COLUMNS)), strict=True))
    return replace(templates, templates=(*templates, *TemplateSet.parse(TEMPLATES.format(**number))))


def _entities_elsewhere(
    words: Sequence[str], labels: Sequence[str], spans: Sequence[tuple[int, int]]
) -> list[str]:
    """Return for each token of an entity the most frequent type of the same words elsewhere."""
    ranges = [(i, a, b) for i, span in enumerate(spans) for a, b in _entities(labels, *span)]
    found = [(i, " ".join(words[a:b]), _type(labels[a])) for i, a, b in ranges]
    cells = [NONE] * len(words)
    for (_, a, b), most in zip(ranges, _most_frequent_elsewhere(found), strict=True):
        cells[a:b] = [most] * (b - a)
    return cells


def _most_frequent_elsewhere(found: Sequence[tuple[int, str, str]]) -> Iterator[str]:
    """Yield the most frequent value of the key of each (sentence, key, value).

    They are in order of sentences. Its own value does not count, nor do those of sentences beyond
    the window. The first in the alphabet wins a tie.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    enters, leaves = 0, 0
    for sentence, key, value in found:
        while enters < len(found) and found[enters][0] <= sentence + WINDOW:
            counts[found[enters][1]][found[enters][2]] += 1
            enters += 1
        while found[leaves][0] < sentence - WINDOW:
            counts[found[leaves][1]][found[leaves][2]] -= 1
            leaves += 1
        others = counts[key] - Counter({value: 1})
        yield min(others, key=lambda other: (-others[other], other), default=NONE)


def _entities(labels: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive tokens with labels of one type, which begin at B or S."""
    begin = start
    for t in range(start, stop + 1):
        same = (
            t < stop and t > begin and _type(labels[t]) == _type(labels[begin]) and labels[t][0] not in "BS"
        )
        if not same:
            if t > begin and _type(labels[begin]):
                yield begin, t
            begin = t


def _type(label: str) -> str:
    """Return the type of an entity label such as B-PER; empty for other labels."""
    return label[2:] if label[1:2] == "-" else ""
