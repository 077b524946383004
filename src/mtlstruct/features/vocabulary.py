"""Dense numbers for strings and for pairs of numbers, in plain arrays.

Everything that maps text to features is one of two tables: a Vocabulary (string -> number) or a
PairTable ((left, right) -> number). Both are open-addressing hash tables over arrays, so they can
be memory-mapped from a model file and read by kernels without the GIL. Numbers are given in order
of first appearance, so they do not depend on threads. An absent entry is -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel
from mtlstruct.corpus import ABSENT as ABSENT
from mtlstruct.formats.interning import number_cells, same_string, string_hash

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Vocabulary:
    """Distinct strings 0..n-1: UTF-8 `bytes_`, `ptr` int64[n+1], hash `slots` int32[2^k]."""

    bytes_: NDArray[np.uint8]
    ptr: NDArray[np.int64]
    slots: Int32

    @classmethod
    def of(cls, strings: Iterable[str]) -> Vocabulary:
        """Return a vocabulary of distinct strings; number = position."""
        blob, ptr = _pack(list(strings))
        slots = np.full(capacity(len(ptr) - 1), ABSENT, np.int32)
        numbers, firsts = np.empty(len(ptr) - 1, np.int32), np.empty(len(ptr) - 1, np.int64)
        number_cells(blob, ptr[:-1], ptr[1:], slots, numbers, firsts)
        return cls(blob, ptr, slots)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> str:
        return bytes(self.bytes_[self.ptr[number] : self.ptr[number + 1]]).decode()

    def strings(self) -> list[str]:
        """Return all strings, by number."""
        return [self[i] for i in range(len(self))]

    def lookup(self, strings: Sequence[str]) -> Int32:
        """Return the number of each string, ABSENT if it is not known."""
        blob, ptr = _pack(strings)
        out = np.empty(len(strings), np.int32)
        _find_strings(blob, ptr, self.bytes_, self.ptr, self.slots, out)
        return out


@dataclass(frozen=True)
class PairTable:
    """Distinct pairs 0..n-1: `pairs` int64[n] holds left·2³² + right."""

    pairs: NDArray[np.int64]
    stored_slots: Int32 | None = None

    @classmethod
    def build(cls, left: Int32, right: Int32, numbers: Int32 | None = None) -> tuple[PairTable, Int32]:
        """Number all pairs of two arrays, into `numbers`; a pair with an ABSENT side is ABSENT."""
        numbers = np.empty(len(left), np.int32) if numbers is None else numbers
        pairs, slots = np.empty(INITIAL_PAIRS, np.int64), np.full(2 * INITIAL_PAIRS, ABSENT, np.int32)
        done = count = 0
        while True:
            done, count = _number_pairs(left, right, done, count, pairs, slots, numbers)
            if done == len(left):
                return cls(pairs[:count].copy()), numbers
            pairs = np.concatenate([pairs, pairs])  # full: double the capacity and hash again
            slots = np.full(2 * len(pairs), ABSENT, np.int32)
            _hash_pairs(pairs[:count], slots)

    @cached_property
    def slots(self) -> Int32:
        """Hash slots int32[2^k], for finding pairs in other text; not needed in training."""
        if self.stored_slots is not None:
            return self.stored_slots
        slots = np.full(capacity(len(self.pairs)), ABSENT, np.int32)
        _hash_pairs(self.pairs, slots)
        return slots

    def __len__(self) -> int:
        return len(self.pairs)

    def lookup(self, left: Int32, right: Int32, numbers: Int32 | None = None) -> Int32:
        """Return the number of each pair, ABSENT if it is unknown, in `numbers`."""
        numbers = np.empty(len(left), np.int32) if numbers is None else numbers
        _number_pairs(left, right, 0, None, self.pairs, self.slots, numbers)
        return numbers

    def left(self) -> NDArray[np.int64]:
        """Return the left side of each pair."""
        return np.asarray(self.pairs >> 32)

    def right(self) -> NDArray[np.int64]:
        """Return the right side of each pair."""
        return np.asarray(self.pairs & 0xFFFFFFFF)


INITIAL_PAIRS = 512
"""Capacity of a new table, in pairs."""


def rank_by_count(counts: NDArray[np.int64], min_count: int) -> tuple[Int32, int]:
    """Number values by falling count (ties by value) without those below min_count.

    Return the ranks and their number. Frequent features then lie together at the head of their
    block, which stays in the cache.
    """
    kept = int(np.count_nonzero(counts >= max(1, min_count)))
    ranks = np.full(len(counts), ABSENT, np.int32)
    top = int(counts.max(initial=0))
    falling = (top - counts).astype(np.min_scalar_type(top))  # 16 bits are sorted in linear time
    ranks[np.argsort(falling, kind="stable")[:kept]] = np.arange(kept, dtype=np.int32)
    return ranks, kept


def capacity(entries: int) -> int:
    """Return a power of two at least twice the entries, which keeps probe chains short."""
    return 1 << max(3, int(2 * entries - 1).bit_length()) if entries else 8


def _pack(strings: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of all strings, and where each string begins."""
    ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
    blob = np.frombuffer("".join(strings).encode(), np.uint8)
    starts = np.append(np.flatnonzero((blob & 0xC0) != 0x80), len(blob))  # other bytes go on with a character
    return blob, starts[np.append(0, ends)]


# ---------------------------------------------------------------- kernels


@kernel
def _find_strings(blob, ptr, known, known_ptr, slots, out):
    mask = np.uint64(len(slots) - 1)
    for i in range(len(out)):
        h = string_hash(blob, ptr[i], ptr[i + 1]) & mask
        out[i] = -1
        while slots[h] >= 0:
            k = slots[h]
            if same_string(blob, ptr[i], ptr[i + 1], known, known_ptr[k], known_ptr[k + 1]):
                out[i] = k
                break
            h = (h + np.uint64(1)) & mask


@inner_kernel
def pair_hash(pair):
    h = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(16)


@kernel
def _hash_pairs(pairs, slots):
    mask = np.uint64(len(slots) - 1)
    for i in range(len(pairs)):
        h = pair_hash(pairs[i]) & mask
        while slots[h] >= 0:
            h = (h + np.uint64(1)) & mask
        slots[h] = i


@kernel
def _number_pairs(left, right, first, count, pairs, slots, numbers):
    """Number pairs from `first` on; new ones, until the table is full, unless `count` is None.

    Return where it stopped, and the number of pairs.
    """
    mask, size = np.uint64(len(slots) - 1), count
    for i in range(first, len(left)):
        a, b = left[np.uint64(i)], right[np.uint64(i)]
        if a < 0 or b < 0:
            numbers[i] = -1
            continue
        pair = np.int64(a) << 32 | np.int64(b)
        h = pair_hash(pair) & mask
        while slots[h] >= 0 and pairs[np.uint64(slots[h])] != pair:
            h = (h + np.uint64(1)) & mask
        if count is not None:  # noqa: SIM102 (numba drops this branch if count is None)
            if slots[h] < 0:
                if size == len(pairs):
                    return i, size
                pairs[size] = pair
                slots[h] = size
                size += 1
        numbers[i] = slots[h]
    return len(left), size
