"""Rows of A from what the readings of templates find at each site.

Rows of A are uniform where each reading has the same number of entries at every site, as vectors have, and
ragged elsewhere. In both, the entries of a row are sorted, but for null attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.features.multi_valued import Entries, Found
from mtlstruct.features.single_valued import Columns, Plain
from mtlstruct.features.vocabulary import ABSENT, PairTable
from mtlstruct.linear.design import LOOKAHEAD, Design

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

SPARSE = 0.25
"""Rows of which less than this would be filled are ragged: an entry of a ragged row takes twice the memory."""

SPAN = 8192
"""Sites that one thread writes the entries of before it takes others."""

Find = Callable[[int], Found]
"""What reading r finds. Asked again where it is wanted again: all answers together would be as large as A."""


@dataclass(frozen=True)
class Shape:
    """What a reading takes: entries a site (None if they vary), those that are known, whether any value is not 1."""

    width: int | None
    filled: int
    real: bool

    @classmethod
    def of(cls, found: Found) -> Shape:
        """The shape of what was found."""
        if isinstance(found, Entries):
            return cls(found.width, int(np.count_nonzero(found.ids != ABSENT)), found.real)
        return cls(1, int(np.count_nonzero(found.ids() != ABSENT)), False)


def design_of(
    attributes: Find,
    readings: Sequence[int],
    shapes: Sequence[Shape] | None,
    blocks: Int32,
    sizes: Int64,
    templates: Int32,
    sites: int,
) -> Design:
    """A of one kind from what each reading finds.

    shapes      of each reading; None: each finds one attribute at a site
    blocks      the template of each reading, in rising order
    sizes       attributes of each of `templates`, which are those of this kind
    """
    block_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    null = int(block_ptr[-1])
    dtype = np.int32 if null < np.iinfo(np.int32).max else np.int64
    first = dict(zip(templates.tolist(), block_ptr.tolist(), strict=False))
    jobs = [_Job(r, j, first[j]) for r, j in zip(readings, blocks.tolist(), strict=True)]
    shapes = [Shape(1, sites, False) for _ in readings] if shapes is None else shapes
    widths = [shape.width for shape in shapes if shape.width is not None]
    filled = sum(shape.filled for shape in shapes)
    uniform = len(widths) == len(shapes) and filled >= SPARSE * sites * sum(widths)
    real = any(shape.real for shape in shapes)
    if uniform:
        rows = _uniform(attributes, jobs, widths, sites, null, dtype, real)
    else:
        rows = _ragged(attributes, jobs, filled, sites, null, dtype, real)
    return Design(*rows, block_ptr, templates)


@dataclass(frozen=True)
class _Job:
    """A reading, its template, and the first attribute of that."""

    reading: int
    block: int
    offset: int


_Rows = tuple[NDArray[np.integer], Int64, Int32, NDArray[np.float32]]
"""ids, ptr, blocks and values of a Design."""


def _uniform(
    attributes: Find,
    jobs: Sequence[_Job],
    widths: Sequence[int],
    sites: int,
    null: int,
    dtype: type,
    real: bool,
) -> _Rows:
    """Each reading has as many slots as it has entries at a site."""
    ends = np.cumsum(widths).tolist()
    slots = ends[-1] if ends else 0
    ids: NDArray[np.integer] = np.empty(sites * slots + LOOKAHEAD, dtype)
    ids[sites * slots :] = null
    table = ids[: sites * slots].reshape(sites, slots)
    values = np.ones((sites, slots) if real else (0, 0), np.float32)

    def open_(number: int) -> tuple[int, int, Plain] | None:
        """Writes what an open reading has found; a plain one is left for later: its column and first attribute."""
        job, width = jobs[number], widths[number]
        some, own = attributes(job.reading), slice(ends[number] - width, ends[number])
        if isinstance(some, Plain):
            return ends[number] - 1, job.offset, some
        local = some.ids.reshape(sites, width)
        table[:, own] = np.where(local == ABSENT, null, local + dtype(job.offset))
        if real and some.values is not None:
            values[:, own] = some.values.reshape(sites, width)
        return None

    plain = [some for some in threads.in_order(open_, range(len(jobs))) if some is not None]
    if plain:
        where, offsets, found = zip(*plain, strict=True)
        columns = Columns(found, where, offsets, null)
        threads.in_order(lambda k: columns.write(table[k : k + SPAN], k), range(0, sites, SPAN))
    blocks = np.repeat(np.array([job.block for job in jobs], np.int32), widths)
    _sort_within(table, blocks, values if real else None)
    return ids, np.arange(sites + 1, dtype=np.int64) * slots, blocks, values.ravel()


def _sort_within(table: NDArray[np.integer], blocks: Int32, values: NDArray[np.float32] | None) -> None:
    """Sorts the entries of each block in each row: rows can then be merged, whichever reading found an entry."""
    cuts = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1))
    for first, last in pairwise(cuts.tolist()):
        part = table[:, first:last]
        if last - first == 1 or bool((part[:, 1:] >= part[:, :-1]).all()):
            continue
        if values is None:
            part.sort(axis=1)
            continue
        order = np.argsort(part, axis=1, kind="stable")
        part[:] = np.take_along_axis(part, order, 1)
        values[:, first:last] = np.take_along_axis(values[:, first:last], order, 1)


def _ragged(
    attributes: Find, jobs: Sequence[_Job], filled: int, sites: int, null: int, dtype: type, real: bool
) -> _Rows:
    """The entries of each reading go behind those of the readings before it, site by site."""
    counts = np.zeros(sites, np.int64)
    for job in jobs:
        counts += _counts(attributes(job.reading))
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ids: NDArray[np.integer] = np.full(filled + LOOKAHEAD, null, dtype)
    blocks = np.empty(filled, np.int32)
    values = np.ones(filled if real else 0, np.float32)
    cursor = ptr[:-1].copy()
    for job in jobs:
        some = attributes(job.reading)
        if isinstance(some, Entries):
            known = some.known()
            local, lengths = known.ids, np.diff(known.ptr)
            at = np.repeat(cursor - known.ptr[:-1], lengths) + np.arange(len(local))
            cursor += lengths
            if real and known.values is not None:
                values[at] = known.values
        else:
            local = some.ids()
            firing = np.flatnonzero(local != ABSENT)
            local, at = local[firing], cursor[firing]
            cursor[firing] += 1
        ids[at] = local + dtype(job.offset)
        blocks[at] = job.block
    return ids, ptr, blocks, values


def _counts(found: Found) -> Int64:
    """How many entries each site has that are known."""
    if not isinstance(found, Entries):
        firing: Int64 = (found.ids() != ABSENT).astype(np.int64)
        return firing
    site = np.repeat(np.arange(len(found.ptr) - 1), np.diff(found.ptr))
    counts: Int64 = np.bincount(site[found.ids != ABSENT], minlength=len(found.ptr) - 1)
    return counts


def share_rows(design: Design) -> tuple[Design, Int32]:
    """Return a design with each distinct row once, and the row of each site. Rows must be uniform."""
    width = len(design.blocks)
    table, row_of = _distinct_rows(design.ids[: design.ptr[-1]].reshape(design.rows, width))
    ids = np.full(table.size + LOOKAHEAD, design.attributes, design.ids.dtype)
    ids[: table.size] = table.ravel()
    return replace(design, ids=ids, ptr=np.arange(len(table) + 1, dtype=np.int64) * width), row_of


def _distinct_rows(table: NDArray[np.integer]) -> tuple[NDArray[np.integer], Int32]:
    """Sites with equal observations share a row; at least one row, so that kernels have something to look at."""
    if len(table) == 0:
        return np.zeros((1, table.shape[1]), table.dtype), np.zeros(0, np.int32)
    row = np.zeros(len(table), np.int32)
    for ids in table.T:
        if ids.dtype != np.int32:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int32)  # dense, so that any id fits
        _, row = PairTable.build(row, np.ascontiguousarray(ids))
    rising = np.diff(np.maximum.accumulate(row), prepend=np.int32(-1))
    first = np.flatnonzero(rising)  # numbers rise where one is new
    return table[first], row
