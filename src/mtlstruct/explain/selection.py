"""The templates worth keeping: by number, by weight, or by what they may cost on other data.

Templates are taken in the order of `Model.template_weights`, heaviest first; what training has dropped is never
taken. Nothing is trained here: a trial predicts with the weights of the other templates simply removed, which
is what scaling their blocks by zero does. A model trained again on the chosen templates is at least as fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.features.encoded import Encoded
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.pruning import compact
from mtlstruct.model.lattice import Lattice
from mtlstruct.model.model import Model, TemplateWeight
from mtlstruct.templates import Template, TemplateSet
from mtlstruct.templates.convert import line_in


def heaviest(model: Model) -> list[TemplateWeight]:
    """The templates that have a weight, heaviest first."""
    return [weight for weight in model.template_weights() if weight.features]


def top(model: Model, count: int) -> list[int]:
    """The numbers of the `count` heaviest templates, in file order."""
    if count < 1:
        raise MtlError(f"expected at least 1 template to keep, got {count}")
    return _numbers(_some(heaviest(model))[:count])


def above(model: Model, least: float) -> list[int]:
    """The numbers of templates that weigh more than `least`, in file order.

    The weight is mu; where a method does not learn it (svm), the norm of the block.
    """
    sparse = bool(model.facts["sparse"])
    found = heaviest(model)
    kept = [weight for weight in found if (weight.mu if sparse else weight.norm) > least]
    if not kept:
        most = max((w.mu if sparse else w.norm for w in found), default=0.0)
        raise MtlError(f"no template weighs more than {least:g}: the heaviest has {most:.4g}")
    return _numbers(kept)


def within(model: Model, score: Callable[[Sequence[int]], float], loss: float) -> tuple[list[int], float]:
    """The smallest top-N whose score is at most `loss` below that of the full model, and its score.

    N is found by halving, which supposes that more templates never score worse. Scores do waver a little: the
    answer is within `loss` for certain, but a smaller N that got lucky may be passed over.
    """
    ranked = [weight.index for weight in _some(heaviest(model))]
    found = {len(ranked): score(sorted(ranked))}
    least = found[len(ranked)] - loss
    low, high = 0, len(ranked)  # high is good enough, low is not
    while high - low > 1:
        middle = (low + high) // 2
        found[middle] = score(sorted(ranked[:middle]))
        low, high = (low, middle) if found[middle] >= least else (middle, high)
    return sorted(ranked[:high]), found[high]


def without(model: Model, kept: Sequence[int]) -> Model:
    """The model with the weights of all other templates removed, and all that only they needed."""
    sizes = zip(model.live, model.index.sizes, strict=True)
    index, numbers = compact(model.index, [np.full(size, j in set(kept), bool) for j, size in sizes])
    live = tuple(model.live[n] for n in numbers)
    gone = np.array([j not in live for j in range(len(model.templates))])
    rows = [_attributes(model, [n for n in numbers if model.index.kinds[n] == kind]) for kind in model.kinds]
    if isinstance(index, FeatureIndex) and isinstance(model.index, FeatureIndex) and model.index.support:
        support, rows[0] = model.index.support.take(rows[0])
        index = replace(index, support=support)
    weights = tuple(
        np.append(old[some], old[-1:], axis=0) for old, some in zip(model.weights, rows, strict=True)
    )
    return replace(
        model,
        live=live,
        index=index,
        weights=weights,
        mu=np.where(gone, 0.0, model.mu),
        norm=np.where(gone, 0.0, model.norm),
        features=np.where(gone, 0, model.features),
    )


def _attributes(model: Model, numbers: Sequence[int]) -> NDArray[np.int64]:
    """The attributes of some templates of the index, all of one kind, by their rows of weights."""
    none: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    return np.concatenate(none + [np.arange(*model.attributes(n)) for n in numbers])


@dataclass(frozen=True)
class Trial:
    """A corpus encoded once, to be predicted with any of a model's templates."""

    model: Model
    encoded: Encoded

    @classmethod
    def of(cls, model: Model, corpus: Corpus) -> Trial:
        """Encodes the corpus with all templates of the model."""
        return cls(model, model.index.encode(corpus, model.structure.sites(corpus.ptr)))

    def predict(self, kept: Sequence[int]) -> NDArray[np.int32]:
        """What the model predicts when only these templates speak. int32[T]"""
        model, encoded = self.model, self.encoded
        scale = np.isin(np.array(model.live, np.int64), list(kept)).astype(np.float64)
        return Lattice.of(encoded, model.structure, list(model.weights), scale).best()


def lines_kept(templates: TemplateSet, kept: Sequence[int], dialect: str | None = None) -> str:
    """The source without the lines of templates not kept: comments, blank lines and order stay.

    Lines are the user's own, unless another `dialect` than theirs is asked for, or one of the two templates
    that a line of Wapiti's can make is to go; TemplateError names a line that the dialect cannot express.
    """
    dialect = dialect or templates.dialect
    at: dict[int, list[tuple[int, Template]]] = {}
    for j, template in enumerate(templates):
        for reading in template.readings:
            at.setdefault(reading.line, []).append((j, reading))
    lines: list[str] = []
    for number, line in enumerate(templates.lines, 1):
        lines += _kept_line(templates, line, at.get(number, []), set(kept), dialect)
    return "\n".join(lines).rstrip("\n") + "\n"


def _kept_line(
    templates: TemplateSet, line: str, here: list[tuple[int, Template]], kept: set[int], dialect: str
) -> list[str]:
    staying = [reading for j, reading in here if j in kept]
    if len(staying) == len(here) and (dialect == templates.dialect or not here):
        return [line]
    return [line_in(template, dialect, templates) for template in staying]


def _some(weights: list[TemplateWeight]) -> list[TemplateWeight]:
    if not weights:
        raise IncompatibleError("the model has no template with a weight: there is nothing to choose from")
    return weights


def _numbers(weights: Sequence[TemplateWeight]) -> list[int]:
    return sorted(weight.index for weight in weights)


def blocks(model: Model) -> list[NDArray[np.float32]]:
    """The weights of each live template, [attributes, parts]."""
    return [model.block(number) for number in range(len(model.live))]
