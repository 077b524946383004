"""Label support: an attribute has features with the labels it was seen with only, and weights for no others.

Most attributes are rare, and a rare one is seen with one label or two. Where labels are many, a row of weights with a
place for each of them is nearly all zeros; here the weights of a kind are one list instead, float32[features + 1, 1].
Attribute a owns the entries ptr[a]:ptr[a+1] of it, one for each label it was seen with, in rising order. The null
attribute owns none, and the last entry, which belongs to nobody, stays zero.

The features that are missing are not features with weight zero: no learner can move them, so an optimum is one of a
smaller problem, and so are its bounds (docs/math.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import kernel
from mtlstruct.corpus import entries

Int64 = NDArray[np.int64]
Floats = NDArray[np.floating]

NEAR = 12
"""How many ids ahead kernels fetch features; where these begin they must have fetched before (linear.LOOKAHEAD)."""


@dataclass(frozen=True)
class Support:
    """Which labels each attribute has features with.

    ptr      int64[attributes + 2]: where the features of each attribute begin; the last one is the null attribute
    labels   int32[features]: the label of each feature
    width    how many labels there are
    """

    ptr: Int64
    labels: NDArray[np.int32]
    width: int

    @property
    def features(self) -> int:
        """How many features there are."""
        return len(self.labels)

    @property
    def attributes(self) -> int:
        """How many attributes there are, without the null attribute."""
        return len(self.ptr) - 2

    @property
    def counts(self) -> Int64:
        """How many features each attribute has."""
        return np.diff(self.ptr[:-1])

    def take(self, attributes: NDArray[np.integer]) -> tuple[Support, Int64]:
        """Some attributes, in the order given, and the numbers that their features have here."""
        found, ptr = entries(self.ptr, attributes.astype(np.int64))
        return Support(np.append(ptr, ptr[-1]), self.labels[found], self.width), found

    def dense(self, weights: Floats, attributes: NDArray[np.integer]) -> NDArray[np.float32]:
        """The weights of some attributes with a place for each label: float32[attributes, width]."""
        some, found = self.take(attributes)
        out = np.zeros((len(attributes), self.width), np.float32)
        out[np.repeat(np.arange(len(attributes)), some.counts), some.labels] = weights[found, 0]
        return out

    def put(self, weights: Floats, attributes: NDArray[np.integer], rows: Floats) -> None:
        """Sets the weights of some attributes from rows with a place for each label; what has no feature is lost."""
        some, found = self.take(attributes)
        weights[found, 0] = rows[np.repeat(np.arange(len(attributes)), some.counts), some.labels]

    def find(self, attributes: NDArray[np.integer], labels: NDArray[np.integer]) -> Int64:
        """The feature of each attribute with a label, `features` (whose weight is zero) where there is none."""
        out: Int64 = np.full(len(attributes), self.features, np.int64)
        _find_all(self.ptr, self.labels, attributes, labels, out)
        return out


def lists(support: Support | None) -> tuple[Int64, NDArray[np.int32]]:
    """ptr and labels as kernels take them, a column each; empty where attributes have features with all labels."""
    if support is None:
        return np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int32)
    return support.ptr[:, None], support.labels[:, None]


def observed_support(
    ids: NDArray[np.integer],
    ptr: Int64,
    values: NDArray[np.float32],
    attributes: int,
    gold: NDArray[np.int32],
    labels: int,
) -> Support:
    """The support of rows of A, when row t stands at a token whose label is gold[t]; a value of 0 is not seen."""
    order = np.argsort(gold, kind="stable")
    last, count = np.full(attributes + 1, -1, np.int32), np.zeros(attributes + 1, np.int64)
    rows = order, gold, ids, ptr, values, attributes
    _list_labels(*rows, last, count, np.empty(0, np.int32))
    starts = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    found = np.empty(int(starts[-1]), np.int32)
    last[:] = -1
    _list_labels(*rows, last, starts[:-1].copy(), found)
    return Support(starts, found, labels)


# ---------------------------------------------------------------- kernels


@kernel
def _list_labels(order, gold, ids, ptr, values, null, last, head, found):  # type: ignore[no-untyped-def]
    """Write the labels of attribute a from found[head[a]] on; only move head[a] where `found` is empty.

    Rows come label by label, so a label is new to an attribute if it is not the one it has seen last.
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
def _find_all(support_ptr, labels, attributes, wanted, out):  # type: ignore[no-untyped-def]
    for i in range(len(attributes)):
        for f in range(support_ptr[attributes[i]], support_ptr[attributes[i] + 1]):
            if labels[f] == wanted[i]:
                out[i] = f
