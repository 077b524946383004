"""Worker with one shard of the data, whose results depend on the arguments only.

A worker reads its shard, encodes it by a given index, and computes losses and counts for given
weights. It caches the encoded shard, part scores and cuts, each under the keys of the stored values
that it was computed from, and recomputes what it lacks. A restarted worker therefore gives the same
results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Column, Corpus
from mtlstruct.distributed.pool import Arrays, Stored
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.duplicate_columns import columns, merged_by
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.extraction import Extraction, extract
from mtlstruct.features.index import FeatureIndex, encoded_by
from mtlstruct.features.shared_templates import size_of
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.solvers.cutting_plane.bundle import Cuts
from mtlstruct.structures.base import Parts, Structure
from mtlstruct.templates import TemplateSet

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Result = TypeVar("Result")


@dataclass(frozen=True)
class LocalCounts:
    """Strings of each stream, pairs of each join, counts of each line, of one worker."""

    strings: list[list[str]]
    pairs: list[Int64]
    counts: list[Int64]


@dataclass(frozen=True)
class Coding:
    """How to encode a shard: an index without vocabularies, and `maps` for the shard's values."""

    index: FeatureIndex
    maps: list[Int32]
    structure: Structure
    labels: tuple[str, ...]
    cost: NDArray[np.float32]


@dataclass(frozen=True)
class View:
    """Data of a worker: a stored Coding or oracle, merged by a stored list of groups."""

    coding: Stored
    groups: Stored | None = None

    @property
    def keys(self) -> tuple[int, ...]:
        """The keys of the stored values."""
        return (self.coding.key,) if self.groups is None else (self.coding.key, self.groups.key)


Point = Stored
"""Weights and the scale of each template, which represent the part scores A·w."""


@dataclass(frozen=True)
class MixedPoint:
    """a·x + b·y of part scores."""

    a: float
    x: Point
    b: float
    y: Point


class Shard:
    """Shard of the data; `number` is its position, `read` returns its sentences unless encoded."""

    def __init__(self, number: int, read: Callable[[], Corpus] | None = None) -> None:
        self.number, self.read = number, read
        self._corpus: Corpus | None = None
        self._observed: Extraction | None = None
        self._cache: dict[tuple[Any, ...], Any] = {}

    def forget(self, live: Collection[int]) -> None:
        """Drop cached results of stored values that are no longer in use."""
        self._cache = {key: value for key, value in self._cache.items() if all(k in live for k in key[1:])}

    def corpus(self) -> Corpus:
        """Return the sentences."""
        if self._corpus is None:
            assert self.read is not None
            self._corpus = self.read()
        return self._corpus

    def outline(self) -> Corpus:
        """Return the corpus without its text: the number of columns, lengths and labels."""
        corpus = self.corpus()
        nothing = (Column(np.zeros(0, np.int32), []),) * len(corpus.columns)
        return Corpus(columns=nothing, ptr=corpus.ptr, labels=corpus.labels, names=corpus.names)

    def digest(self) -> str:
        """Return a digest of the sentences."""
        return self.corpus().digest()

    # ---------------------------------------------------------------- index

    def observe(self, templates: TemplateSet, structure: Structure, normalize: str) -> LocalCounts:
        """Return strings, pairs and counts of the values of the templates."""
        corpus = self.corpus()
        if any(column.ptr is not None for column in corpus.columns):
            raise IncompatibleError("feature dicts and real values cannot be trained on in shards")
        seen = self._observed = extract(corpus, templates, structure.sites(corpus.ptr), normalize)
        strings = [some.strings()[:n] for some, n in zip(seen.vocabularies, seen.n_strings, strict=True)]
        sizes = [size_of(seen.plan, r, (seen.vocabularies, seen.tables)) for r in range(len(seen.plan.uses))]
        counts = [seen.counts(r, size) for r, size in enumerate(sizes)]
        return LocalCounts(strings, [table.pairs for table in seen.tables], counts)

    def encoded(self, index: FeatureIndex, maps: list[Int32], structure: Structure) -> Encoded:
        """Encode the sentences and release their text, which is read again if necessary."""
        if self._observed is None:
            self.observe(index.templates, structure, index.normalize)
        assert self._observed is not None
        found = encoded_by(replace(index, maps=tuple(maps)), self._observed)
        self._observed = self._corpus = None
        return found

    def columns(self, view: View) -> Arrays:
        """Return three arrays per kind whose sums over shards identify equal columns."""
        found = columns(self._oracle(view).encoded, self.number)
        return [array for some in found for array in (some.fired, some.first, some.second)]

    # ---------------------------------------------------------------- objective

    def score(self, view: View, point: Point) -> None:
        """Compute and cache part scores."""
        self._parts(view, point)

    def hinge(self, view: View, parts: Point | MixedPoint, scale: float) -> tuple[float, float, NDArray[Any]]:
        """Return total, loss and outputs of a hinge."""
        found = self._oracle(view).hinge(self._parts(view, parts), scale)
        smallest = np.min_scalar_type(int(found.outputs.max(initial=0)))
        return found.total, found.loss, found.outputs.astype(smallest)

    def likelihood(self, view: View, point: Point) -> tuple[NDArray[np.float64], float, float]:
        """Return losses, slope and variance of a likelihood."""
        found = self._likelihood(view, point)
        return found.losses, found.slope, found.variance

    def count(self, view: View, point: Point) -> Weights:
        """Return the gradient of the sum of losses, Aᵀ·counts; the next call reuses the arrays."""
        oracle = self._oracle(view)
        weights = self._cached("gradient", view.keys, oracle.zeros)
        oracle.count(self._likelihood(view, point).counts, weights)
        return weights

    def combine(
        self, view: View, cuts: Sequence[Stored], sentences: int, alpha: NDArray[np.float64]
    ) -> Weights:
        """Return Σ_r α_r p^r of the own sentences."""
        found = self._cuts(view, cuts, sentences)
        weights = found.oracle.zeros()
        found.combine(alpha, weights)
        return weights

    def products(self, view: View, cuts: Sequence[Stored], sentences: int, p: Stored) -> Arrays:
        """Return ⟨p_j, p_j^r⟩ of the own sentences, for all templates and cuts."""
        return [self._cuts(view, cuts, sentences).products(p.value())]

    # ---------------------------------------------------------------- cached values

    def _cached(self, name: str, keys: tuple[int, ...], compute: Callable[[], Result]) -> Result:
        key = (name, *keys)
        if key not in self._cache:
            self._cache[key] = compute()
        found: Result = self._cache[key]
        return found

    def _oracle(self, view: View) -> Oracle:
        large = self._cached("oracle", (view.coding.key,), lambda: self._oracle_of(view.coding.value()))
        groups = view.groups
        if groups is None:
            return large
        merged = lambda: replace(large, encoded=merged_by(large.encoded, groups.value()))  # noqa: E731
        return self._cached("merged", view.keys, merged)

    def _oracle_of(self, coding: Coding | Oracle) -> Oracle:
        if isinstance(coding, Oracle):
            return coding
        outputs = self.corpus().relabelled(coding.labels).outputs
        assert outputs is not None
        encoded = self.encoded(coding.index, coding.maps, coding.structure)
        return Oracle(coding.structure, encoded, outputs, coding.cost)

    def _parts(self, view: View, parts: Point | MixedPoint) -> Parts:
        oracle = self._oracle(view)
        if isinstance(parts, MixedPoint):
            x, y = self._parts(view, parts.x), self._parts(view, parts.y)
            return oracle.mix(parts.a, x, parts.b, y)
        return self._cached("parts", (*view.keys, parts.key), lambda: oracle.score(*parts.value()))

    def _likelihood(self, view: View, point: Point) -> Likelihood:
        oracle, parts = self._oracle(view), self._parts(view, point)
        return self._cached("likelihood", (*view.keys, point.key), lambda: oracle.likelihood(parts))

    def _cuts(self, view: View, wanted: Sequence[Stored], sentences: int) -> Cuts:
        """Return the cuts `wanted`, in order of their keys, reusing those of the last call."""
        keys = [cut.key for cut in wanted]
        new = Cuts(self._oracle(view), sentences), list[int]()
        cuts, known = self._cached("cuts", view.keys, lambda: new)
        common = [r for r, key in enumerate(known) if key in keys]
        cuts.select(np.array(common, np.int64))
        for cut in wanted[len(common) :]:
            cuts.add(cut.value())
        known[:] = keys
        return cuts
