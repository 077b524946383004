"""Arguments, options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mtlstruct._system.digest import to_json
from mtlstruct.cli.command import argument, option
from mtlstruct.cli.errors import print_message
from mtlstruct.errors import FormatError, MtlError

if TYPE_CHECKING:
    from mtlstruct.corpus import Corpus
    from mtlstruct.formats.columns import CellFormat
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import Source, Task

STANDARD = Path("-")
"""The name of stdin and stdout."""

LOG_SUFFIX = ".log.jsonl"

MIN_CHARACTERS = 20
"""In fewer characters, unknown ones prove nothing."""


MODEL = argument(..., "MODEL", "Model file written by `train`.")
INPUT = argument(STANDARD, "INPUT", "Data with or without labels; - reads standard input.")
THREADS = option(None, "Number of threads.", range=(1, 1000), shown="all cores")
MEMORY = option(
    None,
    "Memory to use; beyond it, data are encoded in files beside MODEL.",
    metavar="GB",
    range=(1e-6, 1e6),
    shown="free memory",
)
ENCODING = option("utf-8", "Encoding of the data files.", group="Data")
MODEL_ENCODING = option(None, "Encoding of the data files.", shown="that of the training data")
SEPARATOR = option(
    "",
    "Character between cells, which may then be empty or have spaces.",
    metavar="CHAR|tab",
    shown="runs of spaces and tabs",
    group="Data",
)
Ragged = Literal["pad"] | None
RAGGED = option(
    None, "pad: rows may lack cells before the label (if any); they get the cell _.", group="Data"
)
Dialect = Literal["mtlstruct", "crfpp", "wapiti"]
DIALECT = option("mtlstruct", "Language of the template file: ours, CRF++'s or Wapiti's.", group="Data")
QUIET = option(False, "Print no progress and no summary.", "-q", "--quiet")
JSON = option(False, "Print one JSON object instead of text.")
FORCE = option(False, "Overwrite an output file of another kind.")
WORDS = option(None, "Training vocabulary, for the recall of known and unknown words.", metavar="FILE")
VALID = option(None, "Held-out data, to score and calibrate the model.", metavar="FILE", group="Common")
SCORE = option(
    None,
    "Score to compare settings by: f1, accuracy, sequences (whole sequences right), fields (F1 of chunks, or of "
    "runs of equal labels) or uas.",
    metavar="NAME",
    shown="f1; accuracy where labels are no chunks; uas for trees",
    group="Search",
)
MINUTES = option(
    None,
    "Begin no training of the search after so long; choose among what is finished.",
    metavar="M",
    range=(0.0, 1e6),
    group="Search",
)
Workers = Literal["local", "ray"]
ENGINE = option("local", "Work in this process or on a Ray cluster.", group="Cluster")
ADDRESS = option(None, "Address of the Ray cluster.", shown="a new one on this machine", group="Cluster")
WORKERS = option(
    None,
    "Number of Ray workers.",
    "--shards",
    metavar="K",
    range=(1, 1000),
    shown="all cores",
    group="Cluster",
)
PLOT = option(None, "Draw a picture into this file.", metavar="F.png|.svg|.pdf")


def log_beside(model: Path) -> Path:
    """Return the default path of the training log of a model."""
    return Path(f"{model}{LOG_SUFFIX}")


def cell_format(separator: str, ragged: str | None) -> CellFormat:
    """Return the division of rows into cells that the options name."""
    from mtlstruct.formats.columns import CellFormat

    character = "\t" if separator in ("tab", "\\t") else separator
    if len(character) > 1 or character in ("\n", "\r"):
        raise MtlError(f"--separator: expected one character or tab, got {separator!r}")
    return CellFormat(character, ragged == "pad")


def use_resources(threads: int | None, memory: float | None = None) -> None:
    """Set the number of threads (None: all cores) and the memory limit in gigabytes."""
    from mtlstruct._system.memory import set_limit
    from mtlstruct._system.threads import set_threads

    set_threads(threads)
    set_limit(None if memory is None else int(memory * 1e9))


def load_model(path: Path, threads: int | None = None) -> tuple[Model, Task]:
    """Set the number of threads; return the model of a file and its task."""
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import task_of

    use_resources(threads)
    model = Model.load(path)
    return model, task_of(model.task)


@contextmanager
def reading(path: Path, encoding: str) -> Iterator[Source]:
    """Open a file, or stdin."""
    from mtlstruct.formats.text import check_encoding
    from mtlstruct.tasks import Source

    check_encoding(encoding, path)
    if path == STANDARD:
        yield Source(sys.stdin.buffer, "standard input", encoding)
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise FormatError(path, None, f"cannot be read: {error.strerror or error}") from None
    with file:
        yield Source(file, str(path), encoding)


def warn_uncalibrated(model: Model, path: Path) -> None:
    """Warn that the probabilities of a model are not reliable, unless it is calibrated."""
    if not model.calibrated:
        print_message(
            f"warning: {path} is not calibrated, so its probabilities are not reliable; "
            f"`mtlstruct calibrate {path} HELDOUT` calibrates it"
        )


def warn_unknown_characters(model: Model, corpus: Corpus, source: str) -> None:
    """Warn if most characters of a text are unknown to a segmentation model."""
    from mtlstruct.features.index import FeatureIndex

    if not model.characters or not isinstance(model.index, FeatureIndex) or corpus.tokens < MIN_CHARACTERS:
        return
    known = model.index.known_cells(corpus, 0)
    if known is not None and 2 * known.sum() < len(known):
        print_message(
            f"warning: {source}: {1 - known.mean():.0%} of {len(known):,} characters are unknown to the model: "
            "was it trained on text of this kind?"
        )


def print_json(value: Any) -> None:
    """Print a value on one line of stdout."""
    print(to_json(value))
