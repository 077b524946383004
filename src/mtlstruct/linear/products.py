"""Part scores A·w, feature counts Aᵀ·z and norms of blocks.

Weights are given as w_j = scale_j · u_j, so that a solver that rescales templates touches m numbers
only. Solvers that update one sentence at a time use products with a few rows of A; z is then given
by its nonzero entries: row, part and count of each.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel, kernel
from mtlstruct._system import threads
from mtlstruct.linear.design import BY_ENTRY, BY_SLOT, PREFETCH_DISTANCE, Design, prefetch
from mtlstruct.linear.label_support import FEATURE_PREFETCH_DISTANCE, Floats, support_arrays


def score(design: Design, weights: Floats, scale: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """Set out[row] = Σ scale_j · x · weights[id] over its entries: float32[rows, parts]."""
    support, by, values = design.layout.support, design.entry_blocks, design.values
    scales = design.scales(scale) if support is not None else None
    by_attribute, real = design.blocks_by_attribute, len(values) > 0
    if by_attribute:
        weights = (scale[design.layout.attribute_blocks][:, None] * weights).astype(np.float32)
    elif support is None:
        weights = np.asarray(weights, np.float32)  # one compiled kernel less
    factors = scale if len(design.blocks) > 0 else None

    def work(span: tuple[int, int]) -> None:
        if by_attribute and not real:
            sum_rows(np.arange(*span), design.ids, design.ptr, weights, out[slice(*span)])
        elif support is None:
            total = np.empty(weights.shape[1], np.float32)
            score_rows(None, *span, design.ids, design.ptr, values, factors, *by, weights, total, out)
        else:
            listed = (design.ids, design.ptr, design.ragged, values, scales)
            score_supported_rows(*span, *listed, *support_arrays(support), weights, out)

    threads.in_order(work, threads.chunks(np.arange(design.rows + 1, dtype=np.int64)))


def count(design: Design, z: NDArray[np.float32], out: Floats) -> None:
    """Add Aᵀ·z to a weight table: out[id] += x · z[row] for each entry; z float32[rows, parts].

    Every weight is written by one thread, in row order, so the bits do not depend on threads.
    """
    layout, slots = design.layout, len(design.blocks)
    if design.without_templates:  # each thread has a range of attributes with about as many entries
        shares = np.linspace(0, int(design.ptr[-1]), threads.get_threads() + 1)[1:-1]
        cuts = np.searchsorted(design.attribute_ptr, shares)
        spans = [(0, 0, *cut) for cut in pairwise([0, *cuts.tolist(), layout.attributes])]
    elif design.slots_aligned:
        cuts = np.linspace(0, slots, min(slots, 16) + 1).astype(int)
        spans = [(*cut, 0, layout.n_own_rows) for cut in pairwise(cuts.tolist())]
    else:
        spans = [(0, 0, 0, layout.n_own_rows)]
    rows = (design.ids, design.ptr, design.values)

    def work(span: tuple[int, int, int, int]) -> None:
        if layout.support is None:
            first, last, lowest, highest = span
            _count(first, last, lowest or None, highest, *rows, z, out)  # None: one comparison less
        else:
            _count_supported(*span, *rows, *support_arrays(layout.support), z, out)

    threads.in_order(work, spans)
    if layout.singletons is not None:
        out[layout.n_own_rows : layout.null_row, : z.shape[1]] += z


def squared_norms(designs: Sequence[Design], weights: Sequence[Floats], m: int) -> NDArray[np.float64]:
    """Return ‖u_j‖² of each template, summed in double: float64[m]."""

    def norm(kind: int, first: int, last: int) -> float:
        singletons = designs[kind].layout.singletons
        if singletons is not None:
            return float(_squared_norm(weights[kind], singletons.row_of[first:last]))
        return float(_squared_norm(weights[kind][first:last], None))

    return _over_blocks(norm, designs, m)


def absolute_sums(designs: Sequence[Design], weights: Sequence[Floats], m: int) -> NDArray[np.float64]:
    """Return ‖u_j‖₁ of each template, summed in double: float64[m]."""

    def total(kind: int, first: int, last: int) -> float:
        return float(np.abs(weights[kind][first:last]).sum(dtype=np.float64))

    return _over_blocks(total, designs, m)


def _over_blocks(
    of: Callable[[int, int, int], float], designs: Sequence[Design], m: int
) -> NDArray[np.float64]:
    """Return of(kind, first, last) for the range of each template in a weight table."""
    out = np.zeros(m)

    def work(job: tuple[int, int]) -> float:
        kind, block = job
        return of(kind, *designs[kind].layout.weight_ptr[block : block + 2])

    jobs = [(kind, b) for kind, d in enumerate(designs) for b in range(len(d.layout.templates))]
    for (kind, block), total in zip(jobs, threads.in_order(work, jobs), strict=True):
        out[designs[kind].layout.templates[block]] = total
    return out


Ints = NDArray[np.integer]


def score_some_rows(
    design: Design, weights: Floats, rows: Ints, width: int, scale: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Return Σ scale_j · x · weights[id] over the entries of some rows; no scale: 1."""
    out = np.empty((len(rows), width), np.float32)
    if scale is None and width == 1 and len(design.values) == 0:
        sum_rows(rows, design.ids, design.ptr, weights, out)
    else:
        entries = design.ids, design.ptr, design.values, scale, *design.entry_blocks
        score_rows(rows, 0, len(rows), *entries, weights, np.empty(weights.shape[1], np.float32), out)
    return out


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


# ---------------------------------------------------------------- kernels


@inner_kernel
def _block_index(by, slot, entry, attribute):
    """Return where the template of an entry is listed (Design.entry_blocks)."""
    return slot if by == BY_SLOT else (entry if by == BY_ENTRY else np.int64(attribute))


@fast_kernel
def score_rows(rows, first, last, ids, ptr, values, scale, by, blocks, weights, total, out):
    """Set out[r] = Σ scale_j · x · weights[id] over row rows[r] (None: r), first ≤ r < last."""
    width = weights.shape[1]
    real = len(values) > 0
    for r in range(first, last):
        row = r if rows is None else rows[r]
        start = ptr[row]
        size = ptr[row + 1] - start
        entry = ids[start : start + size + PREFETCH_DISTANCE]
        for y in range(width):
            total[y] = 0
        for k in range(size):
            prefetch(weights, np.int64(entry[k + PREFETCH_DISTANCE]))
            u = weights[np.uint64(entry[k])]
            x = np.float32(1)
            if scale is not None:
                x = np.float32(scale[blocks[_block_index(by, k, start + k, entry[k])]])
            if real:
                x *= values[start + k]
            for y in range(width):
                total[y] += x * np.float32(u[y])
        for y in range(out.shape[1]):
            out[r, y] = total[y]


@fast_kernel
def sum_rows(rows, ids, ptr, w, out):
    """Set out[r] = Σ w[id] over the entries of row rows[r]."""
    for r in range(len(rows)):
        entry = ids[ptr[rows[r]] : ptr[rows[r] + 1]]
        for y in range(out.shape[1]):
            total = np.float32(0)
            for k in range(len(entry)):
                total += w[np.uint64(entry[k]), y]
            out[r, y] = total


@fast_kernel
def _count(first, last, lowest, highest, ids, ptr, values, z, out):
    width = min(z.shape[1], out.shape[1])
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        some = False
        for y in range(width):
            some |= z[row, y] != 0
        if not some:
            continue
        start = ptr[row]
        low = start + first
        high = start + last if last > 0 else ptr[row + 1]
        entry = ids[low : high + PREFETCH_DISTANCE]
        for k in range(high - low):
            prefetch(out, np.int64(entry[k + PREFETCH_DISTANCE]))
            if entry[k] >= highest:
                continue
            if lowest is not None:  # noqa: SIM102 (numba drops this branch if lowest is None)
                if entry[k] < lowest:
                    continue
            u = out[np.uint64(entry[k])]
            x = values[low + k] if real else np.float32(1)
            for y in range(width):
                u[y] += x * z[row, y]


@kernel
def _squared_norm(weights, rows):
    """Sum the squares of some rows (None: all) by Neumaier's compensated summation."""
    total, rest = 0.0, 0.0
    for k in range(len(weights) if rows is None else len(rows)):
        if rows is None:
            row = weights[k]
        else:
            prefetch(weights, np.int64(rows[min(k + PREFETCH_DISTANCE, len(rows) - 1)]))
            row = weights[rows[k]]
        square = 0.0
        for y in range(len(row)):
            square += np.float64(row[y]) * np.float64(row[y])
        both = total + square
        part = both - total
        rest += (total - (both - part)) + (square - part)
        total = both
    return total + rest


@fast_kernel
def score_supported_rows(first, last, ids, ptr, ragged, values, scales, support_ptr, label, weights, out):
    real = len(values) > 0
    scaled = len(scales) > 0
    for row in range(first, last):
        start = ptr[row]
        size = ptr[row + 1] - start
        entry = ids[start : start + size + PREFETCH_DISTANCE]
        at = start if ragged else 0
        total = out[row]
        total[:] = 0
        for k in range(size):
            prefetch(support_ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
            feature = support_ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
            prefetch(weights, feature)
            prefetch(label, feature)
            x = scales[at + k] if scaled else np.float32(1)
            if real:
                x *= values[start + k]
            a = np.uint64(entry[k])
            for f in range(support_ptr[a, 0], support_ptr[a + np.uint64(1), 0]):
                total[label[f, 0]] += x * np.float32(weights[f, 0])


@fast_kernel
def _count_supported(first, last, lowest, highest, ids, ptr, values, support_ptr, label, z, out):
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        some = False
        for y in range(z.shape[1]):
            some |= z[row, y] != 0
        if not some:
            continue
        low = ptr[row] + first
        high = ptr[row] + last if last > 0 else ptr[row + 1]
        entry = ids[low : high + PREFETCH_DISTANCE]
        for k in range(high - low):
            prefetch(support_ptr, np.int64(entry[k + PREFETCH_DISTANCE]))
            feature = support_ptr[np.int64(entry[k + FEATURE_PREFETCH_DISTANCE]), 0]
            prefetch(out, feature)
            prefetch(label, feature)
            if entry[k] < lowest or entry[k] >= highest:
                continue
            x = values[low + k] if real else np.float32(1)
            a = np.uint64(entry[k])
            for f in range(support_ptr[a, 0], support_ptr[a + np.uint64(1), 0]):
                out[f, 0] += x * z[row, label[f, 0]]


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
