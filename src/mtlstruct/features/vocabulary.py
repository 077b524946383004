"""Dense numbers for strings and for pairs of numbers, kept in plain arrays.

Everything that maps text to features is one of two tables: a Vocabulary (string -> number) or a PairTable
((left, right) -> number). Both are open-addressing hash tables over arrays, so they can be written to a model
file, mapped back without building a Python object per entry, and read by kernels without the GIL. Numbers are
given in order of first appearance, so they do not depend on threads. An absent entry is -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel
from mtlstruct.corpus import ABSENT as ABSENT

Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class Vocabulary:
    """Distinct strings, numbered 0..n-1: UTF-8 `bytes_` uint8[b], `ptr` int64[n+1], hash `slots` int32[2^k]."""

    bytes_: NDArray[np.uint8]
    ptr: NDArray[np.int64]
    slots: Int32

    @classmethod
    def of(cls, strings: Iterable[str]) -> Vocabulary:
        """A vocabulary of distinct strings; number = position."""
        blob, ptr = _pack(list(strings))
        slots = np.full(capacity(len(ptr) - 1), ABSENT, np.int32)
        _hash_strings(blob, ptr, slots)
        return cls(blob, ptr, slots)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> str:
        return bytes(self.bytes_[self.ptr[number] : self.ptr[number + 1]]).decode()

    def strings(self) -> list[str]:
        """All strings, by number."""
        return [self[i] for i in range(len(self))]

    def lookup(self, strings: Sequence[str]) -> Int32:
        """The number of each string, ABSENT where it is not known."""
        blob, ptr = _pack(strings)
        out = np.empty(len(strings), np.int32)
        _find_strings(blob, ptr, self.bytes_, self.ptr, self.slots, out)
        return out


Away = tuple[int, Int32]
"""The right side of a pair stands `gap` places after the left one, ABSENT where `room`, int32[places], is less."""

HERE: Away = (0, np.zeros(0, np.int32))


@dataclass(frozen=True)
class PairTable:
    """Distinct pairs, numbered 0..n-1: `pairs` int64[n] holds left·2³² + right; `known`: its slots, if they are."""

    pairs: NDArray[np.int64]
    known: Int32 | None = None

    @classmethod
    def build(
        cls, left: Int32, right: Int32, away: Away = HERE, numbers: Int32 | None = None
    ) -> tuple[PairTable, Int32]:
        """Numbers all pairs of two arrays of equal length (a pair with an ABSENT side is ABSENT), into `numbers`."""
        numbers = np.empty(len(left), np.int32) if numbers is None else numbers
        width = int(right.max(initial=0)) + 1
        cells = (int(left.max(initial=0)) + 1) * width
        if cells <= DENSE * len(left):
            pairs, table = np.empty(min(cells, len(left)), np.int64), np.full(cells, ABSENT, np.int32)
            count = _number_cells(left, right, *away, width, table, pairs, numbers)
            return cls(pairs[:count].copy()), numbers
        pairs, slots = np.empty(FEW, np.int64), np.full(2 * FEW, ABSENT, np.int32)
        done = count = 0
        while True:
            done, count = _number_pairs(left, right, *away, done, count, pairs, slots, numbers)
            if done == len(left):
                return cls(pairs[:count].copy()), numbers
            pairs = np.concatenate([pairs, pairs])  # full: twice the room, all pairs put in anew
            slots = np.full(2 * len(pairs), ABSENT, np.int32)
            _hash_pairs(pairs[:count], slots)

    @cached_property
    def slots(self) -> Int32:
        """Hash slots int32[2^k]: for finding pairs in other text. Training, which has numbered them, needs none."""
        if self.known is not None:
            return self.known
        slots = np.full(capacity(len(self.pairs)), ABSENT, np.int32)
        _hash_pairs(self.pairs, slots)
        return slots

    def __len__(self) -> int:
        return len(self.pairs)

    def lookup(self, left: Int32, right: Int32, away: Away = HERE, numbers: Int32 | None = None) -> Int32:
        """The number of each pair, ABSENT where it is not known or either side is ABSENT; into `numbers`."""
        numbers = np.empty(len(left), np.int32) if numbers is None else numbers
        _find_pairs(left, right, *away, self.pairs, self.slots, numbers)
        return numbers

    def left(self) -> NDArray[np.int64]:
        """The left side of each pair."""
        return np.asarray(self.pairs >> 32)

    def right(self) -> NDArray[np.int64]:
        """The right side of each pair."""
        return np.asarray(self.pairs & 0xFFFFFFFF)


FEW = 512
"""Pairs for which there is room to begin with."""

DENSE = 8
"""If the pairs that could be are at most so many times the places, each has a cell while they are numbered:
hashing takes twice as long."""

HUGE = 0xFFFF
"""Counts from here on are sorted by themselves: there are few."""


def rank_by_count(counts: NDArray[np.int64], min_count: int, ranks: Int32 | None = None) -> tuple[Int32, int]:
    """Numbers values by falling count (ties by value), leaving out those below min_count; into `ranks`.

    Frequent features then lie together at the head of their block, where the cache keeps them.
    """
    ranks = np.empty(len(counts), np.int32) if ranks is None else ranks
    top = min(HUGE, int(counts.max(initial=0)))
    kept = int(_rank(counts, max(1, min_count), np.zeros(top + 2, np.int32), ranks))
    if top < HUGE:
        return ranks, kept
    huge = np.flatnonzero(counts >= HUGE)  # they have the first ranks, in order of value so far
    ranks[huge[np.argsort(-counts[huge], kind="stable")]] = np.arange(len(huge), dtype=np.int32)
    if min_count > HUGE:
        ranks[counts < min_count] = ABSENT
    return ranks, kept


def capacity(entries: int) -> int:
    """A power of two at least twice the entries: short probe chains at eight bytes an entry."""
    return 1 << max(3, int(2 * entries - 1).bit_length()) if entries else 8


def _pack(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """UTF-8 of all strings in a row, and where each begins: at the byte where its first character does."""
    ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
    blob = np.frombuffer("".join(strings).encode(), np.uint8)
    starts = np.append(np.flatnonzero((blob & 0xC0) != 0x80), len(blob))  # other bytes go on with a character
    return blob, starts[np.append(0, ends)]


# ---------------------------------------------------------------- kernels


@inner_kernel
def _string_hash(blob, start, stop):  # type: ignore[no-untyped-def]
    h = np.uint64(14695981039346656037)  # FNV-1a
    for i in range(start, stop):
        h = (h ^ np.uint64(blob[i])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@inner_kernel
def _same_string(a, a0, a1, b, b0, b1):  # type: ignore[no-untyped-def]
    if a1 - a0 != b1 - b0:
        return False
    for i in range(a1 - a0):  # noqa: SIM110
        if a[a0 + i] != b[b0 + i]:
            return False
    return True


@kernel
def _hash_strings(blob, ptr, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(ptr) - 1):
        h = _string_hash(blob, ptr[i], ptr[i + 1]) & mask
        while slots[h] >= 0:
            h = (h + np.uint64(1)) & mask
        slots[h] = i


@kernel
def _find_strings(blob, ptr, known, known_ptr, slots, out):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        h = _string_hash(blob, ptr[i], ptr[i + 1]) & mask
        out[i] = -1
        while slots[h] >= 0:
            k = slots[h]
            if _same_string(blob, ptr[i], ptr[i + 1], known, known_ptr[k], known_ptr[k + 1]):
                out[i] = k
                break
            h = (h + np.uint64(1)) & mask


@inner_kernel
def _pair_hash(pair):  # type: ignore[no-untyped-def]
    h = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(16)


@kernel
def _hash_pairs(pairs, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(pairs)):
        h = _pair_hash(pairs[i]) & mask
        while slots[h] >= 0:
            h = (h + np.uint64(1)) & mask
        slots[h] = i


# A pair stands at i where neither side is absent and the gap stays within the sentence. The kernels below look for it
# in place: numba would count the references of arrays passed to an inner kernel in each turn, twelve times slower.


@kernel
def _number_cells(left, right, gap, room, width, table, pairs, numbers):  # type: ignore[no-untyped-def]
    """table[a · width + b] becomes the number of the pair (a, b). Returns how many there are."""
    count = 0
    for i in range(len(left)):
        one, other = left[np.uint64(i)], np.int32(-1)
        if one >= 0 and (gap <= 0 or room[np.uint64(i)] >= gap):
            other = right[np.uint64(i + gap)]
        if other < 0:
            numbers[i] = -1
            continue
        at = np.uint64(np.int64(one) * width + other)
        if table[at] < 0:
            table[at] = count
            pairs[count] = np.int64(one) << 32 | np.int64(other)
            count += 1
        numbers[i] = table[at]
    return count


@kernel
def _number_pairs(left, right, gap, room, first, count, pairs, slots, numbers):  # type: ignore[no-untyped-def]
    """From the first on, until there is no room. Returns where it stopped, and how many pairs there are."""
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(left)):
        one, other = left[np.uint64(i)], np.int32(-1)
        if one >= 0 and (gap <= 0 or room[np.uint64(i)] >= gap):
            other = right[np.uint64(i + gap)]
        if other < 0:
            numbers[i] = -1
            continue
        pair = np.int64(one) << 32 | np.int64(other)
        h = _pair_hash(pair) & mask
        while slots[h] >= 0 and pairs[np.uint64(slots[h])] != pair:
            h = (h + np.uint64(1)) & mask
        if slots[h] < 0:
            if count == len(pairs):
                return i, count
            pairs[count] = pair
            slots[h] = count
            count += 1
        numbers[i] = slots[h]
    return len(left), count


@kernel
def _find_pairs(left, right, gap, room, pairs, slots, out):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        out[i] = -1
        one, other = left[np.uint64(i)], np.int32(-1)
        if one >= 0 and (gap <= 0 or room[np.uint64(i)] >= gap):
            other = right[np.uint64(i + gap)]
        if other < 0:
            continue
        pair = np.int64(one) << 32 | np.int64(other)
        h = _pair_hash(pair) & mask
        while slots[h] >= 0:
            if pairs[np.uint64(slots[h])] == pair:
                out[i] = slots[h]
                break
            h = (h + np.uint64(1)) & mask


@kernel
def _rank(counts, min_count, first, ranks):  # type: ignore[no-untyped-def]
    """ranks by falling count, where counts of `top` and more are taken for equal. Returns how many are kept.

    first int32[top + 2], zeros: how many there are that come before those with count top - k.
    """
    kept = 0
    top = len(first) - 2
    for count in counts:
        first[np.uint64(top - min(count, top) + 1)] += 1
        kept += count >= min_count
    for k in range(top):
        first[k + 1] += first[k]
    for i in range(len(counts)):
        at = np.uint64(top - min(counts[i], top))
        ranks[i] = first[at] if counts[i] >= min_count else -1
        first[at] += 1
    return kept
