"""Masters: certificates, an independent conic solver as oracle, and bundles degenerate in every way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import IncompatibleError, SolverError
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock, Regularizer
from mtlstruct.solvers.cutting_plane import Dual, certify, master_for
from mtlstruct.solvers.cutting_plane import group_lasso as lasso
from mtlstruct.solvers.cutting_plane import qcqp as conic
from mtlstruct.solvers.cutting_plane.master import Array

BLOCK = BlockL1Squared()
CONIC = [L2(), BLOCK]
EVERY = [*CONIC, PBlock(4 / 3), PBlock(4.0), Mixed(1.5), GroupLasso()]
AT_EVERY_C = [(r, C) for r in EVERY for C in ((1e-3, 1.0, 1e4, 1e8) if r in CONIC else (0.1, 1e3))]
TOL = 1e-7
every_regularizer = pytest.mark.parametrize("regularizer", EVERY)


@dataclass(frozen=True)
class Bundle:
    """Cuts with their features, which masters never see: p float64[s,d], blocks as slices of d."""

    p: Array
    q: Array
    blocks: tuple[slice, ...]

    @property
    def gram(self) -> Array:
        return np.array([self.p[:, block] @ self.p[:, block].T for block in self.blocks])

    def take(self, cuts: Any) -> Bundle:
        return Bundle(self.p[cuts], self.q[cuts], self.blocks)

    def solve(self, C: float, regularizer: Regularizer, **options: Any) -> Dual:
        """Solve by the master that the table names."""
        return master_for(regularizer)(self.gram, self.q, C, regularizer, **options)

    def check(self, dual: Dual, C: float, regularizer: Regularizer, tol: float = TOL) -> None:
        """Check that a solution is feasible, within tol, and that the certificate confirms it."""
        assert dual.alpha.min(initial=0.0) >= 0.0
        assert dual.alpha.sum() <= C * (1 + 1e-12)
        assert dual.mu.min() >= 0.0
        if regularizer in CONIC:
            assert dual.mu.sum() == pytest.approx(1.0 if regularizer.sparse else len(self.blocks))
        again = certify(self.gram, self.q, C, dual.alpha, dual.mu, regularizer)
        tol = max(tol, lasso.ENOUGH) if isinstance(regularizer, GroupLasso) else tol
        assert dual.gap <= tol
        assert again.gap <= tol + 1e-8
        assert again.objective == pytest.approx(dual.objective, rel=1e-8, abs=1e-300)


def bundle(m: int, s: int, seed: int = 0, tokens: int = 60) -> Bundle:
    """Cuts as a learner meets them: differences of sparse counts, blocks of 2 to 400 features, falling q."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(2), np.log(400), m)).astype(int)
    ends = np.cumsum(sizes)
    q = 2.0 * 0.95 ** np.arange(s) * rng.uniform(0.7, 1.3, s) + 0.05
    parts = [counts(rng, q, size, tokens) for size in sizes]
    slices = tuple(slice(end - size, end) for end, size in zip(ends, sizes, strict=True))
    return Bundle(np.hstack(parts), q, slices)


def counts(rng: np.random.Generator, q: Array, size: int, tokens: int) -> Array:
    """Wrong minus right features of one template: a lasting tendency of each feature, and noise."""
    lean = rng.uniform(0.0, 0.8) * rng.standard_normal(size)
    rate = tokens * q[:, None] / np.arange(1, size + 1) / size**0.5
    return np.asarray((rng.poisson(rate * np.exp(lean)) - rng.poisson(rate * np.exp(-lean))) / tokens, float)


def clarabel_value(gram: Array, q: Array, C: float) -> float:
    """max −½γ² + q·α s.t. ‖F_j α‖ ≤ γ, α ≥ 0, Σα ≤ C with F_jᵀF_j = Q^j, by a general conic solver."""
    clarabel = pytest.importorskip("clarabel")
    s = len(q)
    rows, right, cones = [sp.eye(s, s + 1) * -1.0], [np.zeros(s)], [clarabel.NonnegativeConeT(s + 1)]
    rows.append(sp.csr_matrix(np.append(np.ones(s), 0.0)))
    right.append(np.array([C]))
    for block in gram:
        values, vectors = np.linalg.eigh(block)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        rows.append(sp.csr_matrix(-np.block([[np.zeros((1, s)), np.ones((1, 1))], [root, np.zeros((s, 1))]])))
        right.append(np.zeros(s + 1))
        cones.append(clarabel.SecondOrderConeT(s + 1))
    quadratic = sp.csc_matrix((np.ones(1), ([s], [s])), shape=(s + 1, s + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_rel, settings.tol_gap_abs = False, 1e-9, 1e-9
    args = (quadratic, np.append(-q, 0.0), sp.vstack(rows).tocsc(), np.concatenate(right), cones, settings)
    return -float(clarabel.DefaultSolver(*args).solve().obj_val)


# ── the certificate ──


@every_regularizer
def test_the_certificate_is_the_value_on_features(regularizer: Regularizer) -> None:
    cuts, rng, C = bundle(6, 5), np.random.default_rng(3), 7.0
    alpha, mu = rng.dirichlet(np.ones(6))[:5] * C, rng.dirichlet(np.ones(6))
    v = [alpha @ cuts.p[:, block] for block in cuts.blocks]
    w = np.concatenate([-weight * part for weight, part in zip(mu, v, strict=True)])
    lengths = np.array([np.linalg.norm(w[block]) for block in cuts.blocks])
    dual = certify(cuts.gram, cuts.q, C, alpha, mu, regularizer)
    hinge = max(0.0, (cuts.q + cuts.p @ w).max())
    conjugate = regularizer.conjugate(np.array([np.linalg.norm(part) for part in v]))
    assert dual.primal == pytest.approx(regularizer.value(lengths) + C * hinge)
    assert dual.objective == pytest.approx(cuts.q @ alpha - conjugate)


@every_regularizer
@given(seed=st.integers(0, 2**32 - 1), C=st.floats(1e-3, 1e4))
def test_any_pair_gives_bounds_on_the_optimum(regularizer: Regularizer, seed: int, C: float) -> None:
    rng = np.random.default_rng(seed)
    cuts = bundle(4, 6, seed % 5)
    best = cuts.solve(C, regularizer)
    alpha = rng.dirichlet(np.full(7, 0.3))[:6] * C
    any_pair = certify(cuts.gram, cuts.q, C, alpha, rng.dirichlet(np.full(4, 0.3)), regularizer)
    assert any_pair.objective <= best.primal * (1 + 1e-9)
    assert best.objective <= any_pair.primal * (1 + 1e-9)


# ── the optimum ──


@pytest.mark.parametrize(("regularizer", "C"), AT_EVERY_C)
@pytest.mark.parametrize(("m", "s"), [(1, 1), (1, 12), (9, 1), (5, 2), (40, 30), (134, 60)])
def test_the_gap_closes(m: int, s: int, C: float, regularizer: Regularizer) -> None:
    cuts = bundle(m, s, seed=m + s)
    cuts.check(cuts.solve(C, regularizer), C, regularizer)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e3])
def test_nearly_the_maximum_norm_is_solved_within_the_limit(C: float) -> None:
    """p = 100 is all but not smooth; a learner's own certificate counts what its master leaves open."""
    cuts = bundle(40, 30, seed=3)
    cuts.check(cuts.solve(C, PBlock(100.0)), C, PBlock(100.0), tol=conic.LIMIT)


@pytest.mark.parametrize("C", [0.1, 10.0, 1e3])
@pytest.mark.parametrize(("m", "s"), [(1, 8), (12, 15), (30, 10)])
def test_clarabel_agrees(m: int, s: int, C: float) -> None:
    cuts = bundle(m, s, seed=1)
    assert cuts.solve(C, BLOCK).objective == pytest.approx(clarabel_value(cuts.gram, cuts.q, C), rel=1e-6)
    assert cuts.solve(C, L2()).objective == pytest.approx(
        clarabel_value(cuts.gram.sum(axis=0)[None], cuts.q, C), rel=1e-6
    )


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_slack_is_complementary(C: float) -> None:
    """mu lives where ½‖v_j‖² = θ, alpha where the cut is as violated as any."""
    cuts = bundle(40, 30, seed=5)
    dual = cuts.solve(C, BLOCK, tol=1e-9)
    half = 0.5 * np.einsum("r,jrs,s->j", dual.alpha, cuts.gram, dual.alpha)
    assert (dual.mu * (half.max() - half)).max() <= 1e-7 * half.max()
    assert (half[dual.mu > 1e-4] > (1 - 1e-3) * half.max()).all()
    assert dual.mu[half < 0.99 * half.max()].max() < 1e-5
    score = cuts.q - np.einsum("j,jrs,s->r", dual.mu, cuts.gram, dual.alpha)
    assert dual.alpha @ (max(0.0, score.max()) - score) <= 1e-7 * dual.primal


def test_one_cut_in_closed_form() -> None:
    cuts = bundle(9, 1, seed=2)
    steepest = cuts.gram[:, 0, 0].max()
    for C in (0.1 * cuts.q[0] / steepest, 1e3):
        dual = cuts.solve(C, BLOCK, tol=1e-10)
        assert dual.alpha[0] == pytest.approx(min(C, cuts.q[0] / steepest), rel=1e-4)
        assert dual.mu[cuts.gram[:, 0, 0].argmax()] > 0.99


@pytest.mark.parametrize("C", [1.0, 50.0])
def test_one_template_is_l2(C: float) -> None:
    cuts = bundle(20, 15)
    block = Bundle(cuts.p, cuts.q, (slice(None),)).solve(C, BLOCK)
    plain = cuts.solve(C, L2())
    assert block.objective == pytest.approx(plain.objective, rel=2 * TOL)
    assert block.mu.tolist() == [1.0]
    assert plain.mu.tolist() == [1.0] * 20


@every_regularizer
def test_order_does_not_matter(regularizer: Regularizer) -> None:
    cuts, rng = bundle(25, 20, seed=4), np.random.default_rng(0)
    templates, order = rng.permutation(25), rng.permutation(20)
    here = cuts.solve(20.0, regularizer, tol=1e-10)
    other = Bundle(cuts.p[order], cuts.q[order], tuple(cuts.blocks[j] for j in templates))
    there = other.solve(20.0, regularizer, tol=1e-10)
    assert there.objective == pytest.approx(here.objective, rel=1e-8)
    np.testing.assert_allclose(there.mu, here.mu[templates], atol=1e-4)


@every_regularizer
def test_the_value_rises_with_cuts_and_c_and_falls_with_templates(regularizer: Regularizer) -> None:
    cuts = bundle(12, 25, seed=6)
    by_cuts = [cuts.take(slice(s)).solve(30.0, regularizer) for s in range(1, 26, 4)]
    by_c = [cuts.solve(C, regularizer) for C in (0.01, 0.1, 1.0, 10.0, 100.0, 1e3)]
    by_templates = [
        Bundle(cuts.p, cuts.q, cuts.blocks[:m]).solve(30.0, regularizer) for m in range(12, 0, -3)
    ]
    for run in (by_cuts, by_c, by_templates):
        for before, after in pairwise(run):
            assert after.objective >= before.objective * (1 - TOL)


@every_regularizer
def test_a_warm_start_changes_nothing_but_the_work(regularizer: Regularizer) -> None:
    cuts, C = bundle(40, 30, seed=8), 50.0
    cold = cuts.solve(C, regularizer)
    earlier = cuts.take(slice(29)).solve(C, regularizer)
    good = [earlier.alpha, np.append(earlier.alpha, 0.0), cold.alpha]
    bad = [np.zeros(0), np.zeros(30), 10 * C * cuts.q, -cuts.q]
    for start in good + bad:
        warm = cuts.solve(C, regularizer, start=start)
        cuts.check(warm, C, regularizer)
        assert warm.objective == pytest.approx(cold.objective, rel=2 * TOL)


@every_regularizer
def test_a_cutting_plane_loop_reaches_the_optimum_over_the_whole_pool(regularizer: Regularizer) -> None:
    """Algorithm 1 with a finite pool of cuts as its oracle: the bound rises to the value of the pool."""
    pool, C = bundle(30, 200, seed=9), 20.0
    w, alpha = np.zeros(pool.p.shape[1]), np.zeros(0)
    known: list[int] = []
    lower = [-np.inf]
    while (worst := int((pool.q + pool.p @ w).argmax())) not in known:
        known.append(worst)
        cuts = pool.take(known)
        dual = cuts.solve(C, regularizer, start=alpha)
        cuts.check(dual, C, regularizer)
        alpha, lower = dual.alpha, [*lower, dual.objective]
        assert lower[-1] >= lower[-2] - TOL * abs(lower[-1])
        for block, weight in zip(pool.blocks, dual.mu, strict=True):
            w[block] = -weight * (alpha @ cuts.p[:, block])
    whole = pool.solve(C, regularizer)
    assert lower[-1] == pytest.approx(whole.objective, rel=1e-5)
    assert len(known) < 150


# ── degenerate bundles ──


@every_regularizer
@pytest.mark.parametrize("q", [[0.0, 0.0, 0.0], [-1.0, 0.0, -2.0], []])
def test_nothing_to_gain_means_zero(q: list[float], regularizer: Regularizer) -> None:
    cuts = bundle(7, 3)
    dual = Bundle(cuts.p[: len(q)], np.array(q), cuts.blocks).solve(10.0, regularizer)
    assert dual.alpha.tolist() == [0.0] * len(q)
    assert (dual.objective, dual.primal, dual.gap) == (0.0, 0.0, 0.0)
    if regularizer in CONIC:
        assert dual.mu.sum() == pytest.approx(1.0 if regularizer.sparse else 7.0)


def degenerate() -> dict[str, Bundle]:
    cuts, rng = bundle(20, 24, seed=11), np.random.default_rng(1)
    p, q, blocks, rows, features = cuts.p, cuts.q, cuts.blocks, np.arange(24), np.arange(cuts.p.shape[1])
    twice, widths = np.repeat(np.arange(12), 2), [block.stop - block.start for block in blocks]
    found = {
        "some q are zero": Bundle(p, q * (rows % 3 == 0), blocks),
        "some q are negative": Bundle(p, q - 0.5, blocks),
        "cuts come twice": cuts.take(twice),
        "cuts come twice with other q": Bundle(p[twice], q, blocks),
        "all cuts are the same": cuts.take(np.zeros(24, int)),
        "some cuts have no features": Bundle(p * (rows % 4 > 0)[:, None], q, blocks),
        "most templates are dead": Bundle(p * (features < 40), q, blocks),
        "all templates are dead": Bundle(0.0 * p, q, blocks),
        "all templates are the same": Bundle(p, q, blocks[-1:] * 20),
        "templates of all scales": Bundle(p * 10.0 ** np.repeat(rng.uniform(-4, 4, 20), widths), q, blocks),
        "cuts of all scales": Bundle(p * 10.0 ** rng.uniform(-4, 4, (24, 1)), q, blocks),
    }
    for noise in (1e-4, 1e-7, 1e-10):
        shaken = p[twice] + noise * rng.standard_normal(p.shape)
        found[f"cuts come nearly twice, {noise:g}"] = Bundle(shaken, q[twice], blocks)
    return found


DEGENERATE = degenerate()


@pytest.mark.parametrize(("regularizer", "C"), AT_EVERY_C)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_bundles(name: str, C: float, regularizer: Regularizer) -> None:
    cuts = DEGENERATE[name]
    cuts.check(cuts.solve(C, regularizer), C, regularizer, tol=1e-6)


@pytest.mark.parametrize("regularizer", [r for r in EVERY if r.degree == 2])
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_units_do_not_matter(scale: float, regularizer: Regularizer) -> None:
    """p in other units, with C to match, is the same program up to its value."""
    cuts, C = bundle(20, 24, seed=12), 10.0
    plain = cuts.solve(C, regularizer)
    other = Bundle(scale**0.5 * cuts.p, cuts.q, cuts.blocks)
    assert other.solve(C / scale, regularizer).objective * scale == pytest.approx(
        plain.objective, rel=2 * TOL
    )
    for far in (1e-3, 1e8):
        other.check(other.solve(far, regularizer), far, regularizer)


def test_a_cut_met_twice_changes_nothing() -> None:
    cuts = bundle(20, 12, seed=13)
    once = cuts.solve(10.0, BLOCK)
    twice = cuts.take([*range(12), 3, 3, 5]).solve(10.0, BLOCK)
    assert twice.objective == pytest.approx(once.objective, rel=2 * TOL)


# ── when Newton fails ──


@pytest.mark.parametrize("regularizer", CONIC)
def test_the_slow_method_takes_over(regularizer: Regularizer, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = bundle(20, 15, seed=14)
    fast = cuts.solve(20.0, regularizer)
    monkeypatch.setattr(conic, "STEPS", 0)
    slow = cuts.solve(20.0, regularizer)
    cuts.check(slow, 20.0, regularizer, tol=conic.LIMIT)
    assert slow.objective <= fast.primal * (1 + 1e-12)
    assert slow.objective == pytest.approx(fast.objective, rel=conic.LIMIT)


def test_a_matrix_without_a_factor_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = bundle(20, 15, seed=14)
    monkeypatch.setattr(conic, "RIDGES", ())
    cuts.check(cuts.solve(20.0, BLOCK), 20.0, BLOCK, tol=conic.LIMIT)


def test_a_gap_too_wide_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = bundle(20, 15, seed=14)
    monkeypatch.setattr(conic, "STEPS", 0)
    monkeypatch.setattr(conic, "SWEEPS", 0)
    with pytest.raises(SolverError, match="expected a gap of at most 1e-03, got") as caught:
        cuts.solve(20.0, BLOCK)
    assert caught.value.gap > conic.LIMIT


def test_nan_is_an_error() -> None:
    cuts = bundle(5, 6)
    with pytest.raises(SolverError):
        Bundle(cuts.p * np.nan, cuts.q, cuts.blocks).solve(1.0, BLOCK)


# ── the table ──


def test_a_regularizer_without_a_master_is_named() -> None:
    class Odd(L2):
        pass

    with pytest.raises(IncompatibleError, match=r"Odd.*BlockL1Squared, .*L2"):
        master_for(Odd())
