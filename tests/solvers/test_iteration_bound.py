"""The constants of the paper's bound on iterations, and that Algorithm 1 stays below it."""

import itertools

import numpy as np
import pytest
from support.oracles import features, random_oracle

from benchmarks.bound import iterations
from benchmarks.programs.bound import constants, trace

TEMPLATES = "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[-1,1]\nB\nB1:%x[0,1]"


def oracle_of(seed, labels):
    return random_oracle(seed, 5, 4, 2, labels, templates=TEMPLATES)


def largest_difference(oracle):
    """Every output of every sentence, against gold."""
    best, ptr, L = 0.0, oracle.encoded.ptr, oracle.structure.labels
    for i in range(oracle.sentences):
        for labels in itertools.product(range(L), repeat=int(ptr[i + 1] - ptr[i])):
            outputs = oracle.gold.copy()
            outputs[ptr[i] : ptr[i + 1]] = labels
            best = max(best, float(oracle.squared_norms(features(oracle, outputs)).sum()))
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("labels", [2, 4])
def test_the_largest_difference_lies_between_the_two_constants(seed, labels):
    oracle = oracle_of(seed, labels)
    found = constants(oracle)
    truth = largest_difference(oracle)
    assert found["squared_found"] <= truth + 1e-6
    assert truth <= found["squared_most"] + 1e-6
    assert found["delta"] == np.diff(oracle.encoded.ptr).max()


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_algorithm_1_stays_below_its_bound(c):
    oracle = oracle_of(1, 3)
    found = constants(oracle)
    steps = trace(oracle, c, 0.01, 60)
    assert steps[-1] < 0.01
    for epsilon in (1.0, 0.1, 0.01):
        taken = next(k for k, value in enumerate(steps, 1) if value < epsilon)
        assert taken <= iterations(epsilon, found["squared_most"], found["delta"], c * oracle.sentences)
