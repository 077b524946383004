"""Label support: weights for the observed pairs of attribute and label only.

Most attributes are rare and occur with one or two labels. With many labels, a dense weight row is
nearly all zeros. Here the weights of a kind are one list, float32[features + 1, 1]. Entries
ptr[a]:ptr[a+1] belong to attribute a, one per observed label, in rising order. The null attribute
has none, and the last entry stays zero. CRFsuite's default ("no negative state features") is the
same feature set.

Missing features do not exist for the solver, so the optimum and its bounds are those of a smaller
problem (docs/explanation/problem.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import inner_kernel, kernel
from mtlstruct.corpus import entries

Int64 = NDArray[np.int64]
Floats = NDArray[np.floating]
Integers = NDArray[np.integer]

FEATURE_PREFETCH_DISTANCE = 12
"""Ids ahead at which kernels prefetch features."""


@dataclass(frozen=True)
class LabelSupport:
    """The labels that each attribute has features with.

    ptr      int64[attributes + 2]: where the features of each attribute begin, the null attribute
             last
    labels   int32[features]: the label of each feature
    width    number of labels
    """

    ptr: Int64
    labels: NDArray[np.int32]
    width: int

    @property
    def features(self) -> int:
        """Number of features."""
        return len(self.labels)

    @property
    def counts(self) -> Int64:
        """Number of features of each attribute."""
        return np.diff(self.ptr[:-1])

    def take(self, attributes: Integers) -> tuple[LabelSupport, Int64]:
        """Return the support of some attributes, in this order, and their features here."""
        found, ptr = entries(self.ptr, attributes.astype(np.int64))
        return LabelSupport(np.append(ptr, ptr[-1]), self.labels[found], self.width), found

    def dense(self, weights: Floats, attributes: Integers) -> NDArray[np.float32]:
        """Return dense rows of some attributes: float32[attributes, width]."""
        some, found = self.take(attributes)
        out = np.zeros((len(attributes), self.width), np.float32)
        out[np.repeat(np.arange(len(attributes)), some.counts), some.labels] = weights[found, 0]
        return out

    def put(self, weights: Floats, attributes: Integers, rows: Floats) -> None:
        """Set the weights of some attributes from dense rows; others are dropped."""
        some, found = self.take(attributes)
        weights[found, 0] = rows[np.repeat(np.arange(len(attributes)), some.counts), some.labels]

    def find(self, attributes: Integers, labels: Integers) -> Int64:
        """Return the feature of each attribute with a label; `features` if there is none."""
        out: Int64 = np.full(len(attributes), self.features, np.int64)
        _find_features(*support_arrays(self), attributes, labels, out)
        return out


def support_arrays(support: LabelSupport | None) -> tuple[Int64, NDArray[np.int32]]:
    """Return ptr and labels as columns for kernels; empty for a dense layout."""
    if support is None:
        return np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int32)
    return support.ptr[:, None], support.labels[:, None]


# ---------------------------------------------------------------- kernels


@kernel
def list_labels(order, gold, ids, ptr, values, null, last, head, found):
    """Write the labels of attribute a from found[head[a]] on; if `found` is empty, count.

    Rows come label by label, so a label is new to an attribute unless it is the last one seen.
    """
    for row in order:
        y = gold[row]
        for k in range(ptr[row], ptr[row + 1]):
            a = ids[k]
            if a != null and last[a] != y and (len(values) == 0 or values[k] != 0):
                last[a] = y
                if len(found) > 0:
                    found[head[a]] = y
                head[a] += 1


@kernel
def _find_features(support_ptr, labels, attributes, wanted, out):
    for i in range(len(attributes)):
        f = find_feature(support_ptr, labels, attributes[i], wanted[i])
        if f >= 0:
            out[i] = f


@inner_kernel
def find_feature(support_ptr, labels, a, y):
    """Return the feature of attribute a with label y, or -1, given `support_arrays`."""
    low, high = support_ptr[a, 0], support_ptr[a + 1, 0]
    while low < high:
        middle = (low + high) // 2
        if labels[middle, 0] < y:
            low = middle + 1
        else:
            high = middle
    return low if low < support_ptr[a + 1, 0] and labels[low, 0] == y else np.int64(-1)
