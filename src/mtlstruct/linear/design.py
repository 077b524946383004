"""The adjoint pair: part scores = A·w and feature counts = Aᵀ·z, and the norms of blocks.

A Design is one kind's matrix A in sparse rows: a row (a site, or several sites with the same observations)
lists the attributes that fire there. An attribute owns one row of weights, a weight for each part of the site
(a label, a pair of labels, an arc), so that the weights needed together lie together. Attributes of one template
are neighbours: template j of this kind is rows first_j:last_j of the weights, which is all a block is.

Weights come as w_j = scale_j · u_j, so a learner that rescales templates never touches the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, kernel, make_prefetch
from mtlstruct._system import threads
from mtlstruct.corpus import entries
from mtlstruct.linear import label_support as supported
from mtlstruct.linear.label_support import Support
from mtlstruct.linear.singletons import Fold, fold, rename, squares

LOOKAHEAD = 24
"""How many ids ahead the kernels prefetch; `ids` is padded by as many, so that reading ahead stays inside."""

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Design:
    """One kind's A: `ids` int32/int64[nnz + LOOKAHEAD], sorted in each row if blocks are listed, `ptr` int64[rows+1].

    blocks      int32: the template number of each entry of a row (uniform), or of each of nnz entries (ragged), or
                empty: then that of an entry is the one in whose range of attributes it lies, which saves its memory;
                without templates attributes are merged, and belong to none
    values      float32[nnz], or empty where every value is 1
    block_ptr   int64[templates of this kind + 1]: the attribute range of each
    templates   int32: their template numbers
    support     the labels that each attribute has features with, None where it has them with all parts of a site:
                weights are then a row an attribute, and else a list (support.py)
    fold        None, or where the weights of each attribute are: then `ids` are rows of weights (folding.py)
    Attribute number `attributes` (one past the last) is the null attribute: a feature that is not in the index.
    """

    ids: NDArray[np.integer]
    ptr: NDArray[np.int64]
    blocks: NDArray[np.int32]
    values: NDArray[np.float32]
    block_ptr: NDArray[np.int64]
    templates: NDArray[np.int32]
    support: Support | None = None
    fold: Fold | None = None

    @property
    def rows(self) -> int:
        """How many rows A has."""
        return len(self.ptr) - 1

    @property
    def attributes(self) -> int:
        """How many attributes there are."""
        return int(self.block_ptr[-1])

    @property
    def null(self) -> int:
        """The null attribute among `ids`, larger than all others."""
        return self.attributes if self.fold is None else self.fold.null

    @property
    def own(self) -> int:
        """An id below this has weights of its own; others, but the null attribute, have those of their row of A."""
        return self.attributes if self.fold is None else self.fold.own

    @property
    def foldable(self) -> bool:
        """Whether attributes that fire once can share weights: rows are compared slot by slot, all values are 1."""
        plain = self.support is None and self.fold is None and len(self.values) == 0
        return plain and not self.ragged and len(self.blocks) > 0 and self.slotwise

    def folded(self, spare: bool) -> Design:
        """The same with folded weights; overwrites `ids` if they can be spared."""
        found = fold(self.ids, self.rows, len(self.blocks), self.attributes)
        ids = self.ids if spare else self.ids.copy()
        rename(ids, found.number)
        return replace(self, ids=ids, fold=found)

    @property
    def weight_ptr(self) -> NDArray[np.int64]:
        """The range of each template in a table of weights: of rows of attributes, or of features."""
        return self.block_ptr if self.support is None else self.support.ptr[self.block_ptr]

    def weight_shape(self, parts: int) -> tuple[int, int]:
        """The shape of a table of weights, not padded, when a site has so many parts."""
        return (self.null + 1, parts) if self.support is None else (self.support.features + 1, 1)

    def features(self, parts: int) -> int:
        """How many features there are, when a site has so many parts."""
        return self.attributes * parts if self.support is None else self.support.features

    def parts(self, weights: Floats) -> int:
        """The parts of a site, by the shape of a table of weights that is not padded."""
        return weights.shape[1] if self.support is None else self.support.width

    def weights_of(self, weights: Floats, ids: NDArray[np.integer], part: NDArray[np.integer]) -> Floats:
        """The weight that each of these attributes has for a part; 0 where it has no feature."""
        at = (self._places(ids), part) if self.support is None else (self.support.find(ids, part), 0)
        found: Floats = weights[at]
        return found

    def rows_of(self, weights: Floats, ids: NDArray[np.integer]) -> Floats:
        """The weights of these attributes, a column a part, from a table that is not padded."""
        found: Floats
        found = weights[self._places(ids)] if self.support is None else self.support.dense(weights, ids)
        return found

    def put_rows(self, weights: Floats, ids: NDArray[np.integer], rows: Floats) -> None:
        """Sets the weights of these attributes, a column a part; what has no feature is left out."""
        if self.support is None:
            weights[self._places(ids), : rows.shape[1]] = rows
        else:
            self.support.put(weights, ids, rows)

    def _places(self, attributes: NDArray[np.integer]) -> NDArray[np.integer]:
        """Their rows in a table of weights."""
        return attributes if self.fold is None else self.fold.number[attributes]

    @property
    def unlisted(self) -> bool:
        """Whether blocks are not listed: weights are then scaled before they are gathered."""
        return len(self.blocks) == 0 and len(self.templates) > 0

    @cached_property
    def attribute_blocks(self) -> NDArray[np.int32]:
        """The template number of each attribute; the null attribute is of none, and has 0."""
        found = np.zeros(self.attributes + 1, np.int32)
        found[:-1] = np.repeat(self.templates, np.diff(self.block_ptr))
        return found

    @cached_property
    def entries_below(self) -> NDArray[np.int64]:
        """How many entries have an attribute below each."""
        count = np.bincount(self.ids[: self.ptr[-1]], minlength=self.attributes + 1)
        return np.append(0, np.cumsum(count)).astype(np.int64)

    @cached_property
    def entry_rows(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The row and the value of each entry, by attribute: those of attribute a begin at entries_below[a].

        As large as A itself: for learners that go over the data many times.
        """
        rows = np.zeros(len(self.ids), np.int32)
        values = np.empty_like(self.values)
        _sort_by_attribute(self.ids, self.ptr, self.values, self.entries_below.copy(), rows, values)
        return rows, values

    @property
    def ragged(self) -> bool:
        """Whether rows differ in length, so that blocks are listed for each entry."""
        return len(self.blocks) > 0 and len(self.blocks) * self.rows != self.ptr[-1]

    @property
    def merged(self) -> bool:
        """Whether attributes belong to no template: weights have no scale, and the ids of a row are sorted."""
        return len(self.templates) == 0 and int(self.ptr[-1]) > 0

    @cached_property
    def slotwise(self) -> bool:
        """Whether an attribute stands in one slot of rows only: rows can then be compared slot by slot.

        So it is where each template has one slot, and where the slots of one are dimensions of a vector.
        """
        if self.fold is not None:
            return True
        if len(self.blocks) * self.rows != self.ptr[-1]:
            return False
        block, times = np.unique(self.blocks, return_counts=True)
        several = np.flatnonzero(np.isin(self.blocks, block[times > 1]))
        if len(several) == 0:
            return True
        table = self.ids[: self.ptr[-1]].reshape(self.rows, len(self.blocks))[:, several]
        own = table.min(axis=0, initial=self.attributes)  # the null attribute is the largest
        known = own[own < self.attributes]
        apart = len(np.unique(known)) == len(known)
        return apart and bool(((table == own) | (table == self.attributes)).all())

    @property
    def owners(self) -> tuple[NDArray[np.int32], int]:
        """Template numbers, and what they are listed by: 0 the entries of a row, 1 all entries, 2 attributes."""
        if self.unlisted:
            return self.attribute_blocks, 2
        return self.blocks, int(self.ragged)

    def take(self, rows: NDArray[np.integer]) -> Design:
        """Some of the rows, in the order given; attributes keep their numbers."""
        if not self.ragged:
            width = len(self.blocks)  # by whole rows: a list of single entries would be as large as A
            table = self.ids[: self.ptr[-1]].reshape(self.rows, width)[rows]
            values = self.values.reshape(self.rows, width)[rows].ravel() if len(self.values) else self.values
            ptr = np.arange(len(rows) + 1, dtype=np.int64) * width
            return replace(self, ids=self._readable_ahead(table.ravel()), ptr=ptr, values=values)
        found, ptr = entries(self.ptr, rows.astype(np.int64))
        values = self.values[found] if len(self.values) else self.values
        ids = self._readable_ahead(self.ids[found])
        return replace(self, ids=ids, ptr=ptr, blocks=self.blocks[found], values=values)

    def _readable_ahead(self, ids: NDArray[np.integer]) -> NDArray[np.integer]:
        """The ids and the padding that prefetching reads."""
        padded: NDArray[np.integer] = np.full(len(ids) + LOOKAHEAD, self.null, ids.dtype)
        padded[: len(ids)] = ids
        return padded

    def scales(self, scale: NDArray[np.float64]) -> NDArray[np.float32]:
        """The scale of each entry's template, in the order of `blocks`."""
        return np.ascontiguousarray(scale[self.blocks], np.float32)


def padded(width: int) -> int:
    """The weights of an attribute padded so that a row never straddles more cache lines than it must."""
    if width <= 4:
        return 4 if width > 1 else 1
    return -8 * (-width // 8) if width <= 8 else -16 * (-width // 16)


PIECE = 1 << 24
"""Bytes that a thread clears at a time."""


def aligned_zeros(rows: int, width: int) -> NDArray[np.float32]:
    """float32[rows, width] that starts on a cache line, so that a padded row of weights touches as few as it can."""
    size = rows * width * 4
    raw = np.empty(size + 64, np.uint8)
    # the system hands out memory when it is first written to, which takes as long as to work with it: by all threads
    threads.in_order(lambda start: raw[start : start + PIECE].fill(0), range(0, len(raw), PIECE))
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(np.float32).reshape(rows, width)


def score(design: Design, weights: Floats, scale: NDArray[np.float64], out: NDArray[np.float32]) -> None:
    """out[row] = Σ scale_j · x · weights[id] over the entries of the row; out float32[rows, width]."""
    if design.unlisted:
        _score_scaled(design, weights, scale, out)
        return
    scales = design.scales(scale)
    rows = (design.ids, design.ptr, design.ragged, design.values)
    if design.support is None:
        weights = np.asarray(weights, np.float32)  # as they are used: a kernel for doubles would be one more

    def work(span: tuple[int, int]) -> None:
        if design.support is None:
            _score(*span, *rows, scales, weights, np.empty(weights.shape[1], np.float32), out)
        else:
            supported.score(span, *rows, scales, design.support, weights, out, LOOKAHEAD)

    threads.in_order(work, _row_chunks(design.rows))


def _score_scaled(
    design: Design, weights: Floats, scale: NDArray[np.float64], out: NDArray[np.float32]
) -> None:
    """The same where every entry is 1 and blocks are not listed: by w, which is written out."""
    w = (scale[design.attribute_blocks][:, None] * weights).astype(np.float32)

    def work(span: tuple[int, int]) -> None:
        _sum_rows(*span, design.ids, design.ptr, w, out)

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
    spans = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    if not design.slotwise:
        spans = [(0, 0)]

    every, rows = (0, design.attributes), (design.ids, design.ptr, design.values)

    def work(span: tuple[int, int]) -> None:
        if design.support is None:
            _count(*span, *rows, z, out, design.own)
        else:
            supported.count(span, every, *rows, design.support, z, out, LOOKAHEAD)

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
            supported.count((0, 0), span, *rows, design.support, z, out, LOOKAHEAD)

    if design.support is None:
        _ = design.entry_rows  # by one thread, before all want it
    threads.in_order(work, list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))


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
    """A number for each template: of(kind, first, last), where its range in a table of weights begins and ends."""
    out = np.zeros(m)

    def work(job: tuple[int, int]) -> float:
        kind, block = job
        first, last = designs[kind].weight_ptr[block : block + 2]
        return of(kind, first, last)

    jobs = [(kind, b) for kind, d in enumerate(designs) for b in range(len(d.templates))]
    for (kind, block), total in zip(jobs, threads.in_order(work, jobs), strict=True):
        out[designs[kind].templates[block]] = total
    return out


def inner_products(
    designs: Sequence[Design],
    blocks: Sequence[NDArray[np.int64]],
    a: Sequence[Floats],
    b: Sequence[Floats],
    m: int,
) -> NDArray[np.float64]:
    """⟨a_j, b_j⟩ of each template, summed in double; `blocks`: where the rows of each template of a kind begin."""
    out = np.zeros(m)

    def work(job: tuple[int, int]) -> float:
        kind, block = job
        first, last = blocks[kind][block : block + 2]
        return float(_product(a[kind][first:last], b[kind][first:last]))

    jobs = [(kind, k) for kind, d in enumerate(designs) for k in range(len(d.templates))]
    for (kind, block), total in zip(jobs, threads.in_order(work, jobs), strict=True):
        out[designs[kind].templates[block]] = total
    return out


def _row_chunks(rows: int) -> list[tuple[int, int]]:
    return threads.chunks(np.arange(rows + 1, dtype=np.int64))


# ---------------------------------------------------------------- kernels


prefetch = make_prefetch()


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
def _sum_rows(first, last, ids, ptr, w, out):  # type: ignore[no-untyped-def]
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
def _sort_by_attribute(ids, ptr, values, at, rows, sorted_values):  # type: ignore[no-untyped-def]
    for row in range(len(ptr) - 1):
        for k in range(ptr[row], ptr[row + 1]):
            place = at[ids[k]]
            at[ids[k]] += 1
            rows[place] = row
            if len(values) > 0:
                sorted_values[place] = values[k]


@kernel
def _absolutes(block):  # type: ignore[no-untyped-def]
    total = 0.0
    for a in range(block.shape[0]):
        for y in range(block.shape[1]):
            total += abs(np.float64(block[a, y]))
    return total


@kernel
def _product(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(a.shape[0]):
        for y in range(a.shape[1]):
            total += np.float64(a[i, y]) * np.float64(b[i, y])
    return total
