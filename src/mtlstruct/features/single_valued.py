"""Plain readings: those that find one value at a site."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel

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
        found: Int32 = self.node[self.places + self.shift]
        return self.numbers[found] if len(self.numbers) else found  # the last number is that of ABSENT

    def counts(self, size: int) -> Int64:
        """How often each of `size` values is found, before any mapping."""
        counts = np.zeros(size, np.int64)
        _count(self.node, self.places, self.shift, counts)
        return counts


@kernel
def _count(node, places, shift, counts):  # type: ignore[no-untyped-def]
    for place in places:
        value = node[place + shift]
        if value >= 0:
            counts[value] += 1
