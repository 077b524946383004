"""Kernels of arc encoding: from the values of sides to rows of the table, and to attributes.

An arc looks up each base once. The row that it finds has one record per template of the base: where
the attributes of this value begin within the block, and for which classes of (direction, distance)
there are any. So a template and its variants with direction and distance take one lookup.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel
from mtlstruct.features.vocabulary import pair_hash
from mtlstruct.linear.design import prefetch
from mtlstruct.structures.tree_decoding import longest_sentence

MASK_BITS = 16
"""A record is start · 2^MASK_BITS + observed classes."""

MASK = (1 << MASK_BITS) - 1

POSITIONS = 256
"""Positions of a word between two others are counted up to POSITIONS − 1."""

EMPTY = -1
"""The key of a row without an entry."""


class Program(NamedTuple):
    """A plan and its tables, as kernels read them.

    *Lookups* are what every arc looks up: the sources of `inner`, then the bases without a word
    between. If there is one side only, the slot of the other is all zeros.

    lookups    int64[lookups, 4]: first row and size − 1 of its table; the base, or NONE for a
               source; whether the number of a source must be looked up (otherwise it is the value
               of its side)
    ends       int64[2, lookups, 2]: by direction, the ends of the arc that are read: 0 head, 1
               modifier
    slots      int64[2, reach + 1, lookups, 2]: the slots that are read, by direction and number of
               words between (at most reach)
    inner      int64[..., 7]: bases with a word between: first row, size − 1, base, source, slot,
               place, position; those of each word first, then by place from the end, then from the
               beginning
    record     int64[bases + 1]: the records of a base
    block      int64[records]: the first attribute of the template of a record
    classes    int64[records, CLASSES]: the class of that template for each class of arcs
    bins       int64[...]: the bin of a distance by words between; the last entry is for all beyond
    sources    number of lookups that are sources
    null       the value that is not known
    """

    lookups: NDArray[np.int64]
    ends: NDArray[np.int64]
    slots: NDArray[np.int64]
    inner: NDArray[np.int64]
    record: NDArray[np.int64]
    block: NDArray[np.int64]
    classes: NDArray[np.int64]
    bins: NDArray[np.int64]
    sources: int
    null: int


# ---------------------------------------------------------------- kernels

ZERO, ONE, TWO, THREE = map(np.uint64, range(4))  # indices that cannot be negative need no test


@inner_kernel
def hash_key(key):
    return np.int64(pair_hash(key) >> np.uint64(4))


@kernel
def fill(keys, records, table):
    """Put entries into an empty table of a power-of-two size."""
    mask = len(table) - 1
    for i in range(len(keys)):
        row = hash_key(keys[i]) & mask
        while table[row, 0] != EMPTY:
            row = (row + 1) & mask
        table[row, 0] = keys[i]
        for k in range(records.shape[1]):
            table[row, 1 + k] = records[i, k]


@inner_kernel
def find_row(table, start, mask, key):
    """Return the row that holds a key, −1 if there is none."""
    at = hash_key(key) & mask
    while True:
        found = table[np.uint64(start + at), 0]
        if found == key:
            return start + at
        if found == EMPTY:
            return np.int64(-1)
        at = (at + 1) & mask


@inner_kernel
def _popcount(bits):
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@inner_kernel
def _look_up(program, table, words, origin, head, modifier, work):
    """Find the rows of all bases of an arc, and these bases. Return their number.

    Rows are prefetched for all keys before the first is compared: finding one waits for memory.
    """
    lookups, ends, slots, inner, _, _, _, _, sources, null = program
    found, number, keys = work
    right = 1 if modifier > head else 0
    between = abs(head - modifier) - 1
    ends, slots = ends[right], slots[right, min(between, slots.shape[1] - 1)]
    head_word, modifier_word = np.uint64(origin + head), np.uint64(origin + modifier)
    wanted, count = ZERO, ZERO
    for i in range(np.uint64(len(lookups))):
        one = np.int64(words[modifier_word if ends[i, ZERO] else head_word, np.uint64(slots[i, ZERO])])
        other = np.int64(words[modifier_word if ends[i, ONE] else head_word, np.uint64(slots[i, ONE])])
        known = one != null and other != null
        if i < sources:
            number[i] = one + other if known and not lookups[i, THREE] else -1
            known = known and lookups[i, THREE] and between > 0
        key = one << 32 | other
        row = lookups[i, ZERO] + (hash_key(key) & lookups[i, ONE])
        prefetch(table, row)
        keys[wanted, ZERO], keys[wanted, ONE], keys[wanted, TWO] = key, row, np.int64(i)
        wanted += np.uint64(known)
    for k in range(wanted):
        key, row, i = keys[k, ZERO], keys[k, ONE], np.uint64(keys[k, TWO])
        here = table[np.uint64(row), ZERO]
        while here != key and here != EMPTY:
            row = lookups[i, ZERO] + ((row - lookups[i, ZERO] + 1) & lookups[i, ONE])
            here = table[np.uint64(row), ZERO]
        if i < sources:
            number[i] = table[np.uint64(row), ONE] if here == key else -1
            continue
        found[count, ZERO], found[count, ONE] = row, lookups[i, TWO]
        count += np.uint64(here == key)
    left_end = min(head, modifier)
    for i in range(len(inner) if between > 0 else 0):
        place = inner[i, 5]
        if place > between:
            break
        source = number[inner[i, 3]]
        if source < 0 or -place > between:
            continue
        first, last = 1, between
        if place != 0:
            first = last = place if place > 0 else between + 1 + place
        begin = np.int64(count)
        for position in range(first, last + 1):
            value = np.int64(words[np.uint64(origin + left_end + position), np.uint64(inner[i, 4])])
            if value == null:
                continue
            if inner[i, 6]:
                value = value * POSITIONS + min(position, POSITIONS - 1)
            row = find_row(table, inner[i, 0], inner[i, 1], source << 32 | value)
            repeated = row < 0
            for k in range(begin, np.int64(count)):  # a value of several words between counts once
                repeated |= found[k, 0] == row
            if not repeated:
                found[count, ZERO], found[count, ONE] = row, inner[i, 2]
                count += ONE
    return np.int64(count)


@kernel
def encode_arcs(program, table, words, ptr, span, row_ends, ids):
    """Return the attributes of all arcs of some sentences; row_ends: where those of each end."""
    bins, n_classes, lookups = program.bins, program.classes.shape[1], len(program.lookups)
    most = lookups + len(program.inner) * longest_sentence(span[0], span[1], ptr) + 1
    # row and base of what was found; numbers of sources; key, row and number of what is looked up
    work = (
        np.zeros((most, 2), np.int64),
        np.zeros(program.sources + 1, np.int64),
        np.zeros((lookups + 1, 3), np.int64),
    )
    arc = 0
    size = 0
    for i in range(span[0], span[1]):
        n = ptr[i + 1] - ptr[i]
        origin = ptr[i] + i
        for modifier in range(1, n + 1):
            for head in range(n + 1):
                if head != modifier:
                    rows = _look_up(program, table, words, origin, head, modifier, work)
                    if size + rows * table.shape[1] >= len(ids):
                        grown = np.empty(2 * len(ids) + rows * table.shape[1], ids.dtype)
                        grown[:size] = ids[:size]
                        ids = grown
                    right = 1 if modifier > head else 0
                    distance = bins[min(abs(head - modifier) - 1, len(bins) - 1)]
                    arc_class = right * (n_classes // 2) + distance
                    size = _write_attributes(program, table, work[0], rows, arc_class, ids, size)
                row_ends[arc] = size
                arc += 1
    return ids[:size]


@inner_kernel
def _write_attributes(program, table, found, rows, arc_class, ids, size):
    """Write the attributes of the rows found for an arc. Return where they end."""
    record, block, classes = program.record, program.block, program.classes
    end = np.uint64(size)
    for k in range(np.uint64(rows)):
        row, base = np.uint64(found[k, ZERO]), np.uint64(found[k, ONE])
        begin = np.uint64(record[base])
        for r in range(begin, np.uint64(record[base + ONE])):
            entry = table[row, ONE + r - begin]
            observed = entry & MASK
            c = classes[r, np.uint64(arc_class)]
            ids[end] = block[r] + (entry >> MASK_BITS) + _popcount(observed & ((1 << c) - 1))
            end += np.uint64(observed >> c & 1)
    return np.int64(end)


@kernel
def sum_classes(program, base, records, table, weights, sums):
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
def score_arcs(program, table, sums, both_ways, value_of, words, ptr, span, real, out):
    """Add the scores of all arcs, base by base: the table of a base then stays in the cache.

    table     int64[rows, 2]: key and number of each value; sources have their own numbers
    sums      float32[numbers, classes]: weights of the templates of a base
    both_ways bool[lookups]: whether an arc and the one in the other direction have the same value
    value_of  int64[bases]: the row of `real` by which a base is multiplied
    real      float32[values, arcs]: real values; None if all are 1
    """
    lookups, ends, slots, inner, _, _, classes, bins, sources, null = program
    reach, last_bin, half = slots.shape[1] - 1, len(bins) - 1, classes.shape[1] // 2
    longest = longest_sentence(span[0], span[1], ptr) + 1
    numbers, keys = np.empty((sources + 1, longest**2), np.int64), np.empty((longest + 1, 3), np.int64)
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
                    arc, total = np.uint64(arcs + first + head), sums[np.uint64(number), np.uint64(right)]
                    out[arc, ZERO] += total if real is None else total * real[value_of[lookups[b, TWO]], arc]
                    if both_ways[b] and head > 0:
                        arc = np.uint64(arcs + (head - 1) * (n + 1) + modifier)
                        out[arc, ZERO] += sums[np.uint64(number), np.uint64(distance)]
        for b in range(len(inner)):
            first_row, mask, base, source, slot, place, counted = inner[b]
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
                            x = np.float32(1) if real is None else real[value_of[base], arcs + arc]
                            out[np.uint64(arcs + arc), ZERO] += x * sums[found, np.uint64(arc_class)]
        arcs += n * (n + 1)
