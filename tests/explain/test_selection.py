"""Choosing templates: the heaviest, those above a weight, costs of removal, and the lines of the user's file."""

from dataclasses import replace

import numpy as np
import pytest
from support.arcs import corpus_of
from support.naive import random_corpus

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.explain import selection
from mtlstruct.explain.selection import above, selected_lines, top
from mtlstruct.features.direct import first_attributes
from mtlstruct.model.calibration import calibration_report, with_temperature
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


ARCS = TemplateSet.parse("A0:%x[h,0]/%x[m,0]\nA1:%x[m,1]\nA2:%x[h,1]/%x[m,1]\n")


def tree_bank():
    rng = np.random.default_rng(5)
    words = [[(f"w{rng.integers(5)}", "NV"[rng.integers(2)], "x", m) for m in range(n)] for n in (3, 4, 2, 3)]
    return corpus_of(words * 3)


def right(corpus, outputs):
    return 100 * float(np.mean(outputs == corpus.outputs))


@pytest.mark.parametrize(
    "options",
    [Options(), Options(method="svm"), Options(label_support="seen"), Options(task="dependency", c=0.1)],
    ids=lambda options: f"{options.task} {options.method} {options.label_support}",
)
def test_costs_are_those_of_zero_weights(options, monkeypatch):
    monkeypatch.setattr(selection, "TOKENS_PER_CHUNK", 7)
    if options.task == "dependency":
        data = held_out = tree_bank()
        model = train(data, ARCS, options).model
    else:
        data, held_out = (random_corpus(np.random.default_rng(seed), 40, 6, 9) for seed in (3, 4))
        model = train(data, TEMPLATES, options).model
    found = selection.removal_costs(model, held_out, right)
    model = with_temperature(model, held_out)
    gold = model.gold(held_out)

    def figures(some):
        lattice = some.lattice(held_out)
        loss = calibration_report(lattice, gold, model.temperature).nll
        return right(held_out, lattice.best()), loss

    whole = figures(model)
    assert found.score == whole[0]
    for place, j in enumerate(model.live):
        weights = [table.copy() for table in model.weights]
        kind, first = model.kinds.index(model.index.kinds[place]), first_attributes(model.index)[place]
        last = first + model.index.sizes[place]
        if kind == 0 and options.label_support == "seen":
            first, last = model.index.support.ptr[[first, last]]
        weights[kind][first:last] = 0
        points, loss = np.subtract(figures(replace(model, weights=tuple(weights))), whole)
        assert found.points[j] == pytest.approx(-points)
        assert found.loss[j] == pytest.approx(loss, abs=1e-5)
    dropped = np.setdiff1d(np.arange(len(model.templates)), model.live)
    assert not found.loss[dropped].any()
