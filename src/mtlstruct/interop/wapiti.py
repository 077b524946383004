"""Conversion of models from and to Wapiti, and its model file.

In Wapiti an *observation* is the text of a pattern with its cells, with the letter u, b or * first.
It has a weight for each label (u), for each pair of labels (b), or both (*). Beyond the edge of a
sentence its cells are _x-1 to _x-4 and _x+1 to _x+4, and _x-# or _x+# farther out. Reading is exact
in this: a weight goes to every boundary mark of mtlstruct that corresponds. It is not exact for
letters: %X, %t and %m of Wapiti see bytes, functions of mtlstruct Unicode (`differences` lists the
lines concerned).

Rejected in writing: functions that Wapiti lacks, rows that reach beyond its marks, %t and %m of a
cell that may be outside of the sentence (Wapiti applies them to its marks), tabs, normalisation,
the label '#'.

A model file is text, lengths counted in bytes:

    #mdl#2#weights         2: a CRF; then the number of weights at the end
    #rdr#patterns/the last column that they use/0
    12:u00:%x[-1,0],       a pattern as a netstring: length, colon, text, comma
    #qrk#labels            then each label as a netstring
    #qrk#observations      then each observation as a netstring
    17=0x1.8p-1            index and value of weights other than 0; a u observation has one
                           weight per label, a b observation one per pair, a * observation both
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtlstruct._system.atomic_write import replacing
from mtlstruct.errors import FormatError, IncompatibleError
from mtlstruct.features.index import FeatureIndex
from mtlstruct.formats.text import encode, load_bytes
from mtlstruct.interop.feature_text import (
    ByteReader,
    Cells,
    Observations,
    checked_cells,
    ensure_weights,
    has_blank,
    imported,
    program_lines,
    weights_by_text,
)
from mtlstruct.model.model import Model
from mtlstruct.templates import Template, TemplateSet, Term, boundary
from mtlstruct.templates.convert import line_in
from mtlstruct.templates.functions import bound, is_mark

NUMBERED_MARKS = 4
"""The distance from the edge up to which the marks of Wapiti have a number."""

MAX_MARK_COMBINATIONS = 1000
"""Combinations of boundary marks that one observation of Wapiti may correspond to."""

CRF, _MEMM = 2, 1
"""Kinds of model."""

_MARK = re.compile(r"_x[+-][1-4#]")


def differences(templates: TemplateSet) -> list[str]:
    """Return a sentence for each template that may differ between Wapiti and mtlstruct."""
    return [
        str(
            templates.error(template, f"Wapiti's {names} sees bytes, ours Unicode letters: labels may differ")
        )
        for template in templates
        if (names := " and ".join(dict.fromkeys(_macro(t) for t in template.terms if t.function)))
    ]


def _macro(term: Term) -> str:
    return {"lower": "%X", "t": "%t", "m": "%m", "M": "%M"}.get(term.function, f"%{term.function}")


# ---------------------------------------------------------------- to Wapiti


def observations(model: Model, *, rename: bool = False) -> Observations:
    """Return the model as Wapiti stores it."""
    lines = program_lines(_checked(model).templates, rename=rename)
    patterns = [tuple(line_in(line, "wapiti", model.templates) for line in t.members) for t in lines]
    small = [_lettered(TemplateSet.parse(first, dialect="wapiti")[0], first[0]) for first, *_ in patterns]
    found = weights_by_text("Wapiti", model, small, _marked)
    written = tuple(pattern for some in dict.fromkeys(patterns) for pattern in some)
    return Observations(model.labels, 1 + max(model.index.templates.columns(), default=0), written, found)


def _checked(model: Model) -> FeatureIndex:
    """Return the index of a model that Wapiti can store."""
    index = checked_cells("Wapiti", model)
    for label in model.labels:
        if label == "#" or has_blank(label):
            raise IncompatibleError(f"Wapiti's files cannot hold the label {label!r}")
    for template in (member for t in index.templates for member in t.members):
        line_in(template, "wapiti", model.templates)
        if "\t" in template.text:
            raise model.templates.error(template, "patterns with tabs cannot be written for Wapiti")
        for term in template.terms:
            marks, problem = list(_marks(term)), ""
            if any(abs(k) > NUMBERED_MARKS + 1 for k in marks):
                most = f"more than {NUMBERED_MARKS} beyond the edge"
                problem = f"Wapiti has one mark for all that lies {most}: rows reach too far"
            if marks and term.function not in ("", "lower"):
                problem = f"Wapiti applies {_macro(term)} to what lies outside the sentence, we do not"
            if problem:
                raise model.templates.error(template, problem)
    return index


def _marked(cells: Cells) -> Cells:
    """Return the cells with the boundary marks of Wapiti."""
    for cell in cells:
        if _MARK.fullmatch(cell):
            problem = f"Wapiti cannot tell the cell {cell!r} from its mark for the edge of a sentence"
            raise IncompatibleError(problem)
    return tuple(_their_mark(int(cell[2:])) if is_mark(cell) else cell for cell in cells)


def _lettered(template: Template, letter: str) -> Template:
    return replace(template, pieces=(letter + template.pieces[0][1:], *template.pieces[1:]))


# ---------------------------------------------------------------- from Wapiti


def to_model(
    found: Observations,
    templates: TemplateSet,
    path: str | Path,
    *,
    task: str = "sequence",
    tags: str = "bie",
) -> Model:
    """Return a model that predicts as Wapiti does with these observations and patterns."""
    lines = [_lettered(t, templates.lines[t.line - 1][0].lower()) for t in templates]
    found = found._replace(columns=1 + max(templates.columns(), default=0))
    given = "Wapiti", found, templates, lines, path, task, tags
    return imported(*given, lambda line, cells: _our_cells(line, cells, path))


def _our_cells(template: Template, cells: Cells, path: str | Path) -> Iterator[Cells]:
    """Yield the cells in mtlstruct that correspond to cells in Wapiti."""
    choices = [_readings(term, cell) for term, cell in zip(template.terms, cells, strict=True)]
    if math.prod(map(len, choices)) > MAX_MARK_COMBINATIONS:
        line, count = template.text[:60], NUMBERED_MARKS + 1
        problem = f"{line!r} looks so far beyond the edge that {count} marks stand for too many"
        raise FormatError(path, None, problem)
    for chosen in product(*choices):
        # A repeated term has one cell.
        if len(set(zip(template.terms, chosen, strict=True))) == len(set(template.terms)):
            yield chosen


def _readings(term: Term, cell: str) -> list[str]:
    function = bound(term.function, term.arguments, {})
    marks = [boundary(k) for k in _marks(term) if function(_their_mark(k)) == cell]
    # A cell of the data that equals a mark of either program is taken for the mark.
    return marks if is_mark(cell) or _MARK.fullmatch(cell) else [cell, *marks]


def _marks(term: Term) -> Iterator[int]:
    """Yield how far beyond the edge the cell of a term may be, negative before the start."""
    sign = 1 if term.row > 0 else -1
    reach = abs(term.row)
    if term.absolute:
        reach -= 1  # @1 is there in every sentence
    return (sign * k for k in range(1, reach + 1))


def _their_mark(k: int) -> str:
    return f"_x{k:+d}" if abs(k) <= NUMBERED_MARKS else f"_x{'+' if k > 0 else '-'}#"


# ---------------------------------------------------------------- writing files


def write_model(found: Observations, path: str | Path, encoding: str = "utf-8") -> None:
    """Write a model that `wapiti label -m` loads, atomically."""
    texts = [text for _, text in found.weights]
    theta = np.concatenate(list(found.weights.values()))
    kept = np.flatnonzero(theta).tolist()
    with replacing(path) as out:
        out.write(f"#mdl#{CRF}#{len(kept)}\n#rdr#{len(found.patterns)}/{found.columns - 1}/0\n".encode())
        out.writelines(_netstring(encode(text, path, encoding)) for text in found.patterns)
        for strings in (found.labels, texts):
            out.write(f"#qrk#{len(strings)}\n".encode())
            out.writelines(_netstring(encode(text, path, encoding)) for text in strings)
        for number in kept:
            out.write(f"{number}={float(theta[number]).hex()}\n".encode())


def _netstring(raw: bytes) -> bytes:
    return b"%d:%b,\n" % (len(raw), raw)


# ---------------------------------------------------------------- reading a model


def read_model(path: str | Path, encoding: str = "utf-8") -> Observations:
    """Read a model file and check that it is consistent."""
    file = ByteReader(path, load_bytes(path))
    head = file.line(rb"#mdl#(?:(\d{1,3})#)?(\d{1,18})", "a model of Wapiti")
    if head[1] is not None and int(head[1]) == _MEMM:
        problem = "expected a model without normalisation at each token, got a maximum entropy Markov model"
        raise file.error(problem)
    count = int(file.line(rb"#rdr#(\d{1,9})/\d{1,9}(?:/(\d))?", "the number of patterns")[1])
    if count == 0:
        raise file.error("expected patterns, got a model that reads its features from the data")
    patterns = [file.string() for _ in range(count)]
    labels, raw = (
        [file.string() for _ in range(int(file.line(rb"#qrk#(\d+)", f"the number of {what}")[1][:18]))]
        for what in ("labels", "observations")
    )
    if not labels or len(set(labels)) < len(labels):
        raise file.error("expected distinct labels")
    raw_weights = _weights_of(file, int(head[2]), raw, len(labels))
    for name in (*labels, *patterns):
        if _text(name, encoding) is None:
            raise FormatError(path, None, f"expected {encoding} text, got {name[:60]!r}")
    known = {key: _text(key[1], encoding) for key in raw_weights}
    found = {(kind, text): raw_weights[kind, raw] for (kind, raw), text in known.items() if text is not None}
    skipped = len({raw for (_, raw), text in known.items() if text is None})
    names, lines = (tuple(raw.decode(encoding) for raw in some) for some in (labels, patterns))
    return Observations(names, 0, lines, found, skipped)


def _weights_of(
    file: ByteReader, active: int, texts: list[bytes], L: int
) -> dict[tuple[str, bytes], NDArray[np.float64]]:
    """Return the weights of observations that have any, of labels (U) and of pairs (B)."""
    out: dict[tuple[str, bytes], NDArray[np.float64]] = {}
    kinds = {b"u": L, b"b": L * L, b"*": L + L * L}
    odd = next((text for text in texts if text[:1] not in kinds), None)
    if odd is not None:
        raise file.error(f"expected observations that begin with u, b or *, got {odd[:60]!r}")
    pairs = sum(text[:1] != b"u" for text in texts)
    ensure_weights(min(active, len(texts)) * L + min(active, pairs) * L * L)
    ends = np.cumsum([kinds[text[:1]] for text in texts], dtype=np.int64)
    for _ in range(active):
        found = file.line(rb"(\d{1,18})=(\S{1,60})", "a weight")
        number = int(found[1])
        owner = int(np.searchsorted(ends, number, side="right"))
        if owner == len(texts):
            raise file.error(f"expected the number of a weight below {int(ends[-1])}, got {number}")
        text = texts[owner]
        part = number - int(ends[owner]) + kinds[text[:1]]
        if text[:1] == b"b":
            part += L
        kind, part, size = ("U", part, L) if part < L else ("B", part - L, L * L)
        weights = out.setdefault((kind, text), np.zeros(size))
        weights[part] = _weight(found[2].decode("latin-1"), file.path)
    return out


def _text(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def _weight(text: str, path: str | Path) -> float:
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        value = np.inf
    if not abs(value) < float(np.finfo(np.float32).max):  # a plain number: numpy would warn of large ones
        raise FormatError(path, None, f"expected a finite number as a weight, got {text[:60]!r}")
    return value
