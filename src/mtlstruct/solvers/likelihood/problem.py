"""What the solvers of conditional random fields share: a small problem, its coordinates, and the certificate.

ξ_i is −log p(y_i). L-BFGS and OWL-QN (solver.py) minimise Ω + c·Σξ_i by quasi-Newton steps on the columns
of A that differ (features.duplicate_columns), a fraction of all: merged attribute f stands for its members.

Coordinates. h_f is the variable in which Ω is ½‖h‖² or ‖h‖₁; the weight that scores is share_f·h_f. Curvature grows
with how often an attribute fires, so steps are taken in x = h/stretch, where it is about the same for all.

Certificate. A mixture of distributions p_w is feasible for the dual, with v = c·share·Aᵀ(expected − gold) linear in
it and an entropy that is at least the mean of theirs. Each pass mixes in the p_w of the moment (docs/math.md). One
p_w alone proves little: gradients of successive points swing from side to side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import Keeper, Kept
from mtlstruct.objective.oracle import Likelihood, Oracle, Weights
from mtlstruct.objective.regularizers import Regularizer
from mtlstruct.solvers.base import (
    Callback,
    Fit,
    Record,
    Start,
    Stop,
    active_templates,
    check_finite,
    relative,
    run_passes,
)
from mtlstruct.solvers.likelihood.quasi_newton import PIECE, Pairs, Vector, dot
from mtlstruct.structures.base import Parts

CURVATURE = 0.02
"""p·(1 − p) of a label, as it is on average after the first steps; it is measured as learning goes on."""

FIRST = 8
"""The pass at which curvature is measured first; from then on whenever as many have passed again."""


class Descent(Kept, ABC):
    """One run: the point x, what is known there, and the lower bound. Subclasses know Ω and how to step."""

    kept: ClassVar[tuple[str, ...]] = (
        *("passes", "moved", "x", "gradient", "small", "pairs", "mixed", "gain", "dual", "trace"),
        *("objective", "risk", "curvature"),
    )

    def __init__(
        self, small: Small, regularizer: Regularizer, mu: NDArray[np.float64], pairs: int, init: Start | None
    ) -> None:
        self.small, self.regularizer, self.mu, self.c = small, regularizer, mu, small.c
        self.x = small.vector() if init is None else small.gather(init)
        self.gradient, self.towards, self.v, self.old, self.before = (small.vector() for _ in range(5))
        self.pairs = Pairs(pairs, len(self.x))
        self.mixed = small.vector()  # v of the mixture that gives the lower bound; gold alone at first
        self.gain = 0.0  # c·entropy of the same
        self.dual = 0.0
        self.trace: list[float] = []
        self.passes, self.moved = 0, True

    @abstractmethod
    def step(self) -> bool:
        """To a better point; False where rounding leaves nothing to gain."""

    @abstractmethod
    def omega(self) -> float:
        """Ω at x."""

    @abstractmethod
    def norms(self, weights: Weights) -> NDArray[np.float64]:
        """The norms of blocks that Ω is a function of."""

    @abstractmethod
    def mix(self, gain: float) -> None:
        """Changes `mixed`, `gain` and `dual` for the better, with the help of the distribution that v belongs to."""

    def measure(self, likelihood: Likelihood) -> None:
        """Both bounds at the point, whose v is known."""
        self.objective = self.omega() + self.c * likelihood.total
        self.risk = likelihood.total / self.small.oracle.sentences
        self.trace.append(self.objective)
        rows, width = self.small.oracle.part_shapes()[0]
        self.curvature = likelihood.variance / (rows * width)
        self.mix(self.c * likelihood.entropy)

    def likelihood(self) -> Likelihood:
        """The likelihood at x."""
        return self.small.oracle.likelihood(self.small.score(self.x))

    def first_length(self) -> float:
        """The length of step to try first."""
        return 1.0 if self.pairs.order else 1.0 / max(1.0, float(np.sqrt(dot(self.towards, self.towards))))

    def push_pair(self) -> None:
        """Remember the step from `old`, and the change of the gradient from `before`; both are overwritten."""
        np.subtract(self.x, self.old, out=self.old)
        np.subtract(self.gradient, self.before, out=self.before)
        self.pairs.push(self.old, self.before)

    def _bend(self, curvature: float) -> None:
        """Changes the coordinates to suit the curvature; what is known in the old ones is carried over."""
        ratio = self.small.bend(curvature)
        inverse = [1 / some for some in ratio]
        self.small.over(_scale_rows, self.x, inverse)
        for place in self.pairs.order:
            self.small.over(_scale_rows, self.pairs.rows[place], inverse)
            self.small.over(_scale_rows, self.pairs.rows[self.pairs.most + place], ratio)
        self.small.over(_scale_rows, self.gradient, ratio)
        self.pairs.refresh()

    def run(self, stop: Stop, callback: Callback | None, checkpointer: Keeper | None) -> Fit:
        """Step until the certified gap, or the change of the objective, is small enough."""
        run_passes(self, partial(self._advance, stop), partial(self._ended, stop), callback, checkpointer)
        return self._result(stop)

    def _advance(self, stop: Stop) -> Record:
        self.passes += 1
        if self.passes > FIRST and (self.passes - 1) & (self.passes - 2) == 0:  # after 8, 16, 32 …
            self._bend(self.curvature)
        self.moved = self.step()
        check_finite(self.passes, objective=self.objective, lower_bound=self.dual)
        return self._record(stop)

    def _ended(self, stop: Stop) -> bool:
        """Between passes: whether there is no other."""
        if self.passes == 0:
            return False
        C = self.c * self.small.oracle.sentences
        near = stop.reached(self.objective, self.dual, C) if stop.eta is None else stop.settled(self.trace)
        return near or not self.moved or self.passes == stop.max_passes

    def _record(self, stop: Stop) -> Record:
        gap = relative(self.objective, self.dual)
        active = active_templates(self.mu)
        now = partial(self._result, stop)
        return Record(self.passes, self.objective, self.dual, gap, self.risk, active, True, now)

    def _result(self, stop: Stop) -> Fit:
        """All weights, with the objective computed from them as they are."""
        oracle, weights = self.small.large, self.small.spread(self.x)
        ones = np.ones(oracle.templates)
        found = oracle.likelihood(oracle.score(weights, ones))
        objective = self.regularizer.value(self.norms(weights)) + self.c * found.total
        C = self.c * oracle.sentences
        converged = stop.reached(objective, self.dual, C)
        return Fit.bounded(weights, ones, self.mu, (objective, self.dual), C, self.passes, converged)


class Small(Kept):
    """The small problem. Vectors are flat float32: all parts of the attributes of one kind, then of the next.

    Where attributes have features with some labels only, these are the rows of a table of weights, of one part each.

    mu         the block weights of Ω = ½ Σ_j ‖w_j‖²/mu_j
    absolute   Ω is ‖w‖₁ instead, and h the weight itself
    """

    kept = ("stretch",)

    def __init__(self, oracle: Oracle, mu: NDArray[np.float64], c: float, *, absolute: bool = False) -> None:
        self.large, self.mu, self.c = oracle, mu, c
        self.merged = oracle.merged
        self.oracle = oracle.small()
        self.weights: Weights = self.oracle.zeros()
        parts = oracle.structure.widths()
        shapes = [d.weight_shape(width) for d, width in zip(oracle.encoded.designs, parts, strict=True)]
        self.parts, self.widths = parts, [width for _, width in shapes]
        self.total = self.merged.sums(mu)  # Σ mu_j over the members of f
        squares = [np.ones_like(some) if absolute else some for some in self.total]
        self.share = [np.sqrt(square).astype(np.float32) for square in squares]
        self.stretch = self._stretched(CURVATURE)

    def _stretched(self, curvature: float) -> list[NDArray[np.float32]]:
        """(1 + c·curvature·share²·sites)^−½ of each attribute; there are more parts, each less often, at an edge."""
        often = [
            self.parts[0] / parts * fired for fired, parts in zip(self.merged.fired, self.parts, strict=True)
        ]
        return [
            (1 / np.sqrt(1 + self.c * curvature * share.astype(np.float64) ** 2 * sites)).astype(np.float32)
            for share, sites in zip(self.share, often, strict=True)
        ]

    def bend(self, curvature: float) -> list[NDArray[np.float32]]:
        """New coordinates; how many times the old stretch the new one is, for each attribute."""
        before, self.stretch = self.stretch, self._stretched(curvature)
        return [new / old for new, old in zip(self.stretch, before, strict=True)]

    def vector(self) -> Vector:
        """Zeros."""
        return np.zeros(
            sum(len(some) * width for some, width in zip(self.share, self.widths, strict=True)), np.float32
        )

    def score(self, x: Vector) -> Parts:
        """Part scores of the weights at x."""
        self.over(_load, x, [a * b for a, b in zip(self.share, self.stretch, strict=True)], self.weights)
        return self.oracle.score(self.weights, np.ones(0))

    def slope(self, likelihood: Likelihood, out: Vector) -> None:
        """v, the gradient of c·Σξ_i in h, into out."""
        self.oracle.count(likelihood.counts, self.weights)
        self.over(_unload, out, [np.float32(self.c) * some for some in self.share], self.weights)

    def over(self, kernel: Any, x: Vector, *tables: Any) -> list[float]:
        """kernel(part of x as a table, the same rows of each of `tables`), piece by piece.

        tables are vectors too, or lists with an array for each kind.
        """

        def work(piece: tuple[int, slice, slice, int]) -> float:
            kind, rows, flat, width = piece
            others = [
                table[kind][rows] if isinstance(table, list) else table[flat].reshape(-1, width)
                for table in tables
            ]
            return float(kernel(x[flat].reshape(-1, width), *others) or 0.0)

        return threads.in_order(work, list(self._pieces()))

    def _pieces(self) -> Iterator[tuple[int, slice, slice, int]]:
        at = 0
        for kind, (some, width) in enumerate(zip(self.share, self.widths, strict=True)):
            step = max(1, PIECE // width)
            for first in range(0, len(some), step):
                last = min(first + step, len(some))
                yield kind, slice(first, last), slice(at + first * width, at + last * width), width
            at += len(some) * width

    def spread(self, x: Vector) -> Weights:
        """The weights of all attributes: each merged one is shared out among its members in proportion to mu."""
        self.score(x)
        out = self.large.zeros()
        for j, (kind, first, last) in self.large.blocks.items():
            some = self.merged.number[kind][first:last]
            shares = (self.mu[j] / self.total[kind][some])[:, None]
            out[kind][first:last] = self.weights[kind][some] * shares
        return out

    def gather(self, init: Start) -> Vector:
        """The x at which text scores as it does with the weights given."""
        x = []
        for w, number, width, share, stretch in zip(
            init.weights, self.merged.number, self.widths, self.share, self.stretch, strict=True
        ):
            columns = [np.bincount(number, w[:-1, y], len(share)) for y in range(width)]
            x.append((np.stack(columns, axis=1) / (share * stretch)[:, None]).ravel())
        return np.concatenate(x).astype(np.float32)


def small_bytes(oracle: Oracle, pairs: int) -> int:
    """Bytes of a small problem: its A and weights, the pairs, and seven vectors more."""
    merged = oracle.merged
    shapes = zip(oracle.encoded.designs, oracle.structure.widths(), strict=True)
    widths = [design.weight_shape(width)[1] for design, width in shapes]
    sizes = [len(fired) * width for fired, width in zip(merged.fired, widths, strict=True)]
    ids = sum(design.ids.nbytes + design.ptr.nbytes for design in merged.encoded.designs)
    return ids + 4 * (2 * pairs + 7) * sum(sizes) + 8 * sum(sizes)


# ---------------------------------------------------------------- kernels


@fast_kernel
def _load(x, scale, weights):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            weights[f, y] = scale[f] * x[f, y]


@fast_kernel
def _unload(x, scale, weights):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            x[f, y] = scale[f] * np.float32(weights[f, y])


@fast_kernel
def _scale_rows(x, factor):  # type: ignore[no-untyped-def]
    for f in range(x.shape[0]):
        for y in range(x.shape[1]):
            x[f, y] *= factor[f]
