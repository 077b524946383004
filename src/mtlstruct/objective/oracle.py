"""Everything a solver may ask of the data: scores, the most violated outputs, and feature counts.

An oracle is built from the adjoint pair (linear) and one structure; a solver sees nothing else, so
the same solver runs on sequences and trees, on one machine and over shards. Weights come as (u,
scale) with w_j = scale_j · u_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system import threads
from mtlstruct.features.duplicate_columns import MergedColumns, merge
from mtlstruct.features.encoded import Encoded
from mtlstruct.linear import products as linear
from mtlstruct.linear.weight_layout import aligned_zeros, padded
from mtlstruct.structures.base import Batch, Parts, RowCounts, Structure, Triplets

Weights = list[NDArray[Any]]
"""For each kind an array [attributes + 1, width ≥ parts], or [features + 1, 1] where attributes
have features with some labels only (support.py); the last row stays zero."""


@dataclass(frozen=True)
class Hinge:
    """Σ_i max_y' [Δ(y_i, y') + w·Φ(y') − w·Φ(y_i)], its slope along the scale of w, and the y'."""

    total: float
    slope: float
    loss: float
    outputs: NDArray[np.int32]


@dataclass(frozen=True)
class Likelihood:
    """−log p(y_i) of each sentence, its slope along the scale of w, expected less gold counts.

    losses     float64[S]
    counts     for each kind floats [rows, parts]: Aᵀ·counts is the gradient of the sum of losses
    variance   Σ p·(1 − p) over parts of the first kind: an estimate of the curvature
    """

    losses: NDArray[np.float64]
    slope: float
    counts: list[NDArray[np.floating]]
    variance: float

    @property
    def total(self) -> float:
        """Σ_i −log p(y_i)."""
        return float(self.losses.sum())

    @property
    def entropy(self) -> float:
        """Σ_i of the entropy of p_i: −E[log p] = log Z − E[score]."""
        return self.total - self.slope


@dataclass(frozen=True)
class Violation:
    """One output of a sentence: its loss, its margin below gold, and its parts less gold's."""

    outputs: NDArray[np.int32]
    loss: float
    margin: float
    difference: tuple[Triplets, ...]


@dataclass
class Oracle:
    """The training data as a solver sees it.

    gold          int32[T]
    cost          float32[choices, choices]: the cost of a choice, given the right one
    temperature   of the loss: 0 for the hinge, 1 for the log loss
    """

    structure: Structure
    encoded: Encoded
    gold: NDArray[np.int32]
    cost: NDArray[np.float32]
    temperature: float = 0.0
    sentences: int = field(init=False)
    templates: int = field(init=False)

    def __post_init__(self) -> None:
        self.sentences = len(self.encoded.ptr) - 1
        self.templates = self.encoded.templates

    def zeros(self) -> Weights:
        """Return zero weights: nodes float32 padded to cache lines, edges (few, large) float64."""
        widths = self.structure.widths()
        (rows, node), *rest = (
            d.layout.weight_shape(w) for d, w in zip(self.encoded.designs, widths, strict=True)
        )
        first: Weights = [aligned_zeros(rows, padded(node))]
        return first + [np.zeros(shape, np.float64) for shape in rest]

    @property
    def features(self) -> int:
        """How many weights there are to learn."""
        widths = self.structure.widths()
        return sum(d.layout.features(width) for d, width in zip(self.encoded.designs, widths, strict=True))

    def part_shapes(self) -> list[tuple[int, int]]:
        """The shape of the part scores of each kind: rows, parts."""
        widths = self.structure.widths()
        return [(design.rows, width) for design, width in zip(self.encoded.designs, widths, strict=True)]

    def score(self, weights: Weights, scale: NDArray[np.float64]) -> Parts:
        """Part scores A·w of the whole corpus."""
        return self.encoded.score(weights, scale, self.structure.widths())

    def hinge(self, parts: Parts, scale: float = 1.0) -> Hinge:
        """The most violated outputs under scale·parts, and by how much (the paper's (9))."""
        structure, batch = self.structure, Batch(parts, self.encoded.rows, self.encoded.ptr)
        outputs = np.zeros(len(self.gold), np.int32)
        values = np.zeros(self.sentences)

        def work(first: int, last: int) -> None:
            span = (first, last)
            structure.decode(batch, span, outputs, values, scale=scale, gold=self.gold, cost=self.cost)

        threads.over_sentences(work, batch.ptr)
        gold = structure.evaluate(batch, self.gold)
        hinges = np.maximum(values - scale * gold, 0.0)
        loss = self.loss(outputs)
        total = float(hinges.sum())
        return Hinge(total, (total - loss) / scale, loss, outputs)

    def loss(self, outputs: NDArray[np.int32]) -> float:
        """Σ_i Δ(y_i, outputs_i)."""
        return float(self.structure.losses(outputs, self.gold, self.cost, self.encoded.ptr).sum())

    def risk(self, parts: Parts, scale: float = 1.0) -> tuple[float, float]:
        """Return the sum of the losses under scale·parts, and its slope along the scale."""
        T = self.temperature
        if T == 0:
            hinge = self.hinge(parts, scale)
            return hinge.total, hinge.slope
        scaled = tuple(np.float32(scale / T) * part for part in parts)
        if self.cost.any():
            scaled[0][:, : len(self.cost)] += self.cost[self.gold] / np.float32(T)
        found = self.likelihood(scaled)
        return T * found.total, self.inner(found.counts, parts)

    def likelihood(self, parts: Parts) -> Likelihood:
        """How improbable gold is under p ∝ exp(score), and which way to change that."""
        encoded, structure = self.encoded, self.structure
        batch = Batch(parts, encoded.rows, encoded.ptr)
        log_partition = np.zeros(self.sentences)

        counts: list[NDArray[np.floating]] = [
            np.zeros(part.shape, np.float32 if rows is None else np.float64)
            for part, rows in zip(parts, encoded.rows, strict=True)
        ]

        def work(first: int, last: int) -> list[tuple[RowCounts, NDArray[np.floating]]]:
            """Add what belongs to rows of these sentences alone; return the rest with its place."""
            found = structure.marginals(batch, (first, last), log_partition, gold=self.gold)
            shared = []
            for some, table, rows in zip(found, counts, encoded.rows, strict=True):
                if rows is None:
                    some.add_to(table)
                else:
                    shared.append((some, table))
            return shared

        for chunk in threads.over_sentences(work, encoded.ptr):  # in order, so that bits do not vary
            for some, table in chunk:
                some.add_to(table)
        slope = self.inner(counts, parts)
        gold = structure.evaluate(batch, self.gold)
        off = np.abs(counts[0])  # p, or 1 − p where gold is
        variance = float(np.sum(off * (1 - off), dtype=np.float64))
        return Likelihood(log_partition - gold, slope, counts, variance)

    def violated(
        self, sentence: int, weights: Weights, scale: NDArray[np.float64] | None = None
    ) -> Violation:
        """Return the best output of one sentence against gold, with its loss added."""
        structure, encoded = self.structure, self.encoded
        start, end = encoded.ptr[sentence : sentence + 2]
        gold, span = self.gold[start:end], np.array([0, end - start])
        sites = [np.arange(*ptr[sentence : sentence + 2]) for ptr in self._site_ptr]
        rows = [
            site if row is None else row[site].astype(np.int64)
            for site, row in zip(sites, encoded.rows, strict=True)
        ]
        parts = tuple(
            linear.score_some_rows(design, u, row, width, scale)
            for design, u, row, width in zip(encoded.designs, weights, rows, structure.widths(), strict=True)
        )
        # here each site has a row of its own, whether it shares one in A or not
        apart = tuple(np.arange(len(row), dtype=np.int32) for row in rows)
        outputs, value, batch = np.zeros(len(gold), np.int32), np.zeros(1), Batch(parts, apart, span)
        structure.decode(batch, (0, 1), outputs, value, gold=gold, cost=self.cost)
        loss = float(structure.losses(outputs, gold, self.cost, span)[0])
        margin = float(structure.evaluate(batch, gold)[0] - value[0]) + loss
        found = structure.indicator(outputs, gold, apart, span)
        difference = tuple(replace(t, row=row[t.row]) for t, row in zip(found, rows, strict=True))
        return Violation(outputs, loss, margin, difference)

    @cached_property
    def _site_ptr(self) -> tuple[NDArray[np.int64], ...]:
        return self.structure.site_ptr(self.encoded.ptr)

    def step(
        self, violation: Violation, size: NDArray[np.float64], weights: Weights, N: NDArray[np.float64]
    ) -> None:
        """Add size_j·(features of gold − of the output) to weights_j; update N_j = ‖weights_j‖²."""
        for design, t, u in zip(self.encoded.designs, violation.difference, weights, strict=True):
            linear.add_scaled_rows(design, t.row, t.part, t.count, -size, u, N)

    def block(self, weights: Weights, j: int) -> NDArray[Any]:
        """weights_j."""
        kind, first, last = self.blocks[j]
        return weights[kind][first:last]

    @cached_property
    def blocks(self) -> dict[int, tuple[int, int, int]]:
        """Where each template's weights are: kind, first and last row."""
        return {
            int(j): (kind, int(first), int(last))
            for kind, design in enumerate(self.encoded.designs)
            for j, first, last in zip(
                design.layout.templates,
                design.layout.weight_ptr[:-1],
                design.layout.weight_ptr[1:],
                strict=True,
            )
        }

    def indicator(self, outputs: NDArray[np.integer]) -> tuple[Triplets, ...]:
        """Parts of outputs − parts of gold."""
        return self.structure.indicator(
            outputs.astype(np.int32, copy=False), self.gold, self.encoded.rows, self.encoded.ptr
        )

    def count(self, counts: Sequence[NDArray[Any]], weights: Weights) -> None:
        """weights := Aᵀ·counts."""
        for design, z, out in zip(self.encoded.designs, counts, weights, strict=True):
            out[:] = 0
            linear.count(design, np.ascontiguousarray(z, np.float32), out)

    def squared_norms(self, weights: Weights) -> NDArray[np.float64]:
        """‖u_j‖² of each template."""
        return linear.squared_norms(self.encoded.designs, weights, self.templates)

    def absolute_sums(self, weights: Weights) -> NDArray[np.float64]:
        """‖u_j‖₁ of each template."""
        return linear.absolute_sums(self.encoded.designs, weights, self.templates)

    def mix(self, a: float, x: Parts, b: float, y: Parts) -> Parts:
        """a·x + b·y of part scores."""
        return tuple((a * p + b * q).astype(np.float32) for p, q in zip(x, y, strict=True))

    def inner(self, counts: Sequence[NDArray[Any]], parts: Parts) -> float:
        """⟨counts, parts⟩: how the sum of losses changes along these scores."""
        return sum(
            float(np.einsum("rp,rp->", z, part, dtype=np.float64))
            for z, part in zip(counts, parts, strict=True)
        )

    @property
    def tokens(self) -> int:
        """T, over all sentences."""
        return int(self.encoded.ptr[-1])

    def small(self) -> Oracle:
        """Return the oracle on merged attributes: those that fire at the same sites are one."""
        return replace(self, encoded=self.merged.encoded)

    @cached_property
    def merged(self) -> MergedColumns:
        """The data with attributes that fire at the same sites merged; computed on first use."""
        return merge(self.encoded)
