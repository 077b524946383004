"""Folded weights: attributes that fire at one row of A only share the weights of that row.

A coordinate learner changes the weights of an attribute by what it does to the tokens where the attribute fires. All
that fire at one token only are changed alike, so one row of weights serves them, whatever their templates:
w_j = −mu_j v_j still differs by mu_j. The same sums are added up in the same order, so no number changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel, make_prefetch
from mtlstruct._system import threads

AHEAD = 24
"""How many attributes ahead their weights are fetched."""


@dataclass(frozen=True)
class Fold:
    """Where the weights of each attribute are.

    number   int32[attributes + 1]: their row in a table of weights; the last one is the null attribute's
    own      how many rows are of one attribute each; after them comes one for each row of A, and the null attribute's
    """

    number: NDArray[np.int32]
    own: int

    @property
    def null(self) -> int:
        """The row of the null attribute, which is the last; attributes that never fire have it, too."""
        return int(self.number[-1])


def fold(ids: NDArray[np.integer], rows: int, slots: int, attributes: int) -> Fold:
    """Looks where attributes fire: `ids` are those of `rows` rows with as many slots each, each attribute in one."""
    times = np.zeros(attributes + 1, np.uint8)
    number = np.zeros(attributes + 1, np.int32)
    # of what threads write, the null attribute alone is in slots of several, and nobody reads it
    threads.in_order(lambda span: _look(ids, rows, slots, *span, times, number), threads.shares(slots))
    own = int(np.count_nonzero(times[:-1] > 1))
    _number(times, number, own, own + rows)
    return Fold(number, own)


def rename(ids: NDArray[np.integer], number: NDArray[np.int32]) -> None:
    """Puts rows of weights in the place of attributes."""
    threads.in_order(lambda span: _rename(ids[slice(*span)], number), threads.shares(len(ids)))


def squares(weights: NDArray[np.floating], number: NDArray[np.int32] | None = None) -> float:
    """Σ of the squares of the weights in these rows, None for all: the same bits in whatever order they come."""
    return float(_squares(weights, number))


# ---------------------------------------------------------------- kernels


prefetch = make_prefetch()


@kernel
def _look(ids, rows, slots, low, high, times, last):  # type: ignore[no-untyped-def]
    """How often each attribute of some slots fires, up to twice, and at which row at last."""
    for row in range(rows):
        for a in ids[row * slots + low : row * slots + high]:
            times[a] += times[a] < 2
            last[a] = row


@kernel
def _number(times, number, own, null):  # type: ignore[no-untyped-def]
    """number, which has the row where each attribute fires, becomes its row of weights."""
    seen = 0
    for a in range(len(number) - 1):
        if times[a] > 1:
            number[a] = seen
            seen += 1
        else:
            number[a] = own + number[a] if times[a] == 1 else null
    number[-1] = null


@kernel
def _rename(ids, number):  # type: ignore[no-untyped-def]
    for k in range(len(ids)):
        ids[k] = number[ids[k]]


@kernel
def _squares(weights, number):  # type: ignore[no-untyped-def]
    """What rounding takes from the sum of rows is summed, too: rows in another order give the same bits."""
    total, rest = 0.0, 0.0
    for k in range(len(weights) if number is None else len(number)):
        if number is None:
            row = weights[k]
        else:
            prefetch(weights, np.int64(number[min(k + AHEAD, len(number) - 1)]))
            row = weights[number[k]]
        square = 0.0
        for y in range(len(row)):
            square += np.float64(row[y]) * np.float64(row[y])
        both = total + square
        part = both - total
        rest += (total - (both - part)) + (square - part)
        total = both
    return total + rest
