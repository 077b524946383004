"""The same oracle over sentences that lie in shards: learners ask it as they ask any other.

What is as long as the data (part scores, labelings, counts) stays with the workers; weights go out to all of them,
and counts Aᵀ·z come back as one sum over a tree. So Algorithm 1 and the random fields run as map and reduce, in
the same code as on one machine. Refused: learners that visit one sentence after the other (MIRA, OnlineMKL).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Kept, State
from mtlstruct.distributed.sharded_index import Piece
from mtlstruct.distributed.team import Arrays, Each, Guarded, Held, Own, Replaced, Team
from mtlstruct.features.duplicate_columns import Columns, Groups, Merged, columns, group, merged_by
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex
from mtlstruct.linear.design import Design
from mtlstruct.objective.oracle import Hinge, Likelihood, Oracle, Weights
from mtlstruct.solvers.cutting_plane.bundle import Cuts
from mtlstruct.structures.base import Parts, Structure


@dataclass(frozen=True)
class ShardedLikelihood(Likelihood):
    """Its counts stay with the workers."""

    bend: float = 0.0

    @property
    def curvature(self) -> float:
        """See Likelihood."""
        return self.bend


class ShardedOracle(Oracle):
    """The oracle of the whole. `encoded` has the layout of the weights and where sentences lie, but not A.

    view    the workers' objects that it asks: "oracle", or "small", that of merged attributes
    """

    def __init__(self, team: Team, structure: Structure, encoded: Encoded, cost: NDArray[np.float32]) -> None:
        super().__init__(structure, encoded, np.zeros(0, np.int32), cost)
        self.team, self.view = team, "oracle"

    def part_shapes(self) -> list[tuple[int, int]]:
        """See Oracle: a row a token, and as few as there may be of what is shared."""
        first, *rest = self.structure.widths()
        return [(self.tokens, first), *((0, width) for width in rest)]

    def score(self, weights: Weights, scale: NDArray[np.float64]) -> Parts:
        """See Oracle; with the workers."""
        return _as_parts(self.team.hold(self.view, "score", weights, scale))

    def hinge(self, parts: Parts, scale: float = 1.0) -> Hinge:
        """See Oracle; the outputs are with the workers."""
        found = self.team.hold(self.view, "hinge", parts, scale)
        figures = np.array(self.team.ask(self.view, "figures", found))
        total, loss = figures.sum(axis=0).tolist()
        return Hinge(total, (total - loss) / scale, loss, found)  # type: ignore[arg-type]

    def likelihood(self, parts: Parts) -> Likelihood:
        """See Oracle; the counts are with the workers."""
        found = self.team.hold(self.view, "likelihood", parts)
        losses, slopes, bends = zip(*self.team.ask(self.view, "figures", found), strict=True)
        size = sum(rows * width for rows, width in self.part_shapes()[:1])
        return ShardedLikelihood(np.concatenate(losses), sum(slopes), found, sum(bends) / max(1, size))  # type: ignore[arg-type]

    def mix(self, a: float, x: Parts, b: float, y: Parts, dtype: Any = np.float32) -> Parts:
        """See Oracle."""
        return _as_parts(self.team.hold(self.view, "mix", a, x, b, y, dtype))

    def inner(self, counts: Sequence[NDArray[Any]], parts: Parts) -> float:
        """See Oracle; counts are those of a likelihood."""
        return float(sum(self.team.ask(self.view, "along", counts, parts)))

    def count(self, counts: Sequence[NDArray[Any]], weights: Weights) -> None:
        """See Oracle; counts are those of a likelihood."""
        for out, total in zip(weights, self.team.sum(self.view, "counted", counts), strict=True):
            out[:] = total

    def cuts(self) -> ShardedCuts:
        """Where Bundle keeps its cuts."""
        return ShardedCuts(self)

    @cached_property
    def merged(self) -> Merged:
        """See Oracle. Columns are compared by sums over all shards."""
        found = self.team.sum("oracle", "columns", Each(range(self.team.size)))
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        groups = [group(Columns(*some)) for some in triples]
        self.team.make("small", Shard.merged_shard, Own("oracle"), groups)
        designs = tuple(_merged_outline(len(some.fired)) for some in groups)
        return Merged(
            large=self.encoded,
            encoded=replace(self.encoded, designs=designs),
            number=tuple(some.number for some in groups),
            fired=tuple(some.fired for some in groups),
        )

    def small(self) -> ShardedOracle:
        """See Oracle."""
        found = ShardedOracle(self.team, self.structure, self.merged.encoded, self.cost)
        found.view = "small"
        return found


class ShardedCuts(Cuts):
    """Each worker keeps the outputs of its own sentences."""

    def __init__(self, oracle: ShardedOracle) -> None:
        self.team, self.sentences = oracle.team, oracle.sentences
        self.team.make("cuts", ShardCuts, Own("oracle"), self.sentences, stateful=True)
        self.guarded = Guarded(self.team, "cuts")
        self._surely(self.guarded.save)

    def pack(self) -> State:
        """See Kept."""
        return {"workers": self._surely(self.guarded.pack)}

    def unpack(self, state: State) -> None:
        """See Kept."""
        self._change(lambda: self.guarded.unpack(state["workers"]))

    def add(self, outputs: NDArray[np.int32]) -> None:
        """See Cuts; outputs are a hinge's."""
        self._change(lambda: self.team.ask("cuts", "add", outputs))

    def combine(self, alpha: NDArray[np.float64], weights: Weights) -> None:
        """See Cuts."""
        found: Arrays = self._surely(lambda: self.team.sum("cuts", "combined", alpha))
        for out, total in zip(weights, found, strict=True):
            out[:] = total

    def products(self, p: Weights) -> NDArray[np.float64]:
        """See Cuts."""
        (total,) = self._surely(lambda: self.team.sum("cuts", "products", p))
        return np.asarray(total)

    def select(self, kept: NDArray[np.int64]) -> None:
        """See Cuts."""
        self._change(lambda: self.team.ask("cuts", "select", kept))

    def _change(self, work: Callable[[], Any]) -> None:
        def changed() -> None:
            work()
            self.guarded.save()

        self._surely(changed)

    def _surely(self, work: Callable[[], Any]) -> Any:
        """Done anew where workers were replaced meanwhile."""
        while True:
            try:
                return work()
            except Replaced:
                self.guarded.back()


# ---------------------------------------------------------------- in the worker


class Shard:
    """A worker's oracle, and what of its answers goes to the whole."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle

    @classmethod
    def of(cls, piece: Piece, encoded: Encoded, structure: Structure, cost: NDArray[np.float32]) -> Shard:
        """From a piece that has been encoded; its text is not needed any more."""
        outputs = piece.corpus.outputs
        assert outputs is not None
        piece.corpus = replace(piece.corpus, columns=(), extra=None)
        return cls(Oracle(structure, encoded, outputs, cost))

    def merged_shard(self, groups: list[Groups]) -> Shard:
        """The same in merged attributes."""
        return Shard(replace(self.oracle, encoded=merged_by(self.oracle.encoded, groups)))

    def columns(self, seed: int) -> Arrays:
        """Where attributes fire, three arrays a kind."""
        return [
            x for some in columns(self.oracle.encoded, seed) for x in (some.fired, some.first, some.second)
        ]

    def score(self, weights: Weights, scale: NDArray[np.float64]) -> Parts:
        """Part scores."""
        return self.oracle.score(weights, scale)

    def hinge(self, parts: Parts, scale: float) -> Hinge:
        """The most violated outputs."""
        return self.oracle.hinge(parts, scale)

    def likelihood(self, parts: Parts) -> Likelihood:
        """Losses and counts."""
        return self.oracle.likelihood(parts)

    def figures(self, found: Hinge | Likelihood) -> tuple[Any, ...]:
        """What is small of an answer: total and loss of a hinge; losses, slope and curvature of a likelihood."""
        if isinstance(found, Hinge):
            return found.total, found.loss
        return found.losses, found.slope, found.curvature * found.counts[0].size

    def mix(self, a: float, x: Parts, b: float, y: Parts, dtype: Any) -> Parts:
        """a·x + b·y."""
        return self.oracle.mix(a, x, b, y, dtype)

    def along(self, found: Likelihood, parts: Parts) -> float:
        """⟨counts, parts⟩."""
        return self.oracle.inner(found.counts, parts)

    def counted(self, found: Likelihood) -> Weights:
        """Aᵀ·counts."""
        weights = self.oracle.zeros()
        self.oracle.count(found.counts, weights)
        return weights


class ShardCuts(Kept):
    """A worker's cuts."""

    kept = ("cuts",)

    def __init__(self, shard: Shard, sentences: int) -> None:
        self.cuts = Cuts(shard.oracle, sentences)

    def add(self, found: Hinge) -> None:
        """The outputs of a hinge."""
        self.cuts.add(found.outputs)

    def combined(self, alpha: NDArray[np.float64]) -> Weights:
        """Σ_r α_r p^r of the own sentences."""
        weights = self.cuts.oracle.zeros()
        self.cuts.combine(alpha, weights)
        return weights

    def products(self, p: Weights) -> Arrays:
        """See Cuts."""
        return [self.cuts.products(p)]

    def select(self, kept: NDArray[np.int64]) -> None:
        """See Cuts."""
        self.cuts.select(kept)


def _as_parts(held: Held) -> Parts:
    """Learners hand scores on to the oracle that gave them, and look into them nowhere."""
    return held  # type: ignore[return-value]


def outline_of(index: FeatureIndex, structure: Structure, ptr: NDArray[np.int64]) -> Encoded:
    """The layout of the weights of an index, without any A."""
    designs = []
    for site in structure.sites(np.array([0, 1], np.int64)):
        templates = np.array([j for j, kind in enumerate(index.kinds) if kind == site.kind], np.int32)
        designs.append(_bare(index.sizes[templates], templates))
    kinds = tuple(site.kind for site in structure.sites(np.array([0, 1], np.int64)))
    return Encoded(kinds, tuple(designs), (None,) * len(kinds), ptr, len(index.templates))


def _merged_outline(attributes: int) -> Design:
    return _bare(np.array([attributes], np.int64), np.zeros(0, np.int32))


def _bare(sizes: NDArray[np.int64], templates: NDArray[np.int32]) -> Design:
    return Design(
        ids=np.zeros(0, np.int32),
        ptr=np.zeros(1, np.int64),
        blocks=templates,
        values=np.zeros(0, np.float32),
        block_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        templates=templates,
    )
