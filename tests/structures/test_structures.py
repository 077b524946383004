"""Every structure by enumeration: best and N best outputs, values, indicators, losses, marginals; hard cases."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.duals import check_certificate, make_oracle, silent
from support.naive import all_labelings, all_trees, is_projective, is_tree, random_items

from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.regularizers import L2
from mtlstruct.solvers import Coordinate, Stop
from mtlstruct.structures import STRUCTURES, MulticlassStructure, SequenceStructure, Structure, TreeStructure
from mtlstruct.structures.base import FORBIDDEN, Batch
from mtlstruct.structures.sequence import MIN_LABELS_TO_PRUNE
from mtlstruct.structures.tree import arc_starts

pytestmark = pytest.mark.jitless

TREES = [name for name in STRUCTURES if name.endswith("tree")]
every = pytest.mark.parametrize("name", STRUCTURES)
every_tree = pytest.mark.parametrize("name", TREES)
shapes = st.tuples(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.booleans(),
)
"""Seed, labels, lengths of sentences, and whether scores are whole numbers, which have many ties."""


@dataclass
class Problem:
    """Random part scores, with every output of every sentence and the parts that it uses."""

    structure: Structure
    batch: Batch
    gold: np.ndarray
    cost: np.ndarray
    outputs: list  # for each sentence the tuples of all outputs

    @classmethod
    def draw(cls, name, seed, labels, lengths, coarse):
        rng, structure = np.random.default_rng(seed), STRUCTURES[name](labels)
        ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        tokens, tree = int(ptr[-1]), isinstance(structure, TreeStructure)
        sizes = [int(arc_starts(ptr)[-1])] if tree else [tokens, 2]
        shapes = list(zip(sizes, structure.widths(), strict=False))
        parts = tuple(rng.integers(-1, 2, s) if coarse else rng.normal(size=s) for s in shapes)
        edges = rng.integers(0, 2, tokens - len(lengths)).astype(np.int32)
        batch = Batch(tuple(p.astype(np.float32) for p in parts), (None, edges)[: len(parts)], ptr)
        if tree:
            outputs = [list(all_trees(n, structure.projective, structure.single_root)) for n in lengths]
        else:
            outputs = [list(all_labelings(n, labels)) for n in lengths]
        gold = np.array([y for some in outputs for y in some[int(rng.integers(len(some)))]], np.int32)
        choices = structure.choices("abcdefgh"[:labels])
        cost = Hamming(((choices[0], 2.5), (choices[1], 0.0))).table(choices)
        return cls(structure, batch, gold, cost, outputs)

    def parts(self, i, output):
        """Yield kind, row and part of each part of an output of sentence i."""
        start, n = self.batch.ptr[i], len(output)
        if isinstance(self.structure, TreeStructure):
            first = arc_starts(self.batch.ptr)[i]
            yield from ((0, first + m * (n + 1) + h, 0) for m, h in enumerate(output))
            return
        yield from ((0, start + t, y) for t, y in enumerate(output))
        if len(self.batch.parts) > 1:
            for t, (y, z) in enumerate(itertools.pairwise(output)):
                yield 1, self.batch.rows[1][start + t - i], y * self.structure.labels + z

    def scores(self, i, scale=1.0, augmented=False):
        """Return the scores of all outputs of sentence i."""
        values = [[float(self.batch.parts[k][r, p]) for k, r, p in self.parts(i, y)] for y in self.outputs[i]]
        losses = [self.loss(i, y) if augmented else 0.0 for y in self.outputs[i]]
        return scale * np.array([sum(some) for some in values]) + losses

    def loss(self, i, output):
        gold = self.gold[self.batch.ptr[i] : self.batch.ptr[i + 1]]
        if isinstance(self.structure, TreeStructure):
            return float(self.cost[0, 1]) * int(np.sum(gold != output))
        return float(self.cost[gold, list(output)].sum())

    def tables(self):
        return [np.zeros(part.shape) for part in self.batch.parts]

    def spans(self):
        """Return two spans, as threads would have them."""
        count = len(self.outputs)
        return (0, count // 2), (count // 2, count)

    def split(self, outputs):
        return [tuple(outputs[a:b].tolist()) for a, b in itertools.pairwise(self.batch.ptr)]


@every
@settings(max_examples=50)
@given(shapes, st.sampled_from([1.0, 0.5, 2.0]), st.booleans())
def test_decode_is_the_best_of_all_outputs(name, shape, scale, augmented):
    problem = Problem.draw(name, *shape)
    outputs, values = np.full(len(problem.gold), 9, np.int32), np.zeros(len(problem.outputs))
    extra = {"gold": problem.gold, "cost": problem.cost} if augmented else {}
    for span in problem.spans():
        problem.structure.decode(problem.batch, span, outputs, values, scale=scale, **extra)
    for i, found in enumerate(problem.split(outputs)):
        scores = problem.scores(i, scale, augmented)
        assert scores[problem.outputs[i].index(found)] == pytest.approx(scores.max(), abs=1e-4)
        assert values[i] == pytest.approx(scores.max(), abs=1e-4)


@every
@settings(max_examples=30)
@given(shapes, st.randoms(use_true_random=False))
def test_evaluate_losses_and_indicator_are_those_of_the_parts(name, shape, random):
    problem = Problem.draw(name, *shape)
    structure, batch, gold = problem.structure, problem.batch, problem.gold
    other = np.array([y for some in problem.outputs for y in random.choice(some)], np.int32)
    scores = structure.evaluate(batch, other)
    losses, expected = structure.losses(other, gold, problem.cost, batch.ptr), problem.tables()
    for i, (one, right) in enumerate(zip(problem.split(other), problem.split(gold), strict=True)):
        assert scores[i] == pytest.approx(problem.scores(i)[problem.outputs[i].index(one)], abs=1e-4)
        assert losses[i] == pytest.approx(problem.loss(i, one))
        for sign, output in ((1, one), (-1, right)):
            for kind, row, part in problem.parts(i, output):
                expected[kind][row, part] += sign
    found = problem.tables()
    for triplets, table in zip(structure.indicator(other, gold, batch.rows, batch.ptr), found, strict=True):
        assert np.all(np.diff(triplets.row) >= 0)
        triplets.add_to(table, 1.0)
    assert all(map(np.array_equal, found, expected))


@every
@settings(max_examples=40)
@given(shapes, st.sampled_from([1.0, 0.5, 3.0, 40.0]), st.booleans(), st.booleans())
def test_marginals_are_those_of_all_outputs(name, shape, scale, less_gold, forbidden):
    """At scale 40 edges are too far apart for scaled messages; a forbidden pair is −inf; both go by logarithms."""
    problem = Problem.draw(name, *shape)
    if forbidden and len(problem.batch.parts) > 1:
        problem.batch.parts[1][0, 1] = -np.inf
    found, expected, log_z = problem.tables(), problem.tables(), np.zeros(len(problem.outputs))
    gold = problem.gold if less_gold else None
    for span in problem.spans():
        counts = problem.structure.marginals(problem.batch, span, log_z, scale=scale, gold=gold)
        for some, table in zip(counts, found, strict=True):
            some.add_to(table)
    rounding = 1e-6 * max(1.0, scale)  # of scores in float32, before they are summed
    for i, right in enumerate(problem.split(problem.gold)):
        scores = problem.scores(i, scale)
        total = np.logaddexp.reduce(scores)
        assert log_z[i] == pytest.approx(total, rel=1e-6, abs=10 * rounding)
        for output, p in [*zip(problem.outputs[i], np.exp(scores - total), strict=True), (right, -less_gold)]:
            for kind, row, part in problem.parts(i, output):
                expected[kind][row, part] += p
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 + 2 * rounding)


@pytest.mark.parametrize("name", ["sequence", "multiclass"])
@settings(max_examples=30)
@given(shapes)
def test_n_best_are_the_first_of_all_outputs(name, shape):
    problem = Problem.draw(name, *shape)
    best = np.zeros((6, len(problem.gold)), np.int32)
    values = np.zeros((len(problem.outputs), 6))
    for span in problem.spans():
        problem.structure.nbest(problem.batch, span, best, values)
    for i in range(len(problem.outputs)):
        scores = problem.scores(i)
        count = min(6, len(scores))
        np.testing.assert_allclose(values[i, :count], np.sort(scores)[::-1][:count], atol=1e-4)
        assert np.all(values[i, count:] == -np.inf)
        found = [problem.split(best[k])[i] for k in range(count)]
        assert len(set(found)) == count
        own = [scores[problem.outputs[i].index(output)] for output in found]
        np.testing.assert_allclose(own, values[i, :count], atol=1e-4)


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


@every
def test_ties_are_broken_the_same_way_every_time(name):
    structure, ptr = STRUCTURES[name](3), np.array([0, 3, 6], np.int64)
    sizes = zip([24 if name in TREES else 6, 1], structure.widths(), strict=False)
    parts = tuple(np.zeros(size, np.float32) for size in sizes)
    outputs, batch = np.full(6, 9, np.int32), Batch(parts, (None, np.zeros(4, np.int32))[: len(parts)], ptr)
    structure.decode(batch, (0, 2), outputs, np.zeros(2))
    assert outputs[:3].tolist() == outputs[3:].tolist()
    if name not in TREES or name == "tree":
        assert outputs.tolist() == [0] * 6  # the smaller number


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


@every_tree
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


@every_tree
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


def test_an_item_without_features_trains():
    """All mass goes to some other class, since nothing can be learned about it."""
    oracle = make_oracle(
        random_items(np.random.default_rng(6), 20), "U0:%x[0,0]\nU1:%x[0,1]", MulticlassStructure
    )
    design = oracle.encoded.designs[0]
    design.ids[: len(design.blocks)] = design.layout.attributes
    fit = Coordinate(Stop(gap=1e-3)).fit(oracle, L2(), 1.0, silent)
    check_certificate(fit, oracle, L2(), 1.0)
