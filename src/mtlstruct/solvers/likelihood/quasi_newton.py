"""Vector-free L-BFGS directions, the line search, and arithmetic on long vectors.

A pair is a step s and the change y of the gradient along it. The direction −H·g comes from the two-loop
recursion (Nocedal 1980), run on inner products alone as in vector-free L-BFGS (Chen, Wang and Zhou,
"Large-scale L-BFGS using MapReduce", NIPS 2014): every vector in it is a combination of g and the pairs,
so only coefficients are computed, and each vector is read once.

Vectors are float32, since there may be many millions of weights, and are overwritten, since allocating
costs as much as the arithmetic. Inner products are summed in double, in chunks of fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel
from mtlstruct._system import disk_arrays, threads
from mtlstruct._system.stateful import Stateful

Vector = NDArray[np.float32]

CHUNK_ENTRIES = 1 << 16
"""Entries of a vector that one thread works on at a time."""

TILE_ENTRIES = 1 << 9
"""Entries that are summed in double at a time: few enough to stay in the first-level cache."""


class Pairs(Stateful):
    """The last pairs (s, y) of vectors with `size` entries, at most `capacity`."""

    state_fields = ("rows", "products", "squares", "order")

    def __init__(self, capacity: int, size: int) -> None:
        self.capacity = capacity
        self.rows = disk_arrays.zeros(
            (2 * capacity, size), np.float32
        )  # s_i in row i, y_i in row capacity + i
        self.products = np.zeros((capacity, capacity))  # ⟨s_i, y_k⟩
        self.squares = np.zeros((capacity, capacity))  # ⟨y_i, y_k⟩
        self.order: list[int] = []  # places, oldest first

    def push(self, step: Vector, change: Vector) -> None:
        """Store a pair, in place of the oldest if there are enough; skip one without curvature."""
        if dot(step, change) <= 1e-12 * dot(change, change):
            return
        place = len(self.order) if len(self.order) < self.capacity else self.order.pop(0)
        self.order.append(place)
        self.rows[place], self.rows[self.capacity + place] = step, change
        self.products[self.order, place] = dots(self.rows, self.order, change)
        self._update_products(place)

    def vectors(self) -> list[tuple[Vector, Vector]]:
        """Return s and y of each pair, oldest first."""
        return [(self.rows[k], self.rows[self.capacity + k]) for k in self.order]

    def refresh(self) -> None:
        """Recompute the inner products after the rows were changed."""
        for place in self.order:
            self._update_products(place)

    def direction(self, gradient: Vector, out: Vector) -> None:
        """Write −H·g into out."""
        inner = dots(self.rows, [*self.order, *self._changes], gradient)
        at = np.ix_(self.order, self.order)
        own, along, across = two_loops(
            self.products[at], self.squares[at], *np.split(inner, [len(self.order)])
        )
        weights = np.zeros(2 * self.capacity)
        weights[self.order], weights[self._changes] = along, across
        combine(-own, gradient, -weights, self.rows, out)

    @property
    def _changes(self) -> list[int]:
        """Rows of the y, oldest first."""
        return [self.capacity + place for place in self.order]

    def _update_products(self, place: int) -> None:
        step, change = self.rows[place], self.rows[self.capacity + place]
        self.products[place, self.order] = dots(self.rows, self._changes, step)
        squares = dots(self.rows, self._changes, change)
        self.squares[place, self.order] = self.squares[self.order, place] = squares


def two_loops(
    products: NDArray[np.float64],
    squares: NDArray[np.float64],
    S: NDArray[np.float64],
    Y: NDArray[np.float64],
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return own, along, across with H·g = own·g + Σ along_i·s_i + Σ across_i·y_i, pairs oldest first.

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
    phi: Callable[[float], tuple[float, float]], value: float, slope: float, step: float, trials: int = 20
) -> float:
    """Return a step that satisfies the weak Wolfe conditions along a convex function; 0 if none is found.

    phi(step) gives value and slope; `value` and `slope` are those at 0.
    """
    low, low_slope, high, high_slope = 0.0, slope, np.inf, 0.0
    for _ in range(trials):
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
    """Return where the line through the slopes crosses zero, kept off the ends."""
    share = low_slope / (low_slope - high_slope) if high_slope > 0 else 0.5
    return low + (high - low) * float(np.clip(share, 0.1, 0.9))


def dot(a: Vector, b: Vector) -> float:
    """Return a·b in double."""
    return float(dots(a[None], [0], b)[0])


def dots(rows: NDArray[np.float32], which: Sequence[int], vector: Vector) -> NDArray[np.float64]:
    """Return ⟨rows_k, vector⟩ in double, for each k of `which`; the vector is read once."""
    some = np.array(which, np.int64)
    sums = threads.in_order(lambda chunk: _dots(chunk.start, rows, some, vector[chunk]), _chunks(len(vector)))
    return np.asarray(np.sum(sums, axis=0))


def combine(
    own: float, vector: Vector, weights: NDArray[np.float64], rows: NDArray[np.float32], out: Vector
) -> None:
    """Write own·vector + Σ_k weights_k·rows_k into out, which may be the vector."""
    threads.in_order(
        lambda chunk: _combine(chunk.start, own, vector[chunk], weights, rows, out[chunk]),
        _chunks(len(vector)),
    )


def blend(a: float, x: Vector, b: float, y: Vector) -> None:
    """Replace x by a·x + b·y."""
    combine(a, x, np.array([b]), y[None], x)


def _chunks(size: int) -> list[slice]:
    return [slice(at, min(at + CHUNK_ENTRIES, size)) for at in range(0, size, CHUNK_ENTRIES)]


# ---------------------------------------------------------------- kernels


# rows are passed whole: the compiler cannot see that columns of a slice are contiguous


@fast_kernel
def _dots(first, rows, which, vector):
    out = np.zeros(len(which))
    for j in range(len(which)):
        row = rows[which[j]]
        total = 0.0
        for i in range(len(vector)):
            total += np.float64(row[np.uint64(first + i)]) * np.float64(vector[i])
        out[j] = total
    return out


@fast_kernel
def _combine(first, own, vector, weights, rows, out):
    total = np.empty(TILE_ENTRIES)
    for at in range(0, len(out), TILE_ENTRIES):
        size = min(TILE_ENTRIES, len(out) - at)
        for i in range(size):
            total[i] = own * np.float64(vector[np.uint64(at + i)])
        for k in range(len(weights)):
            if weights[k] != 0:
                row = rows[k]
                for i in range(size):
                    total[i] += weights[k] * np.float64(row[np.uint64(first + at + i)])
        for i in range(size):
            out[np.uint64(at + i)] = total[i]
