"""The cells of each attribute of a model, and a model made of weighted cells.

In a model an attribute is a number at the end of a chain of joins; in other programs it is its
cells, put into the line of the template. `cells_of` follows the chains backwards; `index_of` and
`model_of` build them from the cells.
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
from mtlstruct.features.pruning import prune
from mtlstruct.features.shared_templates import GrowingTables, cells_by_term, size_of
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Model
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet

Cells = tuple[str, ...]
"""The cells of an attribute, in the order of the terms of its template."""


def cells_of(index: FeatureIndex, j: int) -> list[Cells]:
    """Return the cells of each attribute of template j."""
    cells: dict[int, Cells] = {}
    for member, r in zip(index.templates[j].members, index.plan.lines_of(j), strict=True):
        map_ = index.maps[r]
        values = np.flatnonzero(map_[:-1] != ABSENT)
        known = (index.vocabularies, index.tables)
        found = cells_by_term(index.plan, r, member, values, known)
        cells |= zip(map_[values].tolist(), found, strict=True)
    return [cells[a] for a in range(len(cells))]


def index_of(templates: TemplateSet, kinds: Sequence[str], cells: Sequence[Sequence[Cells]]) -> FeatureIndex:
    """Return an index in which attribute a of template j has the cells cells[j][a], all distinct.

    Each template must have one line.
    """
    plan = make_plan(templates)
    nodes = GrowingTables(plan)
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
    """Return a sequence model: attribute a of template j has cells[j][a] and weights[j][a].

    mu is 1 for all templates, which are ranked by their norms.
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
    index, live = prune(index_of(templates, kinds, cells), used)
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
    """Raise if that many weights, with their copies, do not fit into memory."""
    ensure(16 * count, "a model with a weight for every label and every pair of labels")


def imported_facts(program: str, task: str, tags: str, columns: int) -> dict[str, Any]:
    """Return the facts of a model whose weights come from a CRF of another program."""
    return {
        "task": task,
        "tags": tags,
        "method": f"imported from {program}",
        "columns": columns,
        "sparse": False,
        "temperature": 1.0,  # a CRF is calibrated by its training
    }
