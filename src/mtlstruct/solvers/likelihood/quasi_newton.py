"""What L-BFGS and OWL-QN share: the pairs of past steps, and the direction that they suggest.

A pair is a step s and the change y of the gradient that it led to. The direction −H·g comes from the two-loop
recursion, run on inner products alone: every vector in it is a combination of g and the pairs, so its
coefficients are all that has to be followed, and each vector is read once.

Vectors are float32, for there may be many millions of weights, and are written in place, for fresh memory costs as
much as the arithmetic. Inner products are summed in double, in pieces of fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system import threads
from mtlstruct._system.stateful import Kept

Vector = NDArray[np.float32]

PIECE = 1 << 16
"""Entries of a vector that are summed by one thread."""

TILE = 1 << 9
"""Entries that are summed in double at a time: few enough to stay in the nearest cache."""


class Pairs(Kept):
    """The last `most` pairs (s, y) of vectors with `size` entries."""

    kept = ("rows", "products", "squares", "order")

    def __init__(self, most: int, size: int) -> None:
        self.most = most
        self.rows = np.zeros((2 * most, size), np.float32)  # s_i in row i, y_i in row most + i
        self.products = np.zeros((most, most))  # ⟨s_i, y_k⟩
        self.squares = np.zeros((most, most))  # ⟨y_i, y_k⟩
        self.order: list[int] = []  # places, oldest first

    def push(self, step: Vector, change: Vector) -> None:
        """Remembers a pair, in the place of the oldest if there is no other. One without curvature is skipped."""
        if dot(step, change) <= 1e-12 * dot(change, change):
            return
        place = len(self.order) if len(self.order) < self.most else self.order.pop(0)
        self.order.append(place)
        self.rows[place], self.rows[self.most + place] = step, change
        self.products[place, self.order] = dots(self.rows, self._changes, step)
        self.products[self.order, place] = dots(self.rows, self.order, change)
        self._square(place)

    def refresh(self) -> None:
        """After the rows were changed: s_i shrunk where y_i grew, so that ⟨s_i, y_k⟩ are the same."""
        for place in self.order:
            self._square(place)

    def direction(self, gradient: Vector, out: Vector) -> None:
        """−H·g, into out."""
        inner = dots(self.rows, [*self.order, *self._changes], gradient)
        at = np.ix_(self.order, self.order)
        own, along, across = two_loops(
            self.products[at], self.squares[at], *np.split(inner, [len(self.order)])
        )
        weights = np.zeros(2 * self.most)
        weights[self.order], weights[self._changes] = along, across
        combine(-own, gradient, -weights, self.rows, out)

    @property
    def _changes(self) -> list[int]:
        """The rows of the y, oldest first."""
        return [self.most + place for place in self.order]

    def _square(self, place: int) -> None:
        found = dots(self.rows, self._changes, self.rows[self.most + place])
        self.squares[place, self.order] = self.squares[self.order, place] = found


def two_loops(
    products: NDArray[np.float64],
    squares: NDArray[np.float64],
    S: NDArray[np.float64],
    Y: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """H·g = own·g + Σ along_i·s_i + Σ across_i·y_i, pairs oldest first: (own, along, across).

    products ⟨s_i, y_k⟩, squares ⟨y_i, y_k⟩, S ⟨s_i, g⟩, Y ⟨y_i, g⟩
    """
    k = len(S)
    alpha, steps = np.zeros(k), np.zeros(k)
    for i in range(k - 1, -1, -1):
        alpha[i] = (S[i] - products[i] @ alpha) / products[i, i]
    own = products[-1, -1] / squares[-1, -1] if k else 1.0
    for i in range(k):
        beta = own * (Y[i] - squares[i] @ alpha) + products[:, i] @ steps
        steps[i] = alpha[i] - beta / products[i, i]
    return own, steps, -own * alpha


def wolfe(
    phi: Callable[[float], tuple[float, float]], value: float, slope: float, step: float, most: int = 20
) -> float:
    """A step along a convex function that goes down enough and flattens enough (weak Wolfe); 0 if there is none.

    phi(step) gives value and slope; `value` and `slope` are those at 0.
    """
    low, low_slope, high, high_slope = 0.0, slope, np.inf, 0.0
    for _ in range(most):
        now, now_slope = phi(step)
        if not now <= value + 1e-4 * step * slope:
            high, high_slope = step, now_slope
        elif now_slope < 0.9 * slope:
            low, low_slope = step, now_slope
        else:
            return step
        step = 2 * step if high == np.inf else _between(low, low_slope, high, high_slope)
    return low


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """Where a line through the slopes crosses zero, kept off the ends."""
    share = low_slope / (low_slope - high_slope) if high_slope > 0 else 0.5
    return low + (high - low) * float(np.clip(share, 0.1, 0.9))


def dot(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """a · b in double."""
    sums = threads.in_order(lambda piece: float(_dot(a[piece], b[piece])), _pieces(len(a)))
    return float(np.sum(sums))


def dots(rows: NDArray[np.float32], which: Sequence[int], vector: Vector) -> NDArray[np.float64]:
    """⟨rows_k, vector⟩ in double, for each k of `which`; the vector is read once."""
    some = np.array(which, np.int64)
    sums = threads.in_order(lambda piece: _dots(piece.start, rows, some, vector[piece]), _pieces(len(vector)))
    return np.asarray(np.sum(sums, axis=0))


def combine(
    own: float, vector: Vector, weights: NDArray[np.float64], rows: NDArray[np.float32], out: Vector
) -> None:
    """out = own·vector + Σ_k weights_k·rows_k; out may be the vector."""
    threads.in_order(
        lambda piece: _combine(piece.start, own, vector[piece], weights, rows, out[piece]),
        _pieces(len(vector)),
    )


def blend(a: float, x: Vector, b: float, y: Vector) -> None:
    """x = a·x + b·y, in place."""
    combine(a, x, np.array([b]), y[None], x)


def _pieces(size: int) -> list[slice]:
    return [slice(at, min(at + PIECE, size)) for at in range(0, size, PIECE)]


# ---------------------------------------------------------------- kernels


@fast_kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


# rows come whole, since a compiler that is given some columns of them cannot know that they lie side by side


@fast_kernel
def _dots(first, rows, which, vector):  # type: ignore[no-untyped-def]
    out = np.zeros(len(which))
    for j in range(len(which)):
        row = rows[which[j]]
        total = 0.0
        for i in range(len(vector)):
            total += np.float64(row[np.uint64(first + i)]) * np.float64(vector[i])
        out[j] = total
    return out


@fast_kernel
def _combine(first, own, vector, weights, rows, out):  # type: ignore[no-untyped-def]
    total = np.empty(TILE)
    for at in range(0, len(out), TILE):
        size = min(TILE, len(out) - at)
        for i in range(size):
            total[i] = own * np.float64(vector[np.uint64(at + i)])
        for k in range(len(weights)):
            if weights[k] != 0:
                row = rows[k]
                for i in range(size):
                    total[i] += weights[k] * np.float64(row[np.uint64(first + at + i)])
        for i in range(size):
            out[np.uint64(at + i)] = total[i]
