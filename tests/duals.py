"""What every dual state has to pass, and rows of A in their most general form."""

import numpy as np
import pytest
from numba import njit

from mtlstruct.linear.design import LOOKAHEAD, Design
from mtlstruct.solvers.coordinate_ascent.duals import dual_state


def from_python(kernel):
    """An inner kernel, which only other kernels can call, as a function that tests can."""
    call = njit(lambda args: kernel(*args))
    return lambda *args: call(args)


def keep_books(oracle, c, passes=6):
    """Visits, with the checks that every dual state has to pass; returns the dual values."""
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    state = dual_state(oracle, V, N)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    loss, values = 0.0, [0.0]
    for k in range(passes):
        spans = state.active() if k % 3 == 2 else state.spans(np.arange(oracle.sentences), k)
        loss += state.update(spans, mu, c, 5, 1e-7).loss
        values.append(c * loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(values) >= -1e-4 * max(values))
    assert values[-1] > 0
    state.repair()
    counts = state.counts()
    fresh = oracle.zeros()
    oracle.count([c * z for z in counts], fresh)
    for a, b in zip(fresh, V, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * c)
    np.testing.assert_allclose(oracle.squared_norms(fresh), N, rtol=1e-3, atol=1e-4 * c)
    assert state.loss(counts[0]) == pytest.approx(loss, rel=1e-4, abs=1e-4)
    return values


def ragged(design, real, seed=9):
    """Rows of any length, several features of one template, repeated ones, real values."""
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(design.attributes, int(rng.integers(1, 6)))) for _ in range(design.rows)]
    ids = np.concatenate(rows)
    blocks = design.templates[np.searchsorted(design.block_ptr, ids, side="right") - 1]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = rng.normal(size=len(ids)).astype(np.float32) if real else np.zeros(0, np.float32)
    padded = np.append(ids, [design.attributes] * LOOKAHEAD).astype(np.int32)
    made = Design(padded, ptr, blocks.astype(np.int32), values, design.block_ptr, design.templates)
    assert made.ragged
    return made
