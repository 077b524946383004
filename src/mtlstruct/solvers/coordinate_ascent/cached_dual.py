"""A dual state for any structure: the outputs that decoding finds are kept for each sentence, and weighed.

A structure that can decode gets the coordinate learner from here. The dual variables of a sentence are a
distribution over outputs, of which only those are kept that once were the most violated one, and gold. A visit with
`search` looks for a new one (a few sentences are decoded together, against the same V); then mass moves from the
worst output that carries some to the best, each time by the exact step, until the sentence's gap is small.

An output is kept as its difference from gold, counts over *seats*: a seat is (row, part), numbered row·width + part,
of one kind. A sentence has few, since outputs that are worth keeping agree on most of it.

Decoding is the structure's own code and usually takes most of the time; the rest is a few kernels a sentence. Where
the parts of an output can be weighed one by one, an own dual state is much faster (see sequence_dual.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.stateful import Kept, State
from mtlstruct.linear import products as linear
from mtlstruct.linear.design import Design
from mtlstruct.solvers.coordinate_ascent.cached_kernels import Features, ascend
from mtlstruct.structures.base import DualProblem, Triplets, Visits

BATCH = 32
"""Sentences that are decoded together; the steps that follow are exact, whatever V has become meanwhile."""

STEPS = 20
"""Pairwise steps after each search: a step costs next to nothing beside the decoding."""

PATIENCE = 10
"""An output that has had no mass for so many visits is forgotten."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class CachedDual(Kept):
    """Outputs of all sentences with their weights, and the operations the coordinate learner asks of a dual state.

    Spans are (start, stop, sentence, search): whole sentences, with or without a search for new outputs.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        encoded, structure = problem.encoded, problem.structure
        sites = structure.sites(encoded.ptr)
        self.kinds = [
            _Kind(design, rows, width, V, encoded.ptr if s.tokens is None else np.searchsorted(s.tokens, encoded.ptr))
            for design, rows, width, V, s in zip(
                encoded.designs, encoded.rows, structure.widths(), problem.V, sites, strict=True
            )
        ]  # fmt: skip
        self.caches = [_Cache(len(self.kinds)) for _ in range(len(encoded.ptr) - 1)]

    def pack(self) -> State:
        """All caches end to end."""
        outputs = [np.frombuffer(key, np.int32) for cache in self.caches for key in cache.keys]
        return {
            "sizes": np.array([len(cache.keys) for cache in self.caches], np.int64),
            "outputs": np.concatenate([np.zeros(0, np.int32), *outputs]),
            **{
                name: np.concatenate([getattr(cache, name) for cache in self.caches])
                for name in _OVER_OUTPUTS
            },
            "kinds": [self._packed_kind(number) for number in range(len(self.kinds))],
        }

    def _packed_kind(self, number: int) -> State:
        return {
            "sizes": np.array([len(cache.seats[number]) for cache in self.caches], np.int64),
            "seats": np.concatenate([cache.seats[number] for cache in self.caches]),
            "vectors": np.concatenate([cache.vectors[number].ravel() for cache in self.caches]),
        }

    def unpack(self, state: State) -> None:
        """Cuts each cache out again."""
        sizes, lengths = state["sizes"], np.diff(self.problem.encoded.ptr)
        outputs = _cut(state["outputs"], sizes * lengths)
        tables = [_cut(state[name], sizes + 1) for name in _OVER_OUTPUTS]
        kinds = [
            (_cut(kind["seats"], kind["sizes"]), _cut(kind["vectors"], kind["sizes"] * (sizes + 1)))
            for kind in state["kinds"]
        ]
        for i, (cache, size) in enumerate(zip(self.caches, sizes.tolist(), strict=True)):
            cache.keys = [row.tobytes() for row in outputs[i].reshape(size, lengths[i])]
            for name, table in zip(_OVER_OUTPUTS, tables, strict=True):
                setattr(cache, name, table[i])
            cache.seats = [seats[i] for seats, _ in kinds]
            cache.vectors = [vectors[i].reshape(size + 1, len(seats[i])) for seats, vectors in kinds]

    @staticmethod
    def memory(tokens: int) -> int:
        """Bytes to expect. How many outputs are worth keeping is not known before; this is what text took."""
        return tokens * 1000

    def spans(self, sentences: Ints, shift: int) -> Ints:
        """Whole sentences, with search."""
        return self._whole(sentences, 1)

    def active(self) -> Ints:
        """Sentences with mass off gold, without search: their outputs are there already."""
        loose = [i for i, cache in enumerate(self.caches) if cache.alpha[0] < 1]
        return self._whole(np.array(loose, np.int64), 0)

    def _whole(self, sentences: Ints, search: int) -> Ints:
        ptr = self.problem.encoded.ptr
        flag = np.full(len(sentences), search)
        return np.stack([ptr[sentences], ptr[sentences + 1], sentences, flag], axis=1)

    def visit(
        self, spans: Ints, mu: Floats, c: float, rounds: int, tolerance: float, enough: float = 0.0
    ) -> Visits:
        """Improves the dual on each sentence in turn, until its gap is below tolerance or `enough` of what it was."""
        visits = Visits(np.zeros(len(spans)), 0.0)
        scales = [kind.features.design.scales(mu) for kind in self.kinds]
        wanted = _Wanted(scales, float(c), tolerance, enough)
        for first in range(0, len(spans), BATCH):
            some = np.arange(first, min(first + BATCH, len(spans)))
            for _ in range(rounds):
                searched = spans[some, 3] > 0
                self._search(spans[some[searched], 2], mu)
                gaps = np.array([self._improve(i, wanted, visits) for i in spans[some, 2]])
                visits.gaps[some] = np.maximum(visits.gaps[some], gaps)
                some = some[searched & (gaps > np.maximum(tolerance, enough * visits.gaps[some]))]
                if len(some) == 0:
                    break
        return visits

    def _improve(self, i: int, wanted: _Wanted, visits: Visits) -> float:
        """Pairwise steps over the outputs of one sentence; returns its gap before them."""
        cache = self.caches[i]
        if not cache.keys:
            return 0.0
        kinds = list(zip(self.kinds, wanted.scales, cache.seats, cache.vectors, strict=True))
        value = cache.loss.copy()
        for kind, scales, seats, vectors in kinds:
            kind.features.add_scores(scales, seats, vectors, value)
        gap = max(0.0, float(value.max() - cache.alpha @ value))
        if gap < wanted.tolerance:
            return gap
        products = np.zeros((len(value), len(value)))
        for kind, scales, seats, vectors in kinds:
            kind.features.add_products(scales, seats, vectors, products)
        before = cache.alpha.copy()
        left = max(wanted.tolerance, wanted.enough * gap)
        ascend(value, products, cache.alpha, wanted.c, STEPS, left)
        change = cache.alpha - before
        for kind, _, seats, vectors in kinds:
            kind.features.commit(wanted.c * change, seats, vectors, self.problem.N)
        visits.loss += float(change @ cache.loss)
        cache.age()
        return gap

    def _search(self, sentences: Ints, mu: Floats) -> None:
        """Decodes sentences as a small corpus of their own; what is found joins their caches."""
        if len(sentences) == 0:
            return
        p = self.problem
        ptr, tokens = _gathered(p.encoded.ptr, sentences)
        gold = p.gold[tokens]
        taken = [kind.taken(sentences, mu) for kind in self.kinds]
        outputs, values = np.zeros(len(tokens), np.int32), np.zeros(len(sentences))
        p.structure.decode(
            tuple(parts for parts, _ in taken), tuple(rows for _, rows in taken), ptr, (0, len(sentences)), outputs,
            values, gold=gold, cost=p.cost,
        )  # fmt: skip
        fresh = self._fresh(sentences, ptr, outputs, gold)
        if not fresh:
            return
        losses = p.structure.losses(outputs, gold, p.cost, ptr)
        differences = self._differences(sentences, ptr, outputs, gold)
        for at in fresh:
            seats = [(row[at], count[at]) for row, count in differences]
            key = outputs[ptr[at] : ptr[at + 1]].tobytes()
            self.caches[sentences[at]].add(key, float(losses[at]), seats)

    def _fresh(
        self, sentences: Ints, ptr: Ints, outputs: NDArray[np.int32], gold: NDArray[np.int32]
    ) -> list[int]:
        """Which of the decoded sentences have an output that is neither gold nor kept already."""
        wrong = np.add.reduceat(outputs != gold, ptr[:-1])
        return [
            at
            for at in np.flatnonzero(wrong).tolist()
            if not self.caches[sentences[at]].knows(outputs[ptr[at] : ptr[at + 1]].tobytes())
        ]

    def _differences(
        self, sentences: Ints, ptr: Ints, outputs: NDArray[np.int32], gold: NDArray[np.int32]
    ) -> list[tuple[list[Ints], list[NDArray[np.float32]]]]:
        """For each kind the seats that outputs use and gold does not, and the reverse: lists over sentences."""
        sites = [_gathered(kind.site_ptr, sentences) for kind in self.kinds]
        # Sites that share a row get one each here, so that what belongs to different sentences stays apart.
        apart = tuple(
            None if kind.rows is None else np.arange(len(own), dtype=np.int32)
            for kind, (_, own) in zip(self.kinds, sites, strict=True)
        )
        found = self.problem.structure.indicator(outputs, gold, apart, ptr)
        return [
            kind.seats(triplets, *own) for kind, triplets, own in zip(self.kinds, found, sites, strict=True)
        ]

    def repair(self) -> None:
        """Makes the weights of each sentence sum to one."""
        for cache in self.caches:
            cache.alpha /= cache.alpha.sum()

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """Part counts of (dual − gold), for each kind float32[rows, width]."""
        return tuple(self._counts(number, kind) for number, kind in enumerate(self.kinds))

    def _counts(self, number: int, kind: _Kind) -> NDArray[np.float32]:
        used = [cache for cache in self.caches if len(cache.seats[number])]
        seats = np.concatenate([np.zeros(0, np.int64), *(cache.seats[number] for cache in used)])
        mass = np.concatenate([np.zeros(0), *(cache.expected(number) for cache in used)])
        shape = kind.features.design.rows, kind.features.width
        return np.bincount(seats, mass, shape[0] * shape[1]).astype(np.float32).reshape(shape)

    def loss(self, counts: NDArray[Any]) -> float:
        """The expected loss; the weights say it more exactly than the counts."""
        return float(sum(float(cache.alpha @ cache.loss) for cache in self.caches))


_OVER_OUTPUTS = ("loss", "alpha", "idle")
"""What a cache has for each of its outputs, gold first."""


def _cut(array: NDArray[Any], sizes: Ints) -> list[NDArray[Any]]:
    """Pieces of these sizes, each an array of its own."""
    return [piece.copy() for piece in np.split(array, np.cumsum(sizes)[:-1])]


@dataclass(frozen=True)
class _Wanted:
    """What a visit is asked for: template weights as each kind takes them, c, and when to leave a sentence."""

    scales: list[NDArray[np.float32]]
    c: float
    tolerance: float
    enough: float


class _Kind:
    """One kind of site: its features, which row each site uses, and where the sites of each sentence begin."""

    def __init__(
        self,
        design: Design,
        rows: NDArray[np.int32] | None,
        width: int,
        V: NDArray[Any],
        site_ptr: Ints,
    ) -> None:
        self.features, self.rows, self.site_ptr = Features(design, V, width), rows, site_ptr

    def taken(self, sentences: Ints, mu: Floats) -> tuple[NDArray[np.float32], NDArray[np.int32] | None]:
        """Part scores of the rows that some sentences use, and which of them each site uses."""
        _, sites = _gathered(self.site_ptr, sentences)
        used, own = (sites, None) if self.rows is None else np.unique(self.rows[sites], return_inverse=True)
        parts = np.zeros((len(used), self.features.width), np.float32)
        linear.score(self.features.design.take(used), self.features.V, -mu, parts)
        return parts, None if own is None else own.astype(np.int32)

    def seats(
        self, found: Triplets, site_ptr: Ints, sites: Ints
    ) -> tuple[list[Ints], list[NDArray[np.float32]]]:
        """Seats and counts of each sentence; the rows of `found` are positions in `sites`."""
        row = sites[found.row]
        if self.rows is not None:
            row = self.rows[row].astype(np.int64)
        cuts = np.searchsorted(found.row, site_ptr[1:-1])
        return np.split(row * self.features.width + found.part, cuts), np.split(found.count, cuts)


class _Cache:
    """The outputs kept for one sentence of K of them; gold is number 0 of the vectors over outputs.

    seats     for each kind int64[U], rising: the seats that outputs touch
    vectors   for each kind float32[K + 1, U]: counts of each output minus those of gold
    """

    def __init__(self, kinds: int) -> None:
        self.keys: list[bytes] = []
        self.loss, self.alpha, self.idle = np.zeros(1), np.ones(1), np.zeros(1, np.int64)
        self.seats = [np.zeros(0, np.int64) for _ in range(kinds)]
        self.vectors = [np.zeros((1, 0), np.float32) for _ in range(kinds)]

    def knows(self, key: bytes) -> bool:
        """Whether the output is kept; it is then wanted for a while longer."""
        if key not in self.keys:
            return False
        self.idle[self.keys.index(key) + 1] = 0
        return True

    def add(self, key: bytes, loss: float, found: Sequence[tuple[Ints, NDArray[np.float32]]]) -> None:
        """Keeps one more output, without mass as yet; forgets those that have been idle for long."""
        self._forget()
        self.keys.append(key)
        self.loss, self.alpha = np.append(self.loss, loss), np.append(self.alpha, 0.0)
        self.idle = np.append(self.idle, 0)
        for number, (seats, count) in enumerate(found):
            wider = np.union1d(self.seats[number], seats)
            vectors = np.zeros((len(self.loss), len(wider)), np.float32)
            vectors[:-1, np.searchsorted(wider, self.seats[number])] = self.vectors[number]
            np.add.at(vectors[-1], np.searchsorted(wider, seats), count)
            self.seats[number], self.vectors[number] = wider, vectors

    def age(self) -> None:
        """Counts visits without mass."""
        self.idle = np.where(self.alpha > 0, 0, self.idle + 1)

    def expected(self, number: int) -> Floats:
        """Counts over the seats of a kind under the present weights."""
        out: Floats = self.alpha @ self.vectors[number].astype(np.float64)
        return out

    def _forget(self) -> None:
        kept = self.idle < PATIENCE
        kept[0] = True
        if kept.all():
            return
        self.keys = [key for key, keep in zip(self.keys, kept[1:], strict=True) if keep]
        self.loss, self.alpha, self.idle = self.loss[kept], self.alpha[kept], self.idle[kept]
        for number, vectors in enumerate(self.vectors):
            used = vectors[kept].any(axis=0)
            self.seats[number] = self.seats[number][used]
            # by rows, as everywhere: numpy leaves columns that are picked out lying the other way
            self.vectors[number] = np.ascontiguousarray(vectors[kept][:, used])


def _gathered(ptr: Ints, sentences: Ints) -> tuple[Ints, Ints]:
    """The ranges of some sentences one after the other: where each begins, and what is in them."""
    sizes = ptr[sentences + 1] - ptr[sentences]
    own = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return own, np.arange(own[-1]) + np.repeat(ptr[sentences] - own[:-1], sizes)
