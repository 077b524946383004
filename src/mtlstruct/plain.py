"""Plain readings: those that find one value at a site. What they find is looked up in kernels, where it is wanted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._kernels import lean_kernel
from .corpus import ABSENT

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ITSELF = np.zeros(0, np.int32)


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
        out = np.empty(len(self.places), np.int32)
        self.write(out, 0, ABSENT)
        return out

    def counts(self, size: int) -> Int64:
        """How often each of `size` values is found, before any mapping."""
        counts = np.zeros(size, np.int64)
        _count(self.node, self.places, self.shift, counts)
        return counts

    def write(self, out: NDArray[np.integer], offset: int, null: int, first: int = 0) -> None:
        """out[s] becomes what is found at site first + s, plus an offset; null for ABSENT."""
        places = self.places[first : first + len(out)]
        _write(self.node, places, self.shift, self.numbers, out, offset, null)


def turn(columns: NDArray[np.integer], where: Int64, table: NDArray[np.integer]) -> None:
    """table[s, where[k]] = columns[k, s], as far as the table goes."""
    _turn(columns, where, table)


@lean_kernel
def _count(node, places, shift, counts):  # type: ignore[no-untyped-def]
    for place in places:
        value = node[place + shift]
        if value >= 0:
            counts[value] += 1


@lean_kernel
def _write(node, places, shift, numbers, out, offset, null):  # type: ignore[no-untyped-def]
    if len(numbers) == 0:
        for s in range(len(out)):
            found = node[places[s] + shift]
            out[s] = null if found < 0 else found + offset
        return
    last = np.int32(len(numbers) - 1)
    for s in range(len(out)):
        found = node[np.uint64(places[s] + shift)]
        found = numbers[np.uint64(found if found >= 0 else last)]
        out[s] = null if found < 0 else found + offset


@lean_kernel
def _turn(columns, where, table):  # type: ignore[no-untyped-def]
    """Row by row: the table is written from end to end, and a cache line of each column serves sixteen rows."""
    for s in range(len(table)):
        row = table[s]
        for k in range(len(where)):
            row[np.uint64(where[k])] = columns[np.uint64(k), np.uint64(s)]
