"""Oracles, checks of dual states and of certificates, and rows of A in their most general form."""

import numpy as np
import pytest
from numba import njit
from support.naive import objective
from support.oracles import make_oracle as make_oracle

from mtlstruct._system import threads
from mtlstruct.linear.design import Design, padded_ids
from mtlstruct.solvers.coordinate_ascent.duals import dual_state
from mtlstruct.solvers.coordinate_ascent.sequence.features import Step


def silent(record):
    """Let training go on."""
    return False


def on_threads(counts, call):
    """Return what `call` gives with each number of threads."""
    before, found = threads.get_threads(), []
    try:
        for count in counts:
            threads.set_threads(count)
            found.append(call())
    finally:
        threads.set_threads(before)
    return found


def from_python(kernel):
    """Return a function for tests that calls an inner kernel, which only other kernels can call."""
    call = njit(lambda args: kernel(*args))
    return lambda *args: call(args)


def with_ragged_rows(oracle, real):
    """Return the oracle with rows of any length in its first design."""
    first, *rest = oracle.encoded.designs
    object.__setattr__(oracle.encoded, "designs", (ragged(first, real), *rest))
    return oracle


def update(state, spans, mu, c, rounds, tolerance):
    """Update spans, each until its gap is below the tolerance."""
    return state.update(spans, mu, Step(c, rounds, tolerance, 0.0, state.oracle.temperature))


def close_the_gap(oracle, passes, steps=10):
    """Return the sum of the gaps after passes over all sentences with equal template weights."""
    state = dual_state(oracle, oracle.zeros(), np.zeros(oracle.templates))
    mu = np.full(oracle.templates, 1 / oracle.templates)
    for _ in range(passes):
        gaps, _ = update(state, state.spans(0), mu, 1.0, steps, 1e-7)
    return gaps.sum()


def check_certificate(fit, oracle, regularizer, c):
    """Assert that a fit has converged and that enumeration confirms its objective."""
    assert fit.converged
    assert fit.dual <= fit.objective * (1 + 1e-6)
    true = objective(oracle, fit.weights, fit.scale, regularizer, c)
    assert fit.objective == pytest.approx(true, rel=1e-4)


def check_same_optimum(fits):
    """Assert that no lower bound of a fit exceeds the objective of another."""
    assert max(fit.dual for fit in fits) <= min(fit.objective for fit in fits) * (1 + 1e-6)


def keep_books(oracle, c, passes=6, check=None):
    """Update the blocks of a dual state, check what every dual state has to pass, and return the state.

    `check` gets the state before it is repaired.
    """
    V, N = oracle.zeros(), np.zeros(oracle.templates)
    state = dual_state(oracle, V, N)
    mu = np.random.default_rng(2).dirichlet(np.ones(oracle.templates))
    loss, values = 0.0, [0.0]
    for k in range(passes):
        spans = state.active() if k % 3 == 2 and oracle.temperature == 0 else state.spans(k)
        loss += update(state, spans, mu, c, 5, 1e-7)[1]
        values.append(c * loss - 0.5 * float(mu @ N))
    assert np.all(np.diff(values) >= -1e-4 * max(values))
    assert values[-1] > 0
    if check:
        check(state)
    state.repair()
    counts = state.counts()
    fresh = oracle.zeros()
    oracle.count([c * z for z in counts], fresh)
    for a, b in zip(fresh, V, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3 * c)
    np.testing.assert_allclose(oracle.squared_norms(fresh), N, rtol=1e-3, atol=1e-4 * c)
    assert state.loss(counts[0]) == pytest.approx(loss, rel=1e-4, abs=1e-4)
    return state


def ragged(design, real, seed=9):
    """Return rows of any length, with several features of one template, repeated ones and real values."""
    rng = np.random.default_rng(seed)
    rows = [
        np.sort(rng.choice(design.layout.attributes, int(rng.integers(1, 6)))) for _ in range(design.rows)
    ]
    ids = np.concatenate(rows)
    blocks = design.layout.templates[np.searchsorted(design.layout.block_ptr, ids, side="right") - 1]
    ptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    values = rng.normal(size=len(ids)).astype(np.float32) if real else np.zeros(0, np.float32)
    ids = padded_ids(ids.astype(np.int32), design.layout.attributes)
    made = Design(ids, ptr, blocks.astype(np.int32), values, design.layout)
    assert made.ragged
    return made
