"""Sequences by enumeration: the best labeling, loss-augmented or not, its value, indicators, ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import all_labelings, best_path, path_score

from mtlstruct.objective.losses import Hamming
from mtlstruct.structures import SequenceStructure
from mtlstruct.structures.base import FORBIDDEN, Batch
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE

pytestmark = pytest.mark.jitless


def problem(seed, L, lengths, rows, coarse):
    """Random part scores; coarse ones have many ties."""
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    draw = (lambda *s: rng.integers(-1, 2, s)) if coarse else (lambda *s: rng.normal(size=s))
    nodes = draw(int(ptr[-1]), L).astype(np.float32)
    edges = draw(rows, L * L).astype(np.float32)
    row = rng.integers(0, rows, int(ptr[-1]) - len(lengths)).astype(np.int32)
    gold = rng.integers(0, L, int(ptr[-1])).astype(np.int32)
    return ptr, (nodes, edges), (None, row), gold


def tables(parts, rows, ptr, i, L):
    a, b = ptr[i], ptr[i + 1]
    edges = np.zeros((b - a, L, L))
    for t in range(1, b - a):
        edges[t] = parts[1][rows[1][a + t - i - 1]].reshape(L, L)
    return parts[0][a:b].astype(float), edges


shapes = st.tuples(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 3),
    st.booleans(),
)


@settings(max_examples=80)
@given(shapes, st.sampled_from([1.0, 0.5, 2.0]), st.booleans())
def test_decode_is_the_best_of_all_labelings(shape, scale, augmented):
    L, lengths = shape[1], shape[2]
    ptr, parts, rows, gold = problem(*shape)
    structure = SequenceStructure(L)
    outputs, values = np.zeros(ptr[-1], np.int32), np.zeros(len(lengths))
    cost = Hamming().table("abcdefgh"[:L])
    extra = {"gold": gold, "cost": cost} if augmented else {}
    structure.decode(Batch(parts, rows, ptr), (0, len(lengths)), outputs, values, scale=scale, **extra)
    for i in range(len(lengths)):
        nodes, edges = tables(parts, rows, ptr, i, L)
        nodes = scale * nodes + (cost[gold[ptr[i] : ptr[i + 1]]] if augmented else 0)
        found = path_score(nodes, scale * edges, outputs[ptr[i] : ptr[i + 1]])
        assert found == pytest.approx(best_path(nodes, scale * edges), abs=1e-4)
        assert values[i] == pytest.approx(found, abs=1e-4)


@settings(max_examples=40)
@given(shapes)
def test_indicator_is_the_difference_of_the_parts_used(shape):
    L = shape[1]
    ptr, parts, rows, gold = problem(*shape)
    structure = SequenceStructure(L)
    other = np.random.default_rng(shape[0] + 1).integers(0, L, ptr[-1]).astype(np.int32)
    counts = [np.zeros_like(p, dtype=float) for p in parts]
    for triplets, table in zip(structure.indicator(other, gold, rows, ptr), counts, strict=True):
        assert np.all(np.diff(triplets.row) >= 0)
        triplets.add_to(table, 1.0)
    difference = sum(float((c * p).sum()) for c, p in zip(counts, parts, strict=True))
    plus, minus = (structure.evaluate(Batch(parts, rows, ptr), outputs) for outputs in (other, gold))
    assert difference == pytest.approx(plus.sum() - minus.sum(), abs=1e-3)
    for i, value in enumerate(minus):
        expected = path_score(*tables(parts, rows, ptr, i, L), gold[ptr[i] : ptr[i + 1]])
        assert value == pytest.approx(expected, abs=1e-4)


def enumerated(nodes, edges):
    """log Z, node and edge probabilities by looking at every labeling."""
    n, L = nodes.shape
    paths = list(all_labelings(n, L))
    scores = np.array([path_score(nodes, edges, p) for p in paths])
    log_z = np.logaddexp.reduce(scores)
    node, edge = np.zeros((n, L)), np.zeros((n, L, L))
    for path, p in zip(paths, np.exp(scores - log_z), strict=True):
        for t, y in enumerate(path):
            node[t, y] += p
            if t > 0:
                edge[t, path[t - 1], y] += p
    return log_z, node, edge


@settings(max_examples=60)
@given(shapes, st.sampled_from([1.0, 0.5, 3.0, 40.0]), st.booleans(), st.booleans())
def test_marginals_are_those_of_all_labelings(shape, scale, less_gold, forbidden):
    """At scale 40 edges are too far apart for scaled messages; a forbidden pair is −inf; both go by logarithms."""
    L, lengths = shape[1], shape[2]
    ptr, parts, rows, gold = problem(*shape)
    if forbidden:
        parts[1][0, 1] = -np.inf
    log_z = np.zeros(len(lengths))
    # Two spans, as threads would have them: their sums on shared rows must add up.
    middle = len(lengths) // 2
    node, edge = np.zeros(parts[0].shape), np.zeros(parts[1].shape)
    for span in ((0, middle), (middle, len(lengths))):
        found = SequenceStructure(L).marginals(
            Batch(parts, rows, ptr), span, log_z, scale=scale, gold=gold if less_gold else None
        )
        for counts, table in zip(found, (node, edge), strict=True):
            counts.add_to(table)
    expected = np.zeros_like(edge)
    for i, n in enumerate(lengths):
        nodes, edges = tables(parts, rows, ptr, i, L)
        true_z, true_node, true_edge = enumerated(scale * nodes, scale * edges)
        assert log_z[i] == pytest.approx(true_z, rel=1e-6, abs=1e-5)
        for t in range(n):
            at = ptr[i] + t
            if less_gold:
                true_node[t, gold[at]] -= 1
            np.testing.assert_allclose(node[at], true_node[t], atol=1e-5)
            if t > 0:
                row = rows[1][at - i - 1]
                expected[row] += true_edge[t].ravel()
                expected[row, gold[at - 1] * L + gold[at]] -= less_gold
    np.testing.assert_allclose(edge, expected, atol=1e-4)


def test_marginals_survive_scores_that_would_overflow():
    """A label whose weight underflows in a scaled message may still be the only way on."""
    L = 2
    nodes = np.array([[0, -900], [0, 0], [0, 0]], np.float32)
    edges = np.array([[-1000, -1000, 0, 0]], np.float32)
    log_z = np.zeros(1)
    node, _ = SequenceStructure(L).marginals(
        Batch((nodes, edges), (None, np.zeros(2, np.int32)), np.array([0, 3])), (0, 1), log_z
    )
    np.testing.assert_allclose(node.count, [[0, 1], [0, 1], [0.5, 0.5]], atol=1e-6)
    assert log_z[0] == pytest.approx(-900 + np.log(2), rel=1e-6)


def test_ties_go_to_the_smaller_label():
    structure = SequenceStructure(3)
    ptr = np.array([0, 3])
    parts = (np.zeros((3, 3), np.float32), np.zeros((1, 9), np.float32))
    outputs, values = np.full(3, 9, np.int32), np.zeros(1)
    structure.decode(Batch(parts, (None, np.zeros(2, np.int32)), ptr), (0, 1), outputs, values)
    assert outputs.tolist() == [0, 0, 0]


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("forbidden", [True, False])
def test_many_labels_are_searched_as_few_are(integers, forbidden):
    """Labels that are passed over could not have won; of equal paths it is the same one, too."""
    L, n = MIN_LABELS_TO_PRUNE + 7, 40
    rng = np.random.default_rng(4)
    nodes, edges = rng.normal(scale=4, size=(n, L)), rng.normal(size=(L, L))
    if integers:
        nodes, edges = nodes.round(), edges.round()
    if forbidden:
        edges[rng.random((L, L)) < 0.2] = FORBIDDEN
    nodes, edges = nodes.astype(np.float32), edges.astype(np.float32)
    outputs, values = np.zeros(n, np.int32), np.zeros(1)
    rows = (None, np.zeros(n - 1, np.int32))
    ptr = np.array([0, n])
    batch = Batch((nodes, edges.reshape(1, -1)), rows, ptr)
    SequenceStructure(L).decode(batch, (0, 1), outputs, values)
    best, back = nodes[0].astype(float), []
    for t in range(1, n):
        table = best[:, None] + edges
        back.append(table.argmax(axis=0))
        best = table.max(axis=0) + nodes[t]
    path = [int(best.argmax())]
    for arg in reversed(back):
        path.append(int(arg[path[-1]]))
    assert values[0] == pytest.approx(best.max(), rel=1e-5)
    assert outputs.tolist() == path[::-1]
