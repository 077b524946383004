"""Fit -> Model: the weights that are left, and the facts of the training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mtlstruct._system import threads
from mtlstruct.corpus import Corpus
from mtlstruct.features.arcs import ArcIndex
from mtlstruct.features.index import Encoded
from mtlstruct.features.pruning import compact
from mtlstruct.model.index_arrays import Index
from mtlstruct.model.model import Model
from mtlstruct.solvers import Fit
from mtlstruct.structures import Structure
from mtlstruct.templates import TemplateSet
from mtlstruct.training.blocks import blocks_of, stacked, with_support
from mtlstruct.training.methods import exponent, method_spec, regularizer, solver_of
from mtlstruct.training.options import Options


def build_model(
    corpus: Corpus,
    templates: TemplateSet,
    structure: Structure,
    encoded: Encoded,
    index: Index,
    fit: Fit,
    options: Options,
) -> Model:
    """The compacted model of a fit: only what has a weight is copied, so this takes little memory."""
    views = blocks_of(encoded, fit, structure)
    small, live = compact(index, [view.used for view in views])
    kept = dict(zip(live, threads.in_order(lambda j: views[j].weights(), live), strict=True))
    norm, features = np.zeros(len(templates)), np.zeros(len(templates), np.int64)
    for j, block in kept.items():
        norm[j] = math.sqrt(float(np.einsum("ay,ay->", block, block, dtype=np.float64)))
        features[j] = np.count_nonzero(block)
    factors = _factors(index)
    for j in kept.keys() & {int(number) for number in factors}:  # text to come has values as they are
        kept[j] *= np.float32(factors[str(j)])
    return Model(
        structure=structure,
        labels=corpus.labels,
        templates=templates,
        live=tuple(live),
        index=with_support(small, [views[j] for j in live], encoded.designs[0].support),
        weights=stacked(kept, index, encoded, structure),
        mu=fit.mu,
        norm=norm,
        features=features,
        facts=_facts(corpus, fit, options)
        | {"seen": _seen(index, encoded, structure)}
        | left_out(index)
        | ({"factors": factors} if factors else {})
        | ({"names": list(corpus.names)} if corpus.names else {}),
    )


def observed_attributes(index: Index) -> int:
    """Distinct observations: attributes of all templates that look at something (the bare B does not)."""
    return sum(int(n) for t, n in zip(index.templates, index.found, strict=True) if t.terms)


def _seen(index: Index, encoded: Encoded, structure: Structure) -> list[int]:
    """How many features each template had in training, before those without a weight were dropped."""
    width = dict(zip(encoded.kinds, structure.widths(), strict=True))
    found = [int(size) * width[kind] for size, kind in zip(index.found, index.kinds, strict=True)]
    for design in encoded.designs:
        if design.support is not None:
            for j, count in zip(design.templates, np.diff(design.weight_ptr), strict=True):
                found[j] = int(count)
    return found


def _factors(index: Index) -> dict[str, float]:
    """What the values of templates were multiplied by in training, where that is not 1; by number, as JSON has it."""
    if isinstance(index, ArcIndex) or index.factors is None:
        return {}
    return {str(j): float(index.factors[j]) for j in np.flatnonzero(index.factors != 1)}


def left_out(index: Index) -> dict[str, Any]:
    """Templates that training left out because they bring nothing, by number: see arcs.merge."""
    merged = index.merged if isinstance(index, ArcIndex) else None
    if merged is None:
        return {}
    identical = [[j, k] for j, k in sorted(merged.identical.items())]
    return {"constant": list(merged.constant), "identical": identical}


def _facts(corpus: Corpus, fit: Fit, options: Options) -> dict[str, Any]:
    return {
        "task": options.task,
        "tags": options.tags,
        "method": options.method,
        "solver": solver_of(options.method, options.solver),
        "c": options.c,
        "p": exponent(options.method, options.p),
        "seed": options.seed,
        "min_count": options.min_count,
        "loss_weights": dict(options.loss_weights),
        "share_identical": options.share_identical,
        "scaling": options.scaling,
        "label_support": options.label_support,
        **({"shards": options.shards} if options.shards > 1 else {}),
        "columns": len(corpus.columns),
        "sentences": len(corpus),
        "tokens": corpus.tokens,
        "sparse": regularizer(options.method, options.p).sparse,
        **fit.figures(),
        **({"temperature": 1.0} if method_spec(options.method).likelihood else {}),
    }
