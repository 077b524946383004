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
from mtlstruct.linear.design import prefetch

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


class Work(NamedTuple):
    """The workspace of one arc.

    found     int64[lookups, 2]: row and base of what was found
    number    int64[sources]
    keys      int64[lookups + 1, 3]: key, row and number of what is looked up
    """

    found: NDArray[np.int64]
    number: NDArray[np.int64]
    keys: NDArray[np.int64]


def make_work(program: Program, longest: int) -> Work:
    """Allocate the workspace for sentences of up to `longest` words."""
    each = int(np.count_nonzero(program.inner[:, 5] == 0))
    lookups = len(program.lookups) + len(program.inner) + each * longest + 1
    keys = np.zeros((len(program.lookups) + 1, 3), np.int64)
    return Work(np.zeros((lookups, 2), np.int64), np.zeros(program.sources + 1, np.int64), keys)


# ---------------------------------------------------------------- kernels

ZERO, ONE, TWO, THREE = map(np.uint64, range(4))  # indices that cannot be negative need no test


@inner_kernel
def hash_key(key):
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return np.int64(h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(20))


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
def encode_arcs(program, table, words, ptr, span, work, row_ends, ids):
    """Return the attributes of all arcs of some sentences; row_ends: where those of each end."""
    bins, n_classes = program.bins, program.classes.shape[1]
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
                    size = _write_attributes(program, table, work, rows, arc_class, ids, size)
                row_ends[arc] = size
                arc += 1
    return ids[:size]


@inner_kernel
def _write_attributes(program, table, work, rows, arc_class, ids, size):
    """Write the attributes of the rows found for an arc. Return where they end."""
    record, block, classes, found = program.record, program.block, program.classes, work.found
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
def mark_classes(entry, entry_class, min_count, entries):
    """Return as bits the classes of each entry that occur `min_count` times or more."""
    counts = np.zeros((entries, MASK_BITS), np.int32)
    for i in range(len(entry)):
        counts[entry[i], entry_class[i]] += 1
    observed = np.zeros(entries, np.int64)
    for e in range(entries):
        for c in range(MASK_BITS):
            if counts[e, c] >= min_count:
                observed[e] |= 1 << c
    return observed


@kernel
def count_bits(masks):
    """Return the number of bits set in each mask."""
    out = np.empty(len(masks), np.int64)
    for i in range(len(masks)):
        out[i] = _popcount(masks[i])
    return out


@kernel
def drop_unused(records, used, before):
    """Remove unused attributes from the records of one template, in place.

    used bool[attributes]; before int64[attributes + 1]: number of used ones before each.
    """
    for e in range(len(records)):
        at = records[e] >> MASK_BITS
        start = before[at]
        kept = 0
        for c in range(MASK_BITS):
            if records[e] >> c & 1:
                if used[at]:
                    kept |= 1 << c
                at += 1
        records[e] = start << MASK_BITS | kept
