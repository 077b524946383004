"""Checks of output files: no command overwrites an input or a file of another kind.

A kind is recognised by content, not by the name of the file.
"""

import os
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from mtlstruct._system.atomic_write import check_writable
from mtlstruct.errors import MtlError

HEAD = 1 << 16
"""How many bytes of a file are looked at."""

MIN_LINES = 5
"""Fewer lines with the same number of words are text, not columns."""


class Kind(Enum):
    """What a file holds, as messages call it."""

    MODEL = "a model"
    CHECKPOINT = "a checkpoint"
    LOG = "a training log"
    PAGE = "an HTML page"
    CARD = "a model card"
    PNG = "a PNG picture"
    SVG = "an SVG picture"
    PDF = "a PDF document"
    TEMPLATES = "templates"
    CRFPP = "a CRF++ model"
    WAPITI = "a Wapiti model"
    CRFSUITE = "a CRFsuite model"
    PROGRAM = "a stand-alone tagger"
    WEIGHTS = "the weights of a stand-alone tagger"
    TABLE = "columns separated by tabs"
    COLUMNS = "columns separated by blanks"
    TEXT = "text"
    OTHER = "other data"


PICTURES = {".png": Kind.PNG, ".svg": Kind.SVG, ".pdf": Kind.PDF}

_ARCHIVE = rb"PK\x03\x04.{26}model\.json"  # a zip file with the name of its first entry
_BEGINNINGS = (
    (_ARCHIVE + rb'.*"format": "mtlstruct checkpoint"', Kind.CHECKPOINT),
    (_ARCHIVE, Kind.MODEL),
    (rb"PK\x03\x04", Kind.OTHER),
    (rb"\x89PNG\r\n\x1a\n", Kind.PNG),
    (rb"%PDF-", Kind.PDF),
    (rb'\{"event": "run"', Kind.LOG),
    (rb"version: ", Kind.CRFPP),
    (rb"# Model card: ", Kind.CARD),
    (rb"#mdl#", Kind.WAPITI),
    (rb"lCRF", Kind.CRFSUITE),
    (rb"MTLTAG1", Kind.WEIGHTS),
    (rb'"""A tagger in one Python file', Kind.PROGRAM),
    (rb"\s*(?i:<!doctype html|<html)", Kind.PAGE),
    (rb"\s*(<\?xml.{,2000}?)?<svg", Kind.SVG),
    (rb".*[\x00-\x08\x0e-\x1f]", Kind.OTHER),
)
"""What files begin with, tried in this order."""

_TEMPLATE = re.compile(r"[UBAub*](\S*|.*%[A-Za-z]+\[.*)")


def check_outputs(
    outputs: Iterable[tuple[Path | None, Kind]], *, inputs: Iterable[Path | None] = (), force: bool
) -> None:
    """Raise an error for an output that cannot be written or would replace a file of another kind.

    With `force` files of another kind may be replaced, but never an input or another output.
    """
    taken = {os.path.realpath(path) for path in inputs if path is not None}
    for path, kind in outputs:
        if path is None:
            continue
        if os.path.realpath(path) in taken and (path.is_file() or not path.exists()):
            raise MtlError(f"{path}: cannot write there: this command uses the file for something else")
        taken.add(os.path.realpath(path))
        check_writable(path)
        if force or not path.is_file():
            continue
        try:
            head = beginning(path)
        except OSError as error:
            problem = f"cannot read what would be overwritten: {error.strerror or error}"
            raise MtlError(f"{path}: {problem}; --force overwrites it") from None
        if head and (found := kind_of(head)) is not kind:
            hint = "is an argument missing? " if kind is Kind.MODEL else ""
            raise MtlError(
                f"{path}: expected a new file or one that holds {kind.value}, got one that holds {found.value}; "
                f"{hint}--force overwrites it"
            )


def check_picture_output(path: Path | None, *, inputs: Iterable[Path | None] = (), force: bool) -> None:
    """Check the output file of a picture, whose suffix gives its kind."""
    if path is not None:
        from mtlstruct.report.plots import check_picture

        check_picture(path)
        check_outputs([(path, PICTURES[path.suffix.lower()])], inputs=inputs, force=force)


def beginning(path: Path) -> bytes:
    """Return the bytes of a file that tell its kind."""
    with path.open("rb") as file:
        return file.read(HEAD)


def kind_of(head: bytes) -> Kind:
    """Return the kind of a file that begins with these bytes."""
    for pattern, kind in _BEGINNINGS:
        if re.match(pattern, head, re.DOTALL):
            return kind
    text = head.decode("utf-8", "replace")  # tabs, blanks and line ends are the same in other encodings
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if len(head) == HEAD:
        lines.pop()  # it may be cut off
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines:
        return Kind.TEXT
    if all(map(_TEMPLATE.fullmatch, lines)):
        return Kind.TEMPLATES
    if len({line.count("\t") for line in lines}) == 1 and "\t" in lines[0]:
        return Kind.TABLE
    widths = {len(line.split()) for line in lines}
    return Kind.COLUMNS if len(widths) == 1 and len(lines) >= MIN_LINES and widths != {1} else Kind.TEXT
