"""Feature index of data in shards, with the numbers that one machine would give.

Values are numbered by first appearance, and shards follow each other as in the data. Each worker
numbers the values of its shard and returns strings, pairs of numbers, and counts. Here these are
renumbered in the order of the workers, which is that of first appearance. Each worker gets back the
attributes of its own values: no worker needs the whole vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.distributed.pool import Pool
from mtlstruct.distributed.shard import Int32, Int64, LocalCounts
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.extraction import vocabulary_of
from mtlstruct.features.index import FeatureIndex, number_attributes
from mtlstruct.features.plan import Plan, make_plan
from mtlstruct.features.shared_templates import widened
from mtlstruct.features.vocabulary import ABSENT, PairTable, Vocabulary
from mtlstruct.structures.base import Structure
from mtlstruct.templates import TemplateSet


def runs_of(ptr: Int64, count: int) -> list[tuple[int, int]]:
    """Cut sentences, which begin at ptr, into runs of about equal size; none is empty."""
    goals, sentences = np.arange(1, count) * ptr[-1] // count, len(ptr) - 1
    cuts = np.concatenate([[0], np.searchsorted(ptr, goals), [sentences]])
    cuts[1:-1] = np.clip(cuts[1:-1], np.arange(1, count), sentences - np.arange(count - 1, 0, -1))
    cuts = np.maximum.accumulate(cuts - np.arange(count + 1)) + np.arange(count + 1)
    return list(itertools.pairwise(cuts.tolist()))


def merged_outline(outlines: list[Corpus]) -> Corpus:
    """Return the outline of all data, without text, from those of the shards."""
    first, width = outlines[0], len(outlines[0].columns)
    for number, each in enumerate(outlines):
        if len(each.columns) != width:
            raise IncompatibleError(
                f"all files must have the same columns: expected {width} for observations as in the first part, got "
                f"{len(each.columns)} in part {number + 1} of {len(outlines)}"
            )
    labels = tuple(sorted({label for each in outlines for label in each.labels}, key=str.encode))
    lengths = np.concatenate([np.diff(each.ptr) for each in outlines])
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    found = [each.relabelled(labels).outputs for each in outlines]
    known = [outputs for outputs in found if outputs is not None]
    return replace(first, ptr=ptr, labels=labels, outputs=np.concatenate(known) if known else None)


def build_index(
    pool: Pool, templates: TemplateSet, structure: Structure, *, min_count: int, normalize: str
) -> tuple[FeatureIndex, Iterator[list[Int32]]]:
    """Return the index of all shards, and for each shard the attributes of its own values."""
    found: list[LocalCounts] = pool.call("observe", templates, structure, normalize)
    plan = make_plan(templates)
    translation = _Translation(plan, found)
    known = widened(templates, plan, (translation.vocabularies, translation.tables))

    def count(r: int, size: int) -> Int64:
        total = np.zeros(size, np.int64)
        for number, local in zip(translation.of(r), found, strict=True):
            total[number] += local.counts[r]  # numbers of one worker are distinct
        return total

    maps, sizes = number_attributes(templates, plan, known, count, min_count)
    kind_of = {site.letter: site.kind for site in structure.sites(np.array([0, 1]))}
    kinds = tuple(kind_of[t.kind] for t in templates)
    own = (
        [np.append(maps[r][translation.of(r)[k]], np.int32(ABSENT)) for r in range(len(plan.uses))]
        for k in range(pool.size)
    )
    return FeatureIndex(templates, kinds, normalize, *known, maps, sizes), own


class _Translation:
    """Merged numbers of the values of each worker. numbers[node][k] int32: those of worker k."""

    def __init__(self, plan: Plan, found: list[LocalCounts]) -> None:
        self.plan, self.found = plan, found
        self.numbers: list[list[Int32]] = []
        self.vocabularies = tuple(self._merge_strings(s) for s in range(len(plan.streams)))
        self.tables = tuple(self._merge_pairs(n) for n in range(len(plan.joins)))

    def of(self, r: int) -> list[Int32]:
        """Return the merged numbers of the values of a line, for each worker."""
        node = self.plan.uses[r].node
        if node == ABSENT:  # a line without cells has one value
            return [np.zeros(1, np.int32)] * len(self.found)
        return self.numbers[node]

    def _merge_strings(self, s: int) -> Vocabulary:
        marks = self.plan.marks(self.plan.streams[s])
        every = dict.fromkeys(text for local in self.found for text in local.strings[s])
        vocabulary = vocabulary_of(list(every), marks)
        own = [vocabulary_of(local.strings[s], marks).strings() for local in self.found]
        self.numbers.append([vocabulary.lookup(strings) for strings in own])
        return vocabulary

    def _merge_pairs(self, n: int) -> PairTable:
        join = self.plan.joins[n]
        left, right = self.numbers[join.left], self.numbers[join.stream]
        found = [local.pairs[n] for local in self.found]
        table, numbers = PairTable.build(
            np.concatenate([left[k][pairs >> 32] for k, pairs in enumerate(found)]),
            np.concatenate([right[k][pairs & 0xFFFFFFFF] for k, pairs in enumerate(found)]),
        )
        self.numbers.append(np.split(numbers, np.cumsum([len(pairs) for pairs in found])[:-1]))
        return table
