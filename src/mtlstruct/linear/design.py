"""The design matrix A of one kind of sites.

A Design is one kind's matrix A in sparse rows: a row (a site, or several sites with the same observations)
lists the attributes that fire there. An attribute owns one row of weights, a weight for each part of the site
(a label, a pair of labels, an arc), so that the weights needed together lie together. Attributes of one template
are neighbours: template j of this kind is rows first_j:last_j of the weights, which is all a block is.

Weights come as w_j = scale_j · u_j, so a learner that rescales templates never touches the features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel, make_prefetch
from mtlstruct.corpus import entries
from mtlstruct.linear.label_support import Support
from mtlstruct.linear.singletons import Fold, fold, rename
from mtlstruct.linear.weight_layout import WeightLayout

LOOKAHEAD = 24
"""How many ids ahead the kernels prefetch; `ids` is padded by as many, so that reading ahead stays inside."""


@dataclass(frozen=True)
class Design(WeightLayout):
    """One kind's A: `ids` int32/int64[nnz + LOOKAHEAD], sorted in each row if blocks are listed, `ptr` int64[rows+1].

    blocks      int32: the template number of each entry of a row (uniform), or of each of nnz entries (ragged), or
                empty: then that of an entry is the one in whose range of attributes it lies, which saves its memory;
                without templates attributes are merged, and belong to none
    values      float32[nnz], or empty where every value is 1
    fold        None, or the row of weights of each attribute: then `ids` are rows of weights
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
    def unlisted(self) -> bool:
        """Whether blocks are not listed: weights are then scaled before they are gathered."""
        return len(self.blocks) == 0 and len(self.templates) > 0

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


# ---------------------------------------------------------------- kernels


prefetch = make_prefetch()


@kernel
def _sort_by_attribute(ids, ptr, values, at, rows, sorted_values):  # type: ignore[no-untyped-def]
    for row in range(len(ptr) - 1):
        for k in range(ptr[row], ptr[row + 1]):
            place = at[ids[k]]
            at[ids[k]] += 1
            rows[place] = row
            if len(values) > 0:
                sorted_values[place] = values[k]
