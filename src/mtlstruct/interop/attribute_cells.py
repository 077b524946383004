"""Attributes as cells: the cells each attribute of a model stands for, and a model made of weighted cells.

Inside a model an attribute is a number at the end of a chain of joins. Other programs know it by its cells, put
into the template's line. `cells_of` walks the chains backwards; `index_of` and `model_of` build them from the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.memory import ensure
from mtlstruct.corpus import MOST_COLUMNS
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.pruning import compact
from mtlstruct.features.shared_templates import Nodes, cells_by_term, size_of
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Model
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet

Cells = tuple[str, ...]
"""The cells of an attribute, in the order of its template's terms."""


def cells_of(index: FeatureIndex, j: int) -> list[Cells]:
    """The cells of each attribute of template j, by attribute number."""
    cells: dict[int, Cells] = {}
    for reading, r in zip(index.templates[j].readings, index.plan.readings(j), strict=True):
        map_ = index.maps[r]
        values = np.flatnonzero(map_[:-1] != ABSENT)
        known = (index.vocabularies, index.tables)
        found = cells_by_term(index.plan, r, reading, values, known)
        cells |= zip(map_[values].tolist(), found, strict=True)
    return [cells[a] for a in range(len(cells))]


def index_of(templates: TemplateSet, kinds: Sequence[str], cells: Sequence[Sequence[Cells]]) -> FeatureIndex:
    """An index in which attribute a of template j stands for cells[j][a]; the cells of a template are distinct.

    No template may stand for several lines.
    """
    plan = make_plan(templates)
    nodes = Nodes(plan)
    values = [nodes.learn(j, template, cells[j]) for j, template in enumerate(templates)]
    known = nodes.known()
    maps = []
    for j, found in enumerate(values):
        maps.append(np.full(size_of(plan, j, known) + 1, ABSENT, np.int32))
        maps[j][found] = np.arange(len(found), dtype=np.int32)
    return FeatureIndex(
        templates=templates,
        kinds=tuple(kinds),
        normalize="none",
        vocabularies=known[0],
        tables=known[1],
        maps=tuple(maps),
        sizes=np.array([len(found) for found in cells], np.int64),
    )


def model_of(
    templates: TemplateSet,
    labels: tuple[str, ...],
    cells: Sequence[Sequence[Cells]],
    weights: Sequence[NDArray[np.float32]],
    facts: dict[str, Any],
) -> Model:
    """A label-sequence model: attribute a of template j stands for cells[j][a] and has weights[j][a].

    Templates have no mu of their own here: it is 1 for all, and they are ranked by their norms.
    """
    structure = STRUCTURES["sequence"](len(labels))
    if facts["columns"] > MOST_COLUMNS:
        problem = f"data have at most {MOST_COLUMNS:,} columns, the model looks at {facts['columns']:,}"
        raise IncompatibleError(problem)
    ensure_weights(sum(structure.widths()) + sum(block.size for block in weights))
    sites = structure.sites(np.array([0, 1], np.int64))
    kind_of = {site.letter: site.kind for site in sites}
    kinds = [kind_of[template.kind] for template in templates]
    used = [np.any(block != 0, axis=1) for block in weights]
    index, live = compact(index_of(templates, kinds, cells), used)
    kept = [block[mask] for block, mask in zip(weights, used, strict=True)]
    stacked = tuple(
        np.concatenate([*(kept[j] for j in live if kinds[j] == site.kind), np.zeros((1, width), np.float32)])
        for site, width in zip(sites, structure.widths(), strict=True)
    )
    return Model(
        structure=structure,
        labels=labels,
        templates=templates,
        live=tuple(live),
        index=index,
        weights=stacked,
        mu=np.ones(len(templates)),
        norm=np.array([float(np.sqrt(np.square(block, dtype=np.float64).sum())) for block in kept]),
        features=np.array([np.count_nonzero(block) for block in kept], np.int64),
        facts=facts,
    )


def ensure_weights(count: int) -> None:
    """Reject a model whose weights, each label's or pair's, do not fit into memory beside their copies."""
    ensure(16 * count, "a model with a weight for every label and every pair of labels")


def facts_of(program: str, task: str, tags: str, columns: int) -> dict[str, Any]:
    """What a model says of itself whose weights come from a CRF of another program."""
    return {
        "task": task,
        "tags": tags,
        "method": f"imported from {program}",
        "columns": columns,
        "sparse": False,
        "temperature": 1.0,  # its scores are logarithms of probabilities
    }
