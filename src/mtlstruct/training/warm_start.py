"""Warm start: the weights of a model, found again in new data by template line and feature value.

The new index numbers values anew. Those of the model are translated along its chain of joins:
strings by their text, pairs by the translations of their two sides. No Python object is made per
feature. Features that the new data do not have are dropped; features that the model does not have
start at zero.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Index, Model
from mtlstruct.objective.oracle import Oracle
from mtlstruct.solvers import Start
from mtlstruct.templates import TemplateSet

Int32 = NDArray[np.int32]


def start_from(model: Model, index: Index, oracle: Oracle, labels: tuple[str, ...]) -> Start:
    """Return the weights of a model in the layout of an oracle with the features of `index`."""
    if not (isinstance(index, FeatureIndex) and isinstance(model.index, FeatureIndex)):
        raise IncompatibleError(
            "--from: expected label sequences or classes in the model and the data, got trees"
        )
    if model.structure.name != oracle.structure.name:
        raise IncompatibleError(
            f"the model to begin from is for {model.structure.name}, the data are for {oracle.structure.name}"
        )
    number = {key: j for j, key in enumerate(_keys(index.templates))}
    parts, translations = _common_parts(model, labels), _translations(model.index, index)
    weights, mu, carried = oracle.zeros(), np.zeros(oracle.templates), 0
    scale = np.ones(oracle.templates)
    for place, key in enumerate(_keys(model.index.templates)):
        if key not in number:
            continue
        j = number[key]
        old, new = _common_attributes(model.index, place, index, j, translations)
        kind = oracle.encoded.kinds.index(index.kinds[j])
        design, width = oracle.encoded.designs[kind], oracle.structure.widths()[kind]
        ours, theirs = parts[width]
        rows = np.zeros((len(new), width), weights[kind].dtype)
        mu[j] = model.mu[model.live[place]]
        if design.layout.singletons is not None:  # w_j = mu_j·u_j, and templates share rows of u
            scale[j] = mu[j]
        rows[:, theirs] = model.block(place)[old][:, ours] / scale[j]
        first = design.layout.block_ptr[np.flatnonzero(design.layout.templates == j)[0]]
        design.layout.put_rows(weights[kind], first + new, rows)
        carried += len(new)
    if carried == 0:
        raise IncompatibleError(
            "the model to begin from has no feature in common with the data and templates"
        )
    return Start(weights, mu, scale)


def _keys(templates: TemplateSet) -> list[tuple[tuple[str, ...], int]]:
    """Return for each template its lines, and its number among those with the same lines."""
    seen: Counter[tuple[str, ...]] = Counter()
    out = []
    for template in templates:
        lines = tuple(member.text for member in template.members)
        out.append((lines, seen[lines]))
        seen[lines] += 1
    return out


def _translations(old: FeatureIndex, new: FeatureIndex) -> list[Int32]:
    """Return for each node of the old plan the new numbers of its values, ABSENT for none."""
    there = {new.plan.signature(node): node for node in range(new.plan.nodes)}
    out: list[Int32] = []
    for node in range(old.plan.nodes):
        target, join = there.get(old.plan.signature(node)), node - len(old.plan.streams)
        size = len(old.vocabularies[node] if join < 0 else old.tables[join])
        if target is None:
            found = np.full(size, ABSENT, np.int32)
        elif join < 0:
            found = new.vocabularies[target].lookup([old.vocabularies[node][i] for i in range(size)])
        else:
            table, sides = old.tables[join], old.plan.joins[join]
            left, right = out[sides.left][table.left()], out[sides.stream][table.right()]
            found = new.tables[target - len(new.plan.streams)].lookup(left, right)
        out.append(found)
    return out


def _common_attributes(
    old: FeatureIndex, place: int, new: FeatureIndex, j: int, translations: list[Int32]
) -> tuple[Int32, Int32]:
    """Return old and new attributes of a template for the values in both indexes."""
    before, after = [], []
    for r, s in zip(old.plan.lines_of(place), new.plan.lines_of(j), strict=True):
        attributes, node = old.maps[r][:-1], old.plan.uses[r].node
        values = np.flatnonzero(attributes != ABSENT)
        became = np.zeros(len(values), np.int32) if node == ABSENT else translations[node][values]
        found = new.maps[s][became]  # ABSENT = -1 is the last entry, which stands for unknown values
        before.append(attributes[values[found != ABSENT]])
        after.append(found[found != ABSENT])
    return np.concatenate(before), np.concatenate(after)


def _common_parts(model: Model, labels: tuple[str, ...]) -> dict[int, tuple[Int32, Int32]]:
    """Return old and new parts of the common labels, by the number of new parts."""
    common = [label for label in model.learned_labels if label in labels]
    ours, theirs = (
        np.array([some.index(label) for label in common], np.int32) for some in (model.learned_labels, labels)
    )
    pairs = [
        (some[:, None] * size + some).ravel()
        for some, size in ((ours, len(model.learned_labels)), (theirs, len(labels)))
    ]
    return {len(labels): (ours, theirs), len(labels) ** 2: (pairs[0], pairs[1])}
