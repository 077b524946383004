"""Degenerate data: training ends with a certificate, or with an error that names the overflow."""

from dataclasses import replace

import numpy as np
import pytest
from support.naive import corpus, random_corpus

from mtlstruct.errors import FormatError, SolverError
from mtlstruct.formats.sentences import from_dicts
from mtlstruct.solvers.base import check_finite
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

LINES = "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[0,1]/%x[1,1]\nB"
A, B, C = ("a", "p"), ("b", "q"), ("c", "p")


def of(data, lines=LINES):
    return data, TemplateSet.parse(lines)


def words(seed=0):
    return random_corpus(np.random.default_rng(seed), 6, 5, 5)


def numbers(value):
    """Feature dicts with a word, and a number that `value` makes of a random one."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(8):
        word = rng.integers(0, 4, int(rng.integers(1, 4))).tolist()
        X.append([{"w": f"w{w}", "x": value(rng.normal()), "one": 1.0} for w in word])
        y.append([f"L{(w + int(rng.random() < 0.2)) % 3}" for w in word])
    data = from_dicts(X, y).corpus
    lines = [f'U{k}:%x[0,"{name}"]' for k, name in enumerate(data.names)]
    return of(data, "\n".join([*lines, "B"]))


DATA = {
    "near-duplicate cuts": lambda: of(words().take(np.tile(np.arange(6), 3))),
    "duplicate templates": lambda: of(words(1), f"{LINES}\nU0:%x[0,0]\nU0:%x[0,0]\nU9:%x[0,0]\nB"),
    "templates with one value": lambda: of(corpus([[A] * 3, [A] * 2, [A]], [[*"XYX"], [*"YY"], ["X"]])),
    "a column of zeros": lambda: numbers(lambda x: 0.0 * x),
    "a label that never occurs": lambda: of(replace(words(2), labels=("L0", "L1", "L2", "never"))),
    "one sentence": lambda: of(corpus([[A, B, C]], [["X", "Y", "X"]])),
    "separable": lambda: of(
        corpus([[(f"w{i}", "p"), (f"v{i}", "q")] for i in range(6)], [["X", "Y"], ["Y", "Z"]] * 3)
    ),
    "contradictory": lambda: of(corpus([[A, B], [A, B], [C]], [["X", "Y"], ["Y", "X"], ["X"]])),
    "huge values": lambda: numbers(lambda x: 1e30 * x),
    "subnormal values": lambda: numbers(lambda x: 1e-40 * x),
}
BOTH = [(method, solver) for method in ("mtl", "svm", "pmtl", "group-lasso", "mixed")
        for solver in ("coordinate", "cutting-plane")]  # fmt: skip


def fitted(name, method, solver=None, **options):
    data, templates = DATA[name]()
    training = train(data, templates, Options(method=method, solver=solver, **options))
    assert all(np.isfinite(weights).all() for weights in training.model.weights)
    assert training.fit.dual <= training.fit.objective * (1 + 1e-6)
    return training.fit


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(("method", "solver"), [*BOTH, ("crf-l2", None)])
def test_training_converges_to_a_certified_gap(name, method, solver):
    slow = (method, solver) == ("group-lasso", "cutting-plane")  # seconds for the last percent
    gap = 0.05 if slow else 0.01
    fit = fitted(name, method, solver, max_iter=100, gap=gap)
    assert fit.converged
    assert fit.gap <= gap


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("method", ["crf-l1", "irw-crf"])
def test_crf_l1_and_irw_crf_stop_by_eta(name, method):
    fit = fitted(name, method, max_iter=500)
    assert fit.passes < 500
    if method == "crf-l1":
        assert fit.objective == pytest.approx(fitted(name, method, eta=1e-7).objective, rel=0.01)


@pytest.mark.parametrize("method", ["mtl", "svm", "crf-l2"])
def test_the_gap_for_a_huge_c_is_reported(method):
    """The result after a few passes is certified, and `converged` is right."""
    fit = fitted("one sentence", method, c=1e6, max_iter=5)
    assert np.isfinite([fit.objective, fit.dual]).all()
    assert fit.converged == (fit.gap <= 0.01)


def test_an_overflow_is_reported_with_its_pass():
    check_finite(3, objective=1.0)
    problem = r"^pass 3: the lower bound is no longer a number \(nan\); try a smaller c"
    with pytest.raises(SolverError, match=problem):
        check_finite(3, objective=1.0, lower_bound=float("nan"))
    for method in ("mtl", "svm"):
        with pytest.raises(SolverError, match=r"^pass 1: the .+ is no longer a number"):
            fitted("huge values", method, scaling="none")


def test_numbers_beyond_float32_are_rejected():
    with pytest.raises(FormatError, match=r"expected a finite number up to 3.4e\+38 for 'x', got 1e\+39"):
        numbers(lambda x: 1e39)
