"""Warm start: the weights of a model, found again in new data by template line and feature text.

Features that the new data do not have are dropped; features that the model does not have start at zero.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError
from mtlstruct.explain.top_features import spelled
from mtlstruct.features.index import FeatureIndex
from mtlstruct.model.index_arrays import Index
from mtlstruct.model.model import Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Start
from mtlstruct.templates import TemplateSet

Ints = NDArray[np.int64]


def start_from(model: Model, index: Index, oracle: Oracle, labels: tuple[str, ...]) -> Start:
    """Return the weights of a model in the layout of an oracle, whose features are those of `index`."""
    if not (isinstance(index, FeatureIndex) and isinstance(model.index, FeatureIndex)):
        raise IncompatibleError("trees cannot begin from a model yet")
    if model.structure.name != oracle.structure.name:
        raise IncompatibleError(
            f"the model to begin from is for {model.structure.name}, the data are for {oracle.structure.name}"
        )
    number = {key: j for j, key in enumerate(_keys(index.templates))}
    parts = _common_parts(model, labels)
    weights, mu, carried = oracle.zeros(), np.zeros(oracle.templates), 0
    for place, key in enumerate(_keys(model.index.templates)):
        if key not in number:
            continue
        j = number[key]
        old, new = _common_attributes(model.index, place, index, j)
        kind = oracle.encoded.kinds.index(index.kinds[j])
        design, width = oracle.encoded.designs[kind], oracle.structure.widths()[kind]
        ours, theirs = parts[width]
        rows = np.zeros((len(new), width), weights[kind].dtype)
        rows[:, theirs] = model.block(place)[old][:, ours]
        first = design.block_ptr[np.flatnonzero(design.templates == j)[0]]
        design.put_rows(weights[kind], first + new, rows)
        mu[j] = model.mu[model.live[place]]
        carried += len(new)
    if carried == 0:
        raise IncompatibleError(
            "the model to begin from has no feature in common with the data and templates"
        )
    return Start(weights, mu)


def _keys(templates: TemplateSet) -> list[tuple[tuple[str, ...], int]]:
    """Return for each template its lines, and its number among those with the same lines."""
    seen: Counter[tuple[str, ...]] = Counter()
    out = []
    for template in templates:
        lines = tuple(reading.text for reading in template.readings)
        out.append((lines, seen[lines]))
        seen[lines] += 1
    return out


def _common_attributes(old: FeatureIndex, place: int, new: FeatureIndex, j: int) -> tuple[Ints, Ints]:
    """Return attributes of a template of the old index, and those of the new one with the same text."""
    known = {text: a for a, text in enumerate(spelled(old, place, np.arange(old.sizes[place])))}
    texts = spelled(new, j, np.arange(new.sizes[j]))
    pairs = [(known[text], a) for a, text in enumerate(texts) if text in known]
    before, after = np.array(pairs, np.int64).reshape(-1, 2).T
    return before, after


def _common_parts(model: Model, labels: tuple[str, ...]) -> dict[int, tuple[Ints, Ints]]:
    """Return by the number of parts the parts of the model and those of the data for the same labels."""
    common = [label for label in model.labels if label in labels]
    ours, theirs = (
        np.array([some.index(label) for label in common], np.int64) for some in (model.labels, labels)
    )
    pairs = [
        (some[:, None] * size + some).ravel()
        for some, size in ((ours, len(model.labels)), (theirs, len(labels)))
    ]
    return {len(labels): (ours, theirs), len(labels) ** 2: (pairs[0], pairs[1])}
