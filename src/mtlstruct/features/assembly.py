"""Assembly of A from the attributes of lines at each site.

Rows of A are uniform if each line has the same number of entries at every site, as vectors have,
and ragged otherwise. In both, the entries of a row are sorted, except null attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.features.values import MultiValued, SingleValued, Values
from mtlstruct.features.vocabulary import ABSENT, PairTable
from mtlstruct.linear.design import PREFETCH_DISTANCE, Design, padded_ids
from mtlstruct.linear.weight_layout import WeightLayout

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MIN_UNIFORM_SHARE = 0.25
"""Rows with a smaller share of known entries are ragged; a ragged entry takes twice the memory."""


@dataclass(frozen=True)
class Shape:
    """Size of a line: entries per site (None: varying), known entries, any value not 1."""

    width: int | None
    filled: int
    real: bool

    @classmethod
    def of(cls, values: Values) -> Shape:
        """Return the shape of the values of a line."""
        if isinstance(values, MultiValued):
            return cls(values.width, int(np.count_nonzero(values.ids != ABSENT)), values.real)
        return cls(1, int(np.count_nonzero(values.ids() != ABSENT)), False)


@dataclass(frozen=True)
class LineSource:
    """A line: its template, the first attribute of that, and its attributes at all sites.

    `attributes` is called whenever they are needed: those of all lines together are as large as A.
    """

    block: int
    offset: int
    attributes: Callable[[], Values]


_Rows = tuple[NDArray[np.integer], Int64, Int32, NDArray[np.float32]]
"""ids, ptr, blocks and values of a Design."""


def assemble_design(
    lines: Sequence[LineSource], shapes: Sequence[Shape] | None, layout: WeightLayout, sites: int
) -> Design:
    """Return A of one kind, from lines in template order; no shapes: one entry per site."""
    null = layout.attributes
    dtype = np.int32 if null < np.iinfo(np.int32).max else np.int64
    shapes = [Shape(1, sites, False) for _ in lines] if shapes is None else shapes
    widths = [shape.width for shape in shapes if shape.width is not None]
    filled = sum(shape.filled for shape in shapes)
    real = any(shape.real for shape in shapes)
    if len(widths) == len(shapes) and filled >= MIN_UNIFORM_SHARE * sites * sum(widths):
        rows = _uniform_rows(lines, widths, sites, null, dtype, real)
    else:
        rows = _ragged_rows(lines, filled, sites, null, dtype, real)
    return Design(*rows, layout)


def _uniform_rows(
    lines: Sequence[LineSource], widths: Sequence[int], sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """Return rows in which each line has as many slots as it has entries at a site."""
    ends = np.cumsum(widths).tolist()
    slots = ends[-1] if ends else 0
    ids: NDArray[np.integer] = np.empty(sites * slots + PREFETCH_DISTANCE, dtype)
    ids[sites * slots :] = null
    table = ids[: sites * slots].reshape(sites, slots)
    values = np.ones((sites, slots) if real else (0, 0), np.float32)

    def write(number: int) -> None:
        line, width = lines[number], widths[number]
        found, columns = line.attributes(), slice(ends[number] - width, ends[number])
        if isinstance(found, SingleValued):
            found.write(line.offset, null, table[:, ends[number] - 1])
            return
        local = found.ids.reshape(sites, width)
        table[:, columns] = np.where(local == ABSENT, null, local + dtype(line.offset))
        if real and found.values is not None:
            values[:, columns] = found.values.reshape(sites, width)

    threads.in_order(write, range(len(lines)))
    blocks = np.repeat(np.array([line.block for line in lines], np.int32), widths)
    _sort_within_blocks(table, blocks, values if real else None)
    return ids, np.arange(sites + 1, dtype=np.int64) * slots, blocks, values.ravel()


def _sort_within_blocks(
    table: NDArray[np.integer], blocks: Int32, values: NDArray[np.float32] | None
) -> None:
    """Sort the entries of each block in each row, whichever line they come from."""
    cuts = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1))
    for first, last in pairwise(cuts.tolist()):
        part = table[:, first:last]
        if last - first == 1 or bool((part[:, 1:] >= part[:, :-1]).all()):
            continue
        order = np.argsort(part, axis=1, kind="stable")
        part[:] = np.take_along_axis(part, order, 1)
        if values is not None:
            values[:, first:last] = np.take_along_axis(values[:, first:last], order, 1)


def _ragged_rows(
    lines: Sequence[LineSource], filled: int, sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """Return rows of the known entries of each line in turn."""
    counts = np.zeros(sites, np.int64)
    for line in lines:
        counts += _counts(line.attributes())
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids: NDArray[np.integer] = np.full(filled + PREFETCH_DISTANCE, null, dtype)
    blocks = np.empty(filled, np.int32)
    values = np.ones(filled if real else 0, np.float32)
    cursor = ptr[:-1].copy()
    for line in lines:
        found = line.attributes()
        if isinstance(found, MultiValued):
            known = found.known()
            local, lengths = known.ids, np.diff(known.ptr)
            at = np.repeat(cursor - known.ptr[:-1], lengths) + np.arange(len(local))
            cursor += lengths
            if real and known.values is not None:
                values[at] = known.values
        else:
            local = found.ids()
            firing = np.flatnonzero(local != ABSENT)
            local, at = local[firing], cursor[firing]
            cursor[firing] += 1
        ids[at] = local + dtype(line.offset)
        blocks[at] = line.block
    return ids, ptr, blocks, values


def _counts(found: Values) -> Int64:
    """Return the number of known entries of each site."""
    if isinstance(found, SingleValued):
        firing: Int64 = (found.ids() != ABSENT).astype(np.int64)
        return firing
    site = np.repeat(np.arange(len(found.ptr) - 1), np.diff(found.ptr))
    counts: Int64 = np.bincount(site[found.ids != ABSENT], minlength=len(found.ptr) - 1)
    return counts


def share_rows(design: Design) -> tuple[Design, Int32]:
    """Return a uniform design with each distinct row once, and the row of each site."""
    width = len(design.blocks)
    table = design.ids[: design.ptr[-1]].reshape(design.rows, width)
    row = np.zeros(len(table), np.int32)
    for ids in table.T:
        if ids.dtype != np.int32:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int32)
        _, row = PairTable.build(row, np.ascontiguousarray(ids))
    first = np.flatnonzero(
        np.diff(np.maximum.accumulate(row), prepend=np.int32(-1))
    )  # numbers rise at new rows
    distinct = table[first] if len(table) else np.zeros((1, width), table.dtype)
    ids = padded_ids(distinct.ravel(), design.layout.attributes)
    return replace(design, ids=ids, ptr=np.arange(len(distinct) + 1, dtype=np.int64) * width), row
