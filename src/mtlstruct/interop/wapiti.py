"""Wapiti's models: ours as Wapiti would hold them, and Wapiti's read into ours. wapiti_io.py has its two formats.

To Wapiti an *observation* is the text of a pattern with its cells put in, in small letter u, b or * first. It has a
weight for each label (u), for each pair of labels (b), or both (*). Beyond the edge of a sentence it reads _x-1 to
_x-4 and _x+1 to _x+4, and one mark, _x-# or _x+#, for all that lies farther out. Reading is exact in this: a weight
goes to every mark of ours that Wapiti would find it by. Letters are not: Wapiti's %X, %t and %m see bytes, our
functions see Unicode (`differences` says which lines that concerns).

Rejected in writing: functions that Wapiti lacks, rows that reach beyond its marks, %t and %m of a cell that may lie
outside the sentence (it applies them to its marks, we do not), tabs, normalisation, a label that is '#'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.explain.selection import blocks
from mtlstruct.features.index import FeatureIndex
from mtlstruct.interop.attribute_cells import Cells, cells_of, facts_of, model_of
from mtlstruct.interop.feature_text import (
    check_apart,
    checked_index,
    divided,
    has_blank,
    renamed,
    spell,
    summed,
)
from mtlstruct.model.model import Model
from mtlstruct.templates import Template, TemplateSet, Term, boundary
from mtlstruct.templates.convert import line_in
from mtlstruct.templates.functions import bound, is_mark

NEAR = 4
"""The distance from the edge up to which Wapiti's marks have a number."""

MOST_MARKS = 1000
"""Combinations of our marks that one observation of Wapiti's may stand for."""

_MARK = re.compile(r"_x[+-][1-4#]")

Weights = dict[str, NDArray[np.float64]]
"""Observations and their weights."""


@dataclass(frozen=True)
class Observations:
    """What a model of Wapiti's holds.

    patterns   lines of its pattern language, () where the file does not tell
    unigrams   float64[L] for each observation
    bigrams    float64[L·L] (previous, current) for each
    skipped    observations left out because they are no text: Wapiti has cut a character in two
    """

    labels: tuple[str, ...]
    patterns: tuple[str, ...]
    unigrams: Weights
    bigrams: Weights
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.unigrams.keys() | self.bigrams.keys())


def differences(templates: TemplateSet) -> list[str]:
    """A sentence for each template that Wapiti and we may read differently."""
    return [
        str(
            templates.error(template, f"Wapiti's {names} sees bytes, ours Unicode letters: labels may differ")
        )
        for template in templates
        if (names := " and ".join(dict.fromkeys(_macro(t) for t in template.terms if t.function)))
    ]


def _macro(term: Term) -> str:
    return {"lower": "%X", "t": "%t", "m": "%m", "M": "%M"}.get(term.function, f"%{term.function}")


# ---------------------------------------------------------------- ours -> Wapiti's


def observations(model: Model, *, rename: bool = False) -> Observations:
    """The model as Wapiti would hold it."""
    index = _checked(model)
    templates = index.templates
    lines = [renamed(t, n, len(templates)) if rename else t for n, t in enumerate(templates)]
    patterns = [tuple(line_in(line, "wapiti", model.templates) for line in t.readings) for t in lines]
    small = [_lettered(TemplateSet.parse(first, dialect="wapiti")[0], first[0]) for first, *_ in patterns]
    spelled = [[spell(t, _marked(cells)) for cells in cells_of(index, n)] for n, t in enumerate(small)]
    check_apart("Wapiti", small, spelled)
    found = summed(spelled, blocks(model))
    return Observations(
        model.labels,
        tuple(pattern for some in dict.fromkeys(patterns) for pattern in some),
        {text: weights for text, weights in found.items() if text[0] == "u"},
        {text: weights for text, weights in found.items() if text[0] == "b"},
    )


def _checked(model: Model) -> FeatureIndex:
    """The index of a model that Wapiti can hold."""
    index = checked_index("Wapiti", model)
    for label in model.labels:
        if label == "#" or has_blank(label):
            raise IncompatibleError(f"Wapiti's files cannot hold the label {label!r}")
    for template in (reading for t in index.templates for reading in t.readings):
        line_in(template, "wapiti", model.templates)
        if "\t" in template.text:
            raise model.templates.error(template, "a dump has tabs between its cells, and none inside")
        for term in template.terms:
            _check_term(model.templates, template, term)
    return index


def _check_term(templates: TemplateSet, template: Template, term: Term) -> None:
    marks = list(_marks(term))
    if marks and term.function not in ("", "lower"):
        problem = f"Wapiti applies {_macro(term)} to what lies outside the sentence, we do not"
        raise templates.error(template, problem)
    if any(abs(k) > NEAR + 1 for k in marks):
        problem = (
            f"Wapiti has one mark for all that lies more than {NEAR} beyond the edge: rows reach too far"
        )
        raise templates.error(template, problem)


def _marked(cells: Cells) -> Cells:
    """The cells with Wapiti's marks for ours."""
    for cell in cells:
        if _MARK.fullmatch(cell):
            problem = f"Wapiti cannot tell the cell {cell!r} from its mark for the edge of a sentence"
            raise IncompatibleError(problem)
    return tuple(_their_mark(int(cell[2:])) if is_mark(cell) else cell for cell in cells)


def _lettered(template: Template, letter: str) -> Template:
    return replace(template, pieces=(letter + template.pieces[0][1:], *template.pieces[1:]))


# ---------------------------------------------------------------- Wapiti's -> ours


def to_model(
    found: Observations,
    templates: TemplateSet,
    path: str | Path,
    *,
    task: str = "sequence",
    tags: str = "bie",
) -> Model:
    """A model that labels as Wapiti does with these observations and patterns (read in its dialect)."""
    letters = [templates.lines[template.line - 1][0].lower() for template in templates]
    lines = [_lettered(t, letter) for t, letter in zip(templates, letters, strict=True)]
    assigned: list[list[tuple[Cells, str]]] = [[] for _ in lines]
    for kind, weights in (("U", found.unigrams), ("B", found.bigrams)):
        own = [j for j, line in enumerate(lines) if line.kind == kind]
        ways = divided(weights, [lines[j] for j in own], path)
        _check_known(weights, ways, path)
        for j, ways_of in zip(own, ways, strict=True):
            assigned[j] = [
                (ours, text) for cells, text in ways_of for ours in _our_cells(lines[j], cells, path)
            ]
    tables = {"U": found.unigrams, "B": found.bigrams}
    width = {"U": len(found.labels), "B": len(found.labels) ** 2}
    blocks_of = [
        np.array([tables[line.kind][text] for _, text in ways_of], np.float32).reshape(-1, width[line.kind])
        for line, ways_of in zip(lines, assigned, strict=True)
    ]
    columns = 1 + max(templates.columns(), default=0)
    facts = facts_of("Wapiti", task, tags, columns)
    cells_by_template = [[cells for cells, _ in ways_of] for ways_of in assigned]
    return model_of(templates, found.labels, cells_by_template, blocks_of, facts)


def _check_known(
    weights: Mapping[str, object], ways: list[list[tuple[Cells, str]]], path: str | Path
) -> None:
    known = {text for ways_of in ways for _, text in ways_of}
    strange = next((text for text in weights if text not in known), None)
    if strange is not None:
        raise FormatError(path, None, f"no pattern makes the observation {strange[:60]!r}")


def _our_cells(template: Template, cells: Cells, path: str | Path) -> Iterator[Cells]:
    """The cells for which ours must fire where Wapiti reads these: themselves, and the marks that it reads so."""
    choices = [_readings(term, cell) for term, cell in zip(template.terms, cells, strict=True)]
    if math.prod(map(len, choices)) > MOST_MARKS:
        problem = (
            f"{template.text[:60]!r} looks so far beyond the edge that {NEAR + 1} marks stand for too many"
        )
        raise FormatError(path, None, problem)
    for chosen in product(*choices):
        # A term that is named twice reads one cell.
        if len(set(zip(template.terms, chosen, strict=True))) == len(set(template.terms)):
            yield chosen


def _readings(term: Term, cell: str) -> list[str]:
    function = bound(term.function, term.arguments, {})
    marks = [boundary(k) for k in _marks(term) if function(_their_mark(k)) == cell]
    # A cell of the data that spells a mark, Wapiti's or ours, is taken for the mark.
    return marks if is_mark(cell) or _MARK.fullmatch(cell) else [cell, *marks]


def _marks(term: Term) -> Iterator[int]:
    """Where beyond the edge the cell of a term may lie: −1, −2, … before the first token, 1, 2, … after the last."""
    sign = 1 if term.row > 0 else -1
    reach = abs(term.row)
    if term.absolute:
        reach -= 1  # @1 is there in every sentence
    return (sign * k for k in range(1, reach + 1))


def _their_mark(k: int) -> str:
    return f"_x{k:+d}" if abs(k) <= NEAR else f"_x{'+' if k > 0 else '-'}#"
