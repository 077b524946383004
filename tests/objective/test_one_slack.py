"""Theorem 1 of the paper: one slack for all sentences, or one for each, have the same optimum.

Both programs are written out with every constraint there is and given to a general conic solver; the cutting-plane
solver, which solves the one, and the coordinate solver, which solves the other, must bracket the same number.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from support.naive import all_labelings, random_corpus, random_items
from support.oracles import features, make_oracle

from mtlstruct.objective.losses import Hamming, WeightedHamming
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed
from mtlstruct.solvers import Coordinate, CuttingPlane, Stop
from mtlstruct.structures import MulticlassStructure, SequenceStructure

clarabel = pytest.importorskip("clarabel")

SENTENCES = random_corpus(np.random.default_rng(1), sentences=4, longest=3, words=3, labels=2)
ITEMS = random_items(np.random.default_rng(2), items=5, words=3, labels=3)
NORMS = {"mtl": BlockL1Squared(), "svm": L2(), "group-lasso": GroupLasso(), "mixed": Mixed(2.0)}
CASES = {
    "sequence": (SENTENCES, "U0:%x[0,0]\nU1:%x[0,1]/%x[1,1]\nB", SequenceStructure),
    "multiclass": (ITEMS, "U0:%x[0,0]\nU1:%x[0,1]", MulticlassStructure),
}


def oracle_of(name, loss):
    data, templates, structure = CASES[name]
    return make_oracle(data, templates, structure=structure, loss=loss)


def constraints(oracle):
    """For each sentence (Δ, δΦ) of every output, gold included, with all features in one vector."""
    found = []
    for i in range(oracle.sentences):
        a, b = oracle.encoded.ptr[i : i + 2]
        rows = []
        for labeling in all_labelings(b - a, oracle.structure.labels):
            outputs = oracle.gold.copy()
            outputs[a:b] = labeling
            loss = oracle.structure.losses(outputs, oracle.gold, oracle.cost, oracle.encoded.ptr).sum()
            rows.append(
                (float(loss), -np.concatenate([u.ravel() for u in features(oracle, outputs)]).astype(float))
            )
        found.append(rows)
    return found


def blocks(oracle):
    """The places of each template's features in that vector."""
    out, start = [], 0
    for design, u in zip(oracle.encoded.designs, oracle.zeros(), strict=True):
        width = u.shape[1]
        for first, last in itertools.pairwise(design.layout.block_ptr):
            out.append(np.arange(start + first * width, start + last * width))
        start += u.size
    return out


def solve(rows, slack_of, slacks, price, groups, regularizer):
    """min Ω(w) + price·Σξ s.t. w·δΦ_r ≥ Δ_r − ξ_slack_of[r], ξ ≥ 0, by a conic solver. Variables w, ξ, bounds t."""
    d, m = len(rows[0][1]), len(groups) if regularizer.sparse else 0
    size = d + slacks + m
    quadratic = np.zeros((size, size))
    linear = np.zeros(size)
    if isinstance(regularizer, L2 | Mixed):
        quadratic[:d, :d] = np.eye(d)
    if isinstance(regularizer, BlockL1Squared | Mixed):
        quadratic[d + slacks :, d + slacks :] = 1.0  # ½(Σt)²
    if isinstance(regularizer, GroupLasso):
        linear[d + slacks :] = 0.5
    linear[d : d + slacks] = price
    A = np.zeros((len(rows) + slacks, size))
    for r, (_, phi) in enumerate(rows):
        A[r, :d] = -phi
        A[r, d + slack_of[r]] = -1
    A[len(rows) :, d : d + slacks] = -np.eye(slacks)
    right = [-np.array([loss for loss, _ in rows]), np.zeros(slacks)]
    cones, stack = [clarabel.NonnegativeConeT(len(A))], [A]
    for j in range(m):  # ‖w_j‖ ≤ t_j
        cone = np.zeros((len(groups[j]) + 1, size))
        cone[0, d + slacks + j] = -1
        cone[np.arange(1, len(cone)), groups[j]] = -1
        stack.append(cone)
        right.append(np.zeros(len(cone)))
        cones.append(clarabel.SecondOrderConeT(len(cone)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-7
    solution = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(quadratic)), linear, sp.csc_matrix(np.vstack(stack)), np.concatenate(right), cones,
        settings,
    ).solve()  # fmt: skip
    assert str(solution.status) == "Solved"
    return float(solution.obj_val)


@pytest.mark.parametrize("regularizer", NORMS.values(), ids=NORMS)
@pytest.mark.parametrize("loss", [Hamming(), WeightedHamming((("L0", 3.0),))], ids=["hamming", "weighted"])
@pytest.mark.parametrize("c", [0.1, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_one_slack_and_n_slack_have_one_optimum(name, c, loss, regularizer):
    oracle = oracle_of(name, loss)
    each, groups, n = constraints(oracle), blocks(oracle), oracle.sentences
    many = [row for rows in each for row in rows]
    owner = [i for i, rows in enumerate(each) for _ in rows]
    n_slack = solve(many, owner, n, c, groups, regularizer)
    joint = [
        (sum(loss for loss, _ in rows) / n, sum(phi for _, phi in rows) / n)
        for rows in itertools.product(*each)
    ]
    one_slack = solve(joint, [0] * len(joint), 1, c * n, groups, regularizer)
    assert one_slack == pytest.approx(n_slack, rel=1e-5)
    for solver in (Coordinate(Stop(gap=1e-4)), CuttingPlane(Stop(gap=1e-4))):
        fit = solver.fit(oracle, regularizer, c)
        assert fit.converged
        assert fit.dual <= n_slack * (1 + 1e-5)
        assert n_slack <= fit.objective * (1 + 1e-5)
