"""Where corpora, models and results are. A corpus that is not there is an answer, not an error."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "build" / "benchmarks.md"

IMAGES = ROOT / "docs" / "images" / "benchmarks"

ESP, NED, PKU = "ner/conll2002_esp", "ner/conll2002_ned", "cws/pku"
DANISH = "parsing/danish_ddt_conllx"


class Missing(Exception):
    """Something that a measurement needs is not there; the message becomes its row."""


def corpus(name: str, part: str) -> Path:
    """A file of a corpus under MTLSTRUCT_DATA, or under ../shared/data beside the repository."""
    data = Path(os.environ.get("MTLSTRUCT_DATA") or ROOT.parent / "shared" / "data")
    if not (data / name / part).is_file():
        raise Missing(f"not run: {name}/{part} not found")
    return data / name / part


def program(name: str, of: str) -> str:
    """A program of a peer, in a folder of MTLSTRUCT_PEERS (`--peers`) or on the path."""
    found = shutil.which(name, path=os.environ.get("MTLSTRUCT_PEERS") or None) or shutil.which(name)
    if found is None:
        raise Missing(f"not run: {name} of {of} not found")
    return found


def work() -> Path:
    """A folder for models and cut files. It stays, so that `predict` finds the models of `train`."""
    folder = Path(
        os.environ.get("MTLSTRUCT_BENCH_WORK") or Path(tempfile.gettempdir(), "mtlstruct-benchmarks")
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def head(source: Path, sentences: int) -> Path:
    """A column file with the first sentences of another; a line is a sentence where no line is blank."""
    text = source.read_text("utf-8")
    between = "\n\n" if "\n\n" in text.strip() else "\n"
    target = work() / f"{source.parent.name}.{source.stem}.{sentences}{source.suffix}"
    target.write_text(between.join(text.split(between)[:sentences]) + between, "utf-8")
    return target
