"""Random fields on Spanish beside what CRF++ 0.59 printed for the same templates, c and stopping rule."""

import pytest
from test_realdata import chunk_f1, ner, silent

from mtlstruct.templates import generate
from mtlstruct.training.train import Options, train

pytestmark = pytest.mark.realdata

OBJECTIVE, F1 = 14201.96, 74.45
"""The last `obj` of `crf_learn -c 1`, and conlleval's F1 of `crf_test` on the test part."""


def words_and_pos():
    """Words and parts of speech in −3..3, and the transition."""
    return generate((-3, 3), columns=(0, 1), bigrams=False)


def test_the_objective_and_the_score_are_those_of_crf_learn():
    training = train(ner("esp", "train"), words_and_pos(), Options(method="crf-l2", eta=1e-4), silent)
    score = chunk_f1(training.model, ner("esp", "test"))
    print(
        f"\ncrf-l2: objective {training.fit.objective:.2f}, F1 {score:.2f} after {training.fit.passes} passes"
    )
    assert training.fit.dual < OBJECTIVE
    assert training.fit.objective == pytest.approx(OBJECTIVE, rel=1e-3)
    assert score == pytest.approx(F1, abs=0.15)
