"""Feature dicts are read as python-crfsuite reads them, chunk by chunk, and kept as numbers."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.formats.feature_dicts import ALL_KEYS, OTHER_KEYS, group_of
from mtlstruct.formats.sentences import aligned, from_dicts, from_rows, label_column


def attributes(token, prefix=""):
    """What python-crfsuite makes of a token: (name, value) pairs, zeros left out. The slow twin."""
    if not isinstance(token, dict):
        return [(prefix + text, 1.0) for text in token]
    found = []
    for key, value in token.items():
        if isinstance(value, dict | list | set):
            found += attributes(value, f"{prefix}{key}:")
        elif isinstance(value, str):
            found.append((f"{prefix}{key}:{value}", 1.0))
        elif isinstance(value, np.ndarray):
            found += [(f"{prefix}{key}:{k}", float(x)) for k, x in enumerate(value)]
        else:
            found.append((prefix + key, float(value)))
    return [(name, value) for name, value in found if value != 0]


def read_back(corpus):
    """The same from the columns of a corpus."""
    found = [[] for _ in range(corpus.tokens)]
    for column in corpus.columns:
        for t in range(corpus.tokens):
            if column.ptr is None:
                entries = [t] if column.ids[t] >= 0 else []
            else:
                entries = range(column.ptr[t], column.ptr[t + 1])
            for e in entries:
                value = 1.0 if column.values is None else float(column.values[e])
                found[t].append((column.strings[column.ids[e]], value))
    return [sorted((name, value) for name, value in token if value != 0) for token in found]


names = st.text("ab=:ñ", min_size=1, max_size=3)
texts = st.text("xyz: ", max_size=2)
numbers = st.sampled_from(
    [0, 1, 1.0, 2, -0.5, 0.25, True, False, np.float32(1.5), np.int64(3), np.bool_(True)]
)
leaves = texts | numbers | st.lists(texts, max_size=3) | st.sets(texts, max_size=3)
tokens = st.dictionaries(names, leaves | st.dictionaries(names, leaves, max_size=2), max_size=4) | st.lists(
    names
)


@settings(max_examples=200)
@given(st.lists(st.lists(tokens, min_size=1, max_size=3), min_size=1, max_size=4))
def test_tokens_have_the_attributes_of_python_crfsuite(X):
    corpus = from_dicts(X).corpus
    assert read_back(corpus) == [sorted(attributes(token)) for sentence in X for token in sentence]


def test_expected_attributes_are_those_of_python_crfsuite():
    pycrfsuite = pytest.importorskip("pycrfsuite")
    nested = {"e": {"g": "h"}, "i": 3}
    token = {"w": "a:b", "t": True, "f": False, "n": 2.5, "l": ["x", "y"], "s": {"z"}, "d": nested}
    for one in (token, ["bias", "w=a"]):
        (theirs,) = pycrfsuite.ItemSequence([one]).items()
        assert sorted((name, value) for name, value in theirs.items() if value) == sorted(attributes(one))


def test_a_key_is_a_column():
    corpus = from_dicts([[{"w": "a", "next": {"w": "b"}}, ["w=c", "bias"]]]).corpus
    assert corpus.names == ("w", "next:w", "bias")
    assert corpus.columns[0].cells() == ["w:a", "w=c"]
    assert corpus.columns[0].ptr is None


def test_columns_are_plain_where_they_can_be():
    first = {"one": "a", "two": ["a", "b"], "x": 0.5, "v": np.array([1.0, 0.0])}
    one, two, x, v = from_dicts([[first, {"one": "b", "v": np.array([0, 2])}]]).corpus.columns
    assert one.ptr is None
    assert two.values is None
    np.testing.assert_array_equal(two.ptr, [0, 2, 2])
    np.testing.assert_array_equal(x.values, np.float32([0.5]))
    assert v.strings == ["v:0", "v:1"]
    np.testing.assert_array_equal(v.values.reshape(2, 2), [[1, 0], [0, 2]])


def test_groups_and_known_columns():
    X = [[{"w": "a", "w2": "b", "tag": "N", "other": 1}]]
    whole = from_dicts(X, group=lambda key: key[0])
    assert whole.corpus.names == ("w", "t", "o")
    assert whole.corpus.columns[0].cells() == ["w:a w2:b"]
    again = from_dicts(X, group=whole.groups.get, names=("t", "w", "q"))
    assert [column.cells() for column in again.corpus.columns] == [["tag:N"], ["w:a w2:b"], [""]]
    nothing = from_dicts([[{"z": "a", "y": 2.0, "x": np.ones(3)}]], names=("w",)).corpus
    assert nothing.columns[0].cells() == [""]


@pytest.mark.parametrize(
    ("X", "problem"),
    [
        ([[{"a": None}]], "X: sentence 1, token 1: expected a string, a number, a bool, a list"),
        (
            [[{"a": 1}, {"a": float("nan")}]],
            "X: sentence 1, token 2: expected a finite number for 'a', got nan",
        ),
        ([[{3: "a"}]], "expected keys that are strings, got '3' (int)"),
        ([[{"a": {3: "a"}}]], "expected keys that are strings in 'a', got '3' (int)"),
        ([[{"a": [1, 2]}]], "expected strings in the list of 'a', got '1' (int); a vector is a numpy array"),
        ([["a", "b"]], "expected a dict of features or a list of strings, got 'a' (str)"),
        ([[["a", 3]]], "expected strings in a list of features, got '3' (int)"),
        ([[{"a": "\ud800"}]], "expected text, got half of a surrogate pair"),
        ([[{"v": np.ones(2)}, {"v": np.ones(3)}]], "expected 2 numbers in 'v', got 3"),
        ([[{"v": np.array([1, np.inf])}]], "expected finite numbers in 'v', got inf"),
        ([[{"v": np.array(["a"])}]], "expected a vector of numbers for 'v'"),
        ([[{"v": np.ones(2)}, {"v": "a"}]], "X: expected vectors alone in 'v', got 'v:a', too"),
        (
            [{"a": "b"}],
            "X: expected a list of sentences, each a list of tokens, got \"{'a': 'b'}\" (dict) in place",
        ),
        ([3], "X: expected a list of sentences, each a list of tokens, got '3' (int) in place of one"),
        ([["a"], ["b"]], "got 'a' (str); X must be a list of sentences, each a list of tokens"),
    ],
)
def test_invalid_tokens_are_rejected(X, problem):
    with pytest.raises(FormatError, match=re.escape(problem)):
        from_dicts(X)


def test_too_many_keys_make_one_column_beside_those_of_vectors():
    X = [[{f"k{n}": 0.5 + (n % 2) / 2, "same": "x", "v": np.ones(2)}] for n in range(1200)]
    found = from_dicts(X)
    assert (found.corpus.names, found.groups) == ((ALL_KEYS, "v"), {"v": "v", OTHER_KEYS: ALL_KEYS})
    assert read_back(found.corpus) == [sorted(attributes(token)) for sentence in X for token in sentence]
    few = from_dicts(X[:3])
    assert read_back(aligned(few.corpus, found.corpus.names)) == read_back(found.corpus)[:3]
    again = from_dicts(X[:3], group=group_of(found.groups), names=found.corpus.names)
    assert read_back(again.corpus) == read_back(few.corpus)
    with pytest.raises(IncompatibleError, match="expected at most 1,000 keys as in the training data"):
        aligned(found.corpus, few.corpus.names)
    with pytest.raises(FormatError, match="expected at most 1,000 groups, got one more: 'k998'"):
        from_dicts(X, group=lambda key: key)


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        ([["A", "B"]], "y: expected labels for every sentence, got none for sentence 2"),
        ([["A", "B"], ["A"], ["A"]], "y: expected labels for 2 sentences, got more"),
        ([["A"], ["A"]], "y: sentence 1: expected 2 labels, one per token, got 1"),
        ([["A", 1], ["A"]], "y: sentence 1: expected labels that are strings, got 1 (int)"),
    ],
)
def test_labels_belong_to_tokens(y, problem):
    with pytest.raises(FormatError, match=re.escape(problem)):
        label_column(y, np.array([2, 1]))


def test_empty_sentences_are_left_out():
    found = from_dicts([[], [{"a": "b"}], []])
    assert found.nonempty.tolist() == [False, True, False]
    assert found.corpus.ptr.tolist() == [0, 1]


def test_rows_have_columns_of_cells_and_vectors():
    row, other = ("a", 1, np.array([1.0, 2.0])), ("b", 2.5, np.array([3.0, 4.0]))
    w, n, v = from_rows([[row, other]], names=("w", "n", "v")).corpus.columns
    assert w.cells() == ["a", "b"]
    assert n.cells() == ["1", "2.5"]
    np.testing.assert_array_equal(v.values.reshape(2, 2), [[1, 2], [3, 4]])
    with pytest.raises(FormatError, match="sentence 1, token 2: expected 1 cells in a row, got 2"):
        from_rows([[("a",), ("a", "b")]])
    with pytest.raises(FormatError, match=r"expected a row of cells, got 'ab' \(str\)"):
        from_rows([["ab"]])
