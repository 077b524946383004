"""The dual of multiclass items: a distribution over the labels of each, improved by exact visits.

For fixed template weights the dual in one item's alpha is a quadratic whose curvature is the same in all directions:
with e the scores (cost added) at the present alpha and k = Σ_j mu_j‖x_j‖², moving to alpha' gains

    c·⟨alpha' − alpha, e⟩ − ½c²k·‖alpha' − alpha‖²

so the best alpha' is the point of the simplex nearest to alpha + e/(c·k): one projection, no line search.

Where attributes have features with some labels only (support.py), those of an item have one with its gold label at
least, so k is the curvature of gold and no label has more: the step is shorter than it might be, and still gains.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mtlstruct._numba.decorators import fast_kernel, inner_kernel
from mtlstruct._system.stateful import Kept
from mtlstruct.linear.design import LOOKAHEAD, prefetch
from mtlstruct.linear.label_support import lists
from mtlstruct.linear.weight_layout import padded
from mtlstruct.structures.base import DualProblem, Visits

TINY = np.float32(1e-6)
"""Mass below this is rounding: an item with less off gold is not active."""

DEAD = 1e-8
"""Templates below this weight add nothing to a score that a float32 would notice."""


class MulticlassDual(Kept):
    """alpha float32[T, L], and the operations the coordinate learner asks of a dual state."""

    kept = ("alpha",)

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        items = len(problem.gold)
        self.alpha = np.zeros((items, problem.structure.labels), np.float32)
        self.alpha[np.arange(items), problem.gold] = 1

    def spans(self, sentences: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
        """Whole sentences: items do not depend on each other, so length does not matter."""
        ptr = self.problem.encoded.ptr
        return np.stack([ptr[sentences], ptr[sentences + 1], sentences], axis=1)

    def active(self) -> NDArray[np.int64]:
        """Items with mass off gold, each a span."""
        items = np.flatnonzero(self._gold() < 1 - TINY)
        sentence = np.searchsorted(self.problem.encoded.ptr, items, side="right") - 1
        return np.stack([items, items + 1, sentence], axis=1)

    def visit(
        self,
        spans: NDArray[np.int64],
        mu: NDArray[np.float64],
        c: float,
        rounds: int,
        tolerance: float,
        enough: float = 0.0,
    ) -> Visits:
        """One exact step for each item; neither rounds nor `enough` are needed."""
        p = self.problem
        design = p.encoded.designs[0]
        gaps = np.zeros(len(spans))
        loss = _visit(
            spans, p.gold, p.cost, self.alpha,
            design.ids, design.ptr, design.ragged, design.slotwise, design.blocks, design.values,
            p.V[0], design.attributes, *lists(design.support), padded(self.alpha.shape[1]), design.scales(mu), p.N,
            float(c), float(tolerance), gaps,
        )  # fmt: skip
        return Visits(gaps, float(loss))

    def remembered(self) -> NDArray[np.float32]:
        """The dual variables as they are now, for `approach`."""
        return self.alpha.copy()

    def approach(self, before: NDArray[np.float32], share: float) -> None:
        """Goes a share of the way to what was remembered; V, N and the loss are the caller's business."""
        self.alpha += np.float32(share) * (before - self.alpha)

    def repair(self) -> None:
        """Makes the rows sum to one again."""
        np.maximum(self.alpha, 0, out=self.alpha)
        self.alpha /= self.alpha.sum(axis=1, dtype=np.float64)[:, None]

    def counts(self) -> tuple[NDArray[np.float32], ...]:
        """alpha − gold: float32[T, L]."""
        counts = self.alpha.copy()
        counts[np.arange(len(counts)), self.problem.gold] -= 1
        return (counts,)

    def loss(self, counts: NDArray[np.float32]) -> float:
        """Σ alpha·cost (gold costs nothing, so counts do as well)."""
        return float(_expected_cost(counts, self.problem.gold, self.problem.cost))

    def _gold(self) -> NDArray[np.float32]:
        mass: NDArray[np.float32] = self.alpha[np.arange(len(self.alpha)), self.problem.gold]
        return mass


# ---------------------------------------------------------------- kernels


@fast_kernel
def _expected_cost(counts, gold, cost):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(gold)):
        row = np.float64(0)
        for y in range(counts.shape[1]):
            row += np.float64(counts[t, y]) * np.float64(cost[gold[t], y])
        total += row
    return total


@inner_kernel
def _load(entry, size, x, real, scales, V, own, of, out):  # type: ignore[no-untyped-def]
    """out = −Σ_j mu_j v_j of one row of A; `own` and `of` as in sequence_visit."""
    W = len(out)
    listed = len(own) > 0
    for y in range(W):
        out[y] = 0
    for k in range(size):
        if not listed:
            prefetch(V, np.int64(entry[k + LOOKAHEAD]))
        s = scales[k]
        if s < DEAD:
            continue
        if real:
            s *= x[k]
        if listed:
            a = np.uint64(entry[k])
            for f in range(own[a, 0], own[a + np.uint64(1), 0]):
                out[of[f, 0]] -= s * V[f, 0]
            continue
        v = V[np.uint64(entry[k])]
        for y in range(W):
            out[y] -= s * v[y]


@inner_kernel
def _square(entry, size, x, real, slotwise, scales, null):  # type: ignore[no-untyped-def]
    """Σ_j mu_j‖x_j‖² of one row of A; where a template may speak twice, equal ids are neighbours."""
    total = 0.0
    if slotwise:
        for k in range(size):
            if entry[k] != null:
                total += scales[k] * x[k] * x[k] if real else scales[k]
        return total
    k = 0
    while k < size:
        here = entry[k]
        s = scales[k]
        value = 0.0
        while k < size and entry[k] == here:
            value += x[k] if real else 1.0
            k += 1
        if here != null:
            total += s * value * value
    return total


@inner_kernel
def _project(alpha, e, step, fresh, support):  # type: ignore[no-untyped-def]
    """fresh := the point of the simplex nearest to z = alpha + step·e; support int64[L] is room to work in.

    Only what is above max z − 1 can stay; the threshold is such that what exceeds it sums to one.
    """
    L = len(alpha)
    top = alpha[0] + step * e[0]
    for y in range(1, L):
        top = max(top, alpha[y] + step * e[y])
    count = 0
    total = 0.0
    for y in range(L):
        fresh[y] = 0
        z = alpha[y] + step * e[y] - top
        if z > -1:
            support[count] = y
            count += 1
            total += z
    while True:
        threshold = (total - 1) / count
        kept = 0
        total = 0.0
        for i in range(count):
            y = support[i]
            z = alpha[y] + step * e[y] - top
            if z > threshold:
                support[kept] = y
                kept += 1
                total += z
        if kept == count:
            break
        count = kept
    for i in range(count):
        y = support[i]
        fresh[y] = alpha[y] + step * e[y] - top - threshold


@inner_kernel
def _add_row(entry, size, x, real, ragged, blocks, start, null, labels, change, count, V, N):  # type: ignore[no-untyped-def]
    """V[id, y] += x·change on one row of A, and N_j by ‖v + d‖² = ‖v‖² + 2⟨v, d⟩ + ‖d‖²."""
    square = 0.0
    for i in range(count):
        square += np.float64(change[i]) * np.float64(change[i])
    for k in range(size):
        if entry[k] == null:
            continue
        v = V[np.uint64(entry[k])]
        value = x[k] if real else np.float32(1)
        dot = 0.0
        for i in range(count):
            dot += np.float64(v[labels[i]]) * np.float64(change[i])
            v[labels[i]] += value * change[i]
        N[blocks[start + k] if ragged else blocks[k]] += 2.0 * value * dot + value * value * square


@inner_kernel
def _add_listed(entry, size, x, real, ragged, blocks, start, d, V, own, of, N):  # type: ignore[no-untyped-def]
    """The same where attributes have features with some labels only; d float32[L] is the change of each label."""
    for k in range(size):
        a = np.uint64(entry[k])
        value = x[k] if real else np.float32(1)
        change = 0.0
        for f in range(own[a, 0], own[a + np.uint64(1), 0]):
            dx = value * d[of[f, 0]]
            change += np.float64(dx) * (2.0 * np.float64(V[f, 0]) + np.float64(dx))
            V[f, 0] += dx
        N[blocks[start + k] if ragged else blocks[k]] += change


@fast_kernel
def _visit(  # type: ignore[no-untyped-def]
    spans,
    gold,
    cost,
    alpha,
    ids,
    ptr,
    ragged,
    slotwise,
    blocks,
    values,
    V,
    null,
    own,
    of,
    W,
    scales,
    N,
    c,
    tolerance,
    gaps,
):
    L = alpha.shape[1]
    real = len(values) > 0
    e = np.zeros(W, np.float32)
    support = np.zeros(L, np.int64)
    fresh = np.zeros(L, np.float32)
    labels = np.zeros(L, np.int64)
    change = np.zeros(L, np.float32)
    loss = 0.0
    for s in range(len(spans)):
        for t in range(spans[s, 0], spans[s, 1]):
            start = ptr[t]
            size = ptr[t + 1] - start
            entry = ids[start : start + size + LOOKAHEAD]
            x = values[start : start + size] if real else values
            scale = scales[start : start + size] if ragged else scales
            _load(entry, size, x, real, scale, V, own, of, e)
            mine = alpha[t]
            for y in range(L):
                e[y] += cost[gold[t], y]
            top = np.float64(e[0])
            mean = 0.0
            for y in range(L):
                top = max(top, np.float64(e[y]))
                mean += np.float64(mine[y]) * np.float64(e[y])
            gap = max(top - mean, 0.0)
            gaps[s] += gap
            if gap < tolerance:
                continue
            curvature = c * _square(entry, size, x, real, slotwise, scale, null)
            # Where nothing curves, a step this long takes all mass to the best label.
            _project(mine, e, 1.0 / max(curvature, 1e-12), fresh, support)
            moved = 0
            for y in range(L):
                d = fresh[y] - mine[y]
                if d != 0:
                    labels[moved] = y
                    change[moved] = np.float32(c) * d
                    moved += 1
                    loss += np.float64(d) * cost[gold[t], y]
                    mine[y] = fresh[y]
            if len(own) > 0:
                fresh[:] = 0
                for i in range(moved):
                    fresh[labels[i]] = change[i]
                _add_listed(entry, size, x, real, ragged, blocks, start, fresh, V, own, of, N)
            else:
                _add_row(entry, size, x, real, ragged, blocks, start, null, labels, change, moved, V, N)
    return loss
