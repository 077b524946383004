"""Every loss, norm and structure: objectives by enumeration, and lower bounds that no solver's objective is below."""

from dataclasses import replace

import numpy as np
import pytest
from support.duals import check_same_optimum
from support.naive import (
    all_labelings,
    all_trees,
    block_squares,
    path_score,
    random_corpus,
    random_items,
    score,
    sentence_scores,
    tree_oracle,
    tree_score,
)
from support.oracles import make_oracle

from mtlstruct.objective.losses import Hamming
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import LBFGS, Coordinate, CuttingPlane, Stop
from mtlstruct.structures import MulticlassStructure, ProjectiveTree, TreeStructure
from mtlstruct.structures.tree import arc_starts

NORMS = [L2(), BlockL1Squared(), PBlock(4 / 3), PBlock(4.0), Mixed(1.5), GroupLasso()]


class Skewed:
    """Nothing symmetric about it; some mistakes are free."""

    def table(self, choices):
        table = np.random.default_rng(5).integers(0, 4, (len(choices), len(choices))).astype(np.float32)
        np.fill_diagonal(table, 0)
        return table


def sequences(cost=None):
    return make_oracle(random_corpus(np.random.default_rng(1), 8, 4, 5), loss=cost)


def items(cost=None):
    data = random_items(np.random.default_rng(0), 30)
    return make_oracle(data, "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[0,0]/%x[0,1]", MulticlassStructure, cost)


def trees(structure):
    oracle = tree_oracle(np.random.default_rng(8), structure, sentences=8, longest=4)
    chains = np.concatenate([np.arange(n, dtype=np.int32) for n in np.diff(oracle.encoded.ptr)])
    return oracle if type(structure) is TreeStructure else replace(oracle, gold=chains)


CASES = {
    "sequences": sequences,
    "sequences, weighted": lambda: sequences(Hamming((("L1", 4.0), ("L2", 0.0)))),
    "sequences, skewed": lambda: sequences(Skewed()),
    "items": items,
    "items, skewed": lambda: items(Skewed()),
    "trees": lambda: trees(TreeStructure()),
    "projective trees": lambda: trees(ProjectiveTree()),
}
LOSSES = {"hinge": (0.0, 1.0), "log": (1.0, 0.0), "softmax-margin": (0.5, 2.0)}
CELLS = [
    (case, loss)
    for case in CASES
    for loss in LOSSES
    if not ("trees" in case and loss == "softmax-margin") and not ("," in case and loss == "log")
]


def outputs(oracle, weights, scale):
    """For each sentence the scores with the cost added of all outputs, and the score of gold."""
    if not isinstance(oracle.structure, TreeStructure):
        for nodes, edges, gold in sentence_scores(oracle, weights, scale):
            costly = nodes + oracle.cost[gold]
            every = [path_score(costly, edges, path) for path in all_labelings(*nodes.shape)]
            yield np.array(every), path_score(nodes, edges, gold)
        return
    ptr = oracle.encoded.ptr
    scores = score(oracle.encoded.designs[0], weights[0].astype(float), scale)[:, 0]
    for i, (n, first) in enumerate(zip(np.diff(ptr), arc_starts(ptr), strict=False)):
        arcs, gold = scores[first : first + n * (n + 1)].reshape(n, n + 1), oracle.gold[ptr[i] : ptr[i + 1]]
        costly = arcs + oracle.cost[0, 1] * (np.arange(n + 1) != gold[:, None])
        every = [tree_score(costly, tree) for tree in all_trees(n, oracle.structure.projective)]
        yield np.array(every), tree_score(arcs, gold)


def objective(oracle, fit, regularizer, c):
    """Ω(w) + c·Σξ_i with every output of every sentence looked at."""
    total, T = 0.0, oracle.temperature
    for every, gold in outputs(oracle, fit.weights, fit.scale):
        total += (T * np.logaddexp.reduce(every / T) if T else max(gold, every.max())) - gold
    return regularizer.value(np.sqrt(block_squares(oracle, fit.weights, fit.scale))) + c * total


@pytest.mark.parametrize("norm", NORMS, ids=str)
@pytest.mark.parametrize(("case", "loss"), CELLS)
def test_all_solvers_reach_one_optimum_with_true_certificates(case, loss, norm):
    (temperature, weight), oracle, stop, c = LOSSES[loss], CASES[case](), Stop(gap=2e-3, max_passes=600), 1.0
    oracle = replace(oracle, cost=np.float32(weight) * oracle.cost, temperature=temperature)
    solvers = [Coordinate(stop)]
    if loss == "hinge":
        solvers += [CuttingPlane(stop, line_search=True)]
    elif loss == "log" and norm != PBlock(4.0):
        solvers += [LBFGS(stop)]
    fits = [solver.fit(oracle, norm, c) for solver in solvers]
    check_same_optimum(fits)
    for fit in fits:
        assert fit.converged
        assert fit.gap <= 2e-3
        assert fit.objective == pytest.approx(objective(oracle, fit, norm, c), rel=1e-4)
        assert fit.epsilon == pytest.approx((fit.objective - fit.dual) / (c * oracle.sentences))
    if norm.sparse:
        assert np.array_equal(fits[0].mu == 0, fits[0].scale == 0)
