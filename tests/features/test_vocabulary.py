"""Hash tables over arrays against dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.features.vocabulary import PairTable, Vocabulary, rank_by_count

pytestmark = pytest.mark.jitless


@given(st.lists(st.text(max_size=6), unique=True, max_size=60), st.lists(st.text(max_size=6), max_size=30))
def test_a_vocabulary_is_a_dictionary(known, asked):
    vocabulary = Vocabulary.of(known)
    number = {s: i for i, s in enumerate(known)}
    assert vocabulary.strings() == known
    assert len(vocabulary) == len(known)
    assert vocabulary.lookup(known).tolist() == list(range(len(known)))
    assert vocabulary.lookup(asked).tolist() == [number.get(s, -1) for s in asked]


def lists_of_pairs(largest):
    return st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, largest)), max_size=80)


pair_lists = lists_of_pairs(5) | lists_of_pairs(2**31 - 1)  # numbered in a dense table, and hashed


@given(pair_lists, pair_lists)
def test_a_pair_table_numbers_pairs_by_first_appearance(pairs, asked):
    left, right = (np.array([p[k] for p in pairs], np.int32) for k in (0, 1))
    table, numbers = PairTable.build(left, right)
    seen = {}
    for a, b in pairs:
        if a >= 0 and b >= 0:
            seen.setdefault((a, b), len(seen))
    assert numbers.tolist() == [seen.get(p, -1) for p in pairs]
    assert list(zip(table.left().tolist(), table.right().tolist(), strict=True)) == list(seen)
    some = [np.array([p[k] for p in asked], np.int32) for k in (0, 1)]
    expected = [seen.get(p, -1) for p in asked]
    assert table.lookup(*some).tolist() == expected
    assert PairTable(table.pairs).lookup(*some).tolist() == expected


def test_a_pair_table_grows():
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, 1000, 20000).astype(np.int32) for _ in range(2))
    table, numbers = PairTable.build(left, right)
    assert len(table) == len(set(zip(left.tolist(), right.tolist(), strict=True)))
    assert np.array_equal(table.lookup(left, right), numbers)


@given(st.lists(st.integers(0, 200_000), max_size=40), st.integers(1, 4))
def test_ranks_fall_with_counts_and_ties_keep_their_order(counts, least):
    ranks, kept = rank_by_count(np.array(counts, np.int64), least)
    order = sorted((i for i, n in enumerate(counts) if n >= least), key=lambda i: (-counts[i], i))
    assert kept == len(order)
    expected = [-1] * len(counts)
    for rank, i in enumerate(order):
        expected[i] = rank
    assert ranks.tolist() == expected
