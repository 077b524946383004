"""Items with one class each: by enumeration, and as sequences of one token."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.duals import check_certificate, make_oracle, silent
from support.naive import random_items

from mtlstruct.objective.losses import WeightedHamming
from mtlstruct.objective.regularizers import L2
from mtlstruct.solvers import Coordinate, Stop
from mtlstruct.structures import MulticlassStructure, SequenceStructure
from mtlstruct.structures.base import Batch


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 5),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([1.0, 0.5, 3.0]),
)
def test_decode_evaluate_and_indicator_by_enumeration(seed, L, lengths, coarse, scale):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    T, S = int(ptr[-1]), len(lengths)
    parts = (rng.integers(-1, 2, (T, L)) if coarse else rng.normal(size=(T, L))).astype(np.float32)
    gold, other = rng.integers(0, L, (2, T)).astype(np.int32)
    cost = WeightedHamming((("a", 2.5), ("b", 0.0))).table("abcde"[:L])
    structure = MulticlassStructure(L)
    for augmented in (False, True):
        outputs, values = np.full(T, 9, np.int32), np.zeros(S)
        extra = {"gold": gold, "cost": cost} if augmented else {}
        structure.decode(Batch((parts,), (None,), ptr), (0, S), outputs, values, scale=scale, **extra)
        table = scale * parts + (cost[gold] if augmented else 0)
        assert outputs.tolist() == table.argmax(axis=1).tolist()  # ties to the smaller number
        best = [table[a:b].max(axis=1).sum() for a, b in itertools.pairwise(ptr)]
        np.testing.assert_allclose(values, best, atol=1e-5)
    score = structure.evaluate(Batch((parts,), (None,), ptr), other)
    loss = structure.losses(other, gold, cost, ptr)
    for i, (a, b) in enumerate(itertools.pairwise(ptr)):
        assert score[i] == pytest.approx(sum(parts[t, other[t]] for t in range(a, b)), abs=1e-5)
        assert loss[i] == pytest.approx(sum(cost[gold[t], other[t]] for t in range(a, b)), abs=1e-5)
    counts = np.zeros((T, L))
    (triplets,) = structure.indicator(other, gold, (None,), ptr)
    triplets.add_to(counts, 1.0)
    assert np.array_equal(counts, np.eye(L)[other] - np.eye(L)[gold])


def test_probabilities_and_n_best_are_those_of_sequences_of_length_one():
    rng = np.random.default_rng(8)
    L, T = 4, 12
    parts = rng.normal(size=(T, L)).astype(np.float32)
    gold = rng.integers(0, L, T).astype(np.int32)
    flat = np.zeros((1, L * L), np.float32)
    for ptr in (np.arange(T + 1), np.array([0, 3, 4, 9, 12])):
        S = len(ptr) - 1
        linked = np.zeros(T - S, np.int32)
        found = []
        for structure, batch in (
            (MulticlassStructure(L), Batch((parts,), (None,), ptr)),
            (SequenceStructure(L), Batch((parts, flat), (None, linked), ptr)),
        ):
            log_z, best, values = np.zeros(S), np.zeros((6, T), np.int32), np.zeros((S, 6))
            shares, *_ = structure.marginals(batch, (0, S), log_z, scale=0.7, gold=gold)
            structure.nbest(batch, (0, S), best, values)
            there = np.repeat(values > -np.inf, np.diff(ptr), axis=0).T  # an item has no more than L outputs
            assert shares.row == slice(0, int(ptr[-1]))
            found.append((shares.count, log_z, values, best * there))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_an_item_without_features_trains():
    """All mass goes to some other class, since nothing can be learned about it."""
    oracle = make_oracle(
        random_items(np.random.default_rng(6), 20), "U0:%x[0,0]\nU1:%x[0,1]", MulticlassStructure
    )
    design = oracle.encoded.designs[0]
    design.ids[: len(design.blocks)] = design.layout.attributes
    fit = Coordinate(Stop(gap=1e-3)).fit(oracle, L2(), 1.0, silent)
    check_certificate(fit, oracle, L2(), 1.0)
