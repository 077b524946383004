"""The features of largest weight, as text: against all features spelled by hand."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.arcs import LINES, NAMES, corpora, naive_features
from support.naive import random_corpus

from mtlstruct.explain.top_features import NO_OBSERVATION, part_names, spelled, top_features
from mtlstruct.features.arcs import encode_trees
from mtlstruct.features.direct import first_attributes
from mtlstruct.features.pruning import prune
from mtlstruct.interop.feature_text import cells_of, spell
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU:pre-%x[1,1]\nU\nB\nB1:%x[0,1]")


def trained(**options):
    return train(random_corpus(np.random.default_rng(3), 40, 6, 9), TEMPLATES, Options(**options)).model


@pytest.fixture(scope="module")
def model():
    return trained(method="svm")


@pytest.mark.parametrize("j", range(len(TEMPLATES)))
def test_top_features_have_the_largest_weights_of_each_label(model, j):
    number = model.live.index(j)
    kind = ("U", "B").index(TEMPLATES[j].kind)
    first = first_attributes(model.index)[number]
    cells_of_all = cells_of(model.index, number)
    lines = [spell(TEMPLATES[j], cells).partition(":")[2] or NO_OBSERVATION for cells in cells_of_all]
    parts = part_names(model.labels, model.weights[kind].shape[1])
    every = {
        (line, part): float(model.weights[kind][first + a, p])
        for a, line in enumerate(lines)
        for p, part in enumerate(parts)
    }
    found = top_features(model, j, 3)
    assert all(every[f.text, f.part] == f.weight != 0 for f in found)
    sizes = [abs(f.weight) for f in found]
    assert sizes == sorted(sizes, reverse=True)
    for part in parts if kind == 0 else [None]:
        mine = sorted((abs(w) for (_, p), w in every.items() if part in (p, None)), reverse=True)
        got = [abs(f.weight) for f in found if part in (f.part, None)]
        assert got == [size for size in mine[: 3 if kind == 0 else 12] if size > 0]


def test_a_dropped_template_has_no_features():
    sparse = trained(c=0.05)
    gone = next(j for j in range(len(TEMPLATES)) if j not in sparse.live)
    assert top_features(sparse, gone, 5) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(corpora(), st.lists(st.sampled_from(LINES), min_size=1, max_size=5, unique=True))
def test_features_of_arcs_are_spelled_as_they_were_found(corpus, lines):
    templates = TemplateSet.parse("\n".join(lines)).resolved(NAMES)
    _, index = encode_trees(corpus, templates)
    features = naive_features(corpus, templates)
    small, live = prune(index, [np.ones(int(size), bool) for size in index.sizes])
    for number, j in enumerate(live):
        found = spelled(small, number, np.arange(small.sizes[number]))
        name, _, start = templates[j].pieces[0].partition(":")
        lead = len(templates[j].pieces[0]) - len(start)
        assert sorted(found) == sorted(string[lead:] or NO_OBSERVATION for string in features[j]), name
