"""Template selection: the N templates with the largest weights, or all above a weight.

Templates are ordered as in `Model.template_weights`; dropped templates are never selected.

`removal_costs` says what held-out data lose if the contributions of a template are left out of a
model's scores. The other weights stay as they are, so that a template whose features others could
replace after a new training looks more important than it is. The ranking is cheap: one inference
per template.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.model.calibration import with_temperature
from mtlstruct.model.lattice import Lattice, Outputs
from mtlstruct.model.model import Model
from mtlstruct.templates import Template, TemplateSet
from mtlstruct.templates.convert import line_in


def top(model: Model, count: int) -> list[int]:
    """Return the indices of the `count` templates with the largest weights, in file order."""
    if count < 1:
        raise MtlError(f"expected at least 1 template to keep, got {count}")
    found = [weight.index for weight in model.template_weights() if weight.features]
    if not found:
        raise IncompatibleError("the model has no template with a weight: there is nothing to choose from")
    return sorted(found[:count])


def above(model: Model, least: float) -> list[int]:
    """Return the indices of templates whose weight is above `least`, in file order.

    The weight is mu, or the norm of the block for methods that do not learn mu (svm).
    """
    values = model.mu if model.facts["sparse"] else model.norm
    found = [weight.index for weight in model.template_weights() if weight.features]
    kept = [j for j in found if values[j] > least]
    if not kept:
        most = max((float(values[j]) for j in found), default=0.0)
        raise MtlError(f"no template weighs more than {least:g}: the heaviest has {most:.4g}")
    return sorted(kept)


def selected_lines(templates: TemplateSet, kept: Collection[int], dialect: str | None = None) -> str:
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
        here = at.get(number, [])
        staying = [member for j, member in here if j in kept]
        if len(staying) == len(here) and (dialect == templates.dialect or not here):
            lines.append(line)
        else:
            lines += (line_in(template, dialect, templates) for template in staying)
    return "\n".join(lines).rstrip("\n") + "\n"


TOKENS_PER_CHUNK = 5_000
"""Number of tokens whose features are in memory at a time."""

Floats = NDArray[np.float64]
Score = Callable[[Corpus, Outputs], float]
"""The score of outputs int32[T] for labelled data; larger is better."""


@dataclass(frozen=True)
class RemovalCosts:
    """Loss of held-out data by the removal of each template; 0 for templates without weights.

    score   score of the whole model
    points  float64[m]: points of the score that are lost
    loss    float64[m]: rise of the log loss per sentence, at the temperature of the model;
            where the structure has no probabilities, `points`
    """

    score: float
    points: Floats
    loss: Floats


def removal_costs(model: Model, corpus: Corpus, score: Score) -> RemovalCosts:
    """Return what labelled data lose without each template's contributions; no new training."""
    model = with_temperature(model, corpus)
    outputs = np.zeros((1 + len(model.live), corpus.tokens), np.int32)
    losses, seen = np.zeros(1 + len(model.live)), model.observed(corpus)
    chunk = corpus.ptr[:-1] // TOKENS_PER_CHUNK
    for sentences in np.split(np.arange(len(corpus)), np.flatnonzero(np.diff(chunk)) + 1):
        part = corpus.take(sentences)
        tokens = slice(corpus.ptr[sentences[0]], corpus.ptr[sentences[-1] + 1])
        encoded = model.index.encode(seen.take(sentences), model.structure.sites(part.ptr))
        gold = model.gold(part)
        for number in range(len(outputs)):
            scale = (np.arange(1, len(outputs)) != number).astype(np.float64)  # 0 is the whole model
            parts = encoded.score(model.weights, scale)
            lattice = Lattice(model.structure, parts, encoded.rows, part.ptr, model.conversion).restricted(
                None
            )
            outputs[number, tokens] = lattice.best()
            losses[number] += _log_loss(lattice, gold, model.temperature)
    scores = np.array([score(corpus, found) for found in outputs])
    points, loss = np.zeros((2, len(model.templates)))
    points[list(model.live)] = scores[0] - scores[1:]
    loss[list(model.live)] = (losses[1:] - losses[0]) / len(corpus)
    known = model.lattice(corpus.take(np.arange(1))).has_marginals
    return RemovalCosts(float(scores[0]), points, loss if known else points)


def _log_loss(lattice: Lattice, gold: Outputs, temperature: float) -> float:
    """Return the sum of −ln p(gold) over sentences whose labels are all known."""
    if not lattice.has_marginals:
        return 0.0
    known = np.minimum.reduceat(gold, lattice.ptr[:-1]) >= 0
    values = lattice.evaluate(np.maximum(gold, 0)) / temperature
    return float((lattice.marginals(temperature).log_partition - values)[known].sum())
