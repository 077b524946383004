"""Trees explained: exact sums, runners-up by enumeration; models of trees saved and loaded."""

import numpy as np
import pytest
from support.arcs import corpus_of
from support.naive import all_trees, tree_score

from mtlstruct.explain.decomposition import explain
from mtlstruct.templates import preset
from mtlstruct.training.train import Options, train


def token(rng, morphology, head):
    return f"w{rng.integers(9)}", "NVA"[rng.integers(3)], morphology, head


def treebank(seed=0, sentences=25, longest=4):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(sentences):
        n = int(rng.integers(1, longest + 1))
        order = (rng.permutation(n) + 1).tolist()
        head = {order[k]: 0 if k == 0 else order[int(rng.integers(k))] for k in range(n)}
        found.append([token(rng, "x|y", head[m]) for m in range(1, n + 1)])
    return corpus_of(found)


@pytest.fixture(scope="module")
def model():
    options = Options(task="dependency", max_iter=3)
    return train(treebank(), preset("dependency", 2), options).model


def test_templates_and_elsewhere_sum_to_the_margin_over_the_best_other_tree(model):
    corpus = treebank(1)
    outputs = model.predict(corpus)
    (scores,), _ = model.index.score(corpus, model.structure.sites(corpus.ptr), model.weights)
    first = 0
    for found in explain(model, corpus):
        n = found.span.stop - found.span.start
        arcs = scores[first : first + n * (n + 1), 0].reshape(n, n + 1).astype(float)
        first += n * (n + 1)
        assert found.chosen.tolist() == outputs[found.span].tolist()
        best = tree_score(arcs, found.chosen)
        for t in range(n):
            others = [tree_score(arcs, tree) for tree in all_trees(n) if tree[t] != found.chosen[t]]
            if not others:
                assert found.rivals[t] == -1
                continue
            assert found.margin[t] == pytest.approx(best - max(others), abs=1e-4)
            assert found.values[t].sum() + found.elsewhere[t] == pytest.approx(found.margin[t])
            assert found.rivals[t] != found.chosen[t]
