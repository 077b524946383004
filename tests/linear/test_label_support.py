"""Observed label support against the dense problem with the other features at zero."""

from dataclasses import replace

import numpy as np
import pytest
from support.duals import check_same_optimum, close_the_gap, keep_books, make_oracle, ragged, silent
from support.naive import block_squares, count, entries, objective, random_corpus, random_items, score

from mtlstruct.linear import products as linear
from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.regularizers import L2, BlockL1Squared, ElasticNet
from mtlstruct.solvers import LBFGS, OWLQN, Coordinate, CuttingPlane, Stop
from mtlstruct.structures import MulticlassStructure, SequenceStructure
from mtlstruct.templates import TemplateSet

LINES = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[0,1]/%x[1,1]\nB\nB1:%x[0,1]"
BAGS = "U0:%x[0,0]\nU1:%x[-1,0]\nU1:%x[0,0]\nU1:%x[1,0]\nB"


def pair(seed, lines=LINES, *, items=False, shared=False, loss=Hamming, change=None, **sizes):
    """Return the oracle of the dense layout, and the one of observed labels."""
    rng = np.random.default_rng(seed)
    data = random_items(rng, **sizes) if items else random_corpus(rng, labels=5, **sizes)
    templates = TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[0,0]/%x[0,1]" if items else lines)
    structure = MulticlassStructure if items else SequenceStructure
    every = make_oracle(data, templates.shared() if shared else templates, structure, loss())
    if change is not None:
        first, *rest = every.encoded.designs
        every = replace(every, encoded=replace(every.encoded, designs=(change(first), *rest)))
    return every, replace(every, encoded=every.encoded.supported(data.outputs, len(data.labels)))


def mask(oracle):
    """Which attribute has which label, by looking at every entry: bool[attributes + 1, L]."""
    design = oracle.encoded.designs[0]
    out = np.zeros((design.layout.attributes + 1, oracle.structure.labels), bool)
    for row, _, a, x in entries(design):
        out[a, oracle.gold[row]] |= x != 0
    return out


def spread(oracle, weights):
    """Listed weights as a table with a column for each label."""
    design = oracle.encoded.designs[0]
    table = design.layout.rows_of(weights[0], np.arange(design.layout.attributes + 1))
    return [table, *weights[1:]]


CHANGES = {
    "plain": {},
    "shared": {"lines": BAGS, "shared": True},
    "ragged": {"change": lambda design: ragged(design, real=False)},
    "real": {"change": lambda design: ragged(design, real=True)},
    "items": {"items": True},
}


@pytest.mark.jitless
@pytest.mark.parametrize("case", CHANGES)
def test_support_has_the_observed_labels(case):
    every, some = pair(0, **CHANGES[case])
    support = some.encoded.designs[0].layout.support
    table = np.zeros((len(support.ptr) - 1, support.width), bool)
    for a in range(len(support.ptr) - 1):
        own = support.labels[support.ptr[a] : support.ptr[a + 1]]
        assert np.all(np.diff(own) > 0)
        table[a, own] = True
    np.testing.assert_array_equal(table, mask(every))
    assert some.features == mask(every).sum() + sum(u[:-1].size for u in every.zeros()[1:]) < every.features


@pytest.mark.jitless
@pytest.mark.parametrize("case", CHANGES)
def test_score_and_count_are_those_of_the_dense_layout(case):
    every, some = pair(1, **CHANGES[case])
    rng = np.random.default_rng(2)
    design, plain = some.encoded.designs[0], every.encoded.designs[0]
    weights = rng.normal(size=(design.layout.support.features + 1, 1)).astype(np.float32)
    weights[-1] = 0
    scale = rng.normal(size=some.templates)
    out = np.zeros((design.rows, some.structure.labels), np.float32)
    linear.score(design, weights, scale, out)
    table = spread(some, [weights])[0]
    np.testing.assert_allclose(out, score(plain, table, scale), rtol=1e-4, atol=1e-4)

    z = rng.normal(size=out.shape).astype(np.float32)
    z[::3] = 0
    found = np.zeros_like(weights)
    linear.count(design, z, found)
    expected = np.where(mask(every), count(plain, z, table.shape), 0)
    np.testing.assert_allclose(spread(some, [found])[0], expected, rtol=1e-4, atol=1e-4)
    assert found[-1] == 0
    norms = linear.squared_norms(some.encoded.designs[:1], [weights], some.templates)
    np.testing.assert_allclose(norms, block_squares(replace_first(every), [table], np.ones(some.templates)))


def replace_first(oracle):
    """The oracle with its first kind only."""
    return replace(oracle, encoded=replace(oracle.encoded, designs=oracle.encoded.designs[:1]))


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("c", [0.1, 10.0])
def test_block_updates_raise_the_dual_and_maintain_norms(case, c):
    keep_books(pair(3, **CHANGES[case])[1], c)


@pytest.mark.parametrize("case", CHANGES)
def test_block_updates_close_the_gap_for_fixed_weights(case):
    assert close_the_gap(pair(4, **CHANGES[case])[1], 300) < 1e-2


MARGINS = {
    "coordinate": Coordinate(Stop(gap=2e-3, max_passes=400)),
    "cutting-plane": CuttingPlane(Stop(gap=2e-3, max_passes=600)),
    "line-search": CuttingPlane(Stop(gap=2e-3, max_passes=300), line_search=True),
}


@pytest.mark.parametrize("regularizer", [BlockL1Squared(), L2()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("name", MARGINS)
def test_the_certificate_is_that_of_the_smaller_problem(name, regularizer):
    """The objective by enumeration, on a table in which the features left out are zero; all solvers agree on it."""
    every, some = pair(5, sentences=10, longest=4)
    fit = MARGINS[name].fit(some, regularizer, 1.0, silent)
    assert fit.converged
    assert fit.dual <= fit.objective * (1 + 1e-6)
    table = spread(some, fit.weights)
    assert not table[0][~mask(every)].any()
    assert fit.objective == pytest.approx(objective(every, table, fit.scale, regularizer, 1.0), rel=1e-4)
    other = MARGINS["coordinate"].fit(some, regularizer, 1.0, silent)
    check_same_optimum([fit, other])
    full = MARGINS["coordinate"].fit(every, regularizer, 1.0, silent)
    assert full.dual < fit.objective  # fewer features cannot do better


@pytest.mark.parametrize(
    ("solver", "regularizer"), [(LBFGS, L2()), (LBFGS, BlockL1Squared()), (OWLQN, ElasticNet())]
)
@pytest.mark.parametrize("case", ["plain", "shared", "items"])
def test_random_fields_end_with_the_true_objective(solver, regularizer, case):
    every, some = pair(7, **CHANGES[case])
    fit = solver(Stop(gap=2e-3, max_passes=500)).fit(some, regularizer, 1.0, silent)
    assert fit.gap <= 2e-3
    table = spread(some, fit.weights)
    assert not table[0][~mask(every)].any()
    loss = some.likelihood(some.score(fit.weights, fit.scale)).total
    assert loss == pytest.approx(every.likelihood(every.score(table, fit.scale)).total, rel=1e-4)
    norms = some.absolute_sums(fit.weights) if solver is OWLQN else np.sqrt(some.squared_norms(fit.weights))
    assert fit.objective == pytest.approx(regularizer.value(norms) + loss, rel=1e-4)
