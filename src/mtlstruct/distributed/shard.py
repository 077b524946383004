"""A worker: one piece of the data, and answers that depend on the arguments only.

A worker reads its piece, encodes it by a given index, and answers for given weights. It keeps the encoded piece, part
scores and cuts between calls, each under the numbers of the stored values that it was made from, and makes again
what it lacks. So a worker that was restarted answers as the lost one would have.
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
from mtlstruct.features.extraction import Observed, observe
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
    """Strings of each stream, pairs of each join, counts of each reading, in the numbers of one worker."""

    strings: list[list[str]]
    pairs: list[Int64]
    counts: list[Int64]


@dataclass(frozen=True)
class Coding:
    """How to encode a piece. `index` has neither vocabularies nor tables; `maps` are for the values of the piece."""

    index: FeatureIndex
    maps: list[Int32]
    structure: Structure
    labels: tuple[str, ...]
    cost: NDArray[np.float32]


@dataclass(frozen=True)
class View:
    """The data of a worker, encoded by a stored Coding; in merged attributes if a list of Groups is stored."""

    coding: Stored
    groups: Stored | None = None

    @property
    def keys(self) -> tuple[int, ...]:
        """The numbers of what is stored."""
        return (self.coding.key,) if self.groups is None else (self.coding.key, self.groups.key)


Point = Stored
"""Weights and the scale of each template: stands for part scores A·w."""


@dataclass(frozen=True)
class Mixed:
    """a·x + b·y of part scores."""

    a: float
    x: Point
    b: float
    y: Point


class Shard:
    """A piece of the data. `number` tells shards apart, `read` gives the sentences."""

    def __init__(self, number: int, read: Callable[[], Corpus]) -> None:
        self.number, self.read = number, read
        self._corpus: Corpus | None = None
        self._observed: Observed | None = None
        self._made: dict[tuple[Any, ...], Any] = {}
        self._cut_keys: list[int] = []

    def forget(self, live: Collection[int]) -> None:
        """Drop what was made from stored values that are no longer in use."""
        self._made = {key: value for key, value in self._made.items() if all(k in live for k in key[1:])}

    def corpus(self) -> Corpus:
        """Return the sentences, as read."""
        if self._corpus is None:
            self._corpus = self.read()
        return self._corpus

    def outline(self) -> Corpus:
        """Return the corpus without its text: the number of columns, lengths and labels."""
        corpus = self.corpus()
        nothing = (Column(np.zeros(0, np.int32), []),) * len(corpus.columns)
        return Corpus(columns=nothing, ptr=corpus.ptr, labels=corpus.labels, names=corpus.names)

    def digest(self) -> str:
        """Return a hash of what was read."""
        return self.corpus().digest()

    # ---------------------------------------------------------------- index

    def observe(self, templates: TemplateSet, structure: Structure, normalize: str) -> LocalCounts:
        """Count what the templates see."""
        corpus = self.corpus()
        if any(column.ptr is not None for column in corpus.columns):
            raise IncompatibleError("feature dicts and real values cannot be trained on in shards")
        seen = self._observed = observe(corpus, templates, structure.sites(corpus.ptr), normalize)
        strings = [some.strings()[:n] for some, n in zip(seen.vocabularies, seen.spelled, strict=True)]
        sizes = [size_of(seen.plan, r, (seen.vocabularies, seen.tables)) for r in range(len(seen.plan.uses))]
        counts = [seen.counts(r, size) for r, size in enumerate(sizes)]
        return LocalCounts(strings, [table.pairs for table in seen.tables], counts)

    def columns(self, view: View) -> Arrays:
        """Return where attributes fire, three arrays a kind; the sums over shards tell which attributes are equal."""
        found = columns(self._oracle(view).encoded, self.number)
        return [array for some in found for array in (some.fired, some.first, some.second)]

    # ---------------------------------------------------------------- objective

    def score(self, view: View, point: Point) -> None:
        """Compute part scores, for the calls to come."""
        self._parts(view, point)

    def hinge(self, view: View, parts: Point | Mixed, scale: float) -> tuple[float, float, NDArray[Any]]:
        """Return total, loss and outputs of a hinge."""
        found = self._oracle(view).hinge(self._parts(view, parts), scale)
        return (
            found.total,
            found.loss,
            found.outputs.astype(np.min_scalar_type(int(found.outputs.max(initial=0)))),
        )

    def likelihood(self, view: View, point: Point) -> tuple[NDArray[np.float64], float, float]:
        """Return losses, slope and variance of a likelihood."""
        found = self._likelihood(view, point)
        return found.losses, found.slope, found.variance

    def count(self, view: View, point: Point) -> Weights:
        """Return the gradient of the sum of losses, Aᵀ·counts."""
        oracle = self._oracle(view)
        weights = oracle.zeros()
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

    # ---------------------------------------------------------------- what is kept between calls

    def _kept(self, name: str, keys: tuple[int, ...], make: Callable[[], Result]) -> Result:
        key = (name, *keys)
        if key not in self._made:
            self._made[key] = make()
        found: Result = self._made[key]
        return found

    def _oracle(self, view: View) -> Oracle:
        large = self._kept("oracle", (view.coding.key,), lambda: self._encode(view.coding.value()))
        groups = view.groups
        if groups is None:
            return large
        return self._kept(
            "merged",
            view.keys,
            lambda: replace(large, encoded=merged_by(large.encoded, groups.value())),
        )

    def _encode(self, coding: Coding) -> Oracle:
        """Encode the piece; its text is read again if it is needed once more."""
        if self._observed is None:
            self.observe(coding.index.templates, coding.structure, coding.index.normalize)
        assert self._observed is not None
        encoded = encoded_by(replace(coding.index, maps=tuple(coding.maps)), self._observed)
        outputs = self.corpus().relabelled(coding.labels).outputs
        self._observed = self._corpus = None
        assert outputs is not None
        return Oracle(coding.structure, encoded, outputs, coding.cost)

    def _parts(self, view: View, parts: Point | Mixed) -> Parts:
        oracle = self._oracle(view)
        if isinstance(parts, Mixed):
            x, y = self._parts(view, parts.x), self._parts(view, parts.y)
            return oracle.mix(parts.a, x, parts.b, y)
        return self._kept("parts", (*view.keys, parts.key), lambda: oracle.score(*parts.value()))

    def _likelihood(self, view: View, point: Point) -> Likelihood:
        oracle, parts = self._oracle(view), self._parts(view, point)
        return self._kept("likelihood", (*view.keys, point.key), lambda: oracle.likelihood(parts))

    def _cuts(self, view: View, wanted: Sequence[Stored], sentences: int) -> Cuts:
        """Return these cuts and no others, as the solver keeps them; they are in order of their numbers."""

        def none() -> Cuts:
            self._cut_keys = []
            return Cuts(self._oracle(view), sentences)

        cuts = self._kept("cuts", view.keys, none)
        keys = {cut.key for cut in wanted}
        kept = [r for r, key in enumerate(self._cut_keys) if key in keys]
        cuts.select(np.array(kept, np.int64))
        for cut in wanted[len(kept) :]:
            cuts.add(cut.value())
        self._cut_keys = [cut.key for cut in wanted]
        return cuts
