"""Build the model of a fit: the weights that are not zero, and the metadata of the training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import disk_arrays, threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.pruning import prune
from mtlstruct.linear.label_support import LabelSupport
from mtlstruct.model.model import Index, Model
from mtlstruct.solvers import Fit
from mtlstruct.structures import Structure
from mtlstruct.training.methods import loss_function, parameters, regularizer, solver_name
from mtlstruct.training.options import Options

STORED = ("task", "method", "seed", "min_count", "share_identical", "scaling", "label_support")
"""Options that a model stores as they are."""

CHUNK_ROWS = 16384
"""Rows of weights that a thread reads at a time."""


def build_model(
    corpus: Corpus, structure: Structure, encoded: Encoded, index: Index, fit: Fit, options: Options
) -> Model:
    """Return the model of a fit; only weights that are not zero are copied."""
    seen = _seen(index, encoded, structure)
    encoded, fit = _with_all_pairs(encoded, fit)
    blocks = blocks_of(encoded, fit, structure)
    small, live = prune(index, [block.used for block in blocks])
    stacks, weights = _stacks(blocks, live, index, encoded, structure)
    threads.in_order(lambda j: blocks[j].write(weights[j]), live)
    norm, features = np.zeros(len(blocks)), np.zeros(len(blocks), np.int64)
    for j, table in weights.items():
        norm[j] = math.sqrt(float(np.einsum("ay,ay->", table, table, dtype=np.float64)))
        features[j] = np.count_nonzero(table)
    factors = {}
    if index.factors is not None:
        factors = {str(j): float(index.factors[j]) for j in np.flatnonzero(index.factors != 1)}
    for j in weights.keys() & {int(number) for number in factors}:  # values of new text are not scaled
        weights[j] *= np.float32(factors[str(j)])
    return Model(
        structure=structure,
        labels=corpus.labels if corpus.conversion is None else corpus.conversion.labels,
        templates=index.templates,
        live=tuple(live),
        index=_with_support(small, [blocks[j] for j in live], encoded.designs[0].layout.support),
        weights=stacks,
        mu=fit.mu,
        norm=norm,
        features=features,
        facts=_facts(corpus, fit, options)
        | {"seen": seen}
        | ({} if corpus.conversion is None else {"scheme": corpus.conversion.facts})
        | ({"factors": factors} if factors else {})
        | ({"names": list(corpus.names)} if corpus.names else {}),
    )


def _with_all_pairs(encoded: Encoded, fit: Fit) -> tuple[Encoded, Fit]:
    """Return layout and weights of all pairs of labels, 0 for those that were not seen."""
    designs, weights = list(encoded.designs), list(fit.weights)
    for kind, design in enumerate(designs[1:], 1):
        layout = design.layout
        if layout.support is not None:
            dense = layout.support.dense(weights[kind], np.arange(layout.attributes))
            weights[kind] = np.concatenate([dense, np.zeros((1, layout.support.width), np.float32)])
            designs[kind] = replace(design, layout=replace(layout, support=None))
    return replace(encoded, designs=tuple(designs)), replace(fit, weights=weights)


def observed_attributes(index: Index) -> int:
    """Return the number of attributes of all templates with terms (the bare B has none)."""
    return sum(int(n) for t, n in zip(index.templates, index.sizes, strict=True) if t.terms)


def _seen(index: Index, encoded: Encoded, structure: Structure) -> list[int]:
    """Return the number of features of each template in training, zero weights included."""
    width = dict(zip(encoded.kinds, structure.widths(), strict=True))
    found = [int(size) * width[kind] for size, kind in zip(index.sizes, index.kinds, strict=True)]
    for design in encoded.designs:
        if design.layout.support is not None:
            for j, count in zip(design.layout.templates, np.diff(design.layout.weight_ptr), strict=True):
                found[j] = int(count)
    return found


def _facts(corpus: Corpus, fit: Fit, options: Options) -> dict[str, Any]:
    return {
        **{name: getattr(options, name) for name in STORED},
        "tags": options.tags,
        "loss": options.loss_name,
        "solver": solver_name(options),
        "c": options.c_value,
        "p": None,
        **parameters(options),
        "loss_weights": dict(options.loss_weights),
        **({"transition_support": "seen"} if options.transition_support == "seen" else {}),
        **({"shards": options.shards} if options.shards > 1 else {}),
        "columns": len(corpus.columns),
        "sentences": len(corpus),
        "tokens": corpus.tokens,
        "sparse": regularizer(options).sparse,
        **fit.figures(),
        **({"temperature": 1.0} if loss_function(options).probabilistic else {}),
    }


@dataclass(frozen=True)
class Block:
    """Weights u_j·scale_j of a template: a row per attribute, or per feature with a label support.

    table     weights of all templates of a kind
    which     the rows of the table that are u_j
    nonzero   bool: which rows of the table are not all zeros
    ptr       int64[attributes + 1]: first feature of each attribute; empty if a row is an attribute
    labels    int32[features]: the label of each feature
    """

    table: NDArray[Any]
    which: slice | NDArray[np.int32]
    nonzero: NDArray[np.bool_]
    scale: float
    ptr: NDArray[np.int64]
    labels: NDArray[np.int32]

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Which rows have a weight."""
        found = self.nonzero[self.which]
        return found if self.scale != 0 else np.zeros_like(found)

    def write(self, out: NDArray[np.float32]) -> None:
        """Write the rows of w_j that have a weight."""
        live, which = np.flatnonzero(self.live), self.which
        source = live + which.start if isinstance(which, slice) else which[live]
        for first in range(0, len(live), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            out[rows] = self.scale * self.table[source[rows]]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of features with a weight of each attribute, where rows are features."""
        return np.diff(np.append(0, np.cumsum(self.live))[self.ptr])

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which attributes have a weight."""
        return self.live if len(self.ptr) == 0 else self.counts > 0


def blocks_of(encoded: Encoded, fit: Fit, structure: Structure) -> list[Block]:
    """Return the block of each template."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int32)
    out = [Block(np.zeros((0, 0)), slice(0), np.zeros(0, bool), 0.0, *none)] * encoded.templates
    for design, u, width in zip(encoded.designs, fit.weights, structure.widths(), strict=True):
        layout = design.layout
        table = u[:, : layout.weight_shape(width)[1]]
        nonzero = _nonzero_rows(table)
        ends = zip(pairwise(layout.block_ptr), pairwise(layout.weight_ptr), strict=True)
        for j, ((first, last), (low, high)) in zip(layout.templates, ends, strict=True):
            ptr, labels = none
            if layout.support is not None:
                ptr, labels = layout.support.ptr[first : last + 1] - low, layout.support.labels[low:high]
            which = slice(low, high) if layout.singletons is None else layout.singletons.row_of[low:high]
            out[j] = Block(table, which, nonzero, float(fit.scale[j]), ptr, labels)
    return out


def _nonzero_rows(table: NDArray[Any]) -> NDArray[np.bool_]:
    parts = [table[first : first + CHUNK_ROWS] for first in range(0, len(table), CHUNK_ROWS)]
    found = threads.in_order(lambda rows: np.any(rows != 0, axis=1), parts)
    return np.concatenate([np.zeros(0, bool), *found])


def _with_support(index: Index, live: Sequence[Block], support: LabelSupport | None) -> Index:
    """Return the index with the part of the label support that has a weight."""
    if support is None or isinstance(index, ArcIndex):
        return index
    listed = [block for block in live if len(block.ptr)]
    counts = np.concatenate([*(block.counts[block.used] for block in listed), [0]]).astype(np.int64)
    labels = [np.zeros(0, np.int32), *(block.labels[block.live] for block in listed)]
    ptr = np.append(0, np.cumsum(counts)).astype(np.int64)
    return replace(index, support=LabelSupport(ptr, np.concatenate(labels), support.width))


def _stacks(
    blocks: Sequence[Block], live: Sequence[int], index: Index, encoded: Encoded, structure: Structure
) -> tuple[tuple[NDArray[np.float32], ...], dict[int, NDArray[np.float32]]]:
    """Return zero weights of each kind, with a row for the null attribute, and their blocks."""
    stacks = []
    views: dict[int, NDArray[np.float32]] = {}
    for kind, design, width in zip(encoded.kinds, encoded.designs, structure.widths(), strict=True):
        own = [j for j in live if index.kinds[j] == kind]
        ends = np.append(0, np.cumsum([np.count_nonzero(blocks[j].live) for j in own])).astype(np.int64)
        stacks.append(
            disk_arrays.zeros((int(ends[-1]) + 1, design.layout.weight_shape(width)[1]), np.float32)
        )
        views |= {j: stacks[-1][a:b] for j, (a, b) in zip(own, pairwise(ends.tolist()), strict=True)}
    return tuple(stacks), {j: views[j] for j in live}
