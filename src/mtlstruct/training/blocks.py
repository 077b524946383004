"""The weights of a fit, template by template, and what a model keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear.label_support import Support
from mtlstruct.model.model import Index
from mtlstruct.solvers import Fit
from mtlstruct.structures import Structure

SPAN = 16384
"""Rows of weights that a thread looks at together."""


@dataclass(frozen=True)
class Block:
    """u_j and scale_j: a row an attribute; or a feature, with the features and labels of its attributes.

    table   weights of all templates of a kind, and which of its rows are u_j
    alive   bool: which rows of the table have a weight that is not zero
    own     int64[attributes + 1]: where the features of each attribute begin, empty if a row is an attribute
    of      int32[features]: the label of each
    """

    table: NDArray[Any]
    which: slice | NDArray[np.int32]
    alive: NDArray[np.bool_]
    scale: float
    own: NDArray[np.int64]
    of: NDArray[np.int32]

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Which rows have a weight."""
        found = self.alive[self.which]
        return found if self.scale != 0 else np.zeros_like(found)

    def weights(self) -> NDArray[np.float32]:
        """w_j, as far as rows have a weight."""
        which = self.which
        rows = self.table[which][self.kept] if isinstance(which, slice) else self.table[which[self.kept]]
        found: NDArray[np.float32] = (self.scale * rows).astype(np.float32)
        return found

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many features of each attribute have a weight, where rows are features."""
        return np.diff(np.append(0, np.cumsum(self.kept))[self.own])

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which attributes have a weight."""
        return self.kept if len(self.own) == 0 else self.counts > 0


def blocks_of(encoded: Encoded, fit: Fit, structure: Structure) -> list[Block]:
    """All templates, whatever their kind."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int32)
    out = [Block(np.zeros((0, 0)), slice(0), np.zeros(0, bool), 0.0, *none)] * encoded.templates
    for design, u, width in zip(encoded.designs, fit.weights, structure.widths(), strict=True):
        table = u[:, : design.weight_shape(width)[1]]
        alive = _alive(table)
        for j, (first, last), (low, high) in zip(
            design.templates, pairwise(design.block_ptr), pairwise(design.weight_ptr), strict=True
        ):
            own, of = none
            if design.support is not None:
                own = design.support.ptr[first : last + 1] - low
                of = design.support.labels[low:high]
            which = slice(low, high) if design.fold is None else design.fold.number[low:high]
            out[j] = Block(table, which, alive, float(fit.scale[j]), own, of)
    return out


def _alive(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are not all zeros."""
    found = np.empty(len(table), bool)

    def work(first: int) -> None:
        rows = slice(first, first + SPAN)
        np.any(table[rows] != 0, axis=1, out=found[rows])

    threads.in_order(work, range(0, len(table), SPAN))
    return found


def with_support(index: Index, live: Sequence[Block], support: Support | None) -> Index:
    """The index of a model, which keeps of the support what has a weight."""
    if support is None or isinstance(index, ArcIndex):
        return index
    listed = [block for block in live if len(block.own)]
    counts = np.concatenate([*(block.counts[block.used] for block in listed), [0]]).astype(np.int64)
    labels = [np.zeros(0, np.int32), *(block.of[block.kept] for block in listed)]
    ptr = np.append(0, np.cumsum(counts)).astype(np.int64)
    return replace(index, support=Support(ptr, np.concatenate(labels), support.width))


def stacked(
    blocks: dict[int, NDArray[np.float32]], index: Index, encoded: Encoded, structure: Structure
) -> tuple[NDArray[np.float32], ...]:
    """Blocks of each kind one below the other, and the zero row of the null attribute."""
    return tuple(
        np.concatenate(
            [
                *(b for j, b in blocks.items() if index.kinds[j] == kind),
                np.zeros((1, design.weight_shape(width)[1]), np.float32),
            ]
        )
        for kind, design, width in zip(encoded.kinds, encoded.designs, structure.widths(), strict=True)
    )
