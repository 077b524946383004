"""Backward elimination: a path of nested sets, each trained to its own optimum."""

from itertools import pairwise

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train
from mtlstruct.tuning.elimination import EliminationStep, eliminate, options_of, sizes, smallest

TEMPLATES = TemplateSet.parse(
    "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[1,1]\nU3:%x[0,1]\nU4:%x[2,0]\nB\nB1:%x[0,1]"
)
TRAIN, HELD_OUT = (random_corpus(np.random.default_rng(n), sentences=30) for n in (3, 4))


def accuracy(model, corpus, outputs):
    return "accuracy", 100 * float((outputs == model.gold(corpus)).mean())


@pytest.mark.parametrize("options", [Options(gap=1e-3), Options(method="svm", gap=1e-3)])
def test_steps_are_nested_and_as_good_as_new_trainings(options):
    parts = [(TRAIN, HELD_OUT), (HELD_OUT, TRAIN)]
    steps = list(eliminate(parts, TEMPLATES, options, accuracy, locked={5}, left_out={4}, top=3))
    assert [len(step.kept) for step in steps] == [6, 5, 4, 3, 2, 1]
    assert steps[-1].kept == (5,)
    assert all(4 not in step.kept for step in steps)
    for before, after in pairwise(steps):
        assert set(after.kept) < set(before.kept)
    for step in steps:
        for model, (corpus, _) in zip(step.models, parts, strict=True):
            fit = train(corpus, TEMPLATES.select(step.kept), options).fit
            assert model.facts["dual"] <= fit.objective * (1 + 1e-6)
            assert fit.dual <= model.facts["objective"] * (1 + 1e-6)
        scores = [
            accuracy(m, gold, m.predict(gold))[1] for m, (_, gold) in zip(step.models, parts, strict=True)
        ]
        assert step.score == pytest.approx(np.mean(scores))


def test_the_least_weight_goes_first():
    first, second = list(eliminate([(TRAIN, HELD_OUT)], TEMPLATES, Options(), accuracy))[:2]
    (gone,) = set(first.kept) - set(second.kept)
    assert first.models[0].mu[gone] == first.models[0].mu.min()


def test_sizes_fall_by_a_fifth_and_the_smallest_set_within_the_tolerance_is_taken():
    assert sizes(134, 20)[:4] == [134, 107, 86, 69]
    assert 20 in sizes(134, 20)
    assert sizes(10, None, least=8) == [10, 8]
    steps = [
        EliminationStep(tuple(range(n)), "f1", score, 1.0, ())
        for n, score in ((4, 80.0), (3, 80.1), (2, 79.9), (1, 70.0))
    ]
    assert [len(smallest(steps, within).kept) for within in (0, 0.3, 20)] == [3, 2, 1]


def test_options_of_a_model_train_it_again():
    for options in (Options(method="pmtl", p=1.5, c=3.0, min_count=2), Options(method="crf-l2", seed=2)):
        model = train(TRAIN, TEMPLATES, options).model
        again = train(TRAIN, TEMPLATES, options_of(model)).model
        assert all(map(np.array_equal, model.weights, again.weights))
