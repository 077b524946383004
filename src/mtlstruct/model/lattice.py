"""The part scores of a corpus, and inference on them: best outputs, N best, marginals.

p(outputs) ∝ exp(score / temperature); the best outputs do not depend on the temperature. Errors:
constraints that leave a sentence without outputs, and inference that a structure does not have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import small_work
from mtlstruct._system import memory, threads
from mtlstruct.errors import IncompatibleError, InfeasibleError, MtlError
from mtlstruct.structures.base import IMPOSSIBLE, Batch, Parts, Ranking, Restrictable, Structure
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.schemes import Conversion
from mtlstruct.structures.sequence import edge_rows
from mtlstruct.structures.tree import TreeStructure, arc_rows

Floats = NDArray[np.float64]
Outputs = NDArray[np.int32]

MIN_PROBABILITY = 1e-300
"""The smallest probability whose logarithm is taken."""


@dataclass(frozen=True)
class Ranked:
    """The N best outputs int32[N, T] and their scores, values float64[S, N], −inf if missing."""

    outputs: Outputs
    values: Floats


@dataclass(frozen=True)
class Marginals:
    """Probabilities at a temperature: node float64[T, L] of labels at tokens, log Z float64[S].

    For trees, node float64[arcs] has those of arcs; `first` int64[T] is the first arc to a token.
    """

    node: Floats
    log_partition: Floats
    temperature: float
    first: NDArray[np.int64] | None = None

    def chosen(self, outputs: Outputs) -> Floats:
        """Return the probability of each token's label, or head. float64[T]"""
        if self.first is not None:
            return np.asarray(self.node[self.first + outputs])
        return np.asarray(self.node[np.arange(len(outputs)), outputs])

    def sequence(self, values: Floats) -> Floats:
        """Return the probability of whole outputs from their scores, float64[S] or [S, N]."""
        log_partition = self.log_partition.reshape(-1, *[1] * (values.ndim - 1))
        return np.exp(np.minimum(values / self.temperature - log_partition, 0.0))


@dataclass(frozen=True)
class Lattice:
    """Part scores of a corpus under a model's weights; `rows` and `ptr` as in Encoded.

    With a conversion, scores are of the labels that the model learned. Inputs and results of the
    methods are labels as given, except for `path`.
    """

    structure: Structure
    parts: Parts
    rows: tuple[NDArray[np.int32] | None, ...]
    ptr: NDArray[np.int64]
    conversion: Conversion | None = None

    @property
    def batch(self) -> Batch:
        """The part scores of all sentences, as methods of the structure take them."""
        return Batch(self.parts, self.rows, self.ptr)

    @property
    def has_marginals(self) -> bool:
        """Whether labels, or heads, have probabilities: the structure can sum over its outputs."""
        if not hasattr(self.structure, "marginals"):
            return False
        return self._has_trees or self.structure.widths()[0] == self.structure.labels

    @property
    def _has_trees(self) -> bool:
        return isinstance(self.structure, TreeStructure)

    def restricted(self, constraints: Constraints | None) -> Lattice:
        """Return the lattice without the outputs that break a constraint, or the label scheme."""
        if self.conversion is not None:
            constraints = self.conversion.constraints(constraints)
        if constraints is None:
            return self
        if not isinstance(self.structure, Restrictable):
            raise self._without("keep constraints")
        return replace(self, parts=self.structure.restrict(self.parts, self.ptr, constraints))

    def best(self) -> Outputs:
        """Return the best outputs. int32[T]"""
        return self._as_given(self.path())

    def _as_given(self, outputs: Outputs) -> Outputs:
        return outputs if self.conversion is None else self.conversion.decode(outputs, self.ptr)

    def path(self) -> Outputs:
        """Return the best outputs, in learned labels. int32[T]"""
        batch, outputs, values = self.batch, np.zeros(self.ptr[-1], np.int32), np.zeros(len(self.ptr) - 1)

        def work(first: int, last: int) -> None:
            self.structure.decode(batch, (first, last), outputs, values)

        with small_work(len(outputs) * self.structure.labels**2 or math.inf):
            threads.over_sentences(work, self.ptr)
        _check(values)
        return outputs

    def nbest(self, count: int) -> Ranked:
        """Return the `count` best outputs of each sentence, or all if there are fewer."""
        structure, batch = self.structure, self.batch
        if not isinstance(structure, Ranking):
            raise self._without("list the N best outputs")
        if count < 1:
            raise MtlError(f"expected at least 1 best output to list, got {count}")
        longest = int(np.diff(self.ptr).max(initial=0))
        needed = count * (4 * int(self.ptr[-1]) + 32 * longest * threads.get_threads())
        memory.ensure(needed, f"listing the {count:,} best outputs")
        outputs, values = np.zeros((count, self.ptr[-1]), np.int32), np.zeros((len(self.ptr) - 1, count))

        def work(first: int, last: int) -> None:
            structure.nbest(batch, (first, last), outputs, values)

        threads.over_sentences(work, self.ptr)
        _check(values[:, 0])
        return Ranked(np.stack([self._as_given(row) for row in outputs]), values)

    def marginals(self, temperature: float = 1.0) -> Marginals:
        """Return the probability of each label, or head, at each token."""
        if not self.has_marginals:
            raise self._without("give probabilities")
        arcs = arc_rows(self.ptr) if self._has_trees else None
        node = np.zeros((self.ptr[-1], self.structure.labels) if arcs is None else len(self.parts[0]))
        batch, log_partition = self.batch, np.zeros(len(self.ptr) - 1)

        def work(first: int, last: int) -> None:
            span, scale = (first, last), 1 / temperature
            found, *_ = self.structure.marginals(batch, span, log_partition, scale=scale)
            node[found.row] = found.count if arcs is None else found.count[:, 0]

        threads.over_sentences(work, self.ptr)
        _check(temperature * log_partition)
        if self.conversion is not None:
            node = self._marginals_as_given(node, self.conversion, temperature)
        return Marginals(np.minimum(node, 1.0), log_partition, temperature, arcs)

    def _marginals_as_given(self, node: Floats, conversion: Conversion, temperature: float) -> Floats:
        """Return the probabilities of labels as given. float64[T, labels]

        A label depends on the learned label y of its token, on whether a chunk begins at y, and on
        whether it ends there. Given y, the latter two are independent.
        """
        decode, L = conversion.decode, self.structure.labels
        starts, stops = decode.first[:, :L].astype(bool), decode.last[:L].astype(bool)
        first, last = np.zeros((2, *node.shape))  # the probability of y where it begins (ends) a chunk
        first[self.ptr[:-1]] = node[self.ptr[:-1]] * starts[L]
        last[self.ptr[1:] - 1] = node[self.ptr[1:] - 1] * stops[:, L]

        def take(tokens: NDArray[np.int64], pairs: Floats) -> None:
            pairs = pairs.reshape(-1, L, L)
            first[tokens] = (pairs * starts[:L]).sum(axis=1)
            last[tokens - 1] = (pairs * stops[:, :L]).sum(axis=2)

        self._over_edges(temperature, take)
        found = np.zeros((len(conversion.labels), len(node)))
        for begins, some in enumerate((node - first, first)):
            for ends, others in enumerate((node - last, last)):
                both = some * others / np.maximum(node, MIN_PROBABILITY)
                np.add.at(found, decode.code[:L, begins, ends], both.T)
        return found.T

    def spans(
        self, outputs: Outputs, starts: NDArray[np.int64], stops: NDArray[np.int64], marginals: Marginals
    ) -> Floats:
        """Return the probability of the labels of tokens start:stop together, float64[spans].

        A span lies in one sentence. The chain rule p(y_a) · p(y_a+1 | y_a) · … is exact for a
        first-order model.
        """
        alone = np.log(np.maximum(marginals.chosen(outputs), MIN_PROBABILITY))
        pair = np.log(np.maximum(self._pairs(outputs, marginals.temperature), MIN_PROBABILITY))
        step = np.minimum(pair - np.concatenate([[0.0], alone[:-1]]), 0.0)
        total = np.cumsum(np.concatenate([[0.0], step]))
        return np.asarray(np.exp(alone[starts] + total[stops] - total[starts + 1]))

    def _pairs(self, outputs: Outputs, temperature: float) -> Floats:
        """Return the probability of each label with the one before; 1 at the first token."""
        pair = np.ones(len(outputs))

        def take(at: NDArray[np.int64], pairs: Floats) -> None:
            parts = outputs[at - 1] * self.structure.labels + outputs[at]
            pair[at] = pairs[np.arange(len(at)), parts]

        self._over_edges(temperature, take)
        return pair

    def _over_edges(self, temperature: float, take: Callable[[NDArray[np.int64], Floats], None]) -> None:
        """Call a function with the second tokens of edges and the probabilities of pairs there."""
        tokens = self.structure.sites(self.ptr)[1].tokens
        assert tokens is not None
        site = np.searchsorted(tokens, self.ptr)

        def work(first: int, last: int) -> None:
            """Compute the marginals of a span in which each edge has a row of its own."""
            row = edge_rows(self.rows)[site[first] : site[last]]
            parts = (self.parts[0][self.ptr[first] : self.ptr[last]], self.parts[1][row])
            rows, ptr = (None, np.arange(len(row), dtype=np.int32)), self.ptr[first : last + 1]
            batch, n = Batch(parts, rows, ptr - ptr[0]), last - first
            _, found = self.structure.marginals(batch, (0, n), np.zeros(n), scale=1 / temperature)
            take(tokens[site[first] : site[last]], np.asarray(found.count, np.float64))

        threads.over_sentences(work, self.ptr)

    def evaluate(self, outputs: Outputs) -> Floats:
        """Return the score of given outputs for each sentence. float64[S]"""
        if self.conversion is not None:
            outputs = self.conversion.encode(outputs, self.ptr)
        return self.structure.evaluate(self.batch, outputs)

    def _without(self, ability: str) -> IncompatibleError:
        return IncompatibleError(f"structure {self.structure.name!r} has no way to {ability}")


def joined(lattices: Sequence[Lattice]) -> Lattice:
    """Return the lattice of all sentences of lattices of sequences, without a conversion."""
    if len(lattices) == 1:
        return lattices[0]
    nodes, edges = (np.concatenate([lattice.parts[k] for lattice in lattices]) for k in range(2))
    first = np.cumsum([0, *(len(lattice.parts[1]) for lattice in lattices[:-1])])
    rows = [edge_rows(lattice.rows) + start for lattice, start in zip(lattices, first, strict=True)]
    ptr = np.cumsum([0, *(lattice.ptr[-1] for lattice in lattices)], dtype=np.int64)
    every = None, np.concatenate(rows).astype(np.int32)
    return Lattice(lattices[0].structure, (nodes, edges), every, ptr)


def _check(values: Floats) -> None:
    """Raise if the best outputs of a sentence use a forbidden part."""
    wrong = np.flatnonzero(values < IMPOSSIBLE)
    if len(wrong):
        raise InfeasibleError(int(wrong[0]))
