"""The features of a template with the largest weights, as text.

If a feature is an observation and a label, the largest are listed for each label; if it is an
observation and a pair of labels, or an arc, the largest of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.arcs.feature_text import spell_arcs
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.shared_templates import cells_by_term
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Model

NO_OBSERVATION = "(always)"
"""The text of a feature of a template without cells."""


@dataclass(frozen=True)
class Feature:
    """An observation, a part (a label, a pair of labels, an arc), and their weight."""

    text: str
    part: str
    weight: float


def top_features(model: Model, j: int, count: int) -> list[Feature]:
    """Return the largest features of template j, `count` per label (or four times that in all).

    Sorted by falling absolute weight; none for a template that was dropped.
    """
    if j not in model.live:
        return []
    number = model.live.index(j)
    block = model.block(number)
    chosen = _strongest(block, count, each=block.shape[1] == len(model.learned_labels))
    attributes, places = np.unique(chosen[:, 0], return_inverse=True)
    texts = spelled(model.index, number, attributes)
    parts = part_names(model.learned_labels, block.shape[1])
    found = [
        Feature(texts[place], parts[part], float(block[attribute, part]))
        for place, (attribute, part) in zip(places.tolist(), chosen.tolist(), strict=True)
    ]
    return sorted(found, key=lambda feature: -abs(feature.weight))


def part_names(labels: Sequence[str], width: int) -> list[str]:
    """Return the names of the parts of a site: labels, pairs of labels, or "arc"."""
    if width == len(labels):
        return list(labels)
    if width == len(labels) ** 2:
        return [f"{before} → {after}" for before in labels for after in labels]
    return ["arc"] if width == 1 else [f"part {number}" for number in range(width)]


def spelled(index: FeatureIndex | ArcIndex, j: int, attributes: NDArray[np.int64]) -> list[str]:
    """Return the text of attributes of template j of the index: its line without its name."""
    if isinstance(index, ArcIndex):
        return [line or NO_OBSERVATION for line in spell_arcs(index, j, attributes)]
    found: dict[int, str] = {}
    known = (index.vocabularies, index.tables)
    for member, r in zip(index.templates[j].members, index.plan.lines_of(j), strict=True):
        map_ = index.maps[r][:-1]
        values = np.flatnonzero((map_ != ABSENT) & np.isin(map_, attributes))
        first, *rest = member.pieces
        lead = first.partition(":")[2]
        for attribute, cells in zip(
            map_[values].tolist(), cells_by_term(index.plan, r, member, values, known), strict=True
        ):
            line = lead + "".join(cell + piece for cell, piece in zip(cells, rest, strict=True))
            found.setdefault(attribute, line or NO_OBSERVATION)
    return [found[attribute] for attribute in attributes.tolist()]


def _strongest(block: NDArray[np.float32], count: int, *, each: bool) -> NDArray[np.int64]:
    """Return (row, column) of the largest nonzero entries in absolute value."""
    if not each:
        flat = _largest(np.abs(block).ravel(), 4 * count)
        return np.stack(np.unravel_index(flat, block.shape), axis=1).astype(np.int64)
    places = [_largest(np.abs(column), count) for column in block.T]
    parts = np.repeat(np.arange(len(places)), list(map(len, places)))
    return np.stack([np.concatenate(places), parts], axis=1).astype(np.int64)


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the positions of the `count` largest positive values, the first of equal ones."""
    least = np.partition(values, -count)[-count] if len(values) > count else 0.0  # sort only the largest
    near = np.flatnonzero(values >= max(least, np.finfo(np.float32).tiny))
    order = np.argsort(-values[near], kind="stable")[:count]
    return np.asarray(near[order])
