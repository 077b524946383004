"""Oracle over shards: weights are sent to all workers, and counts Aᵀ·z come back as one sum.

Part scores stay with the workers, which can recompute them; here the stored weights represent them.
The outputs of cuts are kept here, in one byte per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct.distributed.pool import PerWorker, Pool
from mtlstruct.distributed.shard import MixedPoint, View
from mtlstruct.features.duplicate_columns import (
    ColumnHashes,
    MergedColumns,
    described,
    group,
    merged_layout,
)
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex
from mtlstruct.linear.design import Design
from mtlstruct.linear.weight_layout import WeightLayout
from mtlstruct.objective.oracle import Hinge, Likelihood, Oracle, Weights
from mtlstruct.solvers.base import table_bytes
from mtlstruct.solvers.cutting_plane.bundle import Cuts
from mtlstruct.structures.base import Parts, Structure


class ShardedOracle(Oracle):
    """Oracle of all data; `encoded` has the layout of the weights and sentence lengths, not A.

    views   the data of each worker
    ends    int64[workers - 1]: the number of tokens before each worker but the first
    """

    def __init__(
        self, pool: Pool, views: Sequence[View], ends: NDArray[np.int64], structure: Structure,
        encoded: Encoded, cost: NDArray[np.float32],
    ) -> None:  # fmt: skip
        super().__init__(structure, encoded, np.zeros(0, np.int32), cost)
        self.pool, self.views, self.ends = pool, views, ends
        self.each: PerWorker = [(view,) for view in views]  # the first argument of every call

    def ensure_capacity(self) -> None:
        """Raise an error if the pool cannot store the weights of a pass.

        These are the weights at both ends of a line search and of a cut, those of each worker, and
        their sums.
        """
        self.pool.ensure_capacity((2 * self.pool.size + 3) * table_bytes(self), "training")

    def part_shapes(self) -> list[tuple[int, int]]:
        """Return the rows and parts of each kind: a row per site; shared rows are not counted."""
        first, *rest = self.structure.widths()
        return [(int(self._site_ptr[0][-1]), first), *((0, width) for width in rest)]

    def score(self, weights: Weights, scale: NDArray[np.float64]) -> Parts:
        """Score on all workers and return a Point. The weights may change after that."""
        point: Any = self.pool.store((weights, scale))
        self.pool.call("score", point, each=self.each)
        return point  # type: ignore[no-any-return]

    def mix(self, a: float, x: Parts, b: float, y: Parts) -> Parts:
        """Return a·x + b·y of two Points."""
        return MixedPoint(a, x, b, y)  # type: ignore[arg-type, return-value]

    def hinge(self, parts: Parts, scale: float = 1.0) -> Hinge:
        """Return the most violated outputs of all shards and their summed hinge."""
        totals, losses, outputs = zip(*self.pool.call("hinge", parts, scale, each=self.each), strict=True)
        total, loss = float(np.sum(totals)), float(np.sum(losses))
        return Hinge(total, (total - loss) / scale, loss, np.concatenate(outputs).astype(np.int32))

    def likelihood(self, parts: Parts) -> Likelihood:
        """Return the losses of all sentences; the counts are a Point."""
        found = self.pool.call("likelihood", parts, each=self.each)
        losses, slopes, variances = zip(*found, strict=True)
        counts: Any = parts
        return Likelihood(np.concatenate(losses), sum(slopes), counts, sum(variances))

    def count(self, counts: Sequence[NDArray[Any]], weights: Weights) -> None:
        """Write Aᵀ·counts, summed over shards, into the weights; counts are a Point."""
        for out, total in zip(weights, self.pool.sum("count", counts, each=self.each), strict=True):
            out[:] = total

    def cuts(self) -> ShardedCuts:
        """Return the empty list of cuts of a new bundle."""
        return ShardedCuts(self, self.sentences)

    @cached_property
    def merged(self) -> MergedColumns:
        """The data with equal columns merged, compared by sums over all shards."""
        found = self.pool.sum("columns", each=self.each)
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        self._groups = [group(ColumnHashes(*some)) for some in triples]
        designs = tuple(
            bare(merged_layout(*some)) for some in zip(self.encoded.designs, self._groups, strict=True)
        )
        return described(self.encoded, replace(self.encoded, designs=designs), self._groups)

    def small(self) -> ShardedOracle:
        """Return the oracle on merged columns."""
        encoded, groups = self.merged.encoded, self.pool.store(self._groups)
        views = [replace(view, groups=groups) for view in self.views]
        return ShardedOracle(self.pool, views, self.ends, self.structure, encoded, self.cost)


class ShardedCuts(Cuts):
    """Cuts whose outputs are stored for the workers, for each worker those of its own sentences."""

    oracle: ShardedOracle
    _differences: list[Any]  # of each cut the stored outputs of each worker, None until they are needed

    def combine(self, alpha: NDArray[np.float64], weights: Weights) -> None:
        """Write Σ_r α_r p^r, summed over shards, into the weights."""
        total = self.oracle.pool.sum("combine", self.sentences, alpha, each=self._each())
        for out, array in zip(weights, total, strict=True):
            out[:] = array

    def products(self, p: Weights) -> NDArray[np.float64]:
        """Return the inner products of p with all cuts by template, summed over shards."""
        pool = self.oracle.pool
        (total,) = pool.sum("products", self.sentences, pool.store(p), each=self._each())
        return total

    def _each(self) -> PerWorker:
        pool, ends = self.oracle.pool, self.oracle.ends
        for r, outputs in enumerate(self.outputs):
            if self._differences[r] is None:
                self._differences[r] = [pool.store(shard) for shard in np.split(outputs, ends)]
        return [(view, [cut[k] for cut in self._differences]) for k, view in enumerate(self.oracle.views)]


def layout(index: FeatureIndex, structure: Structure, ptr: NDArray[np.int64]) -> Encoded:
    """Return the layout of the weights of an index, without any A."""
    kinds = tuple(site.kind for site in structure.sites(np.array([0, 1], np.int64)))
    designs = tuple(bare(index.layout(kind)) for kind in kinds)
    return Encoded(kinds, designs, (None,) * len(kinds), ptr, len(index.templates))


def bare(layout: WeightLayout) -> Design:
    """Return a design without rows."""
    nothing = np.zeros(0, np.int32)
    return Design(nothing, np.zeros(1, np.int64), layout.templates, np.zeros(0, np.float32), layout)
