"""Shared weight rows for singletons: attributes that fire in one row of A only.

Block-coordinate ascent changes the weights of an attribute by what it does to the tokens where the
attribute fires. All singletons of one token change alike, so one weight row serves them all,
whatever their templates: w_j = −mu_j v_j still differs by mu_j. The same sums are added in the same
order, so no number changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct._system import threads
from mtlstruct.linear.design import Design
from mtlstruct.linear.weight_layout import SingletonRows


def can_share_singletons(design: Design) -> bool:
    """Return whether the layout allows it: dense, aligned slots, all values 1."""
    layout = design.layout
    dense = layout.support is None and layout.singletons is None and len(design.values) == 0
    return dense and not design.ragged and len(design.blocks) > 0 and design.slots_aligned


def share_singletons(design: Design, *, overwrite: bool) -> Design:
    """Return the design with shared rows for singletons; `overwrite` allows to change its `ids`."""
    found = find_singletons(design.ids, design.rows, len(design.blocks), design.layout.attributes)
    ids = design.ids if overwrite else design.ids.copy()
    threads.in_order(lambda span: _renumber(ids[slice(*span)], found.row_of), threads.shares(len(ids)))
    return replace(design, ids=ids, layout=replace(design.layout, singletons=found))


def find_singletons(ids: NDArray[np.integer], rows: int, slots: int, attributes: int) -> SingletonRows:
    """Return the weight rows for uniform rows in which an attribute has one slot."""
    times = np.zeros(attributes + 1, np.uint8)
    row_of = np.zeros(attributes + 1, np.int32)
    # the null attribute alone is written by several threads, and its entries are not read
    threads.in_order(
        lambda span: _find_last_rows(ids, rows, slots, *span, times, row_of), threads.shares(slots)
    )
    n_own_rows = int(np.count_nonzero(times[:-1] > 1))
    _assign_weight_rows(times, row_of, n_own_rows, n_own_rows + rows)
    return SingletonRows(row_of, n_own_rows)


# ---------------------------------------------------------------- kernels


@kernel
def _find_last_rows(ids, rows, slots, low, high, times, last):
    """Count how often each attribute of some slots fires, up to twice, and note its last row."""
    for row in range(rows):
        for a in ids[row * slots + low : row * slots + high]:
            times[a] += times[a] < 2
            last[a] = row


@kernel
def _assign_weight_rows(times, row_of, n_own_rows, null):
    """Replace the last row of A where each attribute fires by its weight row."""
    own = 0
    for a in range(len(row_of) - 1):
        if times[a] > 1:
            row_of[a] = own
            own += 1
        else:
            row_of[a] = n_own_rows + row_of[a] if times[a] == 1 else null
    row_of[-1] = null


@kernel
def _renumber(ids, row_of):
    for k in range(len(ids)):
        ids[k] = row_of[ids[k]]
