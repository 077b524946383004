"""Options and helpers that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtlstruct._system.digest import to_json
from mtlstruct.cli.errors import complain
from mtlstruct.errors import MtlError

if TYPE_CHECKING:
    from mtlstruct.model.model import Model

ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="How many to use.", show_default="all cores"),
]
MemoryOption = Annotated[
    float | None,
    typer.Option(
        "--memory",
        metavar="GB",
        help="Use at most so much.",
        show_default="what is free",
    ),
]
EncodingOption = Annotated[str, typer.Option("--encoding", help="The encoding of the data files.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
WordsOption = Annotated[
    Path | None,
    typer.Option("--words", help="The training vocabulary, for the recall of known and unknown words."),
]


LOG_SUFFIX = ".log.jsonl"


def log_beside(model: Path) -> Path:
    """Return where the log of a model is written unless another path is given."""
    return Path(f"{model}{LOG_SUFFIX}")


def use_threads(count: int | None) -> None:
    """Set how many threads the work may use."""
    from mtlstruct._system.threads import set_threads

    set_threads(count)


def use_memory(limit: float | None) -> None:
    """Set how many gigabytes the work may use."""
    from mtlstruct._system.memory import set_limit

    if limit is not None and not (math.isfinite(limit) and limit > 0):
        raise MtlError(f"--memory must be a positive number of gigabytes, got {limit}")
    set_limit(None if limit is None else int(limit * 1e9))


def warn_uncalibrated(model: Model, path: Path) -> None:
    """Say on stderr that the probabilities of a model are not reliable, unless it is calibrated."""
    if not model.calibrated:
        complain(
            f"warning: {path} is not calibrated: it was trained for a margin, and its probabilities are not "
            f"reliable (mtlstruct calibrate {path} HELDOUT fits its temperature)"
        )


def print_json(value: Any) -> None:
    """Print a value on one line of stdout."""
    print(to_json(value))
