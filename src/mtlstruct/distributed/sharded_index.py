"""One index for data that lie in pieces: a distributed count, with the numbers that the whole would have been given.

Numbers go by first appearance, and pieces follow each other as in the whole. So each worker numbers what it sees on
its own (pass one) and says what its numbers stand for: strings, pairs of numbers, how often each was seen. Here its
numbers are translated, new things being numbered in the order of the workers, which is that of first appearance. What
goes back (pass two) is the attribute of each of *its* values: no worker ever sees the whole vocabulary.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.distributed.team import Each, Own, Team
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.extraction import Observed, observe, vocabulary_of
from mtlstruct.features.index import FeatureIndex, encoded_by, number_attributes
from mtlstruct.features.plan import Plan, make_plan
from mtlstruct.features.shared_templates import size_of, widened
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary
from mtlstruct.structures.base import Structure
from mtlstruct.templates import TemplateSet

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Outline:
    """A piece without its text: how many observation columns, the length of each sentence, the labels."""

    columns: int
    lengths: Int64
    labels: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Sight:
    """What a worker saw, in its own numbers: strings of each stream, pairs of each join, counts of each reading."""

    strings: list[list[str]]
    pairs: list[Int64]
    counts: list[Int64]


class Piece:
    """The sentences of one worker."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.seen: Observed | None = None

    def outline(self) -> Outline:
        """What there is."""
        corpus = self.corpus
        return Outline(len(corpus.columns), np.diff(corpus.ptr), corpus.labels, corpus.names)

    def digest(self) -> str:
        """A hash of what was read."""
        return self.corpus.digest()

    def relabel(self, labels: tuple[str, ...]) -> None:
        """Numbers the labels as the whole does."""
        self.corpus = self.corpus.relabelled(labels)

    def observe(self, templates: TemplateSet, structure: Structure, normalize: str) -> Sight:
        """Pass one."""
        if any(column.ptr is not None for column in self.corpus.columns):
            raise IncompatibleError("feature dicts and real values cannot be trained on in shards")
        seen = self.seen = observe(self.corpus, templates, structure.sites(self.corpus.ptr), normalize)
        strings = [some.strings()[:n] for some, n in zip(seen.vocabularies, seen.spelled, strict=True)]
        sizes = [size_of(seen.plan, r, (seen.vocabularies, seen.tables)) for r in range(len(seen.plan.uses))]
        counts = [seen.counts(r, size) for r, size in enumerate(sizes)]
        return Sight(strings, [table.pairs for table in seen.tables], counts)

    def encode(self, index: FeatureIndex, maps: list[Int32], structure: Structure) -> Encoded:
        """Pass two: the piece in features. `index` has neither vocabularies nor tables, `maps` are for own values."""
        if self.seen is None:  # a worker that takes the place of another
            self.observe(index.templates, structure, index.normalize)
        assert self.seen is not None
        encoded = encoded_by(replace(index, maps=tuple(maps)), self.seen)
        self.seen = None
        return encoded


def pieces_of(corpus: Corpus, count: int) -> list[Corpus]:
    """A corpus cut into runs of sentences with about as many tokens each, in order; none is empty."""
    goals = np.arange(1, count) * corpus.tokens // count
    cuts = np.concatenate([[0], np.searchsorted(corpus.ptr, goals), [len(corpus)]])
    cuts[1:-1] = np.clip(cuts[1:-1], np.arange(1, count), len(corpus) - np.arange(count - 1, 0, -1))
    cuts = np.maximum.accumulate(cuts - np.arange(count + 1)) + np.arange(count + 1)
    return [corpus.take(np.arange(a, b)) for a, b in itertools.pairwise(cuts.tolist())]


def whole(outlines: list[Outline]) -> Corpus:
    """All pieces in a row, without text: lengths and labels."""
    first = outlines[0]
    for number, each in enumerate(outlines):
        if each.columns != first.columns:
            raise IncompatibleError(
                f"all files must have the same columns: expected {first.columns} for observations as in the first "
                f"part, got {each.columns} in part {number + 1} of {len(outlines)}"
            )
    labels = tuple(sorted({label for each in outlines for label in each.labels}, key=str.encode))
    lengths = np.concatenate([each.lengths for each in outlines])
    nothing = Column(np.zeros(0, np.int32), [])
    return Corpus(
        columns=(nothing,) * first.columns,
        ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        labels=labels,
        names=first.names,
    )


def build_index(
    team: Team, templates: TemplateSet, structure: Structure, *, min_count: int, normalize: str
) -> FeatureIndex:
    """The index of all workers' pieces; each then has `encoded`, its own in features."""
    sights: list[Sight] = team.ask("piece", "observe", templates, structure, normalize)
    plan = make_plan(templates)
    translation = _Translation(plan, sights)
    known = widened(templates, plan, (translation.vocabularies, translation.tables))

    def count(r: int, size: int) -> Int64:
        total = np.zeros(size, np.int64)
        for number, sight in zip(translation.of(r), sights, strict=True):
            total[number] += sight.counts[r]  # numbers of one worker are distinct
        return total

    maps, sizes = number_attributes(templates, plan, known, count, min_count)
    kind_of = {site.letter: site.kind for site in structure.sites(np.array([0, 1]))}
    kinds = tuple(kind_of[t.kind] for t in templates)
    index = FeatureIndex(templates, kinds, normalize, *known, maps, sizes)
    bare = replace(index, vocabularies=(), tables=(), maps=())
    own = [
        [np.append(maps[r][translation.of(r)[k]], np.int32(ABSENT)) for r in range(len(plan.uses))]
        for k in range(team.size)
    ]
    team.make("encoded", Piece.encode, Own("piece"), bare, Each(own), structure)
    return index


class _Translation:
    """What the numbers of each worker are in the whole. numbers[node][k] int32: those of worker k."""

    def __init__(self, plan: Plan, sights: list[Sight]) -> None:
        self.plan, self.sights = plan, sights
        self.numbers: list[list[Int32]] = []
        self.vocabularies = tuple(self._merge_strings(s) for s in range(len(plan.streams)))
        self.tables = tuple(self._merge_pairs(n) for n in range(len(plan.joins)))

    def of(self, r: int) -> list[Int32]:
        """The numbers of a reading's values, for each worker."""
        node = self.plan.uses[r].node
        if node == ABSENT:  # the one value of what looks at nothing
            return [np.zeros(1, np.int32)] * len(self.sights)
        return self.numbers[node]

    def _merge_strings(self, s: int) -> Vocabulary:
        marks = self.plan.marks(self.plan.streams[s])
        every = dict.fromkeys(text for sight in self.sights for text in sight.strings[s])
        vocabulary = vocabulary_of(list(every), marks)
        own = [vocabulary_of(sight.strings[s], marks).strings() for sight in self.sights]
        self.numbers.append([vocabulary.lookup(strings) for strings in own])
        return vocabulary

    def _merge_pairs(self, n: int) -> PairTable:
        join = self.plan.joins[n]
        left, right = self.numbers[join.left], self.numbers[join.stream]
        found = [sight.pairs[n] for sight in self.sights]
        table, numbers = PairTable.build(
            np.concatenate([left[k][pairs >> 32] for k, pairs in enumerate(found)]),
            np.concatenate([right[k][pairs & 0xFFFFFFFF] for k, pairs in enumerate(found)]),
        )
        self.numbers.append(np.split(numbers, np.cumsum([len(pairs) for pairs in found])[:-1]))
        return table
