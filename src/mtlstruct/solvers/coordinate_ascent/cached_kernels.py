"""Kernels of the generic dual state: the outputs kept for a sentence, as vectors over the seats of one kind.

`seats` are row·width + part, rising, so that the seats of a row are neighbours; `vectors` float32[outputs, seats]
are the counts of each output minus those of gold. `scales` are those of a linear.Design for mu.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct.linear.design import LOOKAHEAD, Design, prefetch

DEAD = 1e-8
"""Templates below this weight add nothing that would be noticed."""

TINY = 1e-9
"""Mass below this is not moved."""

Seats = NDArray[np.int64]
Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
Scales = NDArray[np.float32]


class Features:
    """A of one kind and its V, as the kernels take them."""

    def __init__(self, design: Design, V: NDArray[Any], width: int) -> None:
        self.design, self.V, self.width = design, V, width
        self._rows = (design.ids, design.ptr, design.ragged, design.values)
        self._slotwise = design.slotwise

    def add_scores(self, scales: Scales, seats: Seats, vectors: Vectors, value: Floats) -> None:
        """value[k] += the score of output k minus that of gold, under w = −mu·V."""
        _add_scores(*self._rows, self.V, scales, self.width, seats, vectors, value)

    def add_products(self, scales: Scales, seats: Seats, vectors: Vectors, products: Floats) -> None:
        """products[k, l] += Σ_j mu_j ⟨φ_j(k), φ_j(l)⟩ of the outputs' features (gold's taken off)."""
        null = self.design.attributes
        _add_products(*self._rows, self._slotwise, null, scales, self.width, seats, vectors, products)

    def commit(self, change: Floats, seats: Seats, vectors: Vectors, N: Floats) -> None:
        """V += Σ_k change_k φ(k), and N follows."""
        d = self.design
        _commit(*self._rows, d.blocks, d.attributes, self.V, N, change, self.width, seats, vectors)


def ascend(value: Floats, products: Floats, alpha: Floats, c: float, steps: int, tolerance: float) -> int:
    """Moves mass from the worst output to the best, exactly, until the gap is below tolerance; steps taken."""
    return int(_ascend(value, products, alpha, c, steps, tolerance))


# ---------------------------------------------------------------- kernels


@fast_kernel
def _add_scores(ids, ptr, ragged, values, V, scales, width, seats, vectors, value):  # type: ignore[no-untyped-def]
    U = len(seats)
    real = len(values) > 0
    score = np.zeros(U)
    u = 0
    while u < U:
        row = seats[u] // width
        base = row * width
        end = u
        while end < U and seats[end] < base + width:
            end += 1
        start = ptr[row]
        size = ptr[row + 1] - start
        entry = ids[start : start + size + LOOKAHEAD]
        at = start if ragged else 0
        for k in range(size):
            prefetch(V, np.int64(entry[k + LOOKAHEAD]))
            x = scales[at + k]
            if x < DEAD:
                continue
            if real:
                x *= values[start + k]
            v = V[np.uint64(entry[k])]
            for q in range(u, end):
                score[q] -= x * v[seats[q] - base]
        u = end
    for k in range(len(value)):
        total = 0.0
        for q in range(U):
            total += vectors[k, q] * score[q]
        value[k] += total


@inner_kernel
def _compare_slots(ids, ptr, values, null, scales, rows, count, out):  # type: ignore[no-untyped-def]
    """out[r, q] = Σ_j mu_j ⟨x_rj, x_qj⟩ for all pairs of rows, slot by slot in one run through memory."""
    column = np.zeros(count, ids.dtype)
    real = len(values) > 0
    x = np.ones(count, np.float32)
    for k in range(len(scales)):
        scale = scales[k]
        if scale < DEAD:
            continue
        for r in range(count):
            column[r] = ids[ptr[rows[r]] + k]
            if real:
                x[r] = values[ptr[rows[r]] + k]
        for r in range(count):
            here = column[r]
            if here != null:
                for q in range(count):
                    out[r, q] += scale * x[r] * x[q] if column[q] == here else np.float32(0)


@inner_kernel
def _inner_product(ids, ragged, values, null, scales, a0, a1, b0, b1):  # type: ignore[no-untyped-def]
    """Σ_j mu_j ⟨x_aj, x_bj⟩ of two rows of A, sorted but for null attributes, in which ids may repeat."""
    total = np.float32(0)
    real = len(values) > 0
    a, b = a0, b0
    while a < a1 and b < b1:
        if ids[a] == null:
            a += 1
        elif ids[b] == null:
            b += 1
        elif ids[a] < ids[b]:
            a += 1
        elif ids[a] > ids[b]:
            b += 1
        else:
            here = ids[a]
            scale = scales[a if ragged else a - a0]
            left = np.float32(0)
            right = np.float32(0)
            while a < a1 and ids[a] == here:
                left += values[a] if real else np.float32(1)
                a += 1
            while b < b1 and ids[b] == here:
                right += values[b] if real else np.float32(1)
                b += 1
            total += scale * left * right
    return total


@fast_kernel
def _add_products(  # type: ignore[no-untyped-def]
    ids, ptr, ragged, values, slotwise, null, scales, width, seats, vectors, products
):
    U = len(seats)
    rows = np.zeros(U, np.int64)
    local = np.zeros(U, np.int64)
    part = np.zeros(U, np.int64)
    count = 0
    for u in range(U):
        row = seats[u] // width
        if count == 0 or rows[count - 1] != row:
            rows[count] = row
            count += 1
        local[u] = count - 1
        part[u] = seats[u] - row * width
    alike = np.zeros((count, count), np.float32)
    if slotwise:
        _compare_slots(ids, ptr, values, null, scales, rows, count, alike)
    else:
        for r in range(count):
            for q in range(r + 1):
                alike[r, q] = alike[q, r] = _inner_product(
                    ids, ragged, values, null, scales,
                    ptr[rows[r]], ptr[rows[r] + 1], ptr[rows[q]], ptr[rows[q] + 1],
                )  # fmt: skip
    K = np.zeros((U, U), np.float32)
    for u in range(U):
        for v in range(U):
            K[u, v] = alike[local[u], local[v]] if part[u] == part[v] else np.float32(0)
    turned = np.zeros(U, np.float32)
    for k in range(len(products)):
        turned[:] = 0
        for u in range(U):
            x = vectors[k, u]
            if x != 0:
                for v in range(U):
                    turned[v] += x * K[u, v]
        for o in range(k + 1):
            dot = np.float32(0)
            for v in range(U):
                dot += vectors[o, v] * turned[v]
            products[k, o] += dot
            if o < k:
                products[o, k] += dot


@fast_kernel
def _ascend(value, products, alpha, c, steps, tolerance):  # type: ignore[no-untyped-def]
    K = len(alpha)
    for step in range(steps):
        best, worst = 0, -1
        mean = 0.0
        for k in range(K):
            mean += alpha[k] * value[k]
            if value[k] > value[best]:
                best = k
            if alpha[k] > TINY and (worst < 0 or value[k] < value[worst]):
                worst = k
        if value[best] - mean < tolerance or best == worst:
            return step
        quad = products[best, best] - 2 * products[best, worst] + products[worst, worst]
        theta = alpha[worst]
        rise = value[best] - value[worst]
        if c * quad * theta > rise:
            theta = rise / (c * quad)
            alpha[worst] -= theta
        else:
            alpha[worst] = 0
        alpha[best] += theta
        for k in range(K):
            value[k] -= c * theta * (products[k, best] - products[k, worst])
    return steps


@fast_kernel
def _commit(ids, ptr, ragged, values, blocks, null, V, N, change, width, seats, vectors):  # type: ignore[no-untyped-def]
    U = len(seats)
    real = len(values) > 0
    delta = np.zeros(U)
    for k in range(len(change)):
        if change[k] != 0:
            for u in range(U):
                delta[u] += change[k] * vectors[k, u]
    u = 0
    while u < U:
        row = seats[u] // width
        base = row * width
        square = 0.0
        end = u
        while end < U and seats[end] < base + width:
            square += delta[end] * delta[end]
            end += 1
        if square > 0:
            start = ptr[row]
            size = ptr[row + 1] - start
            entry = ids[start : start + size + LOOKAHEAD]
            for k in range(size):
                prefetch(V, np.int64(entry[k + LOOKAHEAD]))
                if entry[k] == null:
                    continue
                x = np.float64(values[start + k]) if real else 1.0
                v = V[np.uint64(entry[k])]
                dot = 0.0
                for q in range(u, end):
                    dot += v[seats[q] - base] * delta[q]
                    v[seats[q] - base] += x * delta[q]
                N[blocks[start + k] if ragged else blocks[k]] += 2.0 * x * dot + x * x * square
        u = end
