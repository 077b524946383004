"""A corpus in features: the design matrix A of each kind of site, and some of its sentences.

`subset` lets folds share one encoding. Attributes keep the numbers they have in the whole. Those that the chosen
sentences do not have get no weight from them, and an unknown attribute has weight zero, so a model learned on a
subset is the one that the subset alone would have given, up to the order of sums. `min_count` counts in the subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import entries
from mtlstruct.linear.design import Design
from mtlstruct.linear.label_support import observed_support
from mtlstruct.linear.products import score
from mtlstruct.structures.base import Parts, Sites

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Encoded:
    """A corpus in features: a Design for each kind of site, and which row of it each site uses.

    rows[kind] int32[sites of that kind], or None where site i is row i.
    """

    kinds: tuple[str, ...]
    designs: tuple[Design, ...]
    rows: tuple[Int32 | None, ...]
    ptr: Int64
    templates: int

    def supported(self, gold: Int32, labels: int) -> Encoded:
        """The same, where an attribute of the first kind has features with the labels it is seen with in `gold` only.

        For structures whose first kind has a row for each token, and a part for each label.
        """
        first, *rest = self.designs
        found = observed_support(first.ids, first.ptr, first.values, first.attributes, gold, labels)
        return replace(self, designs=(replace(first, support=found), *rest))

    def outline(self) -> Encoded:
        """The same without the entries of A: what is left when only the layout of the weights matters."""
        designs = tuple(replace(d, ids=d.ids[:0].copy(), ptr=np.zeros(1, np.int64)) for d in self.designs)
        return replace(self, designs=designs)

    @property
    def attributes(self) -> int:
        """Attributes of all kinds."""
        return sum(design.attributes for design in self.designs)

    def score(
        self, weights: Sequence[NDArray[Any]], scale: NDArray[np.float64], widths: Sequence[int] | None = None
    ) -> Parts:
        """A·w for each kind: float32[rows, parts]; `widths` where weights are padded."""
        parts = []
        own = [design.parts(u) for design, u in zip(self.designs, weights, strict=True)]
        for design, u, width in zip(self.designs, weights, widths or own, strict=True):
            out = np.zeros((design.rows, width), np.float32)
            score(design, u, scale, out)
            parts.append(out)
        return tuple(parts)


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
