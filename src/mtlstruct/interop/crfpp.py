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
from itertools import pairwise
from pathlib import Path

import numpy as np

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats.text import encode, load
from mtlstruct.interop.feature_text import (
    ByteReader,
    Observations,
    Weights,
    checked_cells,
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
    index = checked_cells("CRF++", model)
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
    file = ByteReader(path, load(path, encoding).encode())
    number = rb"(?:(maxid|xsize): *([0-9]{1,10})|(?!maxid:|xsize:)[^:]+:.*)"
    head = {line[1]: line[2] for line in _block(file, number, "a header line such as 'maxid: 100'")}
    for key in (key for key in (b"maxid", b"xsize") if key not in head):
        raise FormatError(path, 1, f"not a CRF++ text model: its header has no {key.decode()}")
    count, xsize = int(head[b"maxid"]), int(head[b"xsize"])
    if not 1 <= xsize <= MAX_COLUMNS:
        raise FormatError(path, 1, f"expected xsize from 1 to {MAX_COLUMNS}, got {xsize}")
    labels, templates = (
        tuple(line[0].decode() for line in _block(file, rb".+", what)) for what in ("a label", "a template")
    )
    if len(set(labels)) < len(labels):
        raise FormatError(path, None, "expected distinct labels, some are repeated")
    spans = _spans(file, len(labels), count)
    rest = file.data[file.at :].decode().split()
    if len(rest) != count:
        raise file.error(f"expected {count} weights as maxid says, got {len(rest)}")
    try:
        alpha = np.array(rest, np.float64)
    except ValueError:
        raise FormatError(path, None, "expected a number on each line of the weights") from None
    if not (np.abs(alpha) < np.finfo(np.float32).max).all():
        raise FormatError(path, None, "expected weights that are finite")
    weights = {(text[0], text): alpha[start:stop] for text, (start, stop) in spans.items()}
    return Observations(labels, xsize, templates, weights)


def _block(file: ByteReader, pattern: bytes, what: str) -> Iterator[re.Match[bytes]]:
    """Yield the lines up to the next blank one; there must be one before it."""
    line = file.line(pattern, what)
    while line[0]:
        yield line
        line = file.line(pattern + b"|", what)


def _spans(file: ByteReader, labels: int, count: int) -> dict[str, tuple[int, int]]:
    """Return the first weight of each feature, and one past the last."""
    spans = {}
    for line in _block(file, rb"([0-9]{1,10}) ([UB].*)", "an id and a feature that begins with U or B"):
        start, text = int(line[1]), line[2].decode()
        spans[text] = start, start + (labels if text[0] == "U" else labels * labels)
        if spans[text][1] > count:
            raise file.error(f"the weights of {text[:60]!r} would lie beyond maxid, {count}")
    ordered = sorted(spans, key=spans.__getitem__)
    for before, text in pairwise(ordered):  # CRF++ shares no weights
        if spans[text][0] < spans[before][1]:
            both = f"{before[:60]!r} and {text[:60]!r}"
            problem = f"expected weights of its own for each feature, got the same for {both}"
            raise FormatError(file.path, None, problem)
    return spans


def to_model(found: Observations, path: str | Path, *, task: str = "sequence", tags: str = "bie") -> Model:
    """Return a model that predicts as CRF++ does with this text model."""
    if "sequence" not in structures_of(task):
        raise IncompatibleError(f"CRF++ has label sequences only: the task is {task}")
    templates = TemplateSet.parse("".join(line + "\n" for line in found.patterns), path)
    for template in templates:
        check_template(templates, template)
    templates.check_columns(found.columns)
    return imported("CRF++", found, templates, tuple(templates), path, task, tags)
