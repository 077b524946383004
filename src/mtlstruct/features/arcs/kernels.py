"""Kernels of arcs: from the values of sides to table rows, and from these to attributes.

An arc looks up each base once. The row of the table that it finds holds a record for each template of the base:
where its attributes of this value begin within its block, and which classes of (direction, distance) it has seen.
So the plain attribute and the one with direction and distance cost one look. What depends on one word only is
looked up once for each word of the sentence. All rows of an arc are asked of the cache before any is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.linear.design import prefetch

MASK_BITS = 16
"""A record is start · 2^MASK_BITS + classes seen."""

POSITIONS = 256
"""One more than the last position that a word between can have."""

EMPTY = -1
"""The key of a row without an entry."""


class Program(NamedTuple):
    """A Plan and its tables, as kernels read them. Kernels unpack it once: a field read in a loop is counted anew.

    *Looks* are what every arc looks up: the sources of `inner`, then the bases of two words. Where there is one side
    only, the other's slot is all zeros.

    looks      int64[looks, 4]: first row and size − 1 of its table; the base, or NONE for a source; whether the
               number of a source must be looked up (it is the value of its side else)
    ends       int64[2, looks, 2]: by direction, the ends of the arc that a look sees: 0 head, 1 modifier
    slots      int64[2, reach + 1, looks, 2]: by direction and words between (at most reach), the slots it reads
    inner      int64[..., 7]: bases with a word between: first row, size − 1, base, source, slot, place, position.
               Those of each word first, then by place from the end, then from the beginning
    alone      int64[..., 6]: bases of one word that look the same from every arc: first row, size − 1, base, slot,
               and the end of the arc that it is if this leads left or right
    record     int64[bases + 1]: the records of a base
    block      int64[records]: the first attribute of the template that a record is of
    classes    int64[records, CLASSES]: the class that it sees
    bins       int64[...]: the bin of a distance by words between, the last entry for all beyond
    sources    how many looks are sources
    null       the value that is not known
    """

    looks: NDArray[np.int64]
    ends: NDArray[np.int64]
    slots: NDArray[np.int64]
    inner: NDArray[np.int64]
    alone: NDArray[np.int64]
    record: NDArray[np.int64]
    block: NDArray[np.int64]
    classes: NDArray[np.int64]
    bins: NDArray[np.int64]
    sources: int
    null: int


class Work(NamedTuple):
    """The workspace of one arc, and of the words of one sentence.

    found     int64[looks, 6]: key, hash, place in the table, base, first row and size − 1; in the end the row
              and base of what was found (columns 2 and 3)
    number    int64[sources]
    alone     int64[words + 1, alone]: rows of the bases of one word
    """

    found: NDArray[np.int64]
    number: NDArray[np.int64]
    alone: NDArray[np.int64]


def make_work(program: Program, longest: int) -> Work:
    """Allocate the workspace for sentences of up to `longest` words."""
    each = int(np.count_nonzero(program.inner[:, 5] == 0))
    looks = len(program.looks) + len(program.inner) + len(program.alone) + each * longest
    return Work(
        np.zeros((looks, 6), np.int64),
        np.zeros(program.sources + 1, np.int64),
        np.zeros((longest + 1, len(program.alone)), np.int64),
    )


def make_tags(table: NDArray[np.int64]) -> NDArray[np.uint8]:
    """uint8[rows, 1]: 0 for a row without an entry, else a few bits of its hash. Small enough for the cache, and most
    looks end here: what an arc asks for is mostly not there."""
    tags = np.zeros((len(table), 1), np.uint8)
    _tag_rows(table, tags)
    return tags


# ---------------------------------------------------------------- kernels


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
def _tag(h):  # type: ignore[no-untyped-def]
    return np.uint8((h >> 36) & 0x7F | 0x80)


@kernel
def _tag_rows(table, tags):  # type: ignore[no-untyped-def]
    for row in range(len(table)):
        if table[row, 0] != EMPTY:
            tags[row, 0] = _tag(_hash(table[row, 0]))


@kernel
def _likely(tags, start, mask, h, at):  # type: ignore[no-untyped-def]
    """How far behind `start` the first row from `at` on lies that may hold a key of this hash; −1 if none does."""
    tag = _tag(h)
    while True:
        found = tags[np.uint64(start + at), 0]
        if found == tag:
            return at
        if found == 0:
            return np.int64(-1)
        at = (at + 1) & mask


@kernel
def _find(table, tags, start, mask, key):  # type: ignore[no-untyped-def]
    """The row that holds a key, −1 if none."""
    h = _hash(key)
    at = _likely(tags, start, mask, h, h & mask)
    while at >= 0:
        if table[np.uint64(start + at), 0] == key:
            return start + at
        at = _likely(tags, start, mask, h, (at + 1) & mask)
    return np.int64(-1)


@kernel
def _ones(bits):  # type: ignore[no-untyped-def]
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@kernel
def _words_alone(alone, null, table, tags, words, origin, n, rows):  # type: ignore[no-untyped-def]
    """The rows of bases that look at one word only, for each word of the sentence and the root."""
    for place in range(n + 1):
        for i in range(len(alone)):
            value = np.int64(words[origin + place, alone[i, 3]])
            row = np.int64(-1)
            if value != null:
                row = _find(table, tags, alone[i, 0], alone[i, 1], value << 32)
            rows[place, i] = row


@kernel
def _look(  # type: ignore[no-untyped-def]
    looks, ends, slots, inner, sources, null, table, tags, words, origin, head, modifier, found, number
):
    """Finds the rows of all bases but those of one word, and their bases: found[:, 2:4]. Returns how many."""
    right = 1 if modifier > head else 0
    left_end = min(head, modifier)
    right_end = max(head, modifier)
    room = right_end - left_end - 1
    seen = min(room, slots.shape[1] - 1)
    asked = 0
    for i in range(len(looks)):
        end = modifier if ends[right, i, 0] else head
        one = np.int64(words[np.uint64(origin + end), np.uint64(slots[right, seen, i, 0])])
        end = modifier if ends[right, i, 1] else head
        other = np.int64(words[np.uint64(origin + end), np.uint64(slots[right, seen, i, 1])])
        known = one != null and other != null
        if i < sources:
            number[i] = one + other if known and not looks[i, 3] else -1
            known = known and looks[i, 3] and room > 0
        if known:
            key = one << 32 | other
            h = _hash(key)
            prefetch(tags, looks[i, 0] + (h & looks[i, 1]))
            found[asked, 0] = key
            found[asked, 1] = h
            found[asked, 3] = i
            asked += 1
    likely = 0
    for k in range(asked):  # in place: what is likely is never more than what was asked
        i = found[k, 3]
        h = found[k, 1]
        at = _likely(tags, looks[i, 0], looks[i, 1], h, h & looks[i, 1])
        if at < 0:
            continue
        if i < sources:
            row = _find(table, tags, looks[i, 0], looks[i, 1], found[k, 0])
            if row >= 0:
                number[i] = table[row, 1]
            continue
        prefetch(table, looks[i, 0] + at)
        found[likely, 0] = found[k, 0]
        found[likely, 2] = at
        found[likely, 3] = looks[i, 2]
        found[likely, 4] = looks[i, 0]
        found[likely, 5] = looks[i, 1]
        likely += 1
    if room > 0:
        likely = _look_between(
            inner, null, table, tags, words, origin, left_end, right_end, found, number, likely
        )
    return _confirm(table, tags, found, likely)


@kernel
def _look_between(inner, null, table, tags, words, origin, left_end, right_end, found, number, likely):  # type: ignore[no-untyped-def]
    """Adds the rows that words between may have."""
    room = right_end - left_end - 1
    for i in range(len(inner)):
        place = inner[i, 5]
        if place > room:
            break
        source = number[inner[i, 3]]
        if source < 0 or -place > room:
            continue
        low, high = left_end + 1, right_end
        if place != 0:
            low = left_end + place if place > 0 else right_end + place
            high = low + 1
        for between in range(low, high):
            value = np.int64(words[np.uint64(origin + between), np.uint64(inner[i, 4])])
            if value == null:
                continue
            if inner[i, 6]:
                value = value * POSITIONS + min(between - left_end, POSITIONS - 1)
            key = source << 32 | value
            h = _hash(key)
            at = _likely(tags, inner[i, 0], inner[i, 1], h, h & inner[i, 1])
            if at >= 0:
                prefetch(table, inner[i, 0] + at)
                found[likely, 0] = key
                found[likely, 2] = at
                found[likely, 3] = inner[i, 2]
                found[likely, 4] = inner[i, 0]
                found[likely, 5] = inner[i, 1]
                likely += 1
    return likely


@kernel
def _confirm(table, tags, found, likely):  # type: ignore[no-untyped-def]
    """Leaves the rows that do hold their keys, each once; returns how many."""
    hits = 0
    for k in range(likely):
        base = found[k, 3]
        row = found[k, 4] + found[k, 2]
        if table[np.uint64(row), 0] != found[k, 0]:
            row = _find(table, tags, found[k, 4], found[k, 5], found[k, 0])
            if row < 0:
                continue
        again = False  # a value that several words between have counts once
        i = hits - 1
        while i >= 0 and found[i, 3] == base:
            again |= found[i, 2] == row
            i -= 1
        if not again:
            found[hits, 2] = row
            found[hits, 3] = base
            hits += 1
    return hits


@kernel
def _class_of(bins, classes, head, modifier):  # type: ignore[no-untyped-def]
    right = 1 if modifier > head else 0
    room = abs(head - modifier) - 1
    return right * (classes // 2) + bins[min(room, len(bins) - 1)]


@kernel
def encode_arcs(program, table, tags, words, ptr, span, work, row_ends, ids):  # type: ignore[no-untyped-def]
    """Attributes of all arcs of sentences first:last. row_ends int64[arcs]: where each arc's ids end. Returns ids."""
    looks, ends, slots, inner, alone, record, block, classes, bins, sources, null = program
    found, number, rows = work
    arc = 0
    size = 0
    for i in range(span[0], span[1]):
        n = ptr[i + 1] - ptr[i]
        origin = ptr[i] + i
        _words_alone(alone, null, table, tags, words, origin, n, rows)
        for modifier in range(1, n + 1):
            for head in range(n + 1):
                if head != modifier:
                    hits = _look(
                        looks, ends, slots, inner, sources, null, table, tags, words, origin, head, modifier,
                        found, number,
                    )  # fmt: skip
                    right = 1 if modifier > head else 0
                    for k in range(len(alone)):
                        row = rows[modifier if alone[k, 4 + right] else head, k]
                        if row >= 0:
                            found[hits, 2] = row
                            found[hits, 3] = alone[k, 2]
                            hits += 1
                    if size + hits * table.shape[1] > len(ids):
                        grown = np.empty(2 * len(ids) + hits * table.shape[1], ids.dtype)
                        grown[:size] = ids[:size]
                        ids = grown
                    klass = _class_of(bins, classes.shape[1], head, modifier)
                    size = _list(record, block, classes, table, found, hits, klass, ids, size)
                row_ends[arc] = size
                arc += 1
    return ids[:size]


@kernel
def _list(record, block, classes, table, found, hits, klass, ids, size):  # type: ignore[no-untyped-def]
    """Writes down the attributes of the rows that an arc has; returns where they end."""
    for k in range(hits):
        row = np.uint64(found[k, 2])
        begin = record[found[k, 3]]
        for r in range(begin, record[found[k, 3] + 1]):
            entry = table[row, np.uint64(1 + r - begin)]
            seen = entry & ((1 << MASK_BITS) - 1)
            c = classes[r, klass]
            if seen >> c & 1:
                ids[size] = block[r] + (entry >> MASK_BITS) + _ones(seen & ((1 << c) - 1))
                size += 1
    return size


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
