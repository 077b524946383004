"""Explanations as plain objects: the choice, the runner-up, and contributions of templates.

This is what `explain --json` prints and what the server answers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.explain.decomposition import Explanation, explain, one_sentence
from mtlstruct.formats.conll import given_trees
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet, boundary
from mtlstruct.templates.functions import bound


def sentence_record(
    model: Model, corpus: Corpus, found: Explanation, number: int, top: int
) -> dict[str, Any]:
    """Return for each token cells, choice, gold, runner-up and the `top` largest contributions."""
    sentence = one_sentence(corpus, found.span)
    cells = [column.cells() for column in sentence.columns]
    gold, tokens, second = _gold(model, corpus, found), [], model.relations
    templates = model.templates.resolved(model.names)
    if second is not None:
        (labels,) = explain(second, model.arcs(sentence, found.chosen.astype(np.int32)))
    for t, chosen in enumerate(found.chosen.tolist()):
        contributions = _top_contributions(model, found.values[t], top)
        for row in contributions["templates"]:
            row["seen"] = _seen(templates, row["index"], cells, t, chosen - 1)
        token = {"token": t + 1, "cells": [column[t] for column in cells]} | _choices(model, cells, found, t)
        token |= {} if gold is None else {"gold": gold[t]}
        token |= contributions | {"elsewhere": float(found.elsewhere[t])}
        if second is not None:
            largest = _top_contributions(second, labels.values[t], top)
            token["relation"] = _choices(second, cells, labels, t) | largest
        tokens.append(token)
    return {"sentence": number, "tokens": tokens}


def _gold(model: Model, corpus: Corpus, found: Explanation) -> list[Any] | None:
    """Return the labels or heads that the input has for a sentence; None if it has none."""
    if model.trees:
        given = given_trees(corpus, found.span) if corpus.extra is not None else None
        return None if given is None else given[0]
    if corpus.outputs is None:
        return None
    return [model.learned_labels[y] if y >= 0 else None for y in found.gold.tolist()]


def is_wrong(record: dict[str, Any]) -> bool:
    """Return whether a token of a sentence has another label, or head, than the input."""
    key = "head" if "head" in record["tokens"][0] else "label"
    return any(token.get("gold") not in (None, token[key]) for token in record["tokens"])


def _seen(templates: TemplateSet, j: int, cells: list[list[str]], t: int, head: int) -> str:
    """Return the cells that a template looked at, through its functions, with / between them.

    Of an arc these are the cells near its two ends; columns that a first pass made are left out.
    """
    found = []
    for term in templates[j].terms:
        if not 0 <= term.column < len(cells) or term.anchor not in ("", "h", "m"):
            continue
        cell = cell_at(cells[term.column], head if term.anchor == "h" else t, term.row, term.absolute)
        if term.anchor == "h" and head < 0 and term.row == 0:
            cell = "ROOT"
        found.append(bound(term.function, term.arguments, templates.lists)(cell))
    return "/".join(cell or "(empty)" for cell in found)


def cell_at(cells: Sequence[str], t: int, row: int, absolute: bool) -> str:
    """Return the cell of a sentence that a term reads at token t, beyond the edges its mark."""
    n = len(cells)
    at = (row - 1 if row > 0 else n + row) if absolute else t + row
    return cells[at] if 0 <= at < n else boundary(at if at < 0 else at - n + 1)


def _choices(model: Model, cells: list[list[str]], found: Explanation, t: int) -> dict[str, Any]:
    """Return what was chosen, the runner-up, and the margin; None without a runner-up."""
    chosen, rival = int(found.chosen[t]), int(found.rivals[t])
    if not model.trees:
        labels = model.learned_labels
        return {"label": labels[chosen], "runner_up": labels[rival], "margin": float(found.margin[t])}
    words = ["ROOT", *cells[0], None]  # a head counts from 1, and −1 is none
    choice = {"head": chosen, "runner_up": None, "head_word": words[chosen], "runner_up_word": words[rival]}
    return choice | (
        {"margin": None} if rival < 0 else {"runner_up": rival, "margin": float(found.margin[t])}
    )


def _top_contributions(model: Model, values: Any, top: int) -> dict[str, Any]:
    """Return the largest contributions, and the sum of the others."""
    largest = [j for j in (-abs(values)).argsort(kind="stable")[:top].tolist() if values[j] != 0]
    rows = [(j, model.templates[j]) for j in largest]
    named = [{"index": j, "name": t.name, "text": t.title, "value": float(values[j])} for j, t in rows]
    return {"templates": named, "others": float(values.sum() - values[largest].sum())}
