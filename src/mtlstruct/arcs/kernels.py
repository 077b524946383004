"""Kernels of arcs: from the values of sides to table rows, and from these to attributes or to scores.

An arc looks up each base once. The row of the table that it finds holds a record for each template of the base:
where its attributes of this value begin within its block, and which classes of (direction, distance) it has seen.
So the plain attribute and the one with direction and distance cost one look. What depends on one word only is
looked up once for each word of the sentence. All rows of an arc are asked of the cache before any is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._kernels import fast_kernel, kernel
from ..linear import prefetch

MASK_BITS = 16
"""A record is start · 2^MASK_BITS + classes seen."""

POSITIONS = 256
"""One more than the last position that a word between can have."""

EMPTY = -1
"""The key of a row without an entry."""


class Program(NamedTuple):
    """A Plan and its tables, as kernels read them. Side number `len(anchor) - 1` is no side: its value is 0.

    anchor     int64[sides + 1]: 0 head, 1 modifier, 2 left, 3 right, 4 none of them
    slots      int32[sides, 2, reach + 1], as in Plan
    classes    int64[variants, CLASSES]: the class that a variant sees
    bins       int64[...]: the bin of a distance by words between, the last entry for all beyond
    first, second, start, mask   int64[bases]: sides, first row and size − 1 of the table
    record     int64[bases + 1]: the records of a base; variant, block int64[records]: what they are of
    alone      bases of one word that look the same from every arc: `slot` int64[...] in parallel
    pairs      the other bases without a word between
    inner      bases with a word between: those of each word, then by place from the end, then from the beginning;
               their source, slot, place and position in parallel
    sources    int64[..., 4]: first and second side, first row and size − 1 (-1: the value itself is the number)
    null       the value that is not known
    """

    anchor: NDArray[np.int64]
    slots: NDArray[np.int32]
    classes: NDArray[np.int64]
    bins: NDArray[np.int64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    start: NDArray[np.int64]
    mask: NDArray[np.int64]
    record: NDArray[np.int64]
    variant: NDArray[np.int64]
    block: NDArray[np.int64]
    alone: NDArray[np.int64]
    slot: NDArray[np.int64]
    pairs: NDArray[np.int64]
    inner: NDArray[np.int64]
    inner_source: NDArray[np.int64]
    inner_slot: NDArray[np.int64]
    inner_place: NDArray[np.int64]
    inner_position: NDArray[np.int64]
    sources: NDArray[np.int64]
    null: int


class Work(NamedTuple):
    """Room for one arc, and for the words of one sentence. `hit_*` are the rows found and their bases."""

    value: NDArray[np.int64]
    number: NDArray[np.int64]
    key: NDArray[np.int64]
    row: NDArray[np.int64]
    hit_row: NDArray[np.int64]
    hit_base: NDArray[np.int64]
    alone: NDArray[np.int64]


def make_work(program: Program, longest: int) -> Work:
    """Room for sentences of up to `longest` words."""
    each = int(np.count_nonzero(program.inner_place == 0))
    looks = len(program.first) + each * longest + len(program.sources)
    sides = len(program.anchor)
    value, number, key, row, hit_row, hit_base = (
        np.zeros(n, np.int64) for n in (sides, len(program.sources) + 1, looks, looks, looks, looks)
    )
    alone = np.zeros((longest + 1, len(program.alone)), np.int64)
    return Work(value, number, key, row, hit_row, hit_base, alone)


Table = NDArray[Any]


@kernel
def _hash(key):  # type: ignore[no-untyped-def]
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return np.int64(h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(20))


@kernel
def fill(keys, records, table):  # type: ignore[no-untyped-def]
    """Puts entries into an empty table of a power-of-two size."""
    mask = len(table) - 1
    for i in range(len(keys)):
        row = _hash(keys[i]) & mask
        while table[row, 0] != EMPTY:
            row = (row + 1) & mask
        table[row, 0] = keys[i]
        for k in range(records.shape[1]):
            table[row, 1 + k] = records[i, k]


@kernel
def _find(table, start, mask, row, key):  # type: ignore[no-untyped-def]
    """The row that holds a key, −1 if none; `row` is where to look first."""
    while table[row, 0] != EMPTY:
        if table[row, 0] == key:
            return row
        row = start + ((row + 1 - start) & mask)
    return np.int64(-1)


@kernel
def _ones(bits):  # type: ignore[no-untyped-def]
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@kernel
def _words_alone(program, table, words, origin, n, work):  # type: ignore[no-untyped-def]
    """The rows of bases that look at one word only, for each word of the sentence and the root."""
    for place in range(n + 1):
        for i in range(len(program.alone)):
            base = program.alone[i]
            value = np.int64(words[origin + place, program.slot[i]])
            row = np.int64(-1)
            if value != program.null:
                key = value << 32
                at = program.start[base] + (_hash(key) & program.mask[base])
                row = _find(table, program.start[base], program.mask[base], at, key)
            work.alone[place, i] = row


@kernel
def _look(program, table, words, origin, head, modifier, work):  # type: ignore[no-untyped-def]
    """Fills hit_row and hit_base for one arc; returns how many and the class of the arc."""
    right = 1 if modifier > head else 0
    left_end = min(head, modifier)
    right_end = max(head, modifier)
    room = right_end - left_end - 1
    klass = right * (program.classes.shape[1] // 2) + program.bins[min(room, len(program.bins) - 1)]
    seen = min(room, program.slots.shape[2] - 1)
    null = np.int64(program.null)
    value = work.value
    for s in range(len(program.anchor) - 1):
        anchor = program.anchor[s]
        if anchor == 0:
            place = head
        elif anchor == 1:
            place = modifier
        elif anchor == 2:
            place = left_end
        else:
            place = right_end
        if anchor < 4:
            value[s] = words[origin + place, program.slots[s, right, seen]]
    # all rows to look at first, so that the cache fetches them side by side
    looks = 0
    for i in range(len(program.sources)):
        one = value[program.sources[i, 0]]
        other = value[program.sources[i, 1]]
        if one == null or other == null:
            work.number[i] = -1
        elif program.sources[i, 3] < 0:
            work.number[i] = one + other
        else:
            key = one << 32 | other
            row = program.sources[i, 2] + (_hash(key) & program.sources[i, 3])
            prefetch(table, row)
            work.key[i] = key
            work.row[i] = row
    looks = len(program.sources)
    begin = looks
    for i in range(len(program.pairs)):
        base = program.pairs[i]
        one = value[program.first[base]]
        other = value[program.second[base]]
        if one != null and other != null:
            key = one << 32 | other
            row = program.start[base] + (_hash(key) & program.mask[base])
            prefetch(table, row)
            work.key[looks] = key
            work.row[looks] = row
            work.hit_base[looks] = base
            looks += 1
    if room > 0:
        for i in range(len(program.sources)):
            one = value[program.sources[i, 0]]
            other = value[program.sources[i, 1]]
            if program.sources[i, 3] >= 0 and one != null and other != null:
                row = _find(table, program.sources[i, 2], program.sources[i, 3], work.row[i], work.key[i])
                work.number[i] = table[row, 1] if row >= 0 else -1
        for i in range(len(program.inner)):
            place = program.inner_place[i]
            if place > room:
                break
            number = work.number[program.inner_source[i]]
            if number < 0 or -place > room:
                continue
            if place == 0:
                low, high = left_end + 1, right_end
            else:
                low = left_end + place if place > 0 else right_end + place
                high = low + 1
            base = program.inner[i]
            for between in range(low, high):
                inner = np.int64(words[origin + between, program.inner_slot[i]])
                if inner == null:
                    continue
                if program.inner_position[i]:
                    inner = inner * POSITIONS + min(between - left_end, POSITIONS - 1)
                key = number << 32 | inner
                row = program.start[base] + (_hash(key) & program.mask[base])
                prefetch(table, row)
                work.key[looks] = key
                work.row[looks] = row
                work.hit_base[looks] = base
                looks += 1
    hits = 0
    for i in range(begin, looks):
        base = work.hit_base[i]
        row = _find(table, program.start[base], program.mask[base], work.row[i], work.key[i])
        if row < 0:
            continue
        again = False  # a value that several words between have counts once
        k = hits - 1
        while k >= 0 and work.hit_base[k] == base:
            again |= work.hit_row[k] == row
            k -= 1
        if not again:
            work.hit_row[hits] = row
            work.hit_base[hits] = base
            hits += 1
    for i in range(len(program.alone)):
        base = program.alone[i]
        anchor = program.anchor[program.first[base]]
        if anchor == 0:
            place = head
        elif anchor == 1:
            place = modifier
        elif anchor == 2:
            place = left_end
        else:
            place = right_end
        if work.alone[place, i] >= 0:
            work.hit_row[hits] = work.alone[place, i]
            work.hit_base[hits] = base
            hits += 1
    return hits, klass


@kernel
def encode_arcs(program, table, words, ptr, span, work, ends, ids):  # type: ignore[no-untyped-def]
    """Attributes of all arcs of sentences first:last. ends int64[arcs]: where each arc's ids end. Returns ids."""
    first, last = span
    arc = 0
    size = 0
    records = len(program.variant)
    for i in range(first, last):
        n = ptr[i + 1] - ptr[i]
        origin = ptr[i] + i
        _words_alone(program, table, words, origin, n, work)
        for modifier in range(1, n + 1):
            for head in range(n + 1):
                if head != modifier:
                    hits, klass = _look(program, table, words, origin, head, modifier, work)
                    if size + hits * table.shape[1] + records > len(ids):
                        grown = np.empty(2 * len(ids) + hits * table.shape[1] + records, ids.dtype)
                        grown[:size] = ids[:size]
                        ids = grown
                    for k in range(hits):
                        base = work.hit_base[k]
                        for r in range(program.record[base], program.record[base + 1]):
                            record = table[work.hit_row[k], 1 + r - program.record[base]]
                            seen = record & ((1 << MASK_BITS) - 1)
                            c = program.classes[program.variant[r], klass]
                            if seen >> c & 1:
                                ids[size] = (
                                    program.block[r] + (record >> MASK_BITS) + _ones(seen & ((1 << c) - 1))
                                )
                                size += 1
                ends[arc] = size
                arc += 1
    return ids[:size]


@fast_kernel
def score_arcs(program, table, words, ptr, span, work, weights, out):  # type: ignore[no-untyped-def]
    """Σ weights of all arcs of sentences first:last; out float32[arcs, 1]."""
    first, last = span
    arc = 0
    for i in range(first, last):
        n = ptr[i + 1] - ptr[i]
        origin = ptr[i] + i
        _words_alone(program, table, words, origin, n, work)
        for modifier in range(1, n + 1):
            for head in range(n + 1):
                total = np.float32(0)
                if head != modifier:
                    hits, klass = _look(program, table, words, origin, head, modifier, work)
                    for k in range(hits):
                        base = work.hit_base[k]
                        for r in range(program.record[base], program.record[base + 1]):
                            record = table[work.hit_row[k], 1 + r - program.record[base]]
                            seen = record & ((1 << MASK_BITS) - 1)
                            c = program.classes[program.variant[r], klass]
                            if seen >> c & 1:
                                at = program.block[r] + (record >> MASK_BITS) + _ones(seen & ((1 << c) - 1))
                                total += weights[at, 0]
                out[arc, 0] = total
                arc += 1


@kernel
def mark_classes(entry, klass, least, entries):  # type: ignore[no-untyped-def]
    """For each entry the classes that it was seen with `least` times or more, as bits. int64[entries]."""
    counts = np.zeros((entries, MASK_BITS), np.int32)
    for i in range(len(entry)):
        counts[entry[i], klass[i]] += 1
    seen = np.zeros(entries, np.int64)
    for e in range(entries):
        for c in range(MASK_BITS):
            if counts[e, c] >= least:
                seen[e] |= 1 << c
    return seen


@kernel
def count_bits(seen):  # type: ignore[no-untyped-def]
    """How many bits of each are set."""
    out = np.empty(len(seen), np.int64)
    for i in range(len(seen)):
        out[i] = _ones(seen[i])
    return out


@kernel
def thin(records, used, before):  # type: ignore[no-untyped-def]
    """Records of one template with unused attributes gone. used bool[attributes], before: used ones before each."""
    for e in range(len(records)):
        seen = records[e] & ((1 << MASK_BITS) - 1)
        at = records[e] >> MASK_BITS
        start = before[at]
        kept = 0
        for c in range(MASK_BITS):
            if seen >> c & 1:
                if used[at]:
                    kept |= 1 << c
                at += 1
        records[e] = start << MASK_BITS | kept
