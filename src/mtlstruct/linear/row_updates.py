"""The adjoint pair on a few rows: what a learner that visits one sentence at a time reads and writes.

`z` comes as lists: the row, the part and the count of each entry that is not zero. Weights are as they are, or
w_j = scale_j · u_j; then a step also keeps the squared norms of blocks up to date.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct.linear.design import LOOKAHEAD, Design, prefetch
from mtlstruct.linear.weight_layout import Floats

Ints = NDArray[np.integer]


def score_rows(
    design: Design, weights: Floats, rows: Ints, width: int, scale: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Σ scale_j · x · weights[id] over the entries of each of these rows; without a scale, weights as they are."""
    out = np.empty((len(rows), width), np.float32)
    if scale is not None:
        _score_scaled_rows(rows, design.ids, design.ptr, *design.owners, design.values, scale, weights, out)
    elif width == 1 and len(design.values) == 0:
        _sum_listed(rows, design.ids, design.ptr, weights, out)
    else:
        _score_rows(rows, design.ids, design.ptr, design.values, weights, out)
    return out


def add_rows(design: Design, rows: Ints, parts: Ints, counts: Floats, step: float, out: Floats) -> None:
    """out[id, part] += step · count · x on the entries of some rows: step·Aᵀ·z for a z of few entries."""
    _add_rows(rows, parts, counts, step, design.ids, design.ptr, design.values, design.attributes, out)


def add_scaled_rows(
    design: Design,
    rows: Ints,
    parts: Ints,
    counts: Floats,
    amount: NDArray[np.float64],
    out: Floats,
    N: NDArray[np.float64],
) -> None:
    """out[id, part] += amount_j · count · x on the entries of some rows, and N_j = ‖out_j‖² follows exactly."""
    entries = design.ids, design.ptr, *design.owners, design.values, design.attributes
    _add_scaled_rows(rows, parts, counts, amount, *entries, out, N)


def clear_rows(design: Design, rows: Ints, gone: NDArray[np.bool_], out: Floats) -> None:
    """out[id] = 0 for each entry of some rows that belongs to a template with gone_j."""
    _clear_blocks(rows, design.ids, design.ptr, *design.owners, gone, design.attributes, out)


def squared_norm_of_rows(design: Design, rows: Ints, parts: Ints, counts: Floats, room: Floats) -> float:
    """‖Aᵀ·z‖² for a z of few entries; `room` has the shape of the weights, and is zero before and after."""
    add_rows(design, rows, parts, counts, 1.0, room)
    return float(_take_rows(rows, parts, design.ids, design.ptr, room))


# ---------------------------------------------------------------- kernels


@fast_kernel
def _sum_listed(rows, ids, ptr, weights, out):  # type: ignore[no-untyped-def]
    for r in range(len(rows)):
        entry = ids[ptr[rows[r]] : ptr[rows[r] + 1]]
        total = np.float32(0)
        for k in range(len(entry)):
            total += weights[np.uint64(entry[k]), 0]
        out[r, 0] = total


@fast_kernel
def _score_rows(rows, ids, ptr, values, weights, out):  # type: ignore[no-untyped-def]
    width = out.shape[1]
    real = len(values) > 0
    total = np.zeros(width, np.float32)
    for r in range(len(rows)):
        start = ptr[rows[r]]
        size = ptr[rows[r] + 1] - start
        entry = ids[start : start + size + LOOKAHEAD]
        total[:] = 0
        for k in range(size):
            prefetch(weights, np.int64(entry[k + LOOKAHEAD]))
            u = weights[np.uint64(entry[k])]
            x = values[start + k] if real else np.float32(1)
            for y in range(width):
                total[y] += x * np.float32(u[y])
        for y in range(width):
            out[r, y] = total[y]


@fast_kernel
def _add_rows(rows, parts, counts, step, ids, ptr, values, null, out):  # type: ignore[no-untyped-def]
    real = len(values) > 0
    for r in range(len(rows)):
        amount = step * counts[r]
        start = ptr[rows[r]]
        entry = ids[start : ptr[rows[r] + 1]]
        for k in range(len(entry)):
            if entry[k] != null:
                out[np.uint64(entry[k]), parts[r]] += amount * values[start + k] if real else amount


@fast_kernel
def _take_rows(rows, parts, ids, ptr, room):  # type: ignore[no-untyped-def]
    total = 0.0
    for r in range(len(rows)):
        entry = ids[ptr[rows[r]] : ptr[rows[r] + 1]]
        for k in range(len(entry)):
            f = np.uint64(entry[k])
            z = np.float64(room[f, parts[r]])
            total += z * z
            room[f, parts[r]] = 0
    return total


@fast_kernel
def _score_scaled_rows(rows, ids, ptr, blocks, by, values, scale, weights, out):  # type: ignore[no-untyped-def]
    width = out.shape[1]
    real = len(values) > 0
    for r in range(len(rows)):
        start = ptr[rows[r]]
        size = ptr[rows[r] + 1] - start
        entry = ids[start : start + size + LOOKAHEAD]
        for y in range(width):
            out[r, y] = 0
        for k in range(size):
            prefetch(weights, np.int64(entry[k + LOOKAHEAD]))
            u = weights[np.uint64(entry[k])]
            place = k if by == 0 else (start + k if by == 1 else entry[k])
            x = np.float32(scale[blocks[place]])
            if real:
                x *= values[start + k]
            for y in range(width):
                out[r, y] += x * np.float32(u[y])


@fast_kernel
def _add_scaled_rows(  # type: ignore[no-untyped-def]
    rows, parts, counts, amount, ids, ptr, blocks, by, values, null, out, N
):
    real = len(values) > 0
    for r in range(len(rows)):
        start = ptr[rows[r]]
        y = parts[r]
        for k in range(ptr[rows[r] + 1] - start):
            a = ids[start + k]
            if a == null:
                continue
            j = blocks[k if by == 0 else (start + k if by == 1 else a)]
            x = amount[j] * counts[r]
            if real:
                x *= values[start + k]
            before = np.float64(out[np.uint64(a), y])
            out[np.uint64(a), y] += x
            after = np.float64(out[np.uint64(a), y])
            N[j] += (after - before) * (after + before)


@fast_kernel
def _clear_blocks(rows, ids, ptr, blocks, by, gone, null, out):  # type: ignore[no-untyped-def]
    for r in range(len(rows)):
        start = ptr[rows[r]]
        for k in range(ptr[rows[r] + 1] - start):
            a = ids[start + k]
            if a != null and gone[blocks[k if by == 0 else (start + k if by == 1 else a)]]:
                out[np.uint64(a)] = 0
