"""Encoded corpora: the design matrix A of each kind of sites, and subsets of sentences.

`subset` lets cross-validation folds share one encoding. Attributes keep their numbers. Those that
do not occur in the subset get no weight, so a model trained on a subset equals the one trained on
these sentences alone, up to the order of sums. `min_count` counts in the subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import entries
from mtlstruct.features.vocabulary import Int32, Int64
from mtlstruct.linear.design import Design
from mtlstruct.linear.products import score
from mtlstruct.structures.base import Parts, Sites


@dataclass(frozen=True)
class Encoded:
    """A corpus in features: a Design per kind of sites, and the row of each site.

    rows        for each kind int32[sites], or None if site i is row i
    ptr         int64[sentences + 1]: tokens of each sentence
    templates   number of templates
    """

    kinds: tuple[str, ...]
    designs: tuple[Design, ...]
    rows: tuple[Int32 | None, ...]
    ptr: Int64
    templates: int

    def supported(self, gold: Int32, labels: int) -> Encoded:
        """Return the corpus with the label support that is observed in `gold`.

        For structures whose first kind has a row per token and a part per label.
        """
        first, *rest = self.designs
        first = first.with_support(first.observed_support(gold, labels))
        return replace(self, designs=(first, *rest))

    def with_seen_pairs(self, tokens: Int64, gold: Int32, labels: int) -> Encoded:
        """Return the corpus with weights for the observed pairs of labels only.

        For structures whose second kind has a site per entry of `tokens`, a part per label pair.
        """
        first, edge, *rest = self.designs
        row = np.arange(len(tokens)) if self.rows[1] is None else self.rows[1].astype(np.int64)
        seen = np.unique((row * labels + gold[tokens - 1]) * labels + gold[tokens])
        some, pair = edge.take(seen // labels**2), (seen % labels**2).astype(np.int32)
        edge = edge.with_support(some.observed_support(pair, labels**2))
        return replace(self, designs=(first, edge, *rest))

    def span(self, first: int, last: int, site_ptr: Sequence[Int64]) -> Encoded:
        """Return the sentences first..last - 1; site_ptr: where the sites of each one begin."""
        parts = [
            (design.span(int(ptr[first]), int(ptr[last])), None)
            if row_of is None
            else _taken(design, row_of[ptr[first] : ptr[last]])[:2]
            for design, row_of, ptr in zip(self.designs, self.rows, site_ptr, strict=True)
        ]
        designs, rows = zip(*parts, strict=True)
        return replace(self, designs=designs, rows=rows, ptr=self.ptr[first : last + 1] - self.ptr[first])

    def outline(self) -> Encoded:
        """Return the layout of the weights alone: designs without entries."""
        designs = tuple(replace(d, ids=d.ids[:0].copy(), ptr=np.zeros(1, np.int64)) for d in self.designs)
        return replace(self, designs=designs)

    @property
    def attributes(self) -> int:
        """Number of attributes of all kinds."""
        return sum(design.layout.attributes for design in self.designs)

    def score(
        self, weights: Sequence[NDArray[Any]], scale: NDArray[np.float64], widths: Sequence[int] | None = None
    ) -> Parts:
        """Return A·w for each kind: float32[rows, parts]; `widths` if weights are padded."""
        parts = []
        default = [design.layout.parts(u) for design, u in zip(self.designs, weights, strict=True)]
        for design, u, width in zip(self.designs, weights, widths or default, strict=True):
            out = np.zeros((design.rows, width), np.float32)
            score(design, u, scale, out)
            parts.append(out)
        return tuple(parts)


def subset(encoded: Encoded, sentences: Int64, sites: Sequence[Sites], min_count: int = 1) -> Encoded:
    """Return some sentences, in rising order; `sites` are those of the whole corpus."""
    tokens, ptr = entries(encoded.ptr, sentences)
    chosen = np.zeros(int(encoded.ptr[-1]), np.bool_)
    chosen[tokens] = True
    designs: list[Design] = []
    rows: list[Int32 | None] = []
    for design, row_of, site in zip(encoded.designs, encoded.rows, sites, strict=True):
        chosen_sites = tokens if site.tokens is None else np.flatnonzero(chosen[site.tokens])
        if row_of is None:
            rows.append(None)
            part, times = design.take(chosen_sites), np.ones(len(chosen_sites), np.int64)
        else:
            part, row, times = _taken(design, row_of[chosen_sites])
            rows.append(row)
        designs.append(_without_rare(part, times, min_count))
    return replace(encoded, designs=tuple(designs), rows=tuple(rows), ptr=ptr)


def _taken(design: Design, row_of: Int32) -> tuple[Design, Int32, Int64]:
    """Return the rows of some sites, the row of each site, and the number of sites of each row."""
    used, row, times = np.unique(row_of, return_inverse=True, return_counts=True)
    if len(used) == 0:  # kernels need at least one row
        used, times = np.zeros(1, row_of.dtype), np.zeros(1, np.int64)
    return design.take(used.astype(np.int64)), row.astype(np.int32), times


def _without_rare(design: Design, times: Int64, min_count: int) -> Design:
    """Make rare attributes the null attribute. times: number of sites of each row."""
    if min_count <= 1:
        return design
    seen = design.ids[: design.ptr[-1]]
    counts = np.bincount(seen, np.repeat(times, np.diff(design.ptr)), minlength=design.layout.attributes + 1)
    ids = design.ids.copy()
    ids[: len(seen)][counts[seen] < min_count] = design.layout.attributes
    return replace(design, ids=ids)
