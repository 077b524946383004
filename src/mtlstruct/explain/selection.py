"""Template selection: the N templates with the largest weights, or all above a weight.

Templates are ordered as in `Model.template_weights`; dropped templates are never selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.model.model import Model, TemplateWeight
from mtlstruct.templates import Template, TemplateSet
from mtlstruct.templates.convert import line_in


def heaviest(model: Model) -> list[TemplateWeight]:
    """Return the templates that have weights, largest first."""
    return [weight for weight in model.template_weights() if weight.features]


def top(model: Model, count: int) -> list[int]:
    """Return the indices of the `count` templates with the largest weights, in file order."""
    if count < 1:
        raise MtlError(f"expected at least 1 template to keep, got {count}")
    found = heaviest(model)
    if not found:
        raise IncompatibleError("the model has no template with a weight: there is nothing to choose from")
    return sorted(weight.index for weight in found[:count])


def above(model: Model, least: float) -> list[int]:
    """Return the indices of templates whose weight is above `least`, in file order.

    The weight is mu, or the norm of the block for methods that do not learn mu (svm).
    """
    sparse = bool(model.facts["sparse"])
    found = heaviest(model)
    kept = [weight for weight in found if (weight.mu if sparse else weight.norm) > least]
    if not kept:
        most = max((w.mu if sparse else w.norm for w in found), default=0.0)
        raise MtlError(f"no template weighs more than {least:g}: the heaviest has {most:.4g}")
    return sorted(weight.index for weight in kept)


def selected_lines(templates: TemplateSet, kept: Sequence[int], dialect: str | None = None) -> str:
    """Return the template file without the other templates; comments, blank lines and order stay.

    Lines are rewritten only for another `dialect`, or if one of the two templates of a Wapiti line
    is removed; TemplateError names a line that the dialect cannot express.
    """
    dialect = dialect or templates.dialect
    at: dict[int, list[tuple[int, Template]]] = {}
    for j, template in enumerate(templates):
        for member in template.members:
            at.setdefault(member.line, []).append((j, member))
    lines: list[str] = []
    for number, line in enumerate(templates.lines, 1):
        lines += _kept_line(templates, line, at.get(number, []), set(kept), dialect)
    return "\n".join(lines).rstrip("\n") + "\n"


def _kept_line(
    templates: TemplateSet, line: str, here: list[tuple[int, Template]], kept: set[int], dialect: str
) -> list[str]:
    staying = [member for j, member in here if j in kept]
    if len(staying) == len(here) and (dialect == templates.dialect or not here):
        return [line]
    return [line_in(template, dialect, templates) for template in staying]
