"""Explain heads: the score of a tree as a sum of the contributions of templates.

For each token the chosen tree is compared with the runner-up, the best tree in which that token has
another head, found by one more search per token. The contributions to the arc of the token, chosen
minus rival, are listed; the difference of the two trees elsewhere is one number, as in
`explain.sequences`.

Labels of arcs are predicted after the tree, independently of each other, and explained as classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.explain.sequences import Explanation, contributions, explain, one_sentence, shares
from mtlstruct.model.model import Model
from mtlstruct.structures.base import Batch

FORBIDDEN_SCORE = -1e9
"""The score of an arc that must not be in a tree: below the score of any tree."""


def explain_trees(model: Model, corpus: Corpus) -> Iterator[Explanation]:
    """Yield an Explanation for each sentence; `chosen` and `rivals` are heads, −1 for none."""
    for span in corpus.sentences():
        yield _explain_sentence(model, one_sentence(corpus, span), span)


def explain_relations(model: Model, sentence: Corpus, heads: NDArray[np.int64]) -> Explanation:
    """Explain the labels of the arcs to these heads; a corpus of one sentence."""
    assert model.relations is not None
    (items,) = explain(model.relations, model.arcs(sentence, heads.astype(np.int32)))
    return items


def relation_shares(model: Model, corpora: Iterable[Corpus]) -> NDArray[np.float64]:
    """Return the share of each template of arc labels in the scores of arcs. float64[m]"""
    assert model.relations is not None
    return shares(model.relations, (model.arcs(corpus, model.predict(corpus)) for corpus in corpora))


def _explain_sentence(model: Model, sentence: Corpus, span: slice) -> Explanation:
    n = sentence.tokens
    sites = model.structure.sites(sentence.ptr)
    (scores,), _ = model.index.score(sentence, sites, model.weights)
    chosen, best = _search(model, scores, sentence.ptr)
    rivals, margin = np.full(n, -1, np.int64), np.full(n, np.inf)
    for t in range(n):
        others = scores.copy()
        others[t * (n + 1) + chosen[t], 0] = FORBIDDEN_SCORE
        heads, value = _search(model, others, sentence.ptr)
        if value > FORBIDDEN_SCORE / 2:
            rivals[t], margin[t] = heads[t], best - value
    (design,) = model.index.encode(sentence, sites).designs
    known = rivals >= 0
    first = np.arange(n) * (n + 1)
    values = contributions(model, design, model.weights[0], first + chosen)
    values[known] -= contributions(model, design, model.weights[0], (first + rivals)[known])
    elsewhere = np.where(known, margin - values.sum(axis=1), 0.0)
    return Explanation(span, chosen, rivals, values, elsewhere, margin)


def _search(
    model: Model, scores: NDArray[np.float32], ptr: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    heads, value = np.zeros(int(ptr[-1]), np.int32), np.zeros(1)
    model.structure.decode(Batch((scores,), (None,), ptr), (0, 1), heads, value)
    return heads.astype(np.int64), float(value[0])
