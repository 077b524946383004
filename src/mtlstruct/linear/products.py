"""The adjoint pair: part scores = A·w and feature counts = Aᵀ·z, and the norms of blocks.

Weights come as w_j = scale_j · u_j, so a learner that rescales templates never touches the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, kernel
from mtlstruct._system import threads
from mtlstruct.linear.design import LOOKAHEAD, Design, prefetch
from mtlstruct.linear.label_support import NEAR, lists
from mtlstruct.linear.singletons import squares
from mtlstruct.linear.weight_layout import Floats


def score(design: Design, weights: Floats, scale: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """out[row] = Σ scale_j · x · weights[id] over the entries of the row; out float32[rows, width]."""
    if design.unlisted:
        w = (scale[design.attribute_blocks][:, None] * weights).astype(np.float32)
        threads.in_order(
            lambda span: sum_rows(*span, design.ids, design.ptr, w, out), _row_chunks(design.rows)
        )
        return
    scales = design.scales(scale)
    rows = (design.ids, design.ptr, design.ragged, design.values)
    if design.support is None:
        weights = np.asarray(weights, np.float32)  # as they are used: a kernel for doubles would be one more

    def work(span: tuple[int, int]) -> None:
        if design.support is None:
            _score(*span, *rows, scales, weights, np.empty(weights.shape[1], np.float32), out)
        else:
            _score_supported(*span, *rows, scales, *lists(design.support), weights, out)

    threads.in_order(work, _row_chunks(design.rows))


def count(design: Design, z: NDArray[np.float32], out: Floats) -> None:
    """out[id] += x · z[row] for each entry of each row: Aᵀ·z. z float32[rows, width], out a table of weights.

    Threads share the work by templates: each weight is written by one thread, in row order, so bits do not vary.
    """
    if design.merged:
        _count_by_attribute(design, z, out)
        return
    slots = len(design.blocks)
    cuts = np.linspace(0, slots, min(slots, 16) + 1).astype(int)
    spans = list(pairwise(cuts.tolist())) if design.slotwise else [(0, 0)]
    every, rows = (0, design.attributes), (design.ids, design.ptr, design.values)

    def work(span: tuple[int, int]) -> None:
        if design.support is None:
            _count(*span, *rows, z, out, design.own)
        else:
            _count_supported(*span, *every, *rows, *lists(design.support), z, out)

    threads.in_order(work, spans)
    if design.fold is not None:
        out[design.own : design.null, : z.shape[1]] += z


def _count_by_attribute(design: Design, z: NDArray[np.float32], out: Floats) -> None:
    """A thread has a range of attributes, with about as many entries as others; each sums its rows in order.

    A weight has one writer, so bits do not depend on how many there are.
    """
    below, every = design.entries_below, design.attributes + 1
    shares = np.linspace(0, int(design.ptr[-1]), threads.get_threads() + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(below, shares), [every]]))
    rows = (design.ids, design.ptr, design.values)

    def work(span: tuple[int, int]) -> None:
        if design.support is None:
            _sum_rows_of(*span, below, *design.entry_rows, z, out)
        else:
            _count_supported(0, 0, *span, *rows, *lists(design.support), z, out)

    if design.support is None:
        _ = design.entry_rows  # by one thread, before all want it
    threads.in_order(work, list(pairwise(cuts.tolist())))


def squared_norms(designs: Sequence[Design], weights: Sequence[Floats], m: int) -> NDArray[np.float64]:
    """‖u_j‖² of each template, summed in double. float64[m]."""

    def norm(kind: int, first: int, last: int) -> float:
        folded = designs[kind].fold
        if folded is not None:
            return squares(weights[kind], folded.number[first:last])
        return squares(weights[kind][first:last])

    return _over_blocks(norm, designs, m)


def absolute_sums(designs: Sequence[Design], weights: Sequence[Floats], m: int) -> NDArray[np.float64]:
    """‖u_j‖₁ of each template, summed in double. float64[m]."""
    return _over_blocks(lambda kind, first, last: float(_absolutes(weights[kind][first:last])), designs, m)


def _over_blocks(
    of: Callable[[int, int, int], float], designs: Sequence[Design], m: int
) -> NDArray[np.float64]:
    """Return of(kind, first, last) for each template, whose range in a table of weights is first:last."""
    out = np.zeros(m)

    def work(job: tuple[int, int]) -> float:
        kind, block = job
        return of(kind, *designs[kind].weight_ptr[block : block + 2])

    jobs = [(kind, b) for kind, d in enumerate(designs) for b in range(len(d.templates))]
    for (kind, block), total in zip(jobs, threads.in_order(work, jobs), strict=True):
        out[designs[kind].templates[block]] = total
    return out


def _row_chunks(rows: int) -> list[tuple[int, int]]:
    return threads.chunks(np.arange(rows + 1, dtype=np.int64))


# ---------------------------------------------------------------- kernels


@fast_kernel
def _score(first, last, ids, ptr, ragged, values, scales, weights, total, out):  # type: ignore[no-untyped-def]
    width = weights.shape[1]
    real = len(values) > 0
    scaled = len(scales) > 0
    for row in range(first, last):
        start = ptr[row]
        size = ptr[row + 1] - start
        entry = ids[start : start + size + LOOKAHEAD]
        at = start if ragged else 0
        for y in range(width):
            total[y] = 0
        for k in range(size):
            prefetch(weights, np.int64(entry[k + LOOKAHEAD]))
            u = weights[np.uint64(entry[k])]
            x = scales[at + k] if scaled else np.float32(1)
            if real:
                x *= values[start + k]
            for y in range(width):
                total[y] += x * np.float32(u[y])
        for y in range(out.shape[1]):
            out[row, y] = total[y]


@fast_kernel
def sum_rows(first, last, ids, ptr, w, out):  # type: ignore[no-untyped-def]
    """out[row] = Σ w[id] over the entries of rows first:last."""
    for row in range(first, last):
        entry = ids[ptr[row] : ptr[row + 1]]
        for y in range(out.shape[1]):
            total = np.float32(0)
            for k in range(len(entry)):
                total += w[np.uint64(entry[k]), y]
            out[row, y] = total


@fast_kernel
def _count(first, last, ids, ptr, values, z, out, own):  # type: ignore[no-untyped-def]
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
        entry = ids[low : high + LOOKAHEAD]
        for k in range(high - low):
            prefetch(out, np.int64(entry[k + LOOKAHEAD]))
            if entry[k] >= own:
                continue
            u = out[np.uint64(entry[k])]
            x = values[low + k] if real else np.float32(1)
            for y in range(width):
                u[y] += x * z[row, y]


@fast_kernel
def _sum_rows_of(first, last, below, rows, values, z, out):  # type: ignore[no-untyped-def]
    width = min(z.shape[1], out.shape[1])
    real = len(values) > 0
    for a in range(first, last):
        u = out[a]
        for k in range(below[a], below[a + 1]):
            prefetch(z, np.int64(rows[k + LOOKAHEAD]))
            x = values[k] if real else np.float32(1)
            v = z[np.uint64(rows[k])]
            for y in range(width):
                u[y] += x * v[y]


@kernel
def _absolutes(block):  # type: ignore[no-untyped-def]
    total = 0.0
    for a in range(block.shape[0]):
        for y in range(block.shape[1]):
            total += abs(np.float64(block[a, y]))
    return total


@fast_kernel
def _score_supported(  # type: ignore[no-untyped-def]
    first, last, ids, ptr, ragged, values, scales, own, of, weights, out
):
    real = len(values) > 0
    scaled = len(scales) > 0
    for row in range(first, last):
        start = ptr[row]
        size = ptr[row + 1] - start
        entry = ids[start : start + size + LOOKAHEAD]
        at = start if ragged else 0
        total = out[row]
        total[:] = 0
        for k in range(size):
            prefetch(own, np.int64(entry[k + LOOKAHEAD]))
            near = own[np.int64(entry[k + NEAR]), 0]
            prefetch(weights, near)
            prefetch(of, near)
            x = scales[at + k] if scaled else np.float32(1)
            if real:
                x *= values[start + k]
            a = np.uint64(entry[k])
            for f in range(own[a, 0], own[a + np.uint64(1), 0]):
                total[of[f, 0]] += x * np.float32(weights[f, 0])


@fast_kernel
def _count_supported(  # type: ignore[no-untyped-def]
    first, last, lowest, highest, ids, ptr, values, own, of, z, out
):
    real = len(values) > 0
    for row in range(len(ptr) - 1):
        some = False
        for y in range(z.shape[1]):
            some |= z[row, y] != 0
        if not some:
            continue
        low = ptr[row] + first
        high = ptr[row] + last if last > 0 else ptr[row + 1]
        entry = ids[low : high + LOOKAHEAD]
        for k in range(high - low):
            prefetch(own, np.int64(entry[k + LOOKAHEAD]))
            near = own[np.int64(entry[k + NEAR]), 0]
            prefetch(out, near)
            prefetch(of, near)
            if entry[k] < lowest or entry[k] >= highest:
                continue
            x = values[low + k] if real else np.float32(1)
            a = np.uint64(entry[k])
            for f in range(own[a, 0], own[a + np.uint64(1), 0]):
                out[f, 0] += x * z[row, of[f, 0]]
