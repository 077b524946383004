"""Features as text: a template's line with the cells put in, which is what CRF++ and Wapiti know a feature by.

To them two lines that can give one text are one. Ours are apart, so `check_apart` refuses such lines, or `renamed`
gives each a number. `divided` turns it round: a text goes to every template, and to every division into cells,
that the other program would find it by.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.interop.attribute_cells import Cells
from mtlstruct.model.model import Model
from mtlstruct.templates import Template, Term
from mtlstruct.templates.terms import written

MOST_DIVISIONS = 10_000
"""Cells, in all ways to cut one feature; more than any real feature has."""

MOST_ON_AVERAGE = 50
"""Cells of a feature in all ways, taken over a whole file."""

_BLANK = re.compile(r"[ \t\n\r\v\f]")
_EMPTY = ("m", "M", "match", "root")
"""Functions that may make nothing of a cell."""


def spell(template: Template, cells: Cells) -> str:
    """The line with these cells."""
    first, *rest = template.pieces
    return first + "".join(cell + piece for cell, piece in zip(cells, rest, strict=True))


def has_blank(text: str) -> bool:
    """Whether the other program would take this for two words."""
    return _BLANK.search(text) is not None


def renamed(template: Template, number: int, count: int) -> Template:
    """A name that begins with the template's number: no two can be mistaken. Lines without cells stay."""
    if not template.terms:
        return template
    start = f"{template.kind}{number:0{len(str(count))}}.{template.pieces[0][1:]}"
    pieces = (start, *template.pieces[1:])
    return replace(
        template,
        text=written(pieces, template.terms),
        name=start.partition(":")[0],
        pieces=pieces,
        others=tuple(renamed(other, number, count) for other in template.others),
    )


def checked_index(program: str, model: Model) -> FeatureIndex:
    """Return the index of a label-sequence model; reject what the program cannot hold."""
    if model.structure.name != "sequence" or not isinstance(model.index, FeatureIndex):
        problem = f"{program} has label sequences only: the model is for {model.structure.name}"
        raise IncompatibleError(problem)
    if model.takes_dicts:
        raise IncompatibleError(f"{program} has columns of cells: the model was trained on feature dicts")
    if model.facts.get("factors"):
        raise IncompatibleError(f"{program} has no real values: the model was trained with some")
    if (normalize := model.index.normalize) != "none":
        problem = f"{program} looks cells up as they are: the model was trained with --normalize {normalize}"
        raise IncompatibleError(problem)
    if not model.live:
        problem = f"the model has no template with a weight, and {program} refuses an empty model"
        raise IncompatibleError(problem)
    return model.index


def check_apart(program: str, lines: Sequence[Template], spelled: Sequence[Sequence[str]]) -> None:
    """Reject features that the program would take for one: of two templates, or of one with other cells."""
    for number, (template, features) in enumerate(zip(lines, spelled, strict=True)):
        _check_distinct(program, template, features)
        for other in (*lines[:number], *lines[number + 1 :]):
            if other.text == template.text or not _overlap(template.pieces[0], other.pieces[0]):
                continue
            clash = next((feature for feature in features if can_give(other, feature)), None)
            if clash is not None:
                raise IncompatibleError(
                    f"{program} cannot tell {template.text!r} from {other.text!r}: both can give {clash!r}; "
                    "--rename gives each template a name of its own"
                )


def _check_distinct(program: str, template: Template, features: Sequence[str]) -> None:
    if len(set(features)) == len(features):
        return
    twice = next(feature for feature, times in Counter(features).items() if times > 1)
    raise IncompatibleError(
        f"{program} cannot tell two features of {template.text!r} apart: both are {twice!r}; the text between "
        "the cells of a template must not be found in the cells"
    )


def summed(
    spelled: Sequence[Sequence[str]], weights: Sequence[NDArray[np.float32]]
) -> dict[str, NDArray[np.float64]]:
    """The weights of each text; equal lines give equal texts, whose weights add up."""
    out: dict[str, NDArray[np.float64]] = {}
    for features, block in zip(spelled, weights, strict=True):
        for feature, row in zip(features, block.astype(np.float64), strict=True):
            out[feature] = out[feature] + row if feature in out else row
    return out


def divided(
    features: Collection[str], templates: Sequence[Template], path: str | Path
) -> list[list[tuple[Cells, str]]]:
    """For each template the cells of its features, with the feature."""
    out: list[list[tuple[Cells, str]]] = [[] for _ in templates]
    by_prefix: dict[str, list[int]] = {}
    for j, template in enumerate(templates):
        by_prefix.setdefault(template.pieces[0], []).append(j)
    lengths = sorted({len(prefix) for prefix in by_prefix})
    left = MOST_DIVISIONS + MOST_ON_AVERAGE * len(features)
    for feature in features:
        for length in lengths:
            for j in by_prefix.get(feature[:length], ()) if length <= len(feature) else ():
                ways = divisions(templates[j], feature)
                size = max(1, len(templates[j].terms))
                left -= len(ways) * size
                if len(ways) > MOST_DIVISIONS // size or left < 0:
                    line = templates[j].text[:60]
                    problem = f"{feature[:60]!r} can be cut into the cells of {line!r} in too many ways"
                    raise FormatError(path, None, problem)
                out[j] += [(cells, feature) for cells in ways]
    return out


def divisions(template: Template, feature: str) -> list[Cells]:
    """Return all ways to cut a feature into cells that the template expands to it, or the first of too many."""
    cuts = _cell_starts(template, feature)
    if cuts is None:
        return []
    pieces = template.pieces[1:]
    ways: list[Cells] = []
    open_: list[tuple[int, int, Cells]] = [
        (len(pieces), len(feature), ())
    ]  # cells from the end of the text on
    while open_ and len(ways) <= MOST_DIVISIONS // max(1, len(pieces)):
        k, end, cells = open_.pop()
        if k == 0:
            ways.append(cells)
            continue
        end -= len(pieces[k - 1])
        last = end - _least(template.terms[k - 1])
        open_ += [(k - 1, start, (feature[start:end], *cells)) for start in cuts[k - 1] if start <= last]
    same = [template.terms.index(term) for term in template.terms]  # a term named twice reads the same twice
    ways = [cells for cells in ways if all(cells[k] == cell for k, cell in zip(same, cells, strict=True))]
    return sorted(ways, key=lambda cells: [len(cell) for cell in cells])


def can_give(template: Template, text: str) -> bool:
    """Decide whether a line can give this text, with cells that hold no blank."""
    return _cell_starts(template, text, [match.end() for match in _BLANK.finditer(text)]) is not None


def _cell_starts(template: Template, text: str, blanks: Sequence[int] = ()) -> list[list[int]] | None:
    """Return for each cell where it may begin, so that the text before it can be read, in rising order.

    None if the text cannot be read to its end. `blanks` are places in the text that no cell may reach across.
    Every piece takes one walk over the text, whatever the number of ways to read it.
    """
    first, *pieces = template.pieces
    if not text.startswith(first):
        return None
    starts = [[len(first)]]
    for piece, term in zip(pieces, template.terms, strict=True):
        ends = []
        for end in _ends(text, piece):
            begin = end - len(piece)
            before = bisect_right(blanks, begin) - 1  # the last blank that a cell up to here could hold
            earliest = bisect_left(starts[-1], blanks[before] if before >= 0 else 0)
            if earliest < len(starts[-1]) and starts[-1][earliest] + _least(term) <= begin:
                ends.append(end)
        starts.append(ends)
    return starts if starts[-1] and starts[-1][-1] == len(text) else None


def _ends(text: str, piece: str) -> Iterator[int]:
    """Yield where the piece ends, wherever it stands in the text."""
    at = text.find(piece)
    while at >= 0:
        yield at + len(piece)
        at = text.find(piece, at + 1) if at < len(text) else -1


def _least(term: Term) -> int:
    return 0 if term.function in _EMPTY else 1


def _overlap(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)
