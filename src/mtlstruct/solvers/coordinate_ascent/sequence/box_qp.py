"""The best point of a small concave quadratic in a box, by an active set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel

_SHAKY = 1e-7
"""What is added to the diagonal of `gram`, as a share of it: directions may depend on each other."""


def best_in_box(
    gram: NDArray[Any], slope: NDArray[Any], low: NDArray[Any], high: NDArray[Any]
) -> NDArray[np.float64]:
    """The θ that maximises slope·θ − ½ θᵀ·gram·θ between low ≤ 0 and high ≥ 0, by an active set, from θ = 0."""
    some = len(slope)
    theta, step = np.zeros(some), np.zeros(some)
    free, held, factor = np.zeros(some, np.int64), np.zeros(some, np.bool_), np.zeros((some, some))
    _climb(
        np.asarray(gram, np.float64),
        np.asarray(slope, np.float64),
        np.asarray(low, np.float64),
        np.asarray(high, np.float64),
        theta, step, np.array(slope, np.float64), free, held, factor,
    )  # fmt: skip
    return theta


# ---------------------------------------------------------------- kernels


@fast_kernel
def _climb(gram, slope, low, high, theta, step, rest, free, held, factor):  # type: ignore[no-untyped-def]
    """Newton steps on those that are free; one that meets its bound is held there, until it wants back."""
    some = len(slope)
    for i in range(some):
        held[i] = gram[i, i] <= 0 or (low[i] >= 0 and rest[i] <= 0) or (high[i] <= 0 and rest[i] >= 0)
    for _ in range(3 * some):
        n = np.int64(0)
        for i in range(some):
            if not held[i]:
                free[n] = i
                n += 1
        _solve(gram, rest, free, n, factor, step)
        share = 1.0
        met = -1
        for k in range(n):
            i = free[k]
            bound = high[i] if step[k] > 0 else low[i]
            if abs(step[k]) * share > abs(bound - theta[i]):
                share = (bound - theta[i]) / step[k]
                met = k
        for k in range(n):
            theta[free[k]] += share * step[k]
        if met >= 0:
            i = free[met]
            theta[i] = high[i] if step[met] > 0 else low[i]
            held[i] = True
        for i in range(some):
            rest[i] = slope[i]
            for k in range(some):
                rest[i] -= gram[i, k] * theta[k]
        if met < 0:
            wants = -1
            most = 1e-9
            for i in range(some):
                if held[i] and gram[i, i] > 0:
                    wish = rest[i] if theta[i] < high[i] else 0.0
                    wish = max(wish, -rest[i] if theta[i] > low[i] else 0.0) / np.sqrt(gram[i, i])
                    if wish > most:
                        most = wish
                        wants = i
            if wants < 0:
                break
            held[wants] = False


@inner_kernel
def _solve(gram, rest, free, n, factor, step):  # type: ignore[no-untyped-def]
    """gram·step = rest on the first n of `free`, by Cholesky."""
    for i in range(n):
        for j in range(i + 1):
            value = gram[free[i], free[j]] * (1 + _SHAKY if i == j else 1.0)
            for k in range(j):
                value -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = np.sqrt(max(value, 0.5 * _SHAKY * gram[free[i], free[i]]))
            else:
                factor[i, j] = value / factor[j, j]
    for i in range(n):
        value = rest[free[i]]
        for k in range(i):
            value -= factor[i, k] * step[k]
        step[i] = value / factor[i, i]
    for i in range(n - 1, -1, -1):
        value = step[i]
        for k in range(i + 1, n):
            value -= factor[k, i] * step[k]
        step[i] = value / factor[i, i]
