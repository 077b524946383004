"""A model made of features that somebody else has weighed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.memory import ensure
from mtlstruct.corpus import MOST_COLUMNS
from mtlstruct.errors import IncompatibleError
from mtlstruct.features.pruning import compact
from mtlstruct.interop.attribute_cells import Cells, index_of
from mtlstruct.model.model import Model
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet


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
        raise IncompatibleError(
            f"data have at most {MOST_COLUMNS:,} columns, the model looks at {facts['columns']:,}"
        )
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
    """Refuses a model whose weights, each label's or pair's, do not fit into memory beside their copies."""
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
