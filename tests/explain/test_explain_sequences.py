"""Explanations: runners-up by enumeration, contributions that sum to the difference, shares by hand."""

from dataclasses import replace

import numpy as np
import pytest
from support.naive import all_labelings, expansions, path_score, random_corpus

from mtlstruct.explain.decomposition import explain, shares
from mtlstruct.explain.records import is_wrong, sentence_record
from mtlstruct.templates import TemplateSet
from mtlstruct.training.train import Options, train

TEMPLATES = TemplateSet.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%x[1,1]\nU\nB\nB1:%x[0,1]\nU9:%x[0,1]")


@pytest.fixture(scope="module")
def model():
    data = random_corpus(np.random.default_rng(3), 40, 6, 9)
    return train(data, TEMPLATES, Options()).model


@pytest.fixture(scope="module")
def text():
    return random_corpus(np.random.default_rng(4), 25, 6, 12)


def tables(model, corpus):
    """Node and edge scores of each sentence, from the scores that predicting uses."""
    encoded = model.index.encode(corpus, model.structure.sites(corpus.ptr))
    parts = encoded.score(list(model.weights), np.ones(len(model.live)), model.structure.widths())
    L = len(model.labels)
    for i, span in enumerate(corpus.sentences()):
        n = span.stop - span.start
        edges = np.zeros((n, L, L))
        for t in range(1, n):
            edges[t] = parts[1][encoded.rows[1][span.start + t - i - 1]].reshape(L, L)
        yield parts[0][span, :L].astype(float), edges


@pytest.mark.parametrize("labelled", [False, True])
def test_contributions_sum_to_the_difference_to_the_best_path_with_another_or_the_right_label(
    model, text, labelled
):
    """The contributions of sites near a token and of all others are compared with sums over these sites."""
    predicted = model.predict(text)
    if not labelled:
        text = replace(text, outputs=None)
    for (nodes, edges), found in zip(tables(model, text), explain(model, text), strict=True):
        n, L = nodes.shape
        assert np.array_equal(found.chosen, predicted[found.span])
        scores = {p: path_score(nodes, edges, p) for p in all_labelings(n, L)}
        for t, (y, gold) in enumerate(zip(found.chosen, found.gold, strict=True)):
            others = {p: scores[p] for p in scores if (p[t] != y if gold in (-1, y) else p[t] == gold)}
            path = max(others, key=others.get)
            assert found.rivals[t] == path[t]
            difference = max(scores.values()) - others[path]
            assert found.margin[t] == pytest.approx(difference, abs=1e-5)
            assert found.values[t].sum() + found.elsewhere[t] == pytest.approx(difference, abs=1e-5)
            gain = {("node", s): nodes[s, found.chosen[s]] - nodes[s, path[s]] for s in range(n)}
            for s in range(1, n):
                best, other = (edges[s, labels[s - 1], labels[s]] for labels in (found.chosen, path))
                gain["edge", s] = best - other
            near = sum(gain.pop(site, 0.0) for site in [("node", t), ("edge", t), ("edge", t + 1)])
            assert found.values[t].sum() == pytest.approx(near, abs=1e-5)
            assert found.elsewhere[t] == pytest.approx(sum(gain.values()), abs=1e-5)


def test_a_contribution_is_a_difference_of_weights(model, text):
    """U0 by hand: the weights of its attribute, looked up by the expanded line."""
    assert 0 in model.live
    lines = expansions(text, TEMPLATES)[0]
    encoded = model.index.encode(text, model.structure.sites(text.ptr))
    ids = encoded.designs[0].ids[: text.tokens * len(encoded.designs[0].blocks)].reshape(text.tokens, -1)
    weights = model.weights[0][ids[:, model.live.index(0)]]
    assert len({(line, *row) for line, row in zip(lines, weights.tolist(), strict=True)}) == len(set(lines))
    for found in explain(model, text):
        rows = weights[found.span].astype(float)
        at = np.arange(len(rows))
        assert found.values[:, 0] == pytest.approx(rows[at, found.chosen] - rows[at, found.rivals])


def test_records_have_what_templates_saw_and_gold(model, text):
    """The values of U0 are those of the expanded lines; wrong sentences are those with another label."""
    lines, outputs = expansions(text, TEMPLATES)[0], model.predict(text)
    changed = replace(
        text,
        outputs=np.where(np.arange(text.tokens) == 0, (outputs[0] + 1) % 2, outputs),
        labels=model.labels,
    )
    for number, found in enumerate(explain(model, changed)):
        record = sentence_record(model, changed, found, number + 1, len(TEMPLATES))
        assert is_wrong(record) == (number == 0)
        for token, line in zip(record["tokens"], lines[found.span], strict=True):
            seen = [row["seen"] for row in token["templates"] if row["index"] == 0]
            assert all(line.endswith(value) for value in seen)
            assert all(row["seen"] == "" for row in token["templates"] if row["text"] == "B")
            assert token["gold"] == model.labels[changed.outputs[found.span.start + token["token"] - 1]]


def test_shares_are_parts_of_the_scores_of_the_chosen_paths(model, text):
    got = shares(model, [text])
    assert got.sum() == pytest.approx(1)
    assert set(np.flatnonzero(got)) <= set(model.live)
    encoded = model.index.encode(text, model.structure.sites(text.ptr))
    outputs, L = model.predict(text), len(model.labels)
    expected = np.zeros(len(TEMPLATES))
    sites = np.arange(text.tokens), np.setdiff1d(np.arange(text.tokens), text.ptr[:-1])
    for kind, design in enumerate(encoded.designs):
        for site, t in enumerate(sites[kind]):
            row = t if kind == 0 else encoded.rows[1][site]
            part = outputs[t] if kind == 0 else outputs[t - 1] * L + outputs[t]
            for slot, k in enumerate(range(design.ptr[row], design.ptr[row + 1])):
                j = model.live[design.blocks[slot]]
                expected[j] += abs(float(model.weights[kind][design.ids[k], part]))
    assert got == pytest.approx(expected / expected.sum())
    assert shares(model, [text, text]) == pytest.approx(got)
    assert not shares(model, []).any()
