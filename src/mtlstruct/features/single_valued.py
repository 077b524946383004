"""Plain readings: those that find one value at a site. What they find is looked up in kernels, where it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel, make_peek

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ITSELF = np.zeros(0, np.int32)

WIDTH = 512
"""Sites whose attributes are found together: few enough for the cache to hold them until the rows are written."""

APART = 16
"""Columns that are read side by side must not lie a power of two apart: they would share few places of the cache."""


class Plain(NamedTuple):
    """What a plain reading finds at site s: numbers[node[places[s] + shift]].

    node      int32: the values of a node of the plan, ABSENT where there is none
    numbers   int32: an attribute for each value, the last one for ABSENT; empty for the values themselves
    """

    node: Int32
    places: Int64
    shift: int
    numbers: Int32 = ITSELF

    def mapped(self, numbers: Int32) -> Plain:
        """The attributes of the values that are found."""
        return self._replace(numbers=numbers)

    def ids(self) -> Int32:
        """All that is found."""
        found: Int32 = self.node[self.places + self.shift]
        return self.numbers[found] if len(self.numbers) else found  # the last number is that of ABSENT

    def counts(self, size: int) -> Int64:
        """How often each of `size` values is found, before any mapping."""
        counts = np.zeros(size, np.int64)
        _count(self.node, self.places, self.shift, counts)
        return counts


class Columns:
    """Plain readings of the same sites that have a column each in a table of attributes."""

    def __init__(
        self, found: Sequence[Plain], where: Sequence[int], offsets: Sequence[int], null: int
    ) -> None:
        self._places, self._null = found[0].places, null
        assert all(one.places is self._places for one in found)
        # the arrays must live as long as their addresses are known
        self._arrays = [
            np.ascontiguousarray(array, np.int32) for one in found for array in (one.node, one.numbers)
        ]
        nodes, maps = (
            np.array([array.ctypes.data for array in self._arrays[side::2]], np.int64) for side in (0, 1)
        )
        last = [len(one.numbers) - 1 for one in found]
        numbers = last, [one.shift for one in found], where, offsets
        self._readings = nodes, maps, *(np.array(some, np.int64) for some in numbers)

    def write(self, table: NDArray[np.integer], first: int) -> None:
        """table[s, where[k]] becomes what reading k finds at site first + s, plus its offset; null for ABSENT."""
        room = np.empty((len(self._readings[0]), WIDTH + APART), table.dtype)
        _write(*self._readings, self._null, self._places[first : first + len(table)], room, table)


@kernel
def _count(node, places, shift, counts):  # type: ignore[no-untyped-def]
    for place in places:
        value = node[place + shift]
        if value >= 0:
            counts[value] += 1


peek = make_peek()


@kernel
def _write(nodes, numbers, last, shift, where, offsets, null, places, room, table):  # type: ignore[no-untyped-def]
    """Some sites at a time: reading by reading into the room, whose rows then become columns of the table.

    The table is written from end to end, and a cache line of each reading serves sixteen sites.
    """
    width = room.shape[1] - APART
    for first in range(0, len(table), width):
        count = min(width, len(table) - first)
        for k in range(len(nodes)):
            row, node, number = room[k], nodes[k], numbers[k]
            away, absent, offset = shift[k], last[k], offsets[k]
            for s in range(count):
                found = np.int64(peek(node, places[np.uint64(first + s)] + away))
                found = np.int64(peek(number, found if found >= 0 else absent))
                row[np.uint64(s)] = null if found < 0 else found + offset
        for s in range(count):
            row = table[np.uint64(first + s)]
            for k in range(len(where)):
                row[np.uint64(where[k])] = room[np.uint64(k), np.uint64(s)]
