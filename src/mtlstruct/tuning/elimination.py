"""Backward elimination of templates: a path of models with fewer and fewer templates.

Each step drops the templates with the smallest weights in the last one, trains again from its
weights, and scores the new model on held-out data. Templates that say the same share their weight;
when one of them is dropped, the new training gives its weight to the others.

Reference: Guyon, Weston, Barnhill, Vapnik: Gene selection for cancer classification using support
vector machines, Machine Learning 46, 2002 (recursive feature elimination).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mtlstruct.corpus import Corpus
from mtlstruct.model.lattice import Outputs
from mtlstruct.model.model import Model
from mtlstruct.templates import TemplateSet
from mtlstruct.training.build_model import STORED
from mtlstruct.training.options import Options
from mtlstruct.training.train import train

DROPPED_SHARE = 0.2
"""The share of the templates that a step drops."""

Score = Callable[[Model, Corpus, Outputs], tuple[str, float]]
"""The name and value of the score of the outputs of a model for labelled data; larger is better."""


class EliminationStep(NamedTuple):
    """A set of templates, the mean of its scores, tokens labelled per second, a model per part."""

    kept: tuple[int, ...]
    name: str
    score: float
    speed: float
    models: tuple[Model, ...]


def options_of(model: Model) -> Options:
    """Return the options that a model was trained with, for a new training."""
    known = (*STORED, "loss", "solver", "c", "p", "l1", "l2", "transition_support")
    facts = {name: value for name, value in model.facts.items() if value is not None}
    values: dict[str, Any] = {name: facts[name] for name in known if name in facts}
    values["loss_weights"] = tuple(facts.get("loss_weights", {}).items())
    name = model.structure.name
    values["scheme"] = facts["tags"] if model.characters else facts.get("scheme", {}).get("learned", "keep")
    values |= {"projective": "projective" in name, "single_root": "single-root" in name}
    values["normalize"] = model.index.normalize
    return Options(**values).checked()


def sizes(start: int, top: int | None = None, least: int = 1) -> list[int]:
    """Return the numbers of templates of a path, of which `top` is one."""
    found = [start]
    while found[-1] > least:
        found.append(max(least, min(found[-1] - 1, round(found[-1] * (1 - DROPPED_SHARE)))))
    return sorted({*found} | ({top} if top is not None and least <= top <= start else set()), reverse=True)


def eliminate(
    parts: Sequence[tuple[Corpus, Corpus]],
    templates: TemplateSet,
    options: Options,
    score: Score,
    *,
    locked: Collection[int] = (),
    left_out: Collection[int] = (),
    top: int | None = None,
) -> Iterator[EliminationStep]:
    """Yield steps from all templates to one, or to the locked ones.

    parts      pairs of sentences to train on and held-out ones: one, or one for each fold
    locked     indices of templates that every step keeps
    left_out   indices of templates that no step has
    top        a number of templates that is among the steps
    """
    kept = [j for j in range(len(templates)) if j not in left_out]
    tokens = sum(gold.tokens for _, gold in parts)
    models: list[Model] = []
    for size in sizes(len(kept), top, max(1, len(locked))):
        if models:
            worth = np.mean([model.mu if model.facts["sparse"] else model.norm for model in models], axis=0)
            worth[[n for n, j in enumerate(kept) if j in locked]] = np.inf
            kept = sorted(kept[n] for n in np.argsort(-worth, kind="stable")[:size].tolist())
        warm = models if models and options.labelled else [None] * len(parts)
        some = templates.select(tuple(kept))
        pairs = zip(parts, warm, strict=True)
        models = [train(corpus, some, options, init=init).model for (corpus, _), init in pairs]
        began = time.perf_counter()
        outputs = [model.predict(gold) for model, (_, gold) in zip(models, parts, strict=True)]
        speed = tokens / max(time.perf_counter() - began, 1e-9)
        found = zip(models, parts, outputs, strict=True)
        scores = [score(model, gold, labels) for model, (_, gold), labels in found]
        value = float(np.mean([score for _, score in scores]))
        yield EliminationStep(tuple(kept), scores[0][0], value, speed, tuple(models))


def smallest(steps: Sequence[EliminationStep], within: float) -> EliminationStep:
    """Return the step with the fewest templates whose score is within some points of the best."""
    best = max(step.score for step in steps)
    return min((step for step in steps if step.score >= best - within), key=lambda step: len(step.kept))
