"""Trees by enumeration: the best tree of each sort, loss-augmented or not, its value, indicators, ties."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import all_trees, is_projective, is_tree, tree_oracle, tree_score

from mtlstruct.objective.losses import Hamming
from mtlstruct.structures import STRUCTURES, TreeStructure
from mtlstruct.structures.base import Batch
from mtlstruct.structures.tree import arc_rows, arc_starts

pytestmark = pytest.mark.jitless

TREES = [name for name in STRUCTURES if name.endswith("tree")]
COST = Hamming().table(TreeStructure().choices(()))


def problem(seed, lengths, coarse):
    """Random arc scores; coarse ones have many ties. Gold is projective, with one root, so it suits everybody."""
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = int(arc_starts(ptr)[-1])
    scores = (rng.integers(-1, 2, (rows, 1)) if coarse else rng.normal(size=(rows, 1))).astype(np.float32)
    gold = []
    for n in lengths:
        trees = list(all_trees(n, True, True))
        gold += trees[int(rng.integers(len(trees)))]
    return ptr, (scores,), np.array(gold, np.int32)


def arcs(parts, ptr, i):
    n = int(ptr[i + 1] - ptr[i])
    start = arc_starts(ptr)[i]
    return parts[0][start : start + n * (n + 1), 0].reshape(n, n + 1).astype(float)


shapes = st.tuples(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.booleans())


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=60)
@given(shapes, st.sampled_from([1.0, 0.5]), st.booleans())
def test_decode_is_the_best_of_all_trees(name, shape, scale, augmented):
    structure = STRUCTURES[name](0)
    ptr, parts, gold = problem(*shape)
    count = len(ptr) - 1
    outputs, values = np.zeros(ptr[-1], np.int32), np.zeros(count)
    extra = {"gold": gold, "cost": COST} if augmented else {}
    for first, last in [(0, count // 2), (count // 2, count)]:
        structure.decode(Batch(parts, (None,), ptr), (first, last), outputs, values, scale=scale, **extra)
    for i, (a, b) in enumerate(itertools.pairwise(ptr)):
        table = scale * arcs(parts, ptr, i)
        if augmented:
            table = table + (np.arange(b - a + 1) != gold[a:b, None])
        found = tuple(outputs[a:b].tolist())
        trees = list(all_trees(b - a, structure.projective, structure.single_root))
        assert found in trees
        assert tree_score(table, found) == pytest.approx(max(tree_score(table, t) for t in trees), abs=1e-5)
        assert values[i] == pytest.approx(tree_score(table, found), abs=1e-5)


@pytest.mark.parametrize("name", TREES)
def test_long_sentences_score_at_least_as_well_as_in_narrower_structures(name):
    """Cycles within cycles: compared with the projective search, which is another algorithm."""
    structure = STRUCTURES[name](0)
    rng = np.random.default_rng(5)
    ptr = np.array([0, 30, 31, 71], np.int64)
    for coarse in (False, True):
        scores = rng.normal(size=(int(arc_starts(ptr)[-1]), 1)).astype(np.float32)
        parts = (np.round(scores) if coarse else scores,)
        outputs, values = np.zeros(71, np.int32), np.zeros(3)
        structure.decode(Batch(parts, (None,), ptr), (0, 3), outputs, values)
        narrow, bounds = np.zeros(71, np.int32), np.zeros(3)
        other = STRUCTURES["single-root-projective-tree"](0)
        other.decode(Batch(parts, (None,), ptr), (0, 3), narrow, bounds)
        assert np.all(values >= bounds - 1e-4)
        np.testing.assert_allclose(structure.evaluate(Batch(parts, (None,), ptr), outputs), values, atol=1e-4)
        for a, b in itertools.pairwise(ptr):
            heads = outputs[a:b].tolist()
            assert is_tree(heads)
            assert is_projective(heads) or not structure.projective
            assert heads.count(0) == 1 or not structure.single_root


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=40)
@given(shapes, st.sampled_from([1.0, 0.5, 20.0]), st.booleans())
def test_marginals_are_those_of_all_trees(name, shape, scale, less_gold):
    structure = STRUCTURES[name](0)
    ptr, parts, gold = problem(*shape)
    count = len(ptr) - 1
    log_z, found = np.zeros(count), np.zeros_like(parts[0], dtype=float)
    extra = {"gold": gold} if less_gold else {}
    for span in [(0, count // 2), (count // 2, count)]:
        for rows in structure.marginals(Batch(parts, (None,), ptr), span, log_z, scale=scale, **extra):
            rows.add_to(found)
    for i, (a, b) in enumerate(itertools.pairwise(ptr)):
        table = scale * arcs(parts, ptr, i)
        trees = list(all_trees(b - a, structure.projective, structure.single_root))
        weights = np.array([tree_score(table, tree) for tree in trees])
        top = weights.max()
        expected_log = top + np.log(np.exp(weights - top).sum())
        expected = np.zeros((b - a, b - a + 1))
        for tree, weight in zip(trees, weights, strict=True):
            expected[np.arange(b - a), list(tree)] += np.exp(weight - expected_log)
        if less_gold:
            expected[np.arange(b - a), gold[a:b]] -= 1
        rounding = 1e-6 * max(1.0, scale)  # of scores in float32, before they are summed
        assert log_z[i] == pytest.approx(expected_log, rel=1e-6, abs=rounding)
        np.testing.assert_allclose(arcs((found,), ptr, i), expected, rtol=1e-5, atol=2 * rounding)


@pytest.mark.parametrize("name", TREES)
def test_marginals_of_longer_sentences_are_derivatives_of_log_z(name):
    structure = STRUCTURES[name](0)
    rng = np.random.default_rng(8)
    ptr = np.array([0, 15], np.int64)
    scores = 30 * rng.normal(size=(240, 1))  # in double: differences of floats would be too coarse
    log_z = np.zeros(1)
    (found,) = structure.marginals(Batch((scores,), (None,), ptr), (0, 1), log_z)
    totals = found.count.reshape(15, 16).sum(axis=1)
    np.testing.assert_allclose(totals, 1, atol=5e-6)
    for row in rng.choice(240, 10, replace=False):
        ends = np.zeros((2, 1))
        for k, step in enumerate((-1e-4, 1e-4)):
            moved = scores.copy()
            moved[row] += step
            structure.marginals(Batch((moved,), (None,), ptr), (0, 1), ends[k])
        assert (ends[1, 0] - ends[0, 0]) / 2e-4 == pytest.approx(found.count[row, 0], abs=1e-5)


@settings(max_examples=30)
@given(shapes)
def test_evaluate_indicator_and_losses_agree(shape):
    structure = TreeStructure()
    ptr, parts, gold = problem(*shape)
    other = np.zeros_like(gold)
    (triplets,) = structure.indicator(other, gold, (None,), ptr)
    assert np.all(np.diff(triplets.row) >= 0)
    counts = np.zeros_like(parts[0], dtype=float)
    triplets.add_to(counts, 1.0)
    values = [structure.evaluate(Batch(parts, (None,), ptr), y) for y in (other, gold)]
    assert float((counts * parts[0]).sum()) == pytest.approx((values[0] - values[1]).sum(), abs=1e-4)
    for i, (a, b) in enumerate(itertools.pairwise(ptr)):
        assert values[1][i] == pytest.approx(tree_score(arcs(parts, ptr, i), gold[a:b]), abs=1e-5)
        assert structure.losses(other, gold, COST, ptr)[i] == np.count_nonzero(other[a:b] != gold[a:b])


@pytest.mark.parametrize("name", TREES)
def test_ties_are_broken_the_same_way_every_time(name):
    structure = STRUCTURES[name](0)
    ptr = np.array([0, 3, 6], np.int64)
    parts = (np.zeros((24, 1), np.float32),)
    outputs, values = np.full(6, 9, np.int32), np.zeros(2)
    structure.decode(Batch(parts, (None,), ptr), (0, 2), outputs, values)
    assert outputs[:3].tolist() == outputs[3:].tolist()
    if name == "tree":
        assert outputs.tolist() == [0] * 6


def test_arc_rows():
    ptr = np.array([0, 2, 3], np.int64)
    assert arc_starts(ptr).tolist() == [0, 6, 8]
    assert arc_rows(ptr).tolist() == [0, 3, 6]


def test_the_oracle_answers_with_the_likelihood_of_trees():
    """−log p of gold, and its gradient by differences: what a likelihood solver needs."""
    oracle = tree_oracle(np.random.default_rng(4), TreeStructure(), sentences=6, longest=4)
    rng = np.random.default_rng(5)
    w = oracle.zeros()
    w[0][:-1] = rng.normal(size=(len(w[0]) - 1, 1))
    one = np.ones(oracle.templates)
    found = oracle.likelihood(oracle.score(w, one))
    assert found.losses.min() >= 0
    gradient = oracle.zeros()
    oracle.count(found.counts, gradient)
    for f in rng.choice(len(w[0]) - 1, 8, replace=False):
        ends = []
        for step in (-0.05, 0.05):
            moved = [u.copy() for u in w]
            moved[0][f] += step
            ends.append(float(oracle.likelihood(oracle.score(moved, one)).losses.sum()))
        assert (ends[1] - ends[0]) / 0.1 == pytest.approx(float(gradient[0][f, 0]), abs=0.02)
