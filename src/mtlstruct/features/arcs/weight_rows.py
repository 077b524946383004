"""Scores of arcs from weights that are stored by value of a base and class of arcs.

The weights of all templates of a base for one class are one number here, so that a lookup finds
what it adds. Bases are looked up one after the other for all arcs of a sentence: the table of a
base then stays in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.features.arcs.kernels import (
    EMPTY,
    MASK_BITS,
    ONE,
    POSITIONS,
    THREE,
    TWO,
    ZERO,
    find_row,
    hash_key,
)
from mtlstruct.linear.design import prefetch

if TYPE_CHECKING:
    from mtlstruct.features.arcs.index import ArcIndex


class ArcWeights:
    """The weights of an index by value and class.

    table      int64[rows, 2]: key and number of each value; sources have their own numbers
    sums       float32[numbers, classes]: weights of the templates of a base
    both_ways  bool[lookups]: whether an arc and the one in the other direction have the same value
    """

    def __init__(self, index: ArcIndex, weights: NDArray[np.float32]) -> None:
        self.weights, self._program = weights, index.program
        first, bases = index.first, len(index.plan.bases)
        filled = index.table[: first[bases], 0] != EMPTY
        self._table = index.table[:, :2].copy()
        self._table[: first[bases], 1] = np.cumsum(filled) - filled
        self._sums = np.zeros((int(filled.sum()) + 1, self._program.classes.shape[1]), np.float32)
        for base in range(bases):
            rows = slice(first[base], first[base + 1])
            _sum_classes(self._program, base, index.table[rows], self._table[rows], weights, self._sums)

        ends, slots = self._program.ends, self._program.slots
        same = (slots[0] == slots[1]) & ((ends[0] != ends[1]) | (slots[0] == len(index.plan.words)))
        self._both_ways = same.all(axis=(0, 2))
        self._both_ways[: self._program.sources] = False

    def score(
        self,
        words: NDArray[np.integer],
        ptr: NDArray[np.int64],
        span: tuple[int, int],
        out: NDArray[np.float32],
    ) -> None:
        """Add the scores of all arcs of some sentences to `out`."""
        longest = int(np.diff(ptr[span[0] : span[1] + 1]).max(initial=0)) + 1
        numbers = np.empty((self._program.sources + 1, longest * longest), np.int64)
        keys = np.empty((longest + 1, 3), np.int64)
        _score_arcs(
            self._program, self._table, self._sums, self._both_ways, words, ptr, span, numbers, keys, out
        )


# ---------------------------------------------------------------- kernels


@kernel
def _sum_classes(program, base, records, table, weights, sums):
    """Add the weights of each value of a base, whose observed classes have consecutive weights."""
    own = np.zeros(MASK_BITS, np.float32)
    for row in range(len(records)):
        for r in range(program.record[base], program.record[base + 1] if records[row, 0] != EMPTY else 0):
            entry = records[row, 1 + r - program.record[base]]
            at = program.block[r] + (entry >> MASK_BITS)
            for c in range(MASK_BITS):
                own[c] = weights[at, 0] if entry >> c & 1 else np.float32(0)
                at += entry >> c & 1
            for arc_class in range(sums.shape[1]):
                sums[table[row, 1], arc_class] += own[program.classes[r, arc_class]]


@kernel
def _score_arcs(program, table, sums, both_ways, words, ptr, span, numbers, keys, out):
    """Add the scores of all arcs.

    numbers   int64[sources, n·(n + 1)], keys int64[n + 1, 3]: workspace for sentences of n words
    """
    lookups, ends, slots, inner, _, _, classes, bins, sources, null = program
    reach, last_bin, half = slots.shape[1] - 1, len(bins) - 1, classes.shape[1] // 2
    arcs = 0
    for i in range(span[0], span[1]):
        n, origin = ptr[i + 1] - ptr[i], ptr[i] + i
        for b in range(np.uint64(len(lookups))):
            start, mask = lookups[b, ZERO], lookups[b, ONE]
            source, listed = b < sources, lookups[b, THREE] != 0
            unknown = np.int64(-1 if source else len(sums) - 1)
            for modifier in range(1, n + 1):
                wanted, first = ZERO, (modifier - 1) * (n + 1)
                for head in range(modifier if both_ways[b] else n + 1):
                    right, between = np.uint64(modifier > head), abs(head - modifier) - 1
                    k = np.uint64(min(max(between, 0), reach))
                    at = modifier if ends[right, b, ZERO] else head
                    one = np.int64(words[np.uint64(origin + at), np.uint64(slots[right, k, b, ZERO])])
                    at = modifier if ends[right, b, ONE] else head
                    other = np.int64(words[np.uint64(origin + at), np.uint64(slots[right, k, b, ONE])])
                    known = one != null and other != null and between >= 0
                    if source:
                        numbers[b, np.uint64(first + head)] = one + other if known and not listed else -1
                        known = known and listed
                    key = one << 32 | other
                    row = start + (hash_key(key) & mask)
                    prefetch(table, row)
                    keys[wanted, ZERO], keys[wanted, ONE], keys[wanted, TWO] = key, row, np.int64(head)
                    wanted += np.uint64(known)
                for k in range(wanted):
                    key, row, head = keys[k, ZERO], keys[k, ONE], keys[k, TWO]
                    here = table[np.uint64(row), ZERO]
                    while (here != key) & (here != EMPTY):
                        row = start + ((row - start + 1) & mask)
                        here = table[np.uint64(row), ZERO]
                    # unknown values add 0: a branch would be mispredicted too often
                    number = table[np.uint64(row), ONE]
                    number = number if here == key else unknown
                    if source:
                        numbers[b, np.uint64(first + head)] = number
                        continue
                    distance = bins[np.uint64(min(abs(head - modifier) - 1, last_bin))]
                    right = distance + (half if modifier > head else 0)
                    out[np.uint64(arcs + first + head), ZERO] += sums[np.uint64(number), np.uint64(right)]
                    if both_ways[b] and head > 0:
                        arc = np.uint64(arcs + (head - 1) * (n + 1) + modifier)
                        out[arc, ZERO] += sums[np.uint64(number), np.uint64(distance)]
        for b in range(len(inner)):
            first_row, mask, _, source, slot, place, counted = inner[b]
            for modifier in range(1, n + 1):
                for head in range(n + 1):
                    between, arc = abs(head - modifier) - 1, (modifier - 1) * (n + 1) + head
                    if between < max(1, abs(place)):
                        continue
                    number = numbers[np.uint64(source), np.uint64(arc)]
                    if number < 0:
                        continue
                    first, last = (1, between) if place == 0 else (place, place)
                    if place < 0:
                        first = last = between + 1 + place
                    arc_class = bins[np.uint64(min(between, last_bin))] + (half if modifier > head else 0)
                    seen = ZERO
                    for position in range(first, last + 1):
                        at = np.uint64(origin + min(head, modifier) + position)
                        value = np.int64(words[at, np.uint64(slot)])
                        if value == null:
                            continue
                        if counted:
                            value = value * POSITIONS + min(position, POSITIONS - 1)
                        row = find_row(table, first_row, mask, number << 32 | value)
                        repeated = row < 0
                        for k in range(seen):  # a value of several words between counts once
                            repeated |= keys[k, ZERO] == row
                        if not repeated:
                            keys[seen, ZERO] = row
                            seen += ONE
                            found = np.uint64(table[np.uint64(row), ONE])
                            out[np.uint64(arcs + arc), ZERO] += sums[found, np.uint64(arc_class)]
        arcs += n * (n + 1)
