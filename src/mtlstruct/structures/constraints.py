"""Constraints on labelings: pairs of labels that may not follow each other, labels that are given.

A structure turns constraints into part scores that no best path can have (`Structure.restrict`), so
that the best labeling, the N best and probabilities all satisfy them. Letters: T tokens, L labels.

A rule is a text, "O>I-PER": no I-PER after O. `*` stands for any characters, and an empty side for
the edge of a sentence: ">I-*" forbids such labels at the start of a sentence. Errors: rules that
match no label; for `valid_chunks`, labels that do not mark chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct.structures.label_rules import allowed_pairs, chunk_pairs

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Constraints:
    """Allowed labels and pairs of labels; `a & b` allows what both allow.

    Parameters
    ----------
    pairs : bool[L+1, L+1], optional
        The allowed pairs (label, next label); all by default. Row L is the edge before the first
        token of a sentence, column L the edge after the last.
    labels : bool[T, L], optional
        The labels that each token of a corpus may have; all by default.
    """

    pairs: Mask | None = None
    labels: Mask | None = None

    def __and__(self, other: Constraints) -> Constraints:
        return Constraints(_both(self.pairs, other.pairs), _both(self.labels, other.labels))

    @classmethod
    def from_labels(cls, given: NDArray[np.int32], labels: int) -> Constraints:
        """Allow only the given label of each token, int32[T]; negative where any is allowed."""
        return cls(labels=(given[:, None] < 0) | (given[:, None] == np.arange(labels)))

    @classmethod
    def from_boundaries(cls, starts: NDArray[np.int64], tokens: int, labels: Sequence[str]) -> Constraints:
        """End all chunks before each of the tokens `starts`, as at the edge of a sentence."""
        pairs = cls.valid_chunks(labels).pairs
        assert pairs is not None
        allowed = np.ones((tokens, len(labels)), bool)
        allowed[starts] &= pairs[-1, :-1]
        allowed[starts[starts > 0] - 1] &= pairs[:-1, -1]
        return cls(labels=allowed)

    @classmethod
    def from_rules(cls, rules: Iterable[str], labels: Sequence[str]) -> Constraints:
        """Allow all pairs except those that a rule forbids."""
        return cls(np.array(allowed_pairs(rules, labels), bool))

    @classmethod
    def valid_chunks(cls, labels: Sequence[str]) -> Constraints:
        """Allow only well-formed chunks: I-X continues a chunk X, and chunks that begin also end.

        The scheme follows from the labels. With E (or L) among them, chunks end with it; then a
        chunk of one token is S (or U, W), or B if there is none of these. M is the same as I. The
        type is what follows the first hyphen.
        """
        return cls(np.array(chunk_pairs(labels), bool))


def _both(a: Mask | None, b: Mask | None) -> Mask | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
