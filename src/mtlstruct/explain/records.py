"""Explanations as plain objects: the choice, the runner-up, and contributions of templates.

This is what `explain --json` prints and what the server answers.
"""

from __future__ import annotations

from typing import Any

from mtlstruct.corpus import Corpus
from mtlstruct.explain.sequences import Explanation, one_sentence
from mtlstruct.explain.trees import explain_relations
from mtlstruct.model.model import Model


def sentence_record(
    model: Model, corpus: Corpus, found: Explanation, number: int, top: int
) -> dict[str, Any]:
    """Return for each token cells, choice, runner-up and the `top` largest contributions."""
    labels = _relations(model, corpus, found, top)
    cells = [column.cells() for column in one_sentence(corpus, found.span).columns]
    tokens = [
        {
            "token": t + 1,
            "cells": [column[t] for column in cells],
            **_choices(model, corpus, found, t),
            **_top_contributions(model, found.values[t], top),
            "elsewhere": float(found.elsewhere[t]),
            **labels[t],
        }
        for t in range(len(found.chosen))
    ]
    return {"sentence": number, "tokens": tokens}


def _relations(model: Model, corpus: Corpus, found: Explanation, top: int) -> list[dict[str, Any]]:
    """Return for each token the record of its arc label, if the model has labels of arcs."""
    if model.relations is None:
        return [{} for _ in found.chosen]
    second = model.relations
    labels = explain_relations(model, one_sentence(corpus, found.span), found.chosen)
    return [
        {"relation": _choices(second, corpus, labels, t) | _top_contributions(second, labels.values[t], top)}
        for t in range(len(found.chosen))
    ]


def _choices(model: Model, corpus: Corpus, found: Explanation, t: int) -> dict[str, Any]:
    """Return what was chosen, the runner-up, and the margin; None without a runner-up."""
    chosen, rival = int(found.chosen[t]), int(found.rivals[t])
    margin = float(found.margin[t]) if rival >= 0 else None
    if not model.trees:
        labels = model.learned_labels
        return {"label": labels[chosen], "runner_up": labels[rival], "margin": margin}
    words = {"head_word": _word(corpus, found, chosen), "runner_up_word": _word(corpus, found, rival)}
    return {"head": chosen, "runner_up": rival if rival >= 0 else None, **words, "margin": margin}


def _word(corpus: Corpus, found: Explanation, place: int) -> str | None:
    """Return the word at a place of the sentence, counted from 1."""
    if place < 0:
        return None
    column = corpus.columns[0]
    return column.strings[column.ids[found.span.start + place - 1]] if place else "ROOT"


def _top_contributions(model: Model, values: Any, top: int) -> dict[str, Any]:
    """Return the largest contributions, and the sum of the others."""
    largest = [j for j in (-abs(values)).argsort(kind="stable")[:top].tolist() if values[j] != 0]
    named = [
        {
            "index": j,
            "name": model.templates[j].name,
            "text": model.templates[j].title,
            "value": float(values[j]),
        }
        for j in largest
    ]
    return {"templates": named, "others": float(values.sum() - values[largest].sum())}
