"""Cells as ranges of bytes to columns, without a Python object per token."""

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, interpreting, kernel, small_work
from mtlstruct.corpus import Column
from mtlstruct.formats import text

Int64 = NDArray[np.int64]


def column(blob: NDArray[np.uint8], starts: Int64, stops: Int64) -> Column:
    """Return the column of cells blob[start:stop] in UTF-8, numbered by first appearance."""
    raw = blob.tobytes()
    with small_work(len(raw)):
        if interpreting():
            spans = zip(starts.tolist(), stops.tolist(), strict=True)
            return text.column([raw[start:stop].decode() for start, stop in spans])
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    ids, firsts = np.empty(len(starts), np.int32), np.empty(len(starts), np.int64)
    slots = np.full(1 << max(3, (2 * len(starts)).bit_length()), -1, np.int32)
    firsts = firsts[: number_cells(blob, starts, stops, slots, ids, firsts)]
    spans = zip(starts[firsts].tolist(), stops[firsts].tolist(), strict=True)
    return Column(ids, [raw[start:stop].decode() for start, stop in spans])


# ---------------------------------------------------------------- kernels


@inner_kernel
def string_hash(blob, start, stop):
    h = np.uint64(14695981039346656037)  # FNV-1a
    for i in range(start, stop):
        h = (h ^ np.uint64(blob[i])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@inner_kernel
def same_string(a, a0, a1, b, b0, b1):
    if a1 - a0 != b1 - b0:
        return False
    for i in range(a1 - a0):  # noqa: SIM110
        if a[a0 + i] != b[b0 + i]:
            return False
    return True


@kernel
def number_cells(blob, starts, stops, slots, ids, firsts):
    """Write the number of each cell and the first cell of each number; return their count."""
    mask, count = np.uint64(len(slots) - 1), 0
    for i in range(len(starts)):
        h = string_hash(blob, starts[i], stops[i]) & mask
        while slots[h] >= 0:
            k = firsts[slots[h]]
            if same_string(blob, starts[i], stops[i], blob, starts[k], stops[k]):
                break
            h = (h + np.uint64(1)) & mask
        if slots[h] < 0:
            slots[h], firsts[count] = count, i
            count += 1
        ids[i] = slots[h]
    return count
