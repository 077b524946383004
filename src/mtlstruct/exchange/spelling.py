"""Features as text: a template's line with the cells put in, which is what CRF++ and Wapiti know a feature by.

To them two lines that can give one text are one. Ours are apart, so `check_apart` refuses such lines, or `renamed`
gives each a number. `divided` turns it round: a text goes to every template, and to every division into cells,
that the other program would find it by.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.exchange.features import Cells
from mtlstruct.model import Model
from mtlstruct.templates import Template, Term
from mtlstruct.templates.terms import written

MOST_DIVISIONS = 10_000
"""Ways to cut one feature into cells; more than any real feature has."""

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


def check_columns(program: str, model: Model) -> None:
    """Refuses models of what is no column of cells: feature dicts, real values."""
    if model.takes_dicts:
        raise IncompatibleError(f"{program} has columns of cells: the model was trained on feature dicts")
    if model.facts.get("factors"):
        raise IncompatibleError(f"{program} has no real values: the model was trained with some")


def check_apart(program: str, lines: Sequence[Template], spelled: Sequence[Sequence[str]]) -> None:
    """Refuses features that the program would take for one: of two templates, or of one with other cells."""
    for number, (template, features) in enumerate(zip(lines, spelled, strict=True)):
        _check_distinct(program, template, features)
        for other in (*lines[:number], *lines[number + 1 :]):
            if other.text == template.text or not _overlap(template.pieces[0], other.pieces[0]):
                continue
            clash = next(filter(_pattern(other).fullmatch, features), None)
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
    features: Iterable[str], templates: Sequence[Template], path: str | Path
) -> list[list[tuple[Cells, str]]]:
    """For each template the cells of its features, with the feature."""
    out: list[list[tuple[Cells, str]]] = [[] for _ in templates]
    by_prefix: dict[str, list[int]] = {}
    for j, template in enumerate(templates):
        by_prefix.setdefault(template.pieces[0], []).append(j)
    lengths = sorted({len(prefix) for prefix in by_prefix})
    for feature in features:
        for length in lengths:
            for j in by_prefix.get(feature[:length], ()) if length <= len(feature) else ():
                ways = divisions(templates[j], feature)
                if len(ways) > MOST_DIVISIONS:
                    problem = f"{feature[:60]!r} can be cut into the cells of {templates[j].text!r} in too many ways"
                    raise FormatError(path, None, problem)
                out[j] += [(cells, feature) for cells in ways]
    return out


def divisions(template: Template, feature: str) -> list[Cells]:
    """All ways to cut a feature into cells that the template expands to it."""
    first, *rest = template.pieces
    if not feature.startswith(first):
        return []
    ways = _cuts(feature[len(first) :], rest, [_least(term) for term in template.terms])
    if len(set(template.terms)) == len(template.terms):
        return ways
    same = [
        template.terms.index(term) for term in template.terms
    ]  # what is named twice must read the same twice
    return [cells for cells in ways if all(cells[k] == cell for k, cell in zip(same, cells, strict=True))]


def _cuts(text: str, pieces: Sequence[str], least: Sequence[int]) -> list[Cells]:
    """All ways to read text as cell, piece, cell, piece …; a cell has at least so many characters."""
    if not pieces:
        return [] if text else [()]
    piece, *rest = pieces
    if not rest:
        long = len(text) - len(piece) >= least[0] and text.endswith(piece)
        return [(text[: len(text) - len(piece)],)] if long else []
    out: list[Cells] = []
    at = text.find(piece, least[0])
    while at >= 0 and len(out) <= MOST_DIVISIONS:
        out += [(text[:at], *more) for more in _cuts(text[at + len(piece) :], rest, least[1:])]
        at = text.find(piece, at + 1) if at < len(text) else -1
    return out


def _least(term: Term) -> int:
    return 0 if term.function in _EMPTY else 1


def _pattern(template: Template) -> re.Pattern[str]:
    first, *rest = map(re.escape, template.pieces)
    cells = (r"\S*" if _least(term) == 0 else r"\S+" for term in template.terms)
    return re.compile(
        first + "".join(cell + piece for cell, piece in zip(cells, rest, strict=True)), re.ASCII
    )


def _overlap(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)
