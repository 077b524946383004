"""Losses: their tables, how weights are written, and what they change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.naive import corpus

from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.objective.losses import Hamming, parse_weights, tabulate
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train


def test_a_weight_is_what_missing_the_label_costs():
    table = Hamming((("B", 2.0), ("O", 0.5))).table(["A", "B", "O"])
    assert table.tolist() == [[0, 1, 1], [2, 0, 2], [0.5, 0.5, 0]]
    assert np.array_equal(Hamming().table("abc"), 1 - np.eye(3))


@given(st.dictionaries(st.text(",=aB-", min_size=1, max_size=4), st.floats(0, 1e6), max_size=4))
def test_what_is_written_is_read_or_refused(weights):
    """Labels made of commas and equal signs can be ambiguous; then something else is read, or nothing."""
    text = ",".join(f"{label}={weight!r}" for label, weight in weights.items())
    try:
        found = parse_weights(text)
    except MtlError:
        return
    assert ",".join(f"{label}={weight!r}" for label, weight in found) == text
    if not any("," in label or "=" in label for label in weights):
        assert dict(found) == weights


def test_weights_are_read_as_written():
    assert parse_weights("B-PER=2,O=0.5") == (("B-PER", 2.0), ("O", 0.5))
    assert parse_weights(",=2,==1e-1,a=b=3") == ((",", 2.0), ("=", 0.1), ("a=b", 3.0))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("B", "expected LABEL=WEIGHT pairs with commas between them, got 'B'"),
        ("A=1,B", "got 'B'"),
        ("=1", "got '=1'"),
        ("A=", "got 'A='"),
        ("A=1,A=2", "expected one weight for 'A', got two"),
    ],
)
def test_bad_weights_are_refused_with_a_sentence(text, problem):
    with pytest.raises(MtlError, match=problem):
        parse_weights(text)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (np.zeros((2, 3)), r"a table of 2 × 2 choices, got shape \(2, 3\)"),
        (np.ones((2, 2)), "zeros on its diagonal"),
        (np.array([[0, -1], [1, 0]]), "finite and not negative"),
        (np.array([[0, np.nan], [1, 0]]), "finite and not negative"),
    ],
)
def test_a_table_that_is_no_loss_is_refused(table, problem):
    class Odd:
        def table(self, choices):
            return table

    with pytest.raises(IncompatibleError, match=f"expected of Odd .*{problem}"):
        tabulate(Odd(), "ab")


def test_a_costly_label_has_the_larger_margin_and_wins_between_two():
    data = corpus([[("a", "x")]] * 3 + [[("y", "b")]] * 3, [["L0"]] * 3 + [["L1"]] * 3)
    between = corpus([[("a", "b")]], [["L0"]])
    found = []
    for weight in (0.05, 20.0):
        options = Options(task="multiclass", method="svm", loss_weights=(("L0", weight),), c=100.0)
        model = train(data, TemplateSet.parse("U0:%x[0,0]\nU1:%x[0,1]"), options).model
        assert model.facts["loss_weights"] == {"L0": weight}
        found += [model.labels[y] for y in model.predict(between)]
    assert found == ["L1", "L0"]
