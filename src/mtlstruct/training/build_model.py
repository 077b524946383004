"""Build the model of a fit: the weights that are not zero, and the metadata of the training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.pruning import compact
from mtlstruct.linear.label_support import Support
from mtlstruct.model.model import Index, Model
from mtlstruct.solvers import Fit
from mtlstruct.structures import Structure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import exponent, method_spec, regularizer, solver_of
from mtlstruct.training.options import Options

SPAN = 16384
"""Rows of weights that a thread looks at together."""


def build_model(
    corpus: Corpus,
    templates: TemplateSet,
    structure: Structure,
    encoded: Encoded,
    index: Index,
    fit: Fit,
    options: Options,
) -> Model:
    """The compacted model of a fit: only what has a weight is copied, so this takes little memory."""
    views = blocks_of(encoded, fit, structure)
    small, live = compact(index, [view.used for view in views])
    kept = dict(zip(live, threads.in_order(lambda j: views[j].weights(), live), strict=True))
    norm, features = np.zeros(len(templates)), np.zeros(len(templates), np.int64)
    for j, block in kept.items():
        norm[j] = math.sqrt(float(np.einsum("ay,ay->", block, block, dtype=np.float64)))
        features[j] = np.count_nonzero(block)
    factors = _factors(index)
    for j in kept.keys() & {int(number) for number in factors}:  # text to come has values as they are
        kept[j] *= np.float32(factors[str(j)])
    return Model(
        structure=structure,
        labels=corpus.labels,
        templates=templates,
        live=tuple(live),
        index=_with_support(small, [views[j] for j in live], encoded.designs[0].support),
        weights=stacked(kept, index, encoded, structure),
        mu=fit.mu,
        norm=norm,
        features=features,
        facts=_facts(corpus, fit, options)
        | {"seen": _seen(index, encoded, structure)}
        | left_out(index)
        | ({"factors": factors} if factors else {})
        | ({"names": list(corpus.names)} if corpus.names else {}),
    )


def observed_attributes(index: Index) -> int:
    """Distinct observations: attributes of all templates that look at something (the bare B does not)."""
    return sum(int(n) for t, n in zip(index.templates, index.found, strict=True) if t.terms)


def _seen(index: Index, encoded: Encoded, structure: Structure) -> list[int]:
    """How many features each template had in training, before those without a weight were dropped."""
    width = dict(zip(encoded.kinds, structure.widths(), strict=True))
    found = [int(size) * width[kind] for size, kind in zip(index.found, index.kinds, strict=True)]
    for design in encoded.designs:
        if design.support is not None:
            for j, count in zip(design.templates, np.diff(design.weight_ptr), strict=True):
                found[j] = int(count)
    return found


def _factors(index: Index) -> dict[str, float]:
    """What the values of templates were multiplied by in training, where that is not 1; by number, as JSON has it."""
    if isinstance(index, ArcIndex) or index.factors is None:
        return {}
    return {str(j): float(index.factors[j]) for j in np.flatnonzero(index.factors != 1)}


def left_out(index: Index) -> dict[str, Any]:
    """Templates that training left out because they bring nothing, by number: see arcs.merge."""
    merged = index.merged if isinstance(index, ArcIndex) else None
    if merged is None:
        return {}
    identical = [[j, k] for j, k in sorted(merged.identical.items())]
    return {"constant": list(merged.constant), "identical": identical}


def _facts(corpus: Corpus, fit: Fit, options: Options) -> dict[str, Any]:
    return {
        "task": options.task,
        "tags": options.tags,
        "method": options.method,
        "solver": solver_of(options.method, options.solver),
        "c": options.c,
        "p": exponent(options.method, options.p),
        "seed": options.seed,
        "min_count": options.min_count,
        "loss_weights": dict(options.loss_weights),
        "share_identical": options.share_identical,
        "scaling": options.scaling,
        "label_support": options.label_support,
        **({"shards": options.shards} if options.shards > 1 else {}),
        "columns": len(corpus.columns),
        "sentences": len(corpus),
        "tokens": corpus.tokens,
        "sparse": regularizer(options.method, options.p).sparse,
        **fit.figures(),
        **({"temperature": 1.0} if method_spec(options.method).likelihood else {}),
    }


@dataclass(frozen=True)
class Block:
    """The weights of a template in a fit, u_j·scale_j: a row per attribute, or per feature under a label support.

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
        """Rows that have a weight."""
        found = self.alive[self.which]
        return found if self.scale != 0 else np.zeros_like(found)

    def weights(self) -> NDArray[np.float32]:
        """Return w_j, without the rows that have no weight."""
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
    """Return the block of each template, whatever its kind."""
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
    """Return which rows are not all zeros."""
    found = np.empty(len(table), bool)

    def work(first: int) -> None:
        rows = slice(first, first + SPAN)
        np.any(table[rows] != 0, axis=1, out=found[rows])

    threads.in_order(work, range(0, len(table), SPAN))
    return found


def _with_support(index: Index, live: Sequence[Block], support: Support | None) -> Index:
    """Return the index of a model with the part of the label support that has a weight."""
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
    """Return the blocks of each kind one below the other, with the zero row of the null attribute."""
    return tuple(
        np.concatenate(
            [
                *(b for j, b in blocks.items() if index.kinds[j] == kind),
                np.zeros((1, design.weight_shape(width)[1]), np.float32),
            ]
        )
        for kind, design, width in zip(encoded.kinds, encoded.designs, structure.widths(), strict=True)
    )
