"""The part scores of a corpus, and all that can be asked of them: the best outputs, the N best, probabilities.

A lattice is what encoding and scoring leave behind, made once for any number of questions. Probabilities are those of
p(outputs) ∝ exp(score / temperature); which outputs are best does not depend on the temperature. Refused: constraints
that leave a sentence without outputs; questions that a structure has no answer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import memory, threads
from mtlstruct.errors import IncompatibleError, InfeasibleError, MtlError
from mtlstruct.features.encoded import Encoded
from mtlstruct.structures.base import IMPOSSIBLE, Parts, Ranking, Restrictable, Structure
from mtlstruct.structures.constraints import Constraints
from mtlstruct.structures.sequence import edge_rows
from mtlstruct.structures.tree import TreeStructure, arc_rows

Floats = NDArray[np.float64]
Outputs = NDArray[np.int32]

TINY = 1e-300
"""Probabilities below this are taken for it where their logarithm is wanted."""


@dataclass(frozen=True)
class Ranked:
    """The N best outputs of each sentence, outputs int32[N, T], and their scores, values float64[S, N].

    Where a sentence has fewer outputs, the values of those that are missing are −inf.
    """

    outputs: Outputs
    values: Floats


@dataclass(frozen=True)
class Marginals:
    """Probabilities at a temperature: node float64[T, L] of each label at each token, log Z float64[S].

    Of trees, node float64[arcs] has those of arcs, and `first` int64[T] says where the arcs to a token begin.
    """

    node: Floats
    log_partition: Floats
    temperature: float
    first: NDArray[np.int64] | None = None

    def chosen(self, outputs: Outputs) -> Floats:
        """How probable each token's label, or head, is. float64[T]"""
        if self.first is not None:
            return np.asarray(self.node[self.first + outputs])
        return np.asarray(self.node[np.arange(len(outputs)), outputs])

    def sequence(self, values: Floats) -> Floats:
        """How probable whole outputs with these scores are. values float64[S] or [S, N]"""
        log_partition = self.log_partition.reshape(-1, *[1] * (values.ndim - 1))
        return np.exp(np.minimum(values / self.temperature - log_partition, 0.0))


@dataclass(frozen=True)
class Lattice:
    """Part scores of a corpus under a model's weights; `rows` and `ptr` as in Encoded."""

    structure: Structure
    parts: Parts
    rows: tuple[NDArray[np.int32] | None, ...]
    ptr: NDArray[np.int64]

    @classmethod
    def of(
        cls, encoded: Encoded, structure: Structure, weights: Sequence[NDArray[Any]], scale: Floats
    ) -> Lattice:
        """Scores an encoded corpus."""
        return cls(structure, encoded.score(weights, scale, structure.widths()), encoded.rows, encoded.ptr)

    @property
    def probable(self) -> bool:
        """Whether labels, or heads, have probabilities: the structure can sum over its outputs."""
        if not hasattr(self.structure, "marginals"):
            return False
        return self._of_trees or self.structure.widths()[0] == self.structure.labels

    @property
    def _of_trees(self) -> bool:
        return isinstance(self.structure, TreeStructure)

    def restricted(self, constraints: Constraints | None) -> Lattice:
        """The same lattice, where outputs that break a constraint cannot be found and have no probability."""
        if constraints is None:
            return self
        if not isinstance(self.structure, Restrictable):
            raise self._without("keep constraints")
        return replace(self, parts=self.structure.restrict(self.parts, self.ptr, constraints))

    def best(self) -> Outputs:
        """The best outputs. int32[T]"""
        outputs, values = np.zeros(self.ptr[-1], np.int32), np.zeros(len(self.ptr) - 1)

        def work(first: int, last: int) -> None:
            self.structure.decode(self.parts, self.rows, self.ptr, (first, last), outputs, values)

        threads.over_sentences(work, self.ptr)
        _check(values)
        return outputs

    def nbest(self, count: int) -> Ranked:
        """The `count` best outputs of each sentence, fewer where there are fewer."""
        structure = self.structure
        if not isinstance(structure, Ranking):
            raise self._without("list the N best outputs")
        if count < 1:
            raise MtlError(f"expected at least 1 best output to list, got {count}")
        longest = int(np.diff(self.ptr).max(initial=0))
        needed = count * (4 * int(self.ptr[-1]) + 32 * longest * threads.get_threads())
        memory.ensure(needed, f"listing the {count:,} best outputs")
        outputs, values = np.zeros((count, self.ptr[-1]), np.int32), np.zeros((len(self.ptr) - 1, count))

        def work(first: int, last: int) -> None:
            structure.nbest(self.parts, self.rows, self.ptr, (first, last), outputs, values)

        threads.over_sentences(work, self.ptr)
        _check(values[:, 0])
        return Ranked(outputs, values)

    def marginals(self, temperature: float = 1.0) -> Marginals:
        """How probable each label, or head, is at each token."""
        if not self.probable:
            raise self._without("give probabilities")
        arcs = arc_rows(self.ptr) if self._of_trees else None
        node = np.zeros((self.ptr[-1], self.structure.labels) if arcs is None else len(self.parts[0]))
        log_partition = np.zeros(len(self.ptr) - 1)

        def work(first: int, last: int) -> None:
            span = (first, last)
            found, *_ = self.structure.marginals(
                self.parts, self.rows, self.ptr, span, log_partition, scale=1 / temperature
            )
            node[found.row] = found.count if arcs is None else found.count[:, 0]

        threads.over_sentences(work, self.ptr)
        _check(temperature * log_partition)
        return Marginals(np.minimum(node, 1.0), log_partition, temperature, arcs)

    def spans(
        self, outputs: Outputs, starts: NDArray[np.int64], stops: NDArray[np.int64], marginals: Marginals
    ) -> Floats:
        """How probable the labels of tokens start:stop are together; a span lies in one sentence. float64[spans]

        By the chain rule, p(y_a) · p(y_a+1 | y_a) · …, which is exact where a label depends on its neighbours only.
        """
        alone = np.log(np.maximum(marginals.chosen(outputs), TINY))
        pair = np.log(np.maximum(self._pairs(outputs, marginals.temperature), TINY))
        step = np.minimum(pair - np.concatenate([[0.0], alone[:-1]]), 0.0)
        total = np.cumsum(np.concatenate([[0.0], step]))
        return np.asarray(np.exp(alone[starts] + total[stops] - total[starts + 1]))

    def _pairs(self, outputs: Outputs, temperature: float) -> Floats:
        """How probable each token's label is together with the one before it; 1 at the first token of a sentence."""
        L = self.structure.labels
        pair = np.ones(len(outputs))
        tokens = self.structure.sites(self.ptr)[1].tokens
        assert tokens is not None
        site = np.searchsorted(tokens, self.ptr)

        def work(first: int, last: int) -> None:
            """Edges that share a row are told apart: each gets a row of its own, for this span only."""
            ptr = self.ptr[first : last + 1] - self.ptr[first]
            row = edge_rows(self.rows)[site[first] : site[last]]
            parts = (self.parts[0][self.ptr[first] : self.ptr[last]], self.parts[1][row])
            own = (None, np.arange(len(row), dtype=np.int32))
            span = (0, last - first)
            _, found = self.structure.marginals(
                parts, own, ptr, span, np.zeros(last - first), scale=1 / temperature
            )
            at = tokens[site[first] : site[last]]
            pair[at] = found.count[np.arange(len(at)), outputs[at - 1] * L + outputs[at]]

        threads.over_sentences(work, self.ptr)
        return pair

    def evaluate(self, outputs: Outputs) -> Floats:
        """The score of given outputs, for each sentence. float64[S]"""
        return self.structure.evaluate(self.parts, self.rows, self.ptr, outputs)

    def _without(self, ability: str) -> IncompatibleError:
        return IncompatibleError(f"structure {self.structure.name!r} has no way to {ability}")


def _check(values: Floats) -> None:
    """Refuses sentences whose best outputs use a forbidden part."""
    wrong = np.flatnonzero(values < IMPOSSIBLE)
    if len(wrong):
        raise InfeasibleError(int(wrong[0]))
