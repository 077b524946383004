"""Features as cells and as text, the line of a template with its cells, as in CRF++ and Wapiti.

There, two lines that expand to the same text are one feature. In mtlstruct they are two, so
`weights_by_text` rejects such lines, or `renamed` gives each a number. `divided` is the inverse of
`spell`: a text goes to every template, and every division into cells, that expands to it.

In a model an attribute is a number at the end of a chain of joins. `cells_of` follows the chains
backwards; `model_of` builds them from the cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.memory import ensure
from mtlstruct.corpus import MOST_COLUMNS
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.features.plan import make_plan
from mtlstruct.features.pruning import prune
from mtlstruct.features.shared_templates import GrowingTables, cells_by_term, size_of
from mtlstruct.features.vocabulary import ABSENT
from mtlstruct.model.model import Model
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import Template, TemplateSet, Term
from mtlstruct.templates.terms import written

Cells = tuple[str, ...]
"""The cells of an attribute, in the order of the terms of its template."""

MAX_DIVISION_CELLS = 10_000
"""Cells in all divisions of one feature; more than any real feature has."""

MEAN_DIVISION_CELLS = 50
"""The largest mean number of cells in all divisions of a feature, over a file."""

_BLANK = re.compile(r"[ \t\n\r\v\f]")
_CELL = r"[^ \t\n\r\v\f]"
_MAY_BE_EMPTY = ("m", "M", "match", "root")
"""Functions whose value may be empty."""


Weights = dict[tuple[str, str], NDArray[np.float64]]
"""Weights of features by kind (U: one per label, B: one per pair of labels) and text."""


class Observations(NamedTuple):
    """A model of CRF++ or Wapiti, where a feature is its text.

    columns    the number of columns that templates may look at; 0 if the file does not say
    patterns   lines of the template language of the program
    skipped    the number of features that are not text: Wapiti splits characters
    """

    labels: tuple[str, ...]
    columns: int
    patterns: tuple[str, ...]
    weights: Weights
    skipped: int = 0


def spell(template: Template, cells: Cells) -> str:
    """Return the line of a template with these cells."""
    first, *rest = template.pieces
    return first + "".join(cell + piece for cell, piece in zip(cells, rest, strict=True))


def has_blank(text: str) -> bool:
    """Return whether a text has a blank, which separates cells in the other programs."""
    return _BLANK.search(text) is not None


def renamed(template: Template, number: int, count: int) -> Template:
    """Return a template with a name that begins with its number, unless it has no cells."""
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


def program_lines(templates: TemplateSet, *, rename: bool) -> list[Template]:
    """Return the templates as a program writes them, renamed or not."""
    return [renamed(t, n, len(templates)) if rename else t for n, t in enumerate(templates)]


def checked_sequence(program: str, model: Model) -> FeatureIndex:
    """Return the index of a model that labels sequences in one pass; raise for other models.

    Templates of feature dicts must see single features as they are.
    """
    problem = ""
    if model.structure.name != "sequence" or not isinstance(model.index, FeatureIndex):
        problem = f"has label sequences only: the model is for {model.structure.name}"
    elif model.first is not None:
        problem = "labels in one pass: the model was trained with --context"
    elif model.conversion is not None:
        problem = "predicts the labels that it learned: the model was trained with --scheme"
    if problem or not isinstance(model.index, FeatureIndex):
        raise IncompatibleError(f"{program} {problem}")
    for line in (member for template in model.index.templates for member in template.members):
        if model.takes_dicts and (len(line.terms) > 1 or any(t.row or t.function for t in line.terms)):
            problem = f"{program} sees the features of a dict one by one, the template something else"
            raise model.templates.error(line, problem)
    return model.index


def checked_attributes(program: str, model: Model) -> FeatureIndex:
    """Return the index of a model whose features are texts; raise for what these cannot be."""
    index = checked_sequence(program, model)
    if index.normalize != "none":
        problem = "looks cells up as they are: the model was trained with --normalize"
        raise IncompatibleError(f"{program} {problem} {index.normalize}")
    if not model.live:
        problem = f"the model has no template with a weight, and {program} refuses an empty model"
        raise IncompatibleError(problem)
    return index


def checked_cells(program: str, model: Model) -> FeatureIndex:
    """Return the index of a model of cells; raise for what the program cannot store."""
    if model.takes_dicts:
        raise IncompatibleError(f"{program} has columns of cells: the model was trained on feature dicts")
    if model.facts.get("factors"):
        raise IncompatibleError(f"{program} has no real values: the model was trained with some")
    return checked_attributes(program, model)


def weights_by_text(
    program: str,
    model: Model,
    lines: Sequence[Template],
    convert: Callable[[Cells], Cells] = lambda c: c,
    *,
    plain: bool = False,
) -> Weights:
    """Return the weights of each feature by kind and text, summed over equal lines.

    lines     the live templates as the program writes them
    convert   turns the cells of an attribute into those of the program
    plain     a text is the cell alone, without the line
    """
    index = model.index
    assert isinstance(index, FeatureIndex)
    written = [replace(t, pieces=("",) * len(t.pieces)) for t in lines] if plain else lines
    spelled = [[spell(t, convert(cells)) for cells in cells_of(index, n)] for n, t in enumerate(written)]
    if not plain:
        _check_apart(program, lines, spelled)
    weights: Weights = {}
    blocks = map(model.block, range(len(model.live)))
    for template, features, block in zip(lines, spelled, blocks, strict=True):
        for feature, row in zip(features, block.astype(np.float64), strict=True):
            key = template.kind, feature
            if plain and key in weights:
                raise IncompatibleError(f"{program} cannot tell two keys with the feature {feature!r} apart")
            weights[key] = weights[key] + row if key in weights else row
    return weights


def _check_apart(program: str, lines: Sequence[Template], spelled: Sequence[Sequence[str]]) -> None:
    """Raise if two features have the same text in the program."""
    for number, (template, features) in enumerate(zip(lines, spelled, strict=True)):
        if len(set(features)) < len(features):
            twice = next(feature for feature, times in Counter(features).items() if times > 1)
            raise IncompatibleError(
                f"{program} cannot tell two features of {template.text!r} apart: both are {twice!r}; the text "
                "between the cells of a template must not be found in the cells"
            )
        for other in (*lines[:number], *lines[number + 1 :]):
            starts = template.pieces[0], other.pieces[0]
            if other.text == template.text or not max(starts).startswith(min(starts)):
                continue
            clash = next((feature for feature in features if can_give(other, feature)), None)
            if clash is not None:
                raise IncompatibleError(
                    f"{program} cannot tell {template.text!r} from {other.text!r}: both can give {clash!r}; "
                    "--rename gives each template a name of its own"
                )


def divided(
    features: Collection[str], templates: Sequence[Template], path: str | Path
) -> list[list[tuple[Cells, str]]]:
    """Return for each template the cells of its features, each with the feature."""
    out: list[list[tuple[Cells, str]]] = [[] for _ in templates]
    by_prefix: dict[str, list[int]] = {}
    for j, template in enumerate(templates):
        by_prefix.setdefault(template.pieces[0], []).append(j)
    lengths = sorted({len(prefix) for prefix in by_prefix})
    left = MAX_DIVISION_CELLS + MEAN_DIVISION_CELLS * len(features)
    for feature in features:
        found = False
        prefixes = (feature[:length] for length in lengths if length <= len(feature))
        for j in (j for prefix in prefixes for j in by_prefix.get(prefix, ())):
            ways = divisions(templates[j], feature)
            size = max(1, len(templates[j].terms))
            left -= len(ways) * size
            if len(ways) > MAX_DIVISION_CELLS // size or left < 0:
                line = templates[j].text[:60]
                problem = f"{feature[:60]!r} can be cut into the cells of {line!r} in too many ways"
                raise FormatError(path, None, problem)
            out[j] += [(cells, feature) for cells in ways]
            found |= bool(ways)
        if not found:
            raise FormatError(path, None, f"no pattern makes the observation {feature[:60]!r}")
    return out


def divisions(template: Template, feature: str) -> list[Cells]:
    """Return all cells with which the template expands to a feature, or the first of too many."""
    first, *pieces = template.pieces
    rests, terms = _rests(template), template.terms
    ways: list[tuple[int, Cells]] = [(len(first), ())] if can_give(template, feature) else []
    for k, (piece, rest) in enumerate(zip(pieces, rests[1:], strict=True)):
        stop, least = len(feature), len(piece) + _least(terms[k])
        longer = (
            (end, (*cells, feature[at : end - len(piece)]))
            for at, cells in ways
            for end in range(at + least if rest.pattern else stop, stop + 1)
            if feature.endswith(piece, at, end) and rest.fullmatch(feature, end)
        )
        ways = list(islice(longer, MAX_DIVISION_CELLS // len(pieces) + 1))
    same = [terms.index(term) for term in terms]  # a repeated term has one cell
    return [cells for _, cells in ways if all(cells[same[k]] == cell for k, cell in enumerate(cells))]


def can_give(template: Template, text: str) -> bool:
    """Return whether a template can expand to this text, with cells without blanks."""
    first = template.pieces[0]
    return text.startswith(first) and _rests(template)[0].fullmatch(text, len(first)) is not None


@lru_cache(maxsize=10_000)
def _rests(template: Template) -> list[re.Pattern[str]]:
    """Return for each cell, and the end, the pattern of what follows the piece before it.

    A cell ends where its piece is first found, for good (an atomic group), since the cells after it
    have the most room then; so a match takes linear time.
    """
    cells = [f"{_CELL}{'+' if _least(term) else '*'}" for term in template.terms]
    ends = [re.escape(piece) for piece in template.pieces[1:]]
    parts = [f"(?>{cell}?{end})" for cell, end in zip(cells[:-1], ends[:-1], strict=True)]
    parts += [f"{cell}{end}" for cell, end in zip(cells[-1:], ends[-1:], strict=True)]
    return [re.compile("".join(parts[k:])) for k in range(len(parts) + 1)]


def _least(term: Term) -> int:
    return 0 if term.function in _MAY_BE_EMPTY else 1


def cells_of(index: FeatureIndex, j: int) -> list[Cells]:
    """Return the cells of each attribute of template j."""
    cells: dict[int, Cells] = {}
    for member, r in zip(index.templates[j].members, index.plan.lines_of(j), strict=True):
        map_ = index.maps[r]
        values = np.flatnonzero(map_[:-1] != ABSENT)
        known = (index.vocabularies, index.tables)
        found = cells_by_term(index.plan, r, member, values, known)
        cells |= zip(map_[values].tolist(), found, strict=True)
    return [cells[a] for a in range(len(cells))]


def model_of(
    program: str,
    templates: TemplateSet,
    labels: tuple[str, ...],
    cells: Sequence[Sequence[Cells]],
    weights: Sequence[NDArray[np.float32]],
    columns: int,
    **facts: Any,
) -> Model:
    """Return a sequence model: attribute a of template j has cells[j][a] and weights[j][a].

    The cells of a template are distinct, and each template has one line. mu is 1 for all templates,
    which are ranked by their norms; facts are added to those of a CRF of the program.
    """
    structure = STRUCTURES["sequence"](len(labels))
    if columns > MOST_COLUMNS:
        raise IncompatibleError(f"data have at most {MOST_COLUMNS:,} columns, the model looks at {columns:,}")
    facts = {
        "task": "sequence",
        "tags": "bie",
        "method": f"imported from {program}",
        "columns": columns,
        "sparse": False,
        "temperature": 1.0,  # a CRF is calibrated by its training
    } | facts
    ensure_weights(sum(structure.widths()) + sum(block.size for block in weights))
    sites = structure.sites(np.array([0, 1], np.int64))
    kind_of = {site.letter: site.kind for site in sites}
    kinds = [kind_of[template.kind] for template in templates]
    used = [np.any(block != 0, axis=1) for block in weights]
    plan = make_plan(templates)
    nodes = GrowingTables(plan)
    values = [nodes.learn(j, template, cells[j]) for j, template in enumerate(templates)]
    known, maps = nodes.known(), []
    for j, found in enumerate(values):
        maps.append(np.full(size_of(plan, j, known) + 1, ABSENT, np.int32))
        maps[j][found] = np.arange(len(found), dtype=np.int32)
    sizes = np.array(list(map(len, cells)), np.int64)
    index, live = prune(FeatureIndex(templates, tuple(kinds), "none", *known, tuple(maps), sizes), used)
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


def imported(
    program: str,
    found: Observations,
    templates: TemplateSet,
    lines: Sequence[Template],
    path: str | Path,
    task: str,
    tags: str,
    ours: Callable[[Template, Cells], Iterable[Cells]] = lambda line, cells: [cells],
) -> Model:
    """Return a model that predicts as the program does with these observations.

    lines   the templates with the letters of the program
    ours    yields the cells in mtlstruct that correspond to cells of the program
    """
    cells: list[list[Cells]] = [[] for _ in lines]
    blocks = [np.zeros((0, 0), np.float32)] * len(lines)
    for kind, width in (("U", len(found.labels)), ("B", len(found.labels) ** 2)):
        own = [j for j, line in enumerate(lines) if line.kind == kind]
        weights = {text: row for (letter, text), row in found.weights.items() if letter == kind}
        for j, ways in zip(own, divided(weights, [lines[j] for j in own], path), strict=True):
            pairs = [(chosen, text) for cells_, text in ways for chosen in ours(lines[j], cells_)]
            cells[j] = [chosen for chosen, _ in pairs]
            blocks[j] = np.array([weights[text] for _, text in pairs], np.float32).reshape(-1, width)
    return model_of(program, templates, found.labels, cells, blocks, found.columns, task=task, tags=tags)


def ensure_weights(count: int) -> None:
    """Raise if that many weights, with their copies, do not fit into memory."""
    ensure(16 * count, "a model with a weight for every label and every pair of labels")


class ByteReader:
    """A reader of the lines and netstrings of a file."""

    def __init__(self, path: str | Path, data: bytes) -> None:
        self.path, self.data, self.start, self.at = path, data, 0, 0

    def line(self, pattern: bytes, what: str) -> re.Match[bytes]:
        """Return the match of the next line; the line after the last is blank."""
        self.start = self.at
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        found = re.fullmatch(pattern, self.data[self.at : end].rstrip(b"\r"))
        if found is None:
            got = self.data[self.at : end][:60].decode("utf-8", "replace")
            raise self.error(f"expected {what}, got {got!r}")
        self.at = end + 1
        return found

    def string(self) -> bytes:
        """Return the next netstring, which ends its line."""
        self.start = self.at
        colon = self.data.find(b":", self.at, self.at + 12)
        length = self.data[self.at : max(colon, self.at)]
        end = colon + 1 + int(length) if length.isdigit() else -1
        if not 0 <= end < len(self.data) or self.data[end : end + 1] != b",":
            raise self.error("expected a string with its length before it and a comma behind")
        text = self.data[colon + 1 : end]
        self.at = end + 2
        return text

    def error(self, problem: str) -> FormatError:
        """Return an error that names the last line."""
        return FormatError(self.path, self.data.count(b"\n", 0, self.start) + 1, problem)
