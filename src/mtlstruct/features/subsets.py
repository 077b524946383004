"""Some sentences of encoded data, as if there were no others: folds share one encoding.

Attributes keep the numbers they have in the whole. Those that the chosen sentences do not have can get no weight
from them, and a weight of zero is what an unknown attribute has, so a model learned on a subset is the one that
the subset alone would have given, up to the order of sums. Only `min_count` needs a hand: it counts in the subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import entries
from mtlstruct.features.index import Encoded
from mtlstruct.linear.design import Design
from mtlstruct.structures.base import Sites

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def subset(encoded: Encoded, sentences: Int64, sites: Sequence[Sites], min_count: int = 1) -> Encoded:
    """Sentences in rising order. `sites` are those of the whole."""
    tokens, ptr = entries(encoded.ptr, sentences)
    chosen = np.zeros(int(encoded.ptr[-1]), np.bool_)
    chosen[tokens] = True
    designs, rows = [], []
    for design, row_of, site in zip(encoded.designs, encoded.rows, sites, strict=True):
        kept = tokens if site.tokens is None else np.flatnonzero(chosen[site.tokens])
        part, row = _rows(design, row_of, kept, min_count)
        designs.append(part)
        rows.append(row)
    return replace(encoded, designs=tuple(designs), rows=tuple(rows), ptr=ptr)


def _rows(design: Design, row_of: Int32 | None, sites: Int64, min_count: int) -> tuple[Design, Int32 | None]:
    """The rows that some sites use, and which of them each site uses."""
    if row_of is None:
        return _without_rare(design.take(sites), np.ones(len(sites), np.int64), min_count), None
    used, row, times = np.unique(row_of[sites], return_inverse=True, return_counts=True)
    if len(used) == 0:  # at least one row, so that kernels have something to look at
        used, times = np.zeros(1, np.int64), np.zeros(1, np.int64)
    return _without_rare(design.take(used.astype(np.int64)), times, min_count), row.astype(np.int32)


def _without_rare(design: Design, times: Int64, min_count: int) -> Design:
    """Attributes seen too rarely become the null attribute. times: how many sites use each row."""
    if min_count <= 1:
        return design
    seen = design.ids[: design.ptr[-1]]
    counts = np.bincount(seen, np.repeat(times, np.diff(design.ptr)), minlength=design.attributes + 1)
    ids = design.ids.copy()
    ids[: len(seen)][counts[seen] < min_count] = design.attributes
    return replace(design, ids=ids)
