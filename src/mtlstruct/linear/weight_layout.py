"""Where the weights of attributes lie in a table of weights.

There are three layouts: a row for each attribute, a row for each attribute or shared by the attributes that fire at
one row of A only (singletons.py), and a list of single weights for the labels that attributes were seen with
(label_support.py).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.linear.label_support import Support
from mtlstruct.linear.singletons import Fold

Floats = NDArray[np.floating]


class WeightLayout:
    """The layout of the weights of one kind.

    block_ptr   int64[templates of this kind + 1]: the attribute range of each
    templates   int32: their template numbers
    support     the labels that each attribute has features with, None where it has them with all parts of a site:
                weights are then a row an attribute, and else a list
    fold        None, or the row of weights of each attribute
    """

    block_ptr: NDArray[np.int64]
    templates: NDArray[np.int32]
    support: Support | None
    fold: Fold | None

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

    @cached_property
    def attribute_blocks(self) -> NDArray[np.int32]:
        """The template number of each attribute; the null attribute is of none, and has 0."""
        found = np.zeros(self.attributes + 1, np.int32)
        found[:-1] = np.repeat(self.templates, np.diff(self.block_ptr))
        return found


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
