"""Products with a few rows of A, for solvers that update one sentence at a time.

`z` is given by its nonzero entries: row, part and count of each. Weights are w, or w_j = scale_j ·
u_j; updates of the latter also maintain the squared norms of blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import BY_ENTRY, BY_SLOT, PREFETCH_DISTANCE, Design, prefetch
from mtlstruct.linear.products import sum_rows
from mtlstruct.linear.weight_layout import Floats

Ints = NDArray[np.integer]


def score_rows(
    design: Design, weights: Floats, rows: Ints, width: int, scale: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Return Σ scale_j · x · weights[id] over the entries of some rows; no scale: 1."""
    out = np.empty((len(rows), width), np.float32)
    if scale is None and width == 1 and len(design.values) == 0:
        sum_rows(rows, design.ids, design.ptr, weights, out)
    else:
        blocks = design.entry_blocks if scale is not None else (BY_SLOT, design.blocks)
        _score_rows(rows, design.ids, design.ptr, design.values, scale, *blocks, weights, out)
    return out


def add_rows(design: Design, rows: Ints, parts: Ints, counts: Floats, step: float, out: Floats) -> None:
    """Add step · Aᵀ·z to `out`: out[id, part] += step · count · x on the entries of some rows."""
    _add_rows(rows, parts, counts, step, design.ids, design.ptr, design.values, design.layout.null_row, out)


def add_scaled_rows(
    design: Design,
    rows: Ints,
    parts: Ints,
    counts: Floats,
    amount: NDArray[np.float64],
    out: Floats,
    N: NDArray[np.float64],
) -> None:
    """Add amount_j · count · x to out[id, part] on some rows, and update N_j = ‖out_j‖²."""
    entries = design.ids, design.ptr, *design.entry_blocks, design.values, design.layout.null_row
    _add_scaled_rows(rows, parts, counts, amount, *entries, out, N)


def squared_norm_of_rows(design: Design, rows: Ints, parts: Ints, counts: Floats, buffer: Floats) -> float:
    """Return ‖Aᵀ·z‖²; `buffer` has the shape of the weights and is zero before and after."""
    add_rows(design, rows, parts, counts, 1.0, buffer)
    return float(_take_rows(rows, parts, design.ids, design.ptr, buffer))


# ---------------------------------------------------------------- kernels


@inner_kernel
def _block_index(by, slot, entry, attribute):
    """Return where the template of an entry is listed (Design.entry_blocks)."""
    return slot if by == BY_SLOT else (entry if by == BY_ENTRY else np.int64(attribute))


@fast_kernel
def _score_rows(rows, ids, ptr, values, scale, by, blocks, weights, out):
    width = out.shape[1]
    real = len(values) > 0
    for r in range(len(rows)):
        start = ptr[rows[r]]
        size = ptr[rows[r] + 1] - start
        entry = ids[start : start + size + PREFETCH_DISTANCE]
        for y in range(width):
            out[r, y] = 0
        for k in range(size):
            prefetch(weights, np.int64(entry[k + PREFETCH_DISTANCE]))
            u = weights[np.uint64(entry[k])]
            x = np.float32(1)
            if scale is not None:
                x = np.float32(scale[blocks[_block_index(by, k, start + k, entry[k])]])
            if real:
                x *= values[start + k]
            for y in range(width):
                out[r, y] += x * np.float32(u[y])


@fast_kernel
def _add_rows(rows, parts, counts, step, ids, ptr, values, null, out):
    real = len(values) > 0
    for r in range(len(rows)):
        amount = step * counts[r]
        start = ptr[rows[r]]
        entry = ids[start : ptr[rows[r] + 1]]
        for k in range(len(entry)):
            if entry[k] != null:
                out[np.uint64(entry[k]), parts[r]] += amount * values[start + k] if real else amount


@fast_kernel
def _take_rows(rows, parts, ids, ptr, buffer):
    total = 0.0
    for r in range(len(rows)):
        entry = ids[ptr[rows[r]] : ptr[rows[r] + 1]]
        for k in range(len(entry)):
            f = np.uint64(entry[k])
            z = np.float64(buffer[f, parts[r]])
            total += z * z
            buffer[f, parts[r]] = 0
    return total


@fast_kernel
def _add_scaled_rows(rows, parts, counts, amount, ids, ptr, by, blocks, values, null, out, N):
    real = len(values) > 0
    for r in range(len(rows)):
        start = ptr[rows[r]]
        y = parts[r]
        for k in range(ptr[rows[r] + 1] - start):
            a = ids[start + k]
            if a == null:
                continue
            j = blocks[_block_index(by, k, start + k, a)]
            x = amount[j] * counts[r]
            if real:
                x *= values[start + k]
            before = np.float64(out[np.uint64(a), y])
            out[np.uint64(a), y] += x
            after = np.float64(out[np.uint64(a), y])
            N[j] += (after - before) * (after + before)
