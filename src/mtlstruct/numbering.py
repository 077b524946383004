"""Dense numbers for strings and for pairs of numbers, kept in plain arrays.

Everything that maps text to features is one of two tables: a Vocabulary (string -> number) or a PairTable
((left, right) -> number). Both are open-addressing hash tables over arrays, so they can be written to a model
file, mapped back without building a Python object per entry, and read by kernels without the GIL. Numbers are
given in order of first appearance, so they do not depend on threads. An absent entry is -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._kernels import lean_inner_kernel, lean_kernel
from .corpus import ABSENT as ABSENT


@dataclass(frozen=True)
class Vocabulary:
    """Distinct strings, numbered 0..n-1: UTF-8 `bytes_` uint8[b], `ptr` int64[n+1], hash `slots` int32[2^k]."""

    bytes_: NDArray[np.uint8]
    ptr: NDArray[np.int64]
    slots: NDArray[np.int32]

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

    def lookup(self, strings: Sequence[str]) -> NDArray[np.int32]:
        """The number of each string, ABSENT where it is not known."""
        blob, ptr = _pack(strings)
        out = np.empty(len(strings), np.int32)
        _find_strings(blob, ptr, self.bytes_, self.ptr, self.slots, out)
        return out


@dataclass(frozen=True)
class PairTable:
    """Distinct pairs, numbered 0..n-1: `pairs` int64[n] holds left·2³² + right, hash `slots` int32[2^k]."""

    pairs: NDArray[np.int64]
    slots: NDArray[np.int32]

    @classmethod
    def build(cls, left: NDArray[np.int32], right: NDArray[np.int32]) -> tuple[PairTable, NDArray[np.int32]]:
        """Numbers all pairs of two arrays of equal length (a pair with an ABSENT side is ABSENT)."""
        numbers = np.empty(len(left), np.int32)
        pairs, slots = np.empty(FEW, np.int64), np.full(2 * FEW, ABSENT, np.int32)
        done = count = 0
        while True:
            done, count = _number_pairs(left, right, done, count, pairs, slots, numbers)
            if done == len(left):
                return cls(pairs[:count].copy(), slots), numbers
            pairs = np.concatenate([pairs, pairs])  # full: twice the room, all pairs put in anew
            slots = np.full(2 * len(pairs), ABSENT, np.int32)
            _hash_pairs(pairs[:count], slots)

    @classmethod
    def of(cls, pairs: NDArray[np.int64]) -> PairTable:
        """A table of distinct packed pairs; number = position."""
        slots = np.full(capacity(len(pairs)), ABSENT, np.int32)
        _hash_pairs(pairs, slots)
        return cls(pairs, slots)

    def __len__(self) -> int:
        return len(self.pairs)

    def lookup(self, left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each pair, ABSENT where it is not known or either side is ABSENT."""
        out = np.empty(len(left), np.int32)
        _find_pairs(left, right, self.pairs, self.slots, out)
        return out

    def left(self) -> NDArray[np.int64]:
        """The left side of each pair."""
        return np.asarray(self.pairs >> 32)

    def right(self) -> NDArray[np.int64]:
        """The right side of each pair."""
        return np.asarray(self.pairs & 0xFFFFFFFF)


FEW = 512
"""Pairs for which there is room to begin with."""

HUGE = 0xFFFF
"""Counts from here on are sorted by themselves: there are few."""


def rank_by_count(counts: NDArray[np.int64], min_count: int) -> tuple[NDArray[np.int32], int]:
    """Numbers values by falling count (ties by value), leaving out those below min_count.

    Frequent features then lie together at the head of their block, where the cache keeps them.
    """
    ranks = np.empty(len(counts), np.int32)
    kept = int(_rank(counts, max(1, min_count), np.zeros(HUGE + 2, np.int32), ranks))
    huge = np.flatnonzero(counts >= HUGE)  # they have the first ranks, in order of value so far
    ranks[huge[np.argsort(-counts[huge], kind="stable")]] = np.arange(len(huge), dtype=np.int32)
    if min_count > HUGE:
        ranks[counts < min_count] = ABSENT
    return ranks, kept


def capacity(entries: int) -> int:
    """A power of two at least twice the entries: short probe chains at eight bytes an entry."""
    return 1 << max(3, int(2 * entries - 1).bit_length()) if entries else 8


def _pack(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    encoded = list(map(str.encode, strings))
    ptr = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=ptr[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), ptr


# ---------------------------------------------------------------- kernels


@lean_inner_kernel
def _string_hash(blob, start, stop):  # type: ignore[no-untyped-def]
    h = np.uint64(14695981039346656037)  # FNV-1a
    for i in range(start, stop):
        h = (h ^ np.uint64(blob[i])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@lean_inner_kernel
def _same_string(a, a0, a1, b, b0, b1):  # type: ignore[no-untyped-def]
    if a1 - a0 != b1 - b0:
        return False
    for i in range(a1 - a0):  # noqa: SIM110
        if a[a0 + i] != b[b0 + i]:
            return False
    return True


@lean_kernel
def _hash_strings(blob, ptr, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(ptr) - 1):
        h = _string_hash(blob, ptr[i], ptr[i + 1]) & mask
        while slots[h] >= 0:
            h = (h + np.uint64(1)) & mask
        slots[h] = i


@lean_kernel
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


@lean_inner_kernel
def _pair_hash(pair):  # type: ignore[no-untyped-def]
    h = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(16)


@lean_kernel
def _hash_pairs(pairs, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(pairs)):
        h = _pair_hash(pairs[i]) & mask
        while slots[h] >= 0:
            h = (h + np.uint64(1)) & mask
        slots[h] = i


@lean_kernel
def _number_pairs(left, right, first, count, pairs, slots, numbers):  # type: ignore[no-untyped-def]
    """From the first on, until there is no room. Returns where it stopped, and how many pairs there are."""
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(left)):
        if left[i] < 0 or right[i] < 0:
            numbers[i] = -1
            continue
        pair = np.int64(left[i]) << 32 | np.int64(right[i])
        h = _pair_hash(pair) & mask
        while slots[h] >= 0 and pairs[slots[h]] != pair:
            h = (h + np.uint64(1)) & mask
        if slots[h] < 0:
            if count == len(pairs):
                return i, count
            pairs[count] = pair
            slots[h] = count
            count += 1
        numbers[i] = slots[h]
    return len(left), count


@lean_kernel
def _find_pairs(left, right, pairs, slots, out):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        out[i] = -1
        if left[i] < 0 or right[i] < 0:
            continue
        pair = np.int64(left[i]) << 32 | np.int64(right[i])
        h = _pair_hash(pair) & mask
        while slots[h] >= 0:
            if pairs[slots[h]] == pair:
                out[i] = slots[h]
                break
            h = (h + np.uint64(1)) & mask


@lean_kernel
def _rank(counts, min_count, first, ranks):  # type: ignore[no-untyped-def]
    """ranks by falling count, where counts of HUGE and more are taken for equal. Returns how many are kept.

    first int32[HUGE + 2], zeros: how many there are that come before those with count HUGE - k.
    """
    kept = 0
    for count in counts:
        first[HUGE - min(count, HUGE) + 1] += 1
        kept += count >= min_count
    for k in range(HUGE):
        first[k + 1] += first[k]
    for i in range(len(counts)):
        k = HUGE - min(counts[i], HUGE)
        ranks[i] = first[k] if counts[i] >= min_count else -1
        first[k] += 1
    return kept
