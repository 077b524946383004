"""Arguments, options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtlstruct._system.digest import to_json
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


def argument(metavar: str, help: str) -> Any:
    """Return the declaration of an argument of a command."""
    return typer.Argument(metavar=metavar, help=help)


def option(
    help: str,
    *names: str,
    metavar: str | None = None,
    limits: tuple[float | None, float | None] = (None, None),
    shown: str | bool = True,
    group: str | None = None,
) -> Any:
    """Return the declaration of an option; `shown` is its default in words, `group` its section."""
    low, high = limits
    found: dict[str, Any] = {"help": help, "metavar": metavar, "min": low, "max": high}
    return typer.Option(*names, **found, show_default=shown, rich_help_panel=group)


ModelArgument = Annotated[Path, argument("MODEL", "Model file written by `train`.")]
InputArgument = Annotated[Path, argument("INPUT", "Data with or without labels; - reads standard input.")]
ThreadsOption = Annotated[
    int | None, option("Number of threads.", metavar="N", limits=(1, 1000), shown="all cores")
]
MemoryOption = Annotated[
    float | None,
    option(
        "Memory to use; beyond it, data are encoded in files beside MODEL.",
        metavar="GB",
        limits=(1e-6, 1e6),
        shown="free memory",
    ),
]
EncodingOption = Annotated[str, option("Encoding of the data files.")]
ModelEncodingOption = Annotated[
    str | None, option("Encoding of the data files.", shown="that of the training data")
]
SeparatorOption = Annotated[
    str,
    option(
        "Character between cells, which may then be empty or have spaces.",
        metavar="CHAR|tab",
        shown="runs of spaces and tabs",
    ),
]
RaggedOption = Annotated[
    Literal["pad"] | None, option("pad: rows may lack cells before the label (if any); they get the cell _.")
]
QuietOption = Annotated[bool, option("Print no progress and no summary.", "--quiet", "-q")]
JsonOption = Annotated[bool, option("Print one JSON object instead of text.", "--json")]
WordsOption = Annotated[
    Path | None, option("Training vocabulary, for the recall of known and unknown words.")
]
ScoreOption = Annotated[
    str | None,
    option(
        "Score to compare settings by: f1, accuracy, sequences (whole sequences right), fields (F1 of chunks, or "
        "of runs of equal labels) or uas.",
        metavar="NAME",
        shown="f1; accuracy where labels are no chunks; uas for trees",
        group="Search",
    ),
]
MinutesOption = Annotated[
    float | None,
    option(
        "Begin no training of the search after so long; choose among what is finished.",
        metavar="M",
        limits=(0.0, 1e6),
        group="Search",
    ),
]
EngineOption = Annotated[
    Literal["local", "ray"], option("Work in this process or on a Ray cluster.", group="Cluster")
]
AddressOption = Annotated[
    str | None, option("Address of the Ray cluster.", shown="a new one on this machine", group="Cluster")
]
WorkersOption = Annotated[
    int | None,
    option(
        "Number of Ray workers.",
        "--shards",
        metavar="K",
        limits=(1, 1000),
        shown="all cores",
        group="Cluster",
    ),
]
PlotOption = Annotated[Path | None, option("Draw a picture into this file.", metavar="F.png|.svg|.pdf")]


def log_beside(model: Path) -> Path:
    """Return the default path of the training log of a model."""
    return Path(f"{model}{LOG_SUFFIX}")


def training_files(call: typer.Context, *given: Path | None) -> tuple[Path | None, ...]:
    """Return TEMPLATES, TRAIN, …, of which TEMPLATES may be empty or left out (then it is None)."""
    templates, *others = given if given[-1] is not None else (None, *given[:-1])
    if None in others:
        usage = call.command.get_usage(call).partition("[OPTIONS] ")[2]
        raise MtlError(f"expected the arguments {usage} (see {call.command_path} --help)")
    return None if templates == Path() else templates, *others


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
