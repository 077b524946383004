"""Masters: the certificate is the value on features, and every gap closes, on degenerate bundles too."""

from dataclasses import dataclass

import numpy as np
import pytest
from support.oracles import random_oracle

from mtlstruct.errors import IncompatibleError, SolverError
from mtlstruct.objective.regularizers import L2, BlockL1Squared, GroupLasso, Mixed, PBlock
from mtlstruct.solvers import CuttingPlane
from mtlstruct.solvers.cutting_plane import MASTERS, qcqp
from mtlstruct.solvers.cutting_plane.master import MAX_GAP, Array, bounds, products

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
    def gram(self):
        return np.array([self.p[:, block] @ self.p[:, block].T for block in self.blocks])

    def take(self, cuts):
        return Bundle(self.p[cuts], self.q[cuts], self.blocks)

    def solve(self, C, regularizer, **options):
        """Solve by the master that the table names."""
        return MASTERS[type(regularizer)](self.gram, self.q, C, regularizer, **options)

    def certify(self, C, alpha, mu, regularizer):
        """Return the certificate, from scratch."""
        return bounds(products(self.gram, alpha), self.q, C, alpha, mu, regularizer)

    def check(self, dual, C, regularizer, tol=TOL):
        """Check that a solution is feasible, within tol, and that the certificate confirms it."""
        assert dual.alpha.min(initial=0.0) >= 0.0
        assert dual.alpha.sum() <= C * (1 + 1e-12)
        assert dual.mu.min() >= 0.0
        if regularizer in CONIC:
            assert dual.mu.sum() == pytest.approx(1.0 if regularizer.sparse else len(self.blocks))
        again = self.certify(C, dual.alpha, dual.mu, regularizer)
        assert dual.gap <= tol
        assert again.gap <= tol + 1e-8
        assert again.objective == pytest.approx(dual.objective, rel=1e-8, abs=1e-300)


def bundle(m, s, seed=0, tokens=60):
    """Cuts as a solver meets them: differences of sparse counts, blocks of 2 to 400 features, falling q."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(np.log(2), np.log(400), m)).astype(int)
    ends = np.cumsum(sizes)
    q = 2.0 * 0.95 ** np.arange(s) * rng.uniform(0.7, 1.3, s) + 0.05
    parts = [counts(rng, q, size, tokens) for size in sizes]
    slices = tuple(slice(end - size, end) for end, size in zip(ends, sizes, strict=True))
    return Bundle(np.hstack(parts), q, slices)


def counts(rng, q, size, tokens):
    """Wrong minus right features of one template: a lasting tendency of each feature, and noise."""
    lean = rng.uniform(0.0, 0.8) * rng.standard_normal(size)
    rate = tokens * q[:, None] / np.arange(1, size + 1) / size**0.5
    return np.asarray((rng.poisson(rate * np.exp(lean)) - rng.poisson(rate * np.exp(-lean))) / tokens, float)


@every_regularizer
def test_the_certificate_is_the_value_on_features(regularizer):
    cuts, rng, C = bundle(6, 5), np.random.default_rng(3), 7.0
    alpha, mu = rng.dirichlet(np.ones(6))[:5] * C, rng.dirichlet(np.ones(6))
    v = [alpha @ cuts.p[:, block] for block in cuts.blocks]
    w = np.concatenate([-weight * part for weight, part in zip(mu, v, strict=True)])
    lengths = np.array([np.linalg.norm(w[block]) for block in cuts.blocks])
    dual = cuts.certify(C, alpha, mu, regularizer)
    hinge = max(0.0, (cuts.q + cuts.p @ w).max())
    conjugate = regularizer.conjugate(np.array([np.linalg.norm(part) for part in v]))
    assert dual.primal == pytest.approx(regularizer.value(lengths) + C * hinge)
    assert dual.objective == pytest.approx(cuts.q @ alpha - conjugate)


@pytest.mark.parametrize("C", [0.1, 1e3])
def test_nearly_the_maximum_norm_is_solved_within_the_limit(C):
    """p = 100 is all but not smooth; a solver's own certificate counts what its master leaves open."""
    cuts = bundle(40, 30, seed=3)
    cuts.check(cuts.solve(C, PBlock(100.0)), C, PBlock(100.0), tol=MAX_GAP)


@every_regularizer
def test_a_warm_start_changes_nothing_but_the_work(regularizer):
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
@pytest.mark.parametrize("q", [[0.0, 0.0, 0.0], [-1.0, 0.0, -2.0], []])
def test_nothing_to_gain_means_zero(q, regularizer):
    cuts = bundle(7, 3)
    dual = Bundle(cuts.p[: len(q)], np.array(q), cuts.blocks).solve(10.0, regularizer)
    assert dual.alpha.tolist() == [0.0] * len(q)
    assert (dual.objective, dual.primal, dual.gap) == (0.0, 0.0, 0.0)
    if regularizer in CONIC:
        assert dual.mu.sum() == pytest.approx(1.0 if regularizer.sparse else 7.0)


def degenerate():
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
        found[f"cuts come nearly twice: {noise:g}"] = Bundle(shaken, q[twice], blocks)
    return found


SIZES = [(1, 1), (1, 12), (9, 1), (5, 2), (40, 30), (134, 60)]
CASES = degenerate() | {f"{m} templates, {s} cuts": bundle(m, s, seed=m + s) for m, s in SIZES}


@pytest.mark.parametrize(("regularizer", "C"), AT_EVERY_C)
@pytest.mark.parametrize("name", CASES)
def test_the_gap_closes(name, C, regularizer):
    cuts = CASES[name]
    cuts.check(cuts.solve(C, regularizer), C, regularizer, tol=TOL if "templates, " in name else 1e-6)


@pytest.mark.parametrize("regularizer", [r for r in EVERY if r.degree == 2])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale, regularizer):
    """p in other units, with C to match, is the same program up to its value."""
    cuts, C = bundle(20, 24, seed=12), 10.0
    plain = cuts.solve(C, regularizer)
    other = Bundle(scale**0.5 * cuts.p, cuts.q, cuts.blocks).solve(C / scale, regularizer)
    assert other.objective * scale == pytest.approx(plain.objective, rel=2 * TOL)


@pytest.mark.parametrize(("constant", "value"), [("MAX_STEPS", 0), ("RIDGES", ())])
def test_a_gap_too_wide_is_an_error(constant, value, monkeypatch):
    cuts = bundle(20, 15, seed=14)
    monkeypatch.setattr(qcqp, constant, value)
    with pytest.raises(SolverError, match="expected a gap of at most 1e-03, got") as caught:
        cuts.solve(20.0, BLOCK)
    assert caught.value.gap > MAX_GAP
    with pytest.raises(SolverError):
        Bundle(cuts.p * np.nan, cuts.q, cuts.blocks).solve(1.0, BLOCK)


def test_a_regularizer_without_a_master_is_named():
    class Odd(L2):
        pass

    with pytest.raises(IncompatibleError, match=r"Odd.*BlockL1Squared, .*L2"):
        CuttingPlane().fit(random_oracle(0, 3, 2, 3), Odd(), 1.0)
