"""The text model of CRF++, which `crf_learn -t` writes and HanLP 1.x reads.

Five blocks with a blank line after each but the last:

    version: 100, cost-factor: 1, maxid: the number of weights, xsize: observation columns
    the labels, sorted by their bytes
    the templates, U lines before B lines
    "id feature" for each feature, sorted by its bytes; id is the index of its first weight
    the weights, one "%.16f" per line: L for a U feature, L·L (previous, current) for a B feature

Ids follow the order of the features, as in CRF++ with `-f`: B, if present, is first and has id 0,
which readers such as HanLP expect.

In CRF++ a feature is its text: two templates that expand to the same text share weights. In
mtlstruct they do not, so templates that can expand to the same text are rejected, or renamed
(`rename`); equal lines become one, with the sum of their weights. Also rejected: rows beyond ±8,
functions, cells counted from an edge, blanks in a line, normalisation, and what does not fit the
buffers of CRF++. Reading is the inverse: a feature goes to every template, and every division into
cells, that expands to its text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats.text import encode, load
from mtlstruct.interop.feature_text import (
    Observations,
    Weights,
    checked_index,
    has_blank,
    imported,
    program_lines,
    weights_by_text,
)
from mtlstruct.model.model import Model
from mtlstruct.structures import structures_of
from mtlstruct.templates import Template, TemplateSet
from mtlstruct.templates.dialects import CRFPP_ROWS

MAX_COLUMNS = 1023
MAX_FEATURE_BYTES = 8000
"""CRF++ reads lines into a buffer of 8192 bytes."""

MAX_WEIGHTS = 2**31 - 1


# ---------------------------------------------------------------- writing


def write(model: Model, path: str | Path, *, rename: bool = False, encoding: str = "utf-8") -> Observations:
    """Write a model as the text of CRF++, atomically."""
    found = observations(model, rename=rename)
    with replacing(path) as out:
        for block in _blocks(found):
            out.write(encode(block, path, encoding))
    return found


def observations(model: Model, *, rename: bool = False) -> Observations:
    """Return the model as CRF++ stores it."""
    lines = program_lines(_checked(model).templates, rename=rename)
    found = weights_by_text("CRF++", model, lines)
    _check_sizes(found)
    ordered = sorted(lines, key=lambda t: t.kind != "U")
    # Equal templates are written once; equal lines of one template fire twice in both programs.
    written = tuple(member.text for line in dict.fromkeys(ordered) for member in line.members)
    return Observations(model.labels, model.columns, written, found)


def check_template(templates: TemplateSet, template: Template) -> None:
    """Raise for a template that CRF++ does not have."""
    problem = None
    if template.kind == "A":
        problem = "CRF++ has no templates of arcs"
    for term in template.terms:
        if term.function:
            problem = f"CRF++ has no functions of a cell such as %{term.function}"
        elif term.absolute:
            problem = "CRF++ has no cells counted from an edge of the sentence"
        elif abs(term.row) > CRFPP_ROWS:
            problem = f"CRF++ looks at rows within ±{CRFPP_ROWS} only, got {term.row}"
    if has_blank(template.text):
        problem = problem or "CRF++ cannot read a feature with a blank in it"
    if problem is not None:
        raise templates.error(template, problem)


def _checked(model: Model) -> FeatureIndex:
    """Return the index of a model that CRF++ can store."""
    index = checked_index("CRF++", model)
    if model.columns > MAX_COLUMNS:
        raise IncompatibleError(f"CRF++ reads up to {MAX_COLUMNS} columns, the model has {model.columns}")
    if list(model.labels) != sorted(model.labels, key=str.encode):
        problem = "CRF++ sorts labels by their bytes: the labels of the model are not so sorted"
        raise IncompatibleError(problem)
    for member in (member for template in index.templates for member in template.members):
        check_template(model.templates, member)
    return index


def _check_sizes(weights: Weights) -> None:
    if (total := sum(map(len, weights.values()))) > MAX_WEIGHTS:
        raise IncompatibleError(f"CRF++ holds up to {MAX_WEIGHTS:,} weights, the model has {total:,}")
    for _, feature in weights:
        if len(feature) > MAX_FEATURE_BYTES // 4 and len(feature.encode()) > MAX_FEATURE_BYTES:
            raise IncompatibleError(
                f"CRF++ reads features of up to {MAX_FEATURE_BYTES} bytes, got {feature[:60]!r}…"
            )
        if has_blank(feature):
            raise IncompatibleError(f"CRF++ cannot read a feature with a blank in it, got {feature!r}")


def _blocks(found: Observations) -> Iterator[str]:
    weights = {text: row for (_, text), row in found.weights.items()}
    names = sorted(weights, key=str.encode)
    ends = np.cumsum([0, *(len(weights[name]) for name in names)]).tolist()
    head = ("version: 100", "cost-factor: 1", f"maxid: {ends[-1]}", f"xsize: {found.columns}")
    features = [f"{id_} {name}" for name, id_ in zip(names, ends, strict=False)]
    for block in (head, found.labels, found.patterns, features):
        yield "".join(f"{line}\n" for line in block) + "\n"
    yield "".join(f"{weight:.16f}\n" for name in names for weight in weights[name].tolist())


# ---------------------------------------------------------------- reading


def read(path: str | Path, encoding: str = "utf-8") -> Observations:
    """Read a text model and check that it is consistent."""
    lines = _Lines(path, [line.rstrip("\r") for line in load(path, encoding).split("\n")])
    head = _head(lines)
    labels = tuple(line for _, line in lines.block("labels"))
    templates = tuple(line for _, line in lines.block("templates"))
    if len(set(labels)) < len(labels):
        raise FormatError(path, None, "expected distinct labels, some are repeated")
    features = _features(lines, len(labels), head["maxid"])
    alpha = _weights(lines, head["maxid"])
    found = {(name[0], name): alpha[at : at + _width(name, len(labels))] for name, at in features.items()}
    return Observations(labels, head["xsize"], templates, found)


def to_model(found: Observations, path: str | Path, *, task: str = "sequence", tags: str = "bie") -> Model:
    """Return a model that predicts as CRF++ does with this text model."""
    if "sequence" not in structures_of(task):
        raise IncompatibleError(f"CRF++ has label sequences only: the task is {task}")
    templates = TemplateSet.parse("".join(line + "\n" for line in found.patterns), path)
    for template in templates:
        check_template(templates, template)
    templates.check_columns(found.columns)
    return imported("CRF++", found, templates, tuple(templates), path, task, tags)


def _width(feature: str, labels: int) -> int:
    return labels if feature[0] == "U" else labels * labels


@dataclass
class _Lines:
    """A reader of blocks of lines."""

    path: str | Path
    lines: list[str]
    next: int = 0

    def block(self, what: str) -> list[tuple[int, str]]:
        """Return the lines up to the next blank one, with their numbers, and skip the blank one."""
        start = self.next
        if "" not in self.lines[start:]:
            raise self.error(len(self.lines), f"expected a blank line after the {what}")
        self.next = self.lines.index("", start) + 1
        if self.next == start + 1:
            raise self.error(start + 1, f"expected {what}, got a blank line")
        return list(enumerate(self.lines[start : self.next - 1], start + 1))

    def error(self, line: int, problem: str) -> FormatError:
        return FormatError(self.path, line, problem)


def _head(lines: _Lines) -> dict[str, int]:
    found: dict[str, Any] = {}
    for number, line in lines.block("header of a CRF++ text model"):
        key, colon, value = line.partition(":")
        if not colon:
            raise lines.error(number, f"expected a header line such as 'maxid: 100', got {line[:60]!r}")
        if key in ("maxid", "xsize"):
            found[key] = _number(lines, number, value, key)
    for key in {"maxid", "xsize"} - found.keys():
        raise lines.error(1, f"not a CRF++ text model: its header has no {key}")
    if not 1 <= found["xsize"] <= MAX_COLUMNS:
        raise lines.error(1, f"expected xsize from 1 to {MAX_COLUMNS}, got {found['xsize']}")
    return found


def _number(lines: _Lines, number: int, text: str, what: str) -> int:
    if not re.fullmatch(r"[ \t]*[0-9]{1,10}", text):
        raise lines.error(number, f"expected {what} as a number, got {text[:60].strip()!r}")
    return int(text)


def _features(lines: _Lines, labels: int, most: int) -> dict[str, int]:
    found = {}
    for number, line in lines.block("features"):
        id_, _, feature = line.partition(" ")
        first = _number(lines, number, id_, "the id of a feature")
        if not feature or feature[0] not in "UB":
            raise lines.error(number, f"expected a feature that begins with U or B, got {feature[:60]!r}")
        if first + _width(feature, labels) > most:
            raise lines.error(number, f"the weights of {feature[:60]!r} would lie beyond maxid, {most}")
        found[feature] = first
    for before, feature in pairwise(sorted(found, key=found.__getitem__)):  # CRF++ shares no weights
        if found[feature] < found[before] + _width(before, labels):
            both = f"{before[:60]!r} and {feature[:60]!r}"
            problem = f"expected weights of its own for each feature, got the same for {both}"
            raise FormatError(lines.path, None, problem)
    return found


def _weights(lines: _Lines, count: int) -> NDArray[np.float64]:
    rest = lines.lines[lines.next :]
    while rest and not rest[-1]:
        rest.pop()
    if len(rest) != count:
        raise lines.error(len(lines.lines), f"expected {count} weights as maxid says, got {len(rest)}")
    try:
        alpha = np.array(rest, np.float64)
    except ValueError:
        raise FormatError(lines.path, None, "expected a number on each line of the weights") from None
    if not (np.abs(alpha) < np.finfo(np.float32).max).all():
        raise FormatError(lines.path, None, "expected weights that are finite")
    return alpha
