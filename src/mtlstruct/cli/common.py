"""What several commands share: the words an option may take, the options themselves, and small manners."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mtlstruct.errors import MtlError


class Task(StrEnum):
    """What is predicted, and in which format the data are."""

    sequence = "sequence"
    segmentation = "segmentation"
    dependency = "dependency"
    multiclass = "multiclass"


class Method(StrEnum):
    """The rows of recipes.RECIPES; not imported from there, since that loads every learner."""

    mtl = "mtl"
    svm = "svm"
    mira = "mira"
    pmtl = "pmtl"
    mixed = "mixed"
    group_lasso = "group-lasso"
    crf_l2 = "crf-l2"
    crf_l1 = "crf-l1"
    irw_crf = "irw-crf"
    online_mkl = "online-mkl"


class Solver(StrEnum):
    """The names in learners.LEARNERS."""

    coordinate = "coordinate"
    cutting_plane = "cutting-plane"
    mira = "mira"
    lbfgs = "lbfgs"
    owl_qn = "owl-qn"
    reweighted = "reweighted"
    proximal = "proximal"


class Normalize(StrEnum):
    """The names in normalizers.NORMALIZERS."""

    none = "none"
    nfkc = "nfkc"


class Scaling(StrEnum):
    """The names in train.SCALINGS."""

    unit = "unit"
    none = "none"


class LabelSupport(StrEnum):
    """The names in options.LABEL_SUPPORTS."""

    all = "all"
    seen = "seen"


class Tags(StrEnum):
    """The names in formats.segmented.TAGS."""

    bie = "bie"
    bmes = "bmes"


ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", min=1, help="How many to use.", show_default="all cores"),
]
MemoryOption = Annotated[
    float | None,
    typer.Option(
        "--memory",
        metavar="GB",
        help="Use at most so much; arcs of trees that do not fit go to a file.",
        show_default="what is free",
    ),
]
EncodingOption = Annotated[str, typer.Option("--encoding", help="The encoding of the data files.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
WordsOption = Annotated[
    Path | None,
    typer.Option("--words", help="The training vocabulary, for the recall of known and unknown words."),
]


def use_threads(count: int | None) -> None:
    """Sets how many threads all that follows may use."""
    from mtlstruct._system.threads import set_threads

    set_threads(count)


def use_memory(limit: float | None) -> None:
    """Sets how many gigabytes all that follows may use."""
    from mtlstruct._system.memory import set_limit

    if limit is not None and not (math.isfinite(limit) and limit > 0):
        raise MtlError(f"--memory must be a positive number of gigabytes, got {limit}")
    set_limit(None if limit is None else int(limit * 1e9))


def print_json(value: Any) -> None:
    """One value on stdout, on one line."""
    print(to_json(value))


def to_json(value: Any) -> str:
    """JSON that every reader takes: what is not a finite number becomes null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def refuse_overwriting(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """An output that is also something else is a slip of the hand, and would cost that."""
    sources = {os.path.realpath(path): path for path in inputs if path is not None}
    for path in outputs:
        if path is not None and os.path.realpath(path) in sources and _is_file(path):
            raise MtlError(f"{path}: cannot write there: this command needs that file for something else")


def _is_file(path: Path) -> bool:
    return path.is_file() or not path.exists()
