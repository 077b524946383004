"""The direction of L-BFGS against the matrix it stands for, the line search, and vectors in pieces."""

import numpy as np
import pytest

from mtlstruct._system import threads
from mtlstruct.solvers.likelihood import quasi_newton
from mtlstruct.solvers.likelihood.quasi_newton import Pairs, blend, combine, dot, wolfe


def bfgs_matrix(pairs, size):
    """H by its definition, from H₀ = (s·y / y·y)·I of the newest pair."""
    s, y = pairs[-1]
    H = np.eye(size) * (s @ y) / (y @ y)
    for s, y in pairs:
        V = np.eye(size) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return H


def direction(memory, g):
    out = np.zeros_like(g)
    memory.direction(g, out)
    return out


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_the_direction_is_that_of_the_matrix_of_the_last_pairs(count):
    rng = np.random.default_rng(count)
    size, most = 7, 3
    memory, seen = Pairs(most, size), []
    for _ in range(count):
        s = rng.normal(size=size).astype(np.float32)
        y = (s * rng.uniform(0.5, 2, size) + 0.05 * rng.normal(size=size)).astype(np.float32)
        memory.push(s, y)
        seen.append((s.astype(float), y.astype(float)))
    g = rng.normal(size=size).astype(np.float32)
    expected = -bfgs_matrix(seen[-most:], size) @ g
    np.testing.assert_allclose(direction(memory, g), expected, rtol=1e-4, atol=1e-5)


def test_without_pairs_the_direction_is_downhill_and_a_pair_without_curvature_is_skipped():
    memory = Pairs(2, 3)
    g = np.array([1.0, -2.0, 0.5], np.float32)
    np.testing.assert_array_equal(direction(memory, g), -g)
    memory.push(g, -g)
    assert memory.order == []


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("low", [0.01, 1.0, 7.0])
def test_the_line_search_goes_down_enough_and_flattens_enough(first, low):
    """φ(t) = (t − low)² + |t − low|³, steep on both sides."""

    def phi(t):
        x = t - low
        return x * x + abs(x) ** 3, 2 * x + 3 * x * abs(x)

    value, slope = phi(0.0)
    t = wolfe(phi, value, slope, first)
    assert t > 0
    assert phi(t)[0] <= value + 1e-4 * t * slope
    assert phi(t)[1] >= 0.9 * slope


def test_a_line_search_that_finds_nothing_stays():
    assert wolfe(lambda t: (np.nan, np.nan), 1.0, -1.0, 1.0) == 0.0
    assert wolfe(lambda t: (2.0, 1.0), 1.0, -1e-12, 1.0) == 0.0


def test_sums_in_pieces_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(quasi_newton, "CHUNK_ENTRIES", 10)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 95)).astype(np.float32)
    rows, weights = rng.normal(size=(4, 95)).astype(np.float32), np.array([1.0, 0.0, -2.0, 0.5])
    found = []
    for workers in (1, 3):
        threads.set_threads(workers)
        out = np.zeros_like(a)
        combine(2.0, a, weights, rows, out)
        found.append((dot(a, b), out.tobytes()))
    threads.set_threads(None)
    assert found[0] == found[1]
    assert found[0][0] == pytest.approx(float(a.astype(float) @ b.astype(float)), rel=1e-12)
    np.testing.assert_allclose(out, 2 * a + weights.astype(np.float32) @ rows, rtol=1e-5, atol=1e-5)
    blend(0.5, out, 2.0, b)
    np.testing.assert_allclose(
        out, a + 0.5 * (weights.astype(np.float32) @ rows) + 2 * b, rtol=1e-5, atol=1e-5
    )
