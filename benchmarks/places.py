"""Where corpora, models and results are. A corpus that is not there is an answer, not an error."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

ESP, NED, PKU = "ner/conll2002_esp", "ner/conll2002_ned", "cws/pku"


class Missing(Exception):
    """Something that a measurement needs is not there; the message becomes its row."""


def corpus(name: str, part: str) -> Path:
    """A file of a corpus under MTLSTRUCT_DATA, or under ../shared/data beside the repository."""
    data = Path(os.environ.get("MTLSTRUCT_DATA") or ROOT.parent / "shared" / "data")
    if not (data / name / part).is_file():
        raise Missing(f"not run: {name}/{part} not found")
    return data / name / part


def work() -> Path:
    """A folder for models and cut files. It stays, so that `predict` finds the models of `train`."""
    folder = Path(
        os.environ.get("MTLSTRUCT_BENCH_WORK") or Path(tempfile.gettempdir(), "mtlstruct-benchmarks")
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def head(source: Path, sentences: int) -> Path:
    """A column file with the first sentences of another."""
    parts = source.read_text("utf-8").split("\n\n")[:sentences]
    target = work() / f"{source.parent.name}.{source.stem}.{sentences}.conll"
    target.write_text("\n\n".join(parts) + "\n\n", "utf-8")
    return target
