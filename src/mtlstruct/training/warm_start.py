"""A model as the start of another training: its weights, found again by template line and feature value.

The new index numbers values anew, so those of the model are translated along its chain of joins: strings by their
text, pairs by what their two sides became, attributes by the map of the template with the same line. No Python object
is made for a feature. What the new data do not have is left behind, and what the model did not have begins at zero.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError
from mtlstruct.explain.selection import blocks
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Index, Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Start
from mtlstruct.templates import TemplateSet

Int32 = NDArray[np.int32]


def start_from(model: Model, index: Index, oracle: Oracle, labels: tuple[str, ...]) -> Start:
    """The model's weights in the layout of the oracle, whose features are those of `index`."""
    if not (isinstance(index, FeatureIndex) and isinstance(model.index, FeatureIndex)):
        raise IncompatibleError("trees cannot begin from a model yet")
    if model.structure.name != oracle.structure.name:
        raise IncompatibleError(
            f"the model to begin from is for {model.structure.name}, the data are for {oracle.structure.name}"
        )
    number = dict(zip(_names(index.templates), range(len(index.templates)), strict=True))
    names = _names(model.index.templates)
    translated = _translated(model.index, index)
    parts = _same_parts(model, labels, oracle)
    weights, mu, carried = oracle.zeros(), np.zeros(oracle.templates), 0
    for place, block in enumerate(blocks(model)):
        j = number.get(names[place])
        if j is None:
            continue
        kind = oracle.encoded.kinds.index(index.kinds[j])
        old, new = _same_attributes(model.index, place, index, j, translated)
        design, attributes = oracle.encoded.designs[kind], _first(oracle, kind, j) + new
        target = np.zeros((len(new), oracle.structure.widths()[kind]), weights[kind].dtype)
        target[:, parts[kind][1]] = block[old][:, parts[kind][0]]
        design.put_rows(weights[kind], attributes, target)
        mu[j] = model.mu[model.live[place]]
        carried += len(new)
    if carried == 0:
        raise IncompatibleError(
            "the model to begin from has no feature in common with the data and templates"
        )
    return Start(weights, mu)


def _names(templates: TemplateSet) -> list[tuple[tuple[str, ...], int]]:
    """The lines of each template, and which of several equal ones it is."""
    seen: Counter[tuple[str, ...]] = Counter()
    out = []
    for template in templates:
        lines = tuple(reading.text for reading in template.readings)
        out.append((lines, seen[lines]))
        seen[lines] += 1
    return out


def _translated(old: FeatureIndex, new: FeatureIndex) -> list[Int32]:
    """For each node of the old plan and each of its values, the value in the new index, or ABSENT."""
    there = {new.plan.signature(node): node for node in range(new.plan.nodes)}
    out: list[Int32] = []
    for node in range(old.plan.nodes):
        target = there.get(old.plan.signature(node), ABSENT)
        out.append(_translate(old, node, new, target, out))
    return out


def _translate(old: FeatureIndex, node: int, new: FeatureIndex, target: int, known: list[Int32]) -> Int32:
    streams = len(old.plan.streams)
    if node < streams:
        strings = old.vocabularies[node]
        if target == ABSENT:
            return np.full(len(strings), ABSENT, np.int32)
        return new.vocabularies[target].lookup([strings[i] for i in range(len(strings))])
    join, table = old.plan.joins[node - streams], old.tables[node - streams]
    if target == ABSENT:
        return np.full(len(table), ABSENT, np.int32)
    left, right = known[join.left][table.left()], known[join.stream][table.right()]
    return new.tables[target - len(new.plan.streams)].lookup(left, right)


def _same_attributes(
    old: FeatureIndex, place: int, new: FeatureIndex, j: int, translated: list[Int32]
) -> tuple[Int32, Int32]:
    """Attributes of the old template, and the attributes of the new one that stand for the same."""
    pairs = [
        _same_readings(old, r, new, s, translated)
        for r, s in zip(old.plan.readings(place), new.plan.readings(j), strict=True)
    ]
    before, after = (np.concatenate(some) for some in zip(*pairs, strict=True))
    return before, after


def _same_readings(
    old: FeatureIndex, r: int, new: FeatureIndex, s: int, translated: list[Int32]
) -> tuple[Int32, Int32]:
    map_, node = old.maps[r][:-1], old.plan.uses[r].node
    values = np.flatnonzero(map_ != ABSENT)
    became = np.zeros(len(values), np.int32) if node == ABSENT else translated[node][values]
    found = new.maps[s][became]  # ABSENT = -1 points at the last entry, which stands for the unknown
    kept = found != ABSENT
    return map_[values[kept]], found[kept]


def _same_parts(model: Model, labels: tuple[str, ...], oracle: Oracle) -> list[tuple[Int32, Int32]]:
    """For each kind the parts of the model, and the parts of the oracle that stand for the same labels."""
    both = [(old, labels.index(label)) for old, label in enumerate(model.labels) if label in labels]
    old, new = (np.array([pair[k] for pair in both], np.int32) for k in (0, 1))
    every = {1: (np.zeros(1, np.int32), np.zeros(1, np.int32)), len(labels): (old, new)}
    every[len(labels) ** 2] = (_pairs(old, len(model.labels)), _pairs(new, len(labels)))
    return [every[width] for width in oracle.structure.widths()]


def _pairs(some: Int32, size: int) -> Int32:
    return (some[:, None] * np.int32(size) + some).ravel()


def _first(oracle: Oracle, kind: int, j: int) -> int:
    design = oracle.encoded.designs[kind]
    return int(design.block_ptr[int(np.flatnonzero(design.templates == j)[0])])
