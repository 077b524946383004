"""Constraints: rules by their text, valid chunks by the grammar of each scheme, given labels, given cuts."""

import itertools
import re

import numpy as np
import pytest

from mtlstruct.errors import IncompatibleError
from mtlstruct.structures.constraints import Constraints

LABELS = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")


def forbidden(*rules, labels=LABELS):
    """The pairs that rules forbid, by name; ^ and $ are the edges of a sentence."""
    pairs = Constraints.from_rules(rules, labels).pairs
    before, after = [*labels, "^"], [*labels, "$"]
    return {(before[a], after[b]) for a, b in np.argwhere(~pairs).tolist()}


def test_pairs_forbidden_by_rules():
    assert forbidden() == set()
    assert forbidden("O>I-PER") == {("O", "I-PER")}
    assert forbidden("O>I-*") == {("O", "I-LOC"), ("O", "I-PER")}
    assert forbidden(">I-PER") == {("^", "I-PER")}
    assert forbidden("B-*>") == {("B-LOC", "$"), ("B-PER", "$")}
    assert forbidden("B-LOC>O", "*-LOC>O") == {("B-LOC", "O"), ("I-LOC", "O")}
    assert len(forbidden("*>*")) == 25


def test_labels_with_special_characters():
    labels = ("*", ">", "a.c", "a>b", "abc")
    assert forbidden("abc>*", labels=labels) == {("abc", "*")}  # a label's own name comes before a pattern
    assert forbidden(">>a.c", labels=labels) == {(">", "a.c")}
    assert forbidden("a>b>a.c", labels=labels) == {("a>b", "a.c")}
    assert forbidden("a.*>abc", labels=labels) == {("a.c", "abc")}
    with pytest.raises(IncompatibleError, match="'a>b>c' can be read in 2 ways"):
        forbidden("a>b>c", labels=("a", "a>b", "b>c", "c"))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("O", "expected LABEL>LABEL, got 'O'"),
        ("O>I-X", "expected labels of the model (B-LOC, B-PER, I-LOC, I-PER, O), got 'I-X'"),
        ("X-*>O", "got 'X-*'"),
        (">", "got '>'"),
    ],
)
def test_a_rule_that_names_no_label(rule, problem):
    with pytest.raises(IncompatibleError, match=re.escape(problem)):
        forbidden(rule)


GRAMMARS = {
    "bio": (("B-X", "B-Y", "I-X", "I-Y", "O"), "(O|B-X(I-X)*|B-Y(I-Y)*)+"),
    "a type of one token only": (("B-X", "B-Y", "I-X", "O"), "(O|B-X(I-X)*|B-Y)+"),
    "without O": (("B", "I"), "(BI*)+"),
    "bie": (("B", "E", "I"), "(B|BI*E)+"),
    "bmes": (("B", "E", "M", "S"), "(S|BM*E)+"),
    "bioes": (("B-X", "E-X", "I-X", "S-X", "S-Y", "O"), "(O|S-X|S-Y|B-X(I-X)*E-X)+"),
    "bilou": (("B-X", "L-X", "I-X", "U-X", "O"), "(O|U-X|B-X(I-X)*L-X)+"),
    "bmewo": (("B-X", "E-X", "M-X", "W-X", "O"), "(O|W-X|B-X(M-X)*E-X)+"),
}


@pytest.mark.parametrize("scheme", GRAMMARS)
def test_valid_labelings_are_those_of_the_grammar(scheme):
    labels, grammar = GRAMMARS[scheme]
    pairs = Constraints.valid_chunks(labels).pairs
    seen = set()
    for n in (1, 2, 3, 4):
        for path in itertools.product(range(len(labels)), repeat=n):
            allowed = all(pairs[a, b] for a, b in itertools.pairwise([-1, *path, -1]))
            assert allowed == bool(re.fullmatch(grammar, "".join(labels[y] for y in path)))
            seen.add(allowed)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("NN", "VB"), "expected labels of chunks, such as B-X, I-X, E-X, S-X and O, got 'NN'"),
        (("I-X", "O"), "there is I-X, but no B-X"),
        (("B-X", "I-X", "I-Y", "O"), "there is I-Y, but no B-Y"),
        (("E", "S"), "there is E, but no B"),
    ],
)
def test_labels_that_are_no_chunks(labels, problem):
    with pytest.raises(IncompatibleError, match=problem):
        Constraints.valid_chunks(labels)


def test_constraints_from_labels_and_boundaries():
    kept = Constraints.from_labels(np.array([2, -1], np.int32), 3).labels
    assert kept.tolist() == [[False, False, True], [True, True, True]]
    allowed = Constraints.from_boundaries(np.array([0, 2]), 4, ("B", "E", "M", "S")).labels
    start, end, free = [True, False, False, True], [False, True, False, True], [True] * 4
    assert allowed.tolist() == [start, end, start, free]


def test_and_combines_constraints():
    a, b = Constraints.from_rules(["O>I-PER"], LABELS), Constraints.valid_chunks(LABELS)
    np.testing.assert_array_equal((a & b).pairs, a.pairs & b.pairs)
    assert (a & Constraints()).pairs is a.pairs
    both = Constraints.from_labels(np.array([2, -1], np.int32), 3) & Constraints.from_labels(
        np.array([-1, 1], np.int32), 3
    )
    assert both.labels.tolist() == [[False, False, True], [False, True, False]]
