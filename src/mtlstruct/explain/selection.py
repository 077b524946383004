"""The templates worth keeping: the N heaviest, or all above a weight; and the user's file without the others.

Templates are taken in the order of `Model.template_weights`, heaviest first; dropped templates are never taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import IncompatibleError, MtlError
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
