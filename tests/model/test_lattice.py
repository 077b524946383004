"""Part scores against enumeration: N best, constraints, probabilities of labels, spans and sequences."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import all_labelings, all_trees, path_score
from support.sequences import problem, shapes, tables

from mtlstruct._system import threads
from mtlstruct.errors import IncompatibleError, InfeasibleError, MtlError, ResourceError
from mtlstruct.model.lattice import Lattice
from mtlstruct.structures import STRUCTURES, SequenceStructure
from mtlstruct.structures.constraints import Constraints

pytestmark = pytest.mark.jitless

limits = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.2, 0.5]))


def lattice_of(shape):
    ptr, parts, rows, _ = problem(*shape)
    return Lattice(SequenceStructure(shape[1]), parts, rows, ptr)


def drawn(limit, L, tokens):
    """Random constraints: each pair and each choice is forbidden with the same chance."""
    rng, chance = np.random.default_rng(limit[0]), limit[1]
    return Constraints(rng.random((L + 1, L + 1)) >= chance, rng.random((tokens, L)) >= chance)


def keeps(path, allowed, pairs):
    steps = itertools.pairwise([-1, *path, -1])  # row and column −1 are the edges of the sentence
    return all(pairs[a, b] for a, b in steps) and all(allowed[t, y] for t, y in enumerate(path))


def sorted_paths(lattice, i, constraints):
    """All labelings of a sentence that keep the constraints, by falling score, then by their last labels."""
    L, (a, b) = lattice.structure.labels, lattice.ptr[i : i + 2]
    nodes, edges = tables(lattice.parts, lattice.rows, lattice.ptr, i, L)
    found = [
        (path_score(nodes, edges, path), path)
        for path in all_labelings(b - a, L)
        if keeps(path, constraints.labels[a:b], constraints.pairs)
    ]
    return sorted(found, key=lambda pair: (-pair[0], pair[1][::-1]))


def restricted(shape, limit):
    """A lattice with random constraints, and for each sentence all labelings that keep them, best first."""
    lattice = lattice_of(shape)
    constraints = drawn(limit, shape[1], int(lattice.ptr[-1]))
    found = [sorted_paths(lattice, i, constraints) for i in range(len(lattice.ptr) - 1)]
    return lattice.restricted(constraints), found


@settings(max_examples=60)
@given(shapes, limits, st.sampled_from([1, 2, 5, 300]))
def test_n_best_are_the_first_of_all_labelings(shape, limit, count):
    """With whole numbers as scores sums are exact and ties many: their order is fixed, and Viterbi's is its first."""
    lattice, expected = restricted(shape, limit)
    if not all(expected):
        for infer in (lattice.best, lattice.marginals, lambda: lattice.nbest(count)):
            with pytest.raises(InfeasibleError) as caught:
                infer()
            assert caught.value.sentence == next(i for i, found in enumerate(expected) if not found)
        return
    ranked = lattice.nbest(count)
    for i, found in enumerate(paths[:count] for paths in expected):
        span = slice(*lattice.ptr[i : i + 2])
        assert np.isneginf(ranked.values[i, len(found) :]).all()
        np.testing.assert_allclose(ranked.values[i, : len(found)], [value for value, _ in found], atol=1e-5)
        paths = ranked.outputs[: len(found), span]
        assert len({tuple(path) for path in paths.tolist()}) == len(found)
        if shape[-1]:
            assert paths.tolist() == [list(path) for _, path in found]
            assert lattice.best()[span].tolist() == list(found[0][1])


@settings(max_examples=40)
@given(shapes, limits, st.sampled_from([0.3, 1.0, 4.0]))
def test_probabilities_are_those_of_all_labelings_allowed(shape, limit, temperature):
    lattice, expected = restricted(shape, limit)
    if not all(expected):
        return
    marginals, ranked = lattice.marginals(temperature), lattice.nbest(3)
    sequence = marginals.sequence(ranked.values)
    best = lattice.best()
    np.testing.assert_allclose(marginals.sequence(lattice.evaluate(best)), sequence[:, 0], atol=1e-6)
    np.testing.assert_allclose(marginals.chosen(best), marginals.node[np.arange(len(best)), best])
    for i, found in enumerate(expected):
        weight = np.exp(np.array([value for value, _ in found]) / temperature)
        p = weight / weight.sum()
        paths = np.array([path for _, path in found])
        a, b = lattice.ptr[i : i + 2]
        for t in range(b - a):
            wanted = np.bincount(paths[:, t], p, shape[1])
            np.testing.assert_allclose(marginals.node[a + t], wanted, atol=1e-5)
        np.testing.assert_allclose(sequence[i, : len(p)], p[:3], atol=1e-5)
        assert not sequence[i, len(p) :].any()
        spans = [(s, e) for s in range(a, b) for e in range(s + 1, b + 1)]
        starts, stops = np.array(spans).T
        together = lattice.spans(best, starts, stops, marginals)
        for (start, stop), probability in zip(spans, together, strict=True):
            same = (paths[:, start - a : stop - a] == best[start:stop]).all(axis=1)
            assert probability == pytest.approx(p[same].sum(), abs=1e-5)


def test_more_results_than_the_first_capacity_for_candidates():
    """Long enough that lists of candidates are made for more than 64 labels at tokens."""
    lattice = lattice_of((5, 3, [40], 2, False))
    ranked = lattice.nbest(200)
    assert np.all(np.diff(ranked.values[0]) <= 0)
    assert len({tuple(path) for path in ranked.outputs.tolist()}) == 200
    for k in (0, 60, 199):
        assert lattice.evaluate(ranked.outputs[k])[0] == pytest.approx(ranked.values[0, k], abs=1e-9)


def test_nbest_rejects_zero_and_too_many():
    lattice = lattice_of((5, 3, [40], 2, False))
    with pytest.raises(MtlError, match="expected at least 1 best output to list, got 0"):
        lattice.nbest(0)
    with pytest.raises(ResourceError, match="listing the 1,000,000,000,000 best outputs needs about"):
        lattice.nbest(10**12)


def test_threads_do_not_change_a_bit():
    lattice = lattice_of((7, 3, [30] * 120, 4, False))
    assert len(threads.chunks(lattice.ptr)) > 2
    found = []
    before = threads.get_threads()
    for count in (1, 2):
        threads.set_threads(count)
        ranked, marginals = lattice.nbest(3), lattice.marginals(2.0)
        found.append([ranked.outputs, ranked.values, marginals.node, marginals.log_partition])
    threads.set_threads(before)
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()


def test_inference_without_sentences():
    parts = np.zeros((0, 2), np.float32), np.zeros((1, 4), np.float32)
    empty = Lattice(SequenceStructure(2), parts, (None, np.zeros(0, np.int32)), np.zeros(1, np.int64))
    lattice = empty.restricted(Constraints(np.ones((3, 3), bool), np.ones((0, 2), bool)))
    assert lattice.best().shape == (0,)
    assert lattice.nbest(2).values.shape == (0, 2)
    assert lattice.marginals().node.shape == (0, 2)


def test_missing_inference_of_a_structure_is_an_error():
    class Tree:
        name = "tree"
        labels = 2

    lattice = Lattice(Tree(), (), (), np.zeros(1, np.int64))
    for infer in (lattice.marginals, lambda: lattice.nbest(2), lambda: lattice.restricted(Constraints())):
        with pytest.raises(IncompatibleError, match="structure 'tree' has no way to"):
            infer()


@pytest.mark.parametrize("name", ["tree", "single-root-projective-tree"])
def test_trees_and_heads_have_probabilities_that_sum_to_one(name):
    structure = STRUCTURES[name](0)
    ptr = np.array([0, 3, 5], np.int64)
    scores = np.random.default_rng(0).normal(0, 2, (18, 1)).astype(np.float32)
    lattice = Lattice(structure, (scores,), (None,), ptr)
    marginals = lattice.marginals(0.7)
    trees = [list(all_trees(n, structure.projective, structure.single_root)) for n in (3, 2)]
    longest = max(map(len, trees))
    found = [np.concatenate([some[k % len(some)] for some in trees]).astype(np.int32) for k in range(longest)]
    chosen = np.array([marginals.sequence(lattice.evaluate(heads)) for heads in found])
    for i, some in enumerate(trees):
        assert chosen[: len(some), i].sum() == pytest.approx(1, abs=1e-5)
    heads = [np.full(5, h, np.int32) for h in range(3)]
    sums = sum(marginals.chosen(one) for one in heads)[3:]
    assert sums == pytest.approx(np.ones(2), abs=1e-5)
