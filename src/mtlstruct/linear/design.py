"""Design matrix A of one kind of sites, in compressed sparse rows.

A row stands for a site, or for several sites with the same observations, and lists the attributes
that fire there. An attribute has one weight per part of the site (a label, a pair of labels, an
arc); which weights these are is the business of its WeightLayout. The attributes of a template are
contiguous, so template j of a kind is a range of attributes: a block.

Attributes that fire in one row only (singletons) may share a weight row (`share_singletons`).
Block-coordinate ascent changes the weights of an attribute by what it does to the tokens where the
attribute fires. All singletons of one token change alike, so one weight row serves them all,
whatever their templates: w_j = −mu_j v_j still differs by mu_j. The same sums are added in the same
order, so no number changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel, make_prefetch
from mtlstruct._system import threads
from mtlstruct.corpus import entries
from mtlstruct.linear.label_support import LabelSupport, list_labels
from mtlstruct.linear.weight_layout import SingletonRows, WeightLayout

PREFETCH_DISTANCE = 24
"""Ids ahead at which kernels prefetch weights; `ids` is padded by as many, so reads stay inside."""

BY_SLOT, BY_ENTRY, BY_ATTRIBUTE = range(3)
"""What gives the template of an entry: its slot, its position in A, or its attribute."""

prefetch = make_prefetch()


def padded_ids(ids: NDArray[np.integer], null: int) -> NDArray[np.integer]:
    """Return a copy of `ids` with the padding that prefetching reads."""
    return np.append(ids, np.full(PREFETCH_DISTANCE, null, ids.dtype))


@dataclass(frozen=True)
class Design:
    """Matrix A of one kind.

    ids      int32/int64[nnz + PREFETCH_DISTANCE]: attributes, or weight rows where singletons share
             them; sorted within a row if `blocks` is not empty
    ptr      int64[rows + 1]
    blocks   int32: the template number of each slot if all rows have the same slots (uniform), of
             each of nnz entries if they have not (ragged); empty if it follows from the attribute,
             or if attributes belong to no template
    values   float32[nnz]; empty if every value is 1
    layout   the layout of the weights
    Attribute number `layout.attributes` is the null attribute: a feature that is not in the index.
    """

    ids: NDArray[np.integer]
    ptr: NDArray[np.int64]
    blocks: NDArray[np.int32]
    values: NDArray[np.float32]
    layout: WeightLayout

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.ptr) - 1

    @property
    def ragged(self) -> bool:
        """Whether rows differ in length, so that `blocks` lists every entry."""
        return len(self.blocks) > 0 and len(self.blocks) * self.rows != self.ptr[-1]

    @property
    def blocks_by_attribute(self) -> bool:
        """Whether the template of an entry follows from its attribute; `blocks` is then empty."""
        return len(self.blocks) == 0 and len(self.layout.templates) > 0

    @property
    def without_templates(self) -> bool:
        """Whether attributes belong to no template; weights are then not scaled."""
        return len(self.layout.templates) == 0 and int(self.ptr[-1]) > 0

    @property
    def entry_blocks(self) -> tuple[int, NDArray[np.int32]]:
        """BY_SLOT, BY_ENTRY or BY_ATTRIBUTE, and the template numbers listed in that way."""
        if self.blocks_by_attribute:
            return BY_ATTRIBUTE, self.layout.attribute_blocks
        return (BY_ENTRY if self.ragged else BY_SLOT), self.blocks

    @cached_property
    def slots_aligned(self) -> bool:
        """Whether an attribute occurs in one slot only, so that rows can be compared slot by slot.

        True where each template has one slot, and where its slots are the dimensions of a vector.
        """
        if self.layout.singletons is not None:
            return True
        if len(self.blocks) * self.rows != self.ptr[-1]:
            return False
        block, times = np.unique(self.blocks, return_counts=True)
        several = np.flatnonzero(np.isin(self.blocks, block[times > 1]))
        if len(several) == 0:
            return True
        null = self.layout.attributes  # the largest id
        table = self.ids[: self.ptr[-1]].reshape(self.rows, len(self.blocks))[:, several]
        first = table.min(axis=0, initial=null)
        known = first[first < null]
        distinct = len(np.unique(known)) == len(known)
        return distinct and bool(((table == first) | (table == null)).all())

    @cached_property
    def attribute_ptr(self) -> NDArray[np.int64]:
        """Where the entries of each attribute would begin if A were sorted by attribute."""
        count = np.bincount(self.ids[: self.ptr[-1]], minlength=self.layout.attributes + 1)
        return np.append(0, np.cumsum(count)).astype(np.int64)

    def take(self, rows: NDArray[np.integer]) -> Design:
        """Return some of the rows, in the order given; attributes keep their numbers."""
        null = self.layout.null_row
        if not self.ragged:
            width = len(self.blocks)  # by whole rows: a list of single entries would be as large as A
            table = self.ids[: self.ptr[-1]].reshape(self.rows, width)[rows]
            values = self.values.reshape(self.rows, width)[rows].ravel() if len(self.values) else self.values
            ptr = np.arange(len(rows) + 1, dtype=np.int64) * width
            return replace(self, ids=padded_ids(table.ravel(), null), ptr=ptr, values=values)
        found, ptr = entries(self.ptr, rows.astype(np.int64))
        values = self.values[found] if len(self.values) else self.values
        ids = padded_ids(self.ids[found], null)
        return replace(self, ids=ids, ptr=ptr, blocks=self.blocks[found], values=values)

    def span(self, first: int, last: int) -> Design:
        """Return the rows first..last - 1 in views of the same arrays."""
        low, high = int(self.ptr[first]), int(self.ptr[last])
        ptr, values = self.ptr[first : last + 1] - low, self.values[low:high]
        blocks = self.blocks[low:high] if self.ragged else self.blocks
        return replace(
            self, ids=self.ids[low : high + PREFETCH_DISTANCE], ptr=ptr, blocks=blocks, values=values
        )

    def with_support(self, support: LabelSupport) -> Design:
        """Return the same rows with weights for the given labels of each attribute only."""
        return replace(self, layout=replace(self.layout, support=support))

    def observed_support(self, gold: NDArray[np.int32], labels: int) -> LabelSupport:
        """Return the labels that each attribute fires with, where row t has the label gold[t]."""
        attributes, order = self.layout.attributes, np.argsort(gold, kind="stable")
        last, count = np.full(attributes + 1, -1, np.int32), np.zeros(attributes + 1, np.int64)
        rows = order, gold, self.ids, self.ptr, self.values, attributes
        list_labels(*rows, last, count, np.empty(0, np.int32))
        starts = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        found = np.empty(int(starts[-1]), np.int32)
        last[:] = -1
        list_labels(*rows, last, starts[:-1].copy(), found)
        return LabelSupport(starts, found, labels)

    def scales(self, scale: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the scale of each entry's template, in the order of `blocks`."""
        return np.ascontiguousarray(scale[self.blocks], np.float32)


def can_share_singletons(design: Design) -> bool:
    """Return whether the layout allows it: dense, aligned slots, all values 1."""
    layout = design.layout
    dense = layout.support is None and layout.singletons is None and len(design.values) == 0
    return dense and not design.ragged and len(design.blocks) > 0 and design.slots_aligned


def share_singletons(design: Design, *, overwrite: bool) -> Design:
    """Return the design with shared rows for singletons; `overwrite` allows to change its `ids`."""
    rows, slots, attributes = design.rows, len(design.blocks), design.layout.attributes
    times, row_of = np.zeros(attributes + 1, np.uint8), np.zeros(attributes + 1, np.int32)
    # the null attribute alone is written by several threads, and its entries are not read
    threads.in_order(
        lambda span: _find_last_rows(design.ids, rows, slots, *span, times, row_of), threads.shares(slots)
    )
    times[-1] = 0
    own = np.cumsum(times > 1, dtype=np.int32)
    n_own_rows = int(own[-1])
    shared = np.where(times == 1, n_own_rows + row_of, np.int32(n_own_rows + rows))
    row_of = np.where(times > 1, own - 1, shared)
    ids = design.ids if overwrite else design.ids.copy()
    threads.in_order(lambda span: _renumber(ids[slice(*span)], row_of), threads.shares(len(ids)))
    return replace(
        design, ids=ids, layout=replace(design.layout, singletons=SingletonRows(row_of, n_own_rows))
    )


# ---------------------------------------------------------------- kernels


@kernel
def _find_last_rows(ids, rows, slots, low, high, times, last):
    """Count how often each attribute of some slots fires, up to twice, and note its last row."""
    for row in range(rows):
        for a in ids[row * slots + low : row * slots + high]:
            times[a] += times[a] < 2
            last[a] = row


@kernel
def _renumber(ids, row_of):
    for k in range(len(ids)):
        ids[k] = row_of[ids[k]]
