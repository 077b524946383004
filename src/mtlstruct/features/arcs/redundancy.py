"""Templates that bring nothing: the same for every head of a word, or the same as another template, on these data.

A tree gives each word one head. A feature that fires for all heads of a word or for none adds the same to every
tree, so it can tell no tree from another; a template of such features is *constant*. Two features that fire on the
same arcs, but for some that are constant in this sense, cannot be told apart by any learner either; templates
whose features pair off like this are *identical*.

Both are found by one sum for each feature. Every arc gets a random number, such that those of a word's heads sum to
0 (mod 2^64). The sum over the arcs where a feature fires is 0 if it is constant, and equal for equal features; the
chance of either without a reason is below 2^-40 for any data that fit into memory. Sums of integers do not depend
on their order, so neither does what is found.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.arcs.index import ArcIndex, Merged, Rows
from mtlstruct.features.arcs.kernels import thin
from mtlstruct.structures.tree import arc_starts


def merge(index: ArcIndex, corpus: Corpus, rows: Rows) -> ArcIndex:
    """The index without such templates; the rows are rewritten to match it."""
    sums = _feature_sums(index, corpus, rows)
    prints = _fingerprints(index, sums)
    twins = index.plan.twins
    seen = [twins.get(j, j) for j in range(len(prints))]
    first: dict[int, int] = {}
    constant, identical = [], {}
    for j, k in enumerate(seen):
        if index.sizes[k] and prints[k] == 0:
            constant.append(j)
        elif index.sizes[k] and first.setdefault(prints[k], j) != j:
            identical[j] = first[prints[k]]
    merged = Merged(tuple(constant), identical, index.sizes[seen])
    index = replace(index, merged=merged)
    if not merged.dropped:
        return index
    gone = set(merged.dropped)
    used = [np.full(size, j not in gone) for j, size in enumerate(index.sizes.tolist())]
    small = thinned(index, used)
    moved = np.full(int(index.block_ptr[-1]), -1, np.int64)
    for j, mask in enumerate(used):
        if mask.any():
            begin, end = index.block_ptr[j : j + 2]
            moved[begin:end] = np.arange(end - begin) + small.block_ptr[j]
    _move(rows.ids, rows.ptr, moved.astype(rows.ids.dtype))
    return small


def thinned(index: ArcIndex, used: list[NDArray[np.bool_]]) -> ArcIndex:
    """The index without the attributes that are not marked; templates and entries stay, if need be empty."""
    table = index.table.copy()
    for base, templates in enumerate(index.plan.templates_of):
        rows = table[index.first[base] : index.first[base + 1]]
        for k, j in enumerate(templates):
            before = np.concatenate([[0], np.cumsum(used[j])])
            thin(rows[:, 1 + k], np.append(used[j], False), before)
    return replace(index, table=table, sizes=np.array([int(mask.sum()) for mask in used], np.int64))


def _feature_sums(index: ArcIndex, corpus: Corpus, rows: Rows) -> NDArray[np.uint64]:
    """For each attribute the sum over the arcs where it fires."""
    starts = arc_starts(corpus.ptr)
    spans = threads.chunks(starts)
    groups = [spans[k :: threads.get_threads()] for k in range(threads.get_threads())]

    def work(group: list[tuple[int, int]]) -> NDArray[np.uint64]:
        sums = np.zeros(int(index.block_ptr[-1]), np.uint64)
        for span in group:
            _add_up(rows.ids, rows.ptr, corpus.ptr, starts, *span, sums)
        return sums

    found = threads.in_order(work, [group for group in groups if group])
    return np.asarray(np.sum(found, axis=0, dtype=np.uint64))


def _fingerprints(index: ArcIndex, sums: NDArray[np.uint64]) -> list[int]:
    """One number for the set of sums of each template, 0 for those without any that differs from 0."""
    mixed = _mixed(sums)
    mixed[sums == 0] = 0
    return [int(mixed[a:b].sum(dtype=np.uint64)) for a, b in pairwise(index.block_ptr.tolist())]


# ---------------------------------------------------------------- kernels


@kernel
def _mix(x):  # type: ignore[no-untyped-def]
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _mixed(numbers):  # type: ignore[no-untyped-def]
    out = np.empty_like(numbers)
    for i in range(len(numbers)):
        out[i] = _mix(numbers[i])
    return out


@kernel
def _add_up(ids, row_ptr, ptr, starts, first, last, sums):  # type: ignore[no-untyped-def]
    arc = starts[first]
    for i in range(first, last):
        n = ptr[i + 1] - ptr[i]
        for modifier in range(1, n + 1):
            rest = np.uint64(0)
            for head in range(n + 1):
                if head != modifier:
                    number = _mix(np.uint64(arc + 1))
                    if head == n or (head == n - 1 and modifier == n):
                        number = np.uint64(0) - rest
                    rest += number
                    for k in range(row_ptr[arc], row_ptr[arc + 1]):
                        sums[ids[k]] += number
                arc += 1


@kernel
def _move(ids, row_ptr, moved):  # type: ignore[no-untyped-def]
    """Renumbers the ids of all rows in place, without those that are gone."""
    size = 0
    begin = row_ptr[0]
    for row in range(len(row_ptr) - 1):
        end = row_ptr[row + 1]
        for k in range(begin, end):
            number = moved[ids[k]]
            if number >= 0:
                ids[size] = number
                size += 1
        begin = end
        row_ptr[row + 1] = size
