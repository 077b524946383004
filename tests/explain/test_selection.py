"""Choosing templates: the heaviest, those above a weight, and the lines of the user's file."""

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.explain.selection import above, selected_lines, top
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

SOURCE = "# words\nU0:%x[0,0]\n\nU1:%x[-1,0]/%x[0,0]\n# both\nU2:%x[1,1]\nU\nB\nB1:%x[0,1]\nU9:%x[0,1]\n"
TEMPLATES = TemplateSet.parse(SOURCE)


@pytest.fixture(scope="module", params=["mtl", "svm"])
def model(request):
    data = random_corpus(np.random.default_rng(3), 40, 6, 9)
    return train(data, TEMPLATES, Options(method=request.param)).model


def test_above_is_a_threshold_on_the_weight(model):
    heavy = model.mu if model.facts["sparse"] else model.norm
    least = float(np.median(heavy[list(model.live)]))
    assert above(model, least) == [j for j in model.live if heavy[j] > least]
    assert above(model, 0) == list(model.live)
    with pytest.raises(MtlError, match="the heaviest has"):
        above(model, 1e9)
    with pytest.raises(MtlError, match="at least 1"):
        top(model, 0)


def test_selected_lines_keep_the_text_of_the_file():
    assert selected_lines(TEMPLATES, range(len(TEMPLATES))) == SOURCE
    assert selected_lines(TEMPLATES, [1, 4]) == "# words\n\nU1:%x[-1,0]/%x[0,0]\n# both\nB\n"
    twice = TemplateSet.parse("U0:%x[0,0]\r\nU0:%x[0,0]\r\nB")
    assert selected_lines(twice, [1, 2]) == "U0:%x[0,0]\nB\n"


def test_lines_in_another_dialect():
    assert selected_lines(TEMPLATES, [0, 4], "wapiti") == "# words\nu0:%x[0,0]\n\n# both\nb\n"
    both = TemplateSet.parse("*0:%x[ 0,0] # twice\nu1:%X[1,0]\n", dialect="wapiti")
    assert selected_lines(both, [0, 1]) == "*0:%x[ 0,0] # twice\n"
    assert selected_lines(both, [0], "crfpp") == "U0:%x[0,0]\n"
    assert selected_lines(both, [1]) == "b0:%x[0,0]\n"
    with pytest.raises(TemplateError, match=r"line 2.*CRF"):
        selected_lines(both, [2], "crfpp")
