"""Layouts of weights: the rows of a weight table that belong to each attribute.

There are three layouts:

- dense: one row per attribute, one column per part of a site;
- dense with shared rows: attributes that fire in one row of A only share a row (singletons.py);
- label support: a list of single weights, for the observed pairs of attribute and label
  (label_support.py).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.linear.label_support import Floats, Integers, LabelSupport


@dataclass(frozen=True)
class SingletonRows:
    """Rows of a weight table in which the singletons of one row of A share a row.

    row_of       int32[attributes + 1]: the weight row of each attribute; the last entry is the null
                 row
    n_own_rows   number of rows that belong to one attribute; one row per row of A and the null row
                 follow
    """

    row_of: NDArray[np.int32]
    n_own_rows: int

    @property
    def null_row(self) -> int:
        """The last row, for the null attribute and attributes that never fire."""
        return int(self.row_of[-1])


@dataclass(frozen=True)
class WeightLayout:
    """Layout of the weights of one kind.

    block_ptr    int64[templates of this kind + 1]: the attribute range of each template
    templates    int32: the template number of each block; empty if attributes belong to no template
    support      the labels that each attribute has weights for; None for all
    singletons   the weight row of each attribute; None if every attribute has its own
    """

    block_ptr: NDArray[np.int64]
    templates: NDArray[np.int32]
    support: LabelSupport | None = None
    singletons: SingletonRows | None = None

    @property
    def attributes(self) -> int:
        """Number of attributes, without the null attribute."""
        return int(self.block_ptr[-1])

    @property
    def id_type(self) -> type[np.integer]:
        """The type of attributes in A."""
        return np.int32 if self.attributes < np.iinfo(np.int32).max else np.int64

    @property
    def null_row(self) -> int:
        """The id of the null attribute in A, larger than all others."""
        return self.attributes if self.singletons is None else self.singletons.null_row

    @property
    def n_own_rows(self) -> int:
        """Ids below this have their own weight row; others share that of their row of A."""
        return self.attributes if self.singletons is None else self.singletons.n_own_rows

    @property
    def weight_ptr(self) -> NDArray[np.int64]:
        """The range of each template in a weight table."""
        return self.block_ptr if self.support is None else self.support.ptr[self.block_ptr]

    def weight_shape(self, parts: int) -> tuple[int, int]:
        """Return the shape of an unpadded weight table for sites with `parts` parts."""
        return (self.null_row + 1, parts) if self.support is None else (self.support.features + 1, 1)

    def features(self, parts: int) -> int:
        """Return the number of features for sites with `parts` parts."""
        return self.attributes * parts if self.support is None else self.support.features

    def parts(self, weights: Floats) -> int:
        """Return the number of parts of a site, given an unpadded weight table."""
        return weights.shape[1] if self.support is None else self.support.width

    def weights_of(self, weights: Floats, ids: Integers, part: Integers) -> Floats:
        """Return the weight of each attribute for a part; 0 if there is no such feature."""
        at = (self._rows(ids), part) if self.support is None else (self.support.find(ids, part), 0)
        found: Floats = weights[at]
        return found

    def rows_of(self, weights: Floats, ids: Integers) -> Floats:
        """Return the weights of some attributes, one column per part, from an unpadded table."""
        found: Floats
        found = weights[self._rows(ids)] if self.support is None else self.support.dense(weights, ids)
        return found

    def put_rows(self, weights: Floats, ids: Integers, rows: Floats) -> None:
        """Set the weights of some attributes, one column per part, where there are features."""
        if self.support is None:
            weights[self._rows(ids), : rows.shape[1]] = rows
        else:
            self.support.put(weights, ids, rows)

    def _rows(self, attributes: Integers) -> Integers:
        return attributes if self.singletons is None else self.singletons.row_of[attributes]

    @cached_property
    def attribute_blocks(self) -> NDArray[np.int32]:
        """The template number of each attribute; 0 for the null attribute."""
        found = np.zeros(self.attributes + 1, np.int32)
        found[:-1] = np.repeat(self.templates, np.diff(self.block_ptr))
        return found


def padded(width: int) -> int:
    """Return the row width at which a row of weights touches as few cache lines as possible."""
    if width <= 4:
        return 4 if width > 1 else 1
    return -8 * (-width // 8) if width <= 8 else -16 * (-width // 16)


CLEARED_BYTES = 1 << 24
"""Bytes that a thread clears at a time."""


def aligned_zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Return float32[rows, width] of zeros that starts on a cache line."""
    size = rows * width * 4
    raw = np.empty(size + 64, np.uint8)
    # the system maps pages when they are first written to, which is slow: do it on all threads
    threads.in_order(
        lambda start: raw[start : start + CLEARED_BYTES].fill(0), range(0, len(raw), CLEARED_BYTES)
    )
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(np.float32).reshape(rows, width)
