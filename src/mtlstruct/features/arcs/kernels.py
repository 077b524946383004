"""Kernels of arc encoding: from the values of sides to rows of the table, and to attributes.

An arc looks up each base once. The row that it finds has one record per template of the base: where
the attributes of this value begin within the block, and for which classes of (direction, distance)
there are any. So a template and its variants with direction and distance take one lookup.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
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
    keys      int64[lookups]: what each lookup looks for, EMPTY for nothing
    """

    found: NDArray[np.int64]
    number: NDArray[np.int64]
    keys: NDArray[np.int64]


def make_work(program: Program, longest: int) -> Work:
    """Allocate the workspace for sentences of up to `longest` words."""
    each = int(np.count_nonzero(program.inner[:, 5] == 0))
    lookups = len(program.lookups) + len(program.inner) + each * longest
    keys = np.zeros(len(program.lookups), np.int64)
    return Work(np.zeros((lookups, 2), np.int64), np.zeros(program.sources + 1, np.int64), keys)


# ---------------------------------------------------------------- kernels


@kernel
def _hash(key):
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return np.int64(h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(20))


@kernel
def fill(keys, records, table):
    """Put entries into an empty table of a power-of-two size."""
    mask = len(table) - 1
    for i in range(len(keys)):
        row = _hash(keys[i]) & mask
        while table[row, 0] != EMPTY:
            row = (row + 1) & mask
        table[row, 0] = keys[i]
        for k in range(records.shape[1]):
            table[row, 1 + k] = records[i, k]


@kernel
def _find(table, start, mask, key):
    """Return the row that holds a key, −1 if there is none."""
    at = _hash(key) & mask
    while True:
        found = table[np.uint64(start + at), 0]
        if found == key:
            return start + at
        if found == EMPTY:
            return np.int64(-1)
        at = (at + 1) & mask


@kernel
def _popcount(bits):
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@kernel
def _look_up(program, table, words, origin, head, modifier, work):
    """Find the rows of all bases of an arc, and these bases. Return their number.

    Rows are prefetched for all keys before the first is compared: finding one waits for memory.
    """
    lookups, ends, slots, inner, _, _, _, _, sources, null = program
    found, number, keys = work
    right = 1 if modifier > head else 0
    between = abs(head - modifier) - 1
    reach = min(between, slots.shape[1] - 1)
    count = 0
    for i in range(len(lookups)):
        end = modifier if ends[right, i, 0] else head
        one = np.int64(words[np.uint64(origin + end), np.uint64(slots[right, reach, i, 0])])
        end = modifier if ends[right, i, 1] else head
        other = np.int64(words[np.uint64(origin + end), np.uint64(slots[right, reach, i, 1])])
        known = one != null and other != null
        if i < sources:
            number[i] = one + other if known and not lookups[i, 3] else -1
            known = known and lookups[i, 3] and between > 0
        keys[i] = one << 32 | other if known else EMPTY
        if known:
            prefetch(table, lookups[i, 0] + (_hash(keys[i]) & lookups[i, 1]))
    for i in range(len(lookups)):
        if keys[i] == EMPTY:
            continue
        row = _find(table, lookups[i, 0], lookups[i, 1], keys[i])
        if row < 0:
            continue
        if i < sources:
            number[i] = table[row, 1]
        else:
            found[count, 0], found[count, 1] = row, lookups[i, 2]
            count += 1
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
        begin = count
        for position in range(first, last + 1):
            value = np.int64(words[np.uint64(origin + left_end + position), np.uint64(inner[i, 4])])
            if value == null:
                continue
            if inner[i, 6]:
                value = value * POSITIONS + min(position, POSITIONS - 1)
            row = _find(table, inner[i, 0], inner[i, 1], source << 32 | value)
            repeated = row < 0
            for k in range(begin, count):  # a value of several words between counts once
                repeated |= found[k, 0] == row
            if not repeated:
                found[count, 0], found[count, 1] = row, inner[i, 2]
                count += 1
    return count


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
                    if size + rows * table.shape[1] > len(ids):
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


@kernel
def _write_attributes(program, table, work, rows, arc_class, ids, size):
    """Write the attributes of the rows found for an arc. Return where they end."""
    record, block, classes, found = program.record, program.block, program.classes, work.found
    for k in range(rows):
        row = np.uint64(found[k, 0])
        begin = record[found[k, 1]]
        for r in range(begin, record[found[k, 1] + 1]):
            entry = table[row, np.uint64(1 + r - begin)]
            observed = entry & MASK
            c = classes[r, arc_class]
            if observed >> c & 1:
                ids[size] = block[r] + (entry >> MASK_BITS) + _popcount(observed & ((1 << c) - 1))
                size += 1
    return size


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
